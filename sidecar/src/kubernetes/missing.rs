//! What keeps a sidecar out of its group, in words for those that look for the reason.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

/// Reports what is missing: to callers at once, and in the log as a warning when it has lasted.
pub(super) struct Missing<'a> {
    callers: &'a watch::Sender<String>,
    patience: Duration,
    since: Instant,
    has_warned: bool,
}

impl<'a> Missing<'a> {
    /// Of a group that was deleted somebody is to hear at once; a new one may be on its way.
    pub(super) fn new(callers: &'a watch::Sender<String>, was_deleted: bool) -> Self {
        let patience = if was_deleted { Duration::ZERO } else { PATIENCE };
        Self { callers, patience, since: Instant::now(), has_warned: false }
    }

    /// This is missing now.
    pub(super) fn lacks(&mut self, what: &str) {
        let is_news = self.callers.send_if_modified(|last| {
            let is_news = *last != what;
            if is_news {
                what.clone_into(last);
            }
            is_news
        });
        if is_news {
            info!(missing = what, "waiting");
            (self.since, self.has_warned) = (Instant::now(), false);
        }
        if !self.has_warned && self.since.elapsed() >= self.patience {
            warn!(missing = what, "this pod is in no group");
            self.has_warned = true;
        }
    }
}

/// Why the resource of a group cannot be read. Without a right to read it, a sidecar does not see whether it is there.
pub(super) fn unread(
    namespace: &str,
    group: &str,
    error: &kube::Error,
    was_deleted: bool,
) -> String {
    let what = format!("Conclave {namespace}/{group}");
    let kube::Error::Api(status) = error else { return format!("{what} cannot be read: {error}") };
    match (status.is_not_found(), status.is_forbidden(), was_deleted) {
        (true, _, true) => format!("{what} was deleted"),
        (true, _, false) => format!("{what} does not exist"),
        (_, true, was_deleted) => {
            let account = account(&status.message);
            let account = account.map_or_else(
                || "the pod's ServiceAccount".to_owned(),
                |name| format!("the ServiceAccount {name}"),
            );
            let unbound = format!(
                "{account} is not bound to the Role of the group, which the operator does for the pods that it sees"
            );
            if was_deleted {
                format!(
                    "{what} was deleted; or there is another of that name by now, and {unbound}"
                )
            } else {
                format!(
                    "no right to read {what}: either there is no Conclave {group} in the namespace {namespace}, or \
                     {unbound}"
                )
            }
        }
        (false, false, _) => format!("{what} cannot be read: {error}"),
    }
}

/// Why the Lease of a group cannot be read.
pub(super) fn unread_lease(what: &str, error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return format!("{what} cannot be read: {error}") };
    if status.is_not_found() {
        format!("{what} does not exist")
    } else if status.is_forbidden() {
        format!("no right to read {what}: the operator grants it to the pods that it sees")
    } else {
        format!("{what} cannot be read: {error}")
    }
}

/// The ServiceAccount that the API server names where it refuses something.
fn account(message: &str) -> Option<&str> {
    let user = message.split_once("User \"")?.1.split_once('"')?.0;
    Some(user.strip_prefix("system:serviceaccount:")?.split_once(':')?.1)
}

/// How long something may be missing before the log warns of it: the operator has yet to see a new pod.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use kube::core::Status;

    use super::*;

    fn refused(code: u16, message: &str) -> kube::Error {
        let reason = match code {
            404 => "NotFound",
            403 => "Forbidden",
            _ => "InternalError",
        };
        kube::Error::Api(Box::new(Status::failure(message, reason).with_code(code)))
    }

    /// As an API server writes it.
    const FORBIDDEN: &str = "conclaves.conclave.dev \"odrers\" is forbidden: User \
        \"system:serviceaccount:shop:till\" cannot get resource \"conclaves\" in API group \"conclave.dev\" in the \
        namespace \"shop\"";

    #[test]
    fn a_reader_without_the_right_to_a_group_hears_that_it_may_not_be_there() {
        let unread =
            |error: &kube::Error, was_deleted| unread("shop", "odrers", error, was_deleted);
        let unbound = "the ServiceAccount till is not bound to the Role of the group, which the operator does for \
                       the pods that it sees";
        assert_eq!(
            unread(&refused(403, FORBIDDEN), false),
            format!(
                "no right to read Conclave shop/odrers: either there is no Conclave odrers in the namespace shop, \
                 or {unbound}"
            )
        );
        assert_eq!(
            unread(&refused(403, FORBIDDEN), true),
            format!(
                "Conclave shop/odrers was deleted; or there is another of that name by now, and {unbound}"
            )
        );
        assert!(
            unread(&refused(403, "no"), false).contains("the pod's ServiceAccount is not bound")
        );
        assert_eq!(unread(&refused(404, ""), false), "Conclave shop/odrers does not exist");
        assert_eq!(unread(&refused(404, ""), true), "Conclave shop/odrers was deleted");
        assert!(
            unread(&refused(500, "oh"), true).starts_with("Conclave shop/odrers cannot be read")
        );
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        /// Keeps what this thread warns of.
        fn keep(&self) -> tracing::subscriber::DefaultGuard {
            let log = self.clone();
            let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
            tracing::subscriber::set_default(subscriber.with_writer(move || log.clone()).finish())
        }

        fn lines(&self) -> usize {
            let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&text).lines().count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasts_is_warned_of_once_and_a_deleted_group_at_once() {
        let log = Log::default();
        let _kept = log.keep();
        let (callers, lacks) = watch::channel(String::new());
        let mut missing = Missing::new(&callers, false);
        for (wait, what, warned) in [
            (0, "a", 0),
            (9, "a", 0),
            (1, "a", 1),
            (60, "a", 1),
            (0, "b", 1),
            (10, "b", 2),
            (1, "b", 2),
        ] {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            missing.lacks(what);
            assert_eq!((log.lines(), lacks.borrow().as_str()), (warned, what));
        }
        let mut missing = Missing::new(&callers, true);
        missing.lacks("c");
        assert_eq!(log.lines(), 3);
    }
}
