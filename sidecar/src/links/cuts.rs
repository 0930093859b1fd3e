//! Whom a member cannot reach because somebody cut it off: what `conclave dev` does to its members.

use std::collections::BTreeSet;

use conclave_protocols::PodUid;
use futures::TryFutureExt;
use tokio::sync::watch;

/// The cuts between one member and the others.
#[derive(Clone)]
pub(crate) struct Cuts {
    /// From everybody.
    whole: watch::Receiver<bool>,
    /// From these pods.
    apart: watch::Receiver<BTreeSet<PodUid>>,
}

impl Cuts {
    pub(crate) fn new(
        whole: watch::Receiver<bool>,
        apart: watch::Receiver<BTreeSet<PodUid>>,
    ) -> Self {
        Self { whole, apart }
    }

    /// Those of a member that nobody can cut off.
    pub(crate) fn none() -> Self {
        let ((_, whole), (_, apart)) = (watch::channel(false), watch::channel(BTreeSet::new()));
        Self { whole, apart }
    }

    /// Whether it is cut off from everybody.
    pub(crate) fn is_whole(&self) -> bool {
        *self.whole.borrow()
    }

    /// Whether it is cut off from this pod.
    pub(crate) fn is_from(&self, pod: PodUid) -> bool {
        self.is_whole() || self.apart.borrow().contains(&pod)
    }

    /// Returns when this member is cut off from a pod; never, if nobody can do that.
    pub(crate) async fn until_from(&mut self, pod: PodUid) {
        let whole = self.whole.wait_for(|whole| *whole).map_ok(drop);
        let apart = self.apart.wait_for(|pods| pods.contains(&pod)).map_ok(drop);
        tokio::select! {
            Ok(()) = whole => {}
            Ok(()) = apart => {}
            else => std::future::pending::<()>().await,
        }
    }
}
