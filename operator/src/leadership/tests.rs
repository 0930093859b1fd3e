use kube::Client;
use kube::client::Body;

use super::*;

fn terms() -> Terms {
    let seconds = Duration::from_secs;
    Terms { duration: seconds(15), deadline: seconds(10), retry: seconds(2) }
}

fn candidate() -> Candidate {
    let unused = tower::service_fn(|_: axum::http::Request<Body>| async {
        Err::<axum::http::Response<Body>, _>("no call is expected")
    });
    let client = Client::new(unused, "conclave");
    Candidate::new(Api::default_namespaced(client), "conclave-operator", "me".to_owned(), terms())
}

/// A Lease of this version, held by somebody for this long.
fn lease(version: &str, holder: Option<&str>, seconds: i32) -> Lease {
    Lease {
        metadata: ObjectMeta {
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(seconds),
            lease_transitions: Some(4),
            ..LeaseSpec::default()
        }),
    }
}

fn wall() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn takes(step: &Step) -> bool {
    matches!(step, Step::Take(_))
}

#[tokio::test]
async fn a_lease_that_is_not_there_is_created() {
    let step = candidate().decide(None, Instant::now(), wall());
    let Step::Create(lease) = step else { panic!("it should be created: {step:?}") };
    assert_eq!(holder(&lease), Some("me"));
}

#[tokio::test]
async fn a_lease_that_was_given_up_is_taken_at_once() {
    let now = Instant::now();
    assert!(takes(&candidate().decide(Some(&lease("7", None, 1)), now, wall())));
    assert!(takes(&candidate().decide(Some(&lease("7", Some(""), 1)), now, wall())));
}

#[tokio::test]
async fn a_silent_holder_is_waited_for_by_the_own_clock() {
    let mut candidate = candidate();
    let silent = lease("7", Some("other"), 15);
    let first = Instant::now();
    let at = |seconds| first + Duration::from_secs(seconds);
    // The wall clock says that the Lease ran out long ago, or not for years: it is not asked.
    assert_eq!(candidate.decide(Some(&silent), first, wall()), Step::Wait);
    assert_eq!(candidate.decide(Some(&silent), at(14), Timestamp::MAX), Step::Wait);
    assert!(takes(&candidate.decide(Some(&silent), at(15), wall())));
}

#[tokio::test]
async fn a_holder_that_renews_is_waited_for_anew() {
    let mut candidate = candidate();
    let first = Instant::now();
    let at = |seconds| first + Duration::from_secs(seconds);
    assert_eq!(candidate.decide(Some(&lease("7", Some("other"), 15)), first, wall()), Step::Wait);
    let renewed = lease("8", Some("other"), 15);
    assert_eq!(candidate.decide(Some(&renewed), at(14), wall()), Step::Wait);
    assert_eq!(candidate.decide(Some(&renewed), at(28), wall()), Step::Wait);
    assert!(takes(&candidate.decide(Some(&renewed), at(29), wall())));
}

#[tokio::test]
async fn a_holder_that_asked_for_more_patience_gets_it() {
    let mut candidate = candidate();
    let first = Instant::now();
    let patient = lease("7", Some("other"), 60);
    assert_eq!(candidate.decide(Some(&patient), first, wall()), Step::Wait);
    let later = first + Duration::from_secs(59);
    assert_eq!(candidate.decide(Some(&patient), later, wall()), Step::Wait);
}

#[tokio::test]
async fn a_write_carries_the_version_that_was_read_and_counts_the_turns() {
    let Step::Take(taken) = candidate().decide(Some(&lease("7", None, 1)), Instant::now(), wall())
    else {
        panic!("it should be taken")
    };
    assert_eq!(taken.resource_version().as_deref(), Some("7"));
    let transitions = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
    assert_eq!(transitions(&taken), Some(5));
    let renewed = candidate().written(Some(&taken), Timestamp::MAX);
    assert_eq!(transitions(&renewed), Some(5));
    let acquired = renewed.spec.and_then(|spec| spec.acquire_time);
    assert_eq!(acquired, Some(MicroTime(wall())), "a renewal is no new turn");
}
