//! What of a specification the members run.

use super::*;

#[test]
fn a_changed_specification_is_pending_until_the_members_run_it() {
    let mut observed = settled();
    observed.conclave.metadata.generation = Some(2);
    let status = new_status(&plan(&observed));
    assert_eq!(condition(&status, status::POLICY_IN_FORCE), is("False", "Pending"));

    observed.conclave.status = Some(status);
    if let Register::View(view) = &mut observed.register {
        view.policy.generation = 2;
    }
    let changes = plan(&observed);
    let status = new_status(&changes);
    assert_eq!(condition(&status, status::POLICY_IN_FORCE), is("True", "InForce"));
    assert_eq!(status.policy_generation, Some(2));
    assert_eq!(changes[1..], [Change::Announce(Notice::PolicyChanged(2))]);
}

/// The condition `PolicyInForce` of a group that wants an algorithm which its members have from
/// version 3 on, if the view was begun by members that speak up to `version`, and `b` and `c` speak
/// up to `now`.
fn in_force_with(version: u16, now: u16) -> (String, String, String) {
    in_force_of(Caching::Disabled, version, now)
}

fn in_force_of(caching: Caching, version: u16, now: u16) -> (String, String, String) {
    let mut observed = settled();
    observed.conclave.spec.locks[0].algorithm = LockAlgorithm::RicartAgrawala;
    observed.conclave.spec.locks[0].caching = caching;
    let wanted = conclave_crds::policy(&observed.conclave).expect("a policy");
    if let Register::View(view) = &mut observed.register {
        view.policy = as_written(&wanted.spoken(version));
        view.members[0].protocol = (1, 4);
        view.members[1].protocol = (1, now);
        view.members[2].protocol = (1, now);
    }
    let status = status::status(&observed);
    let found = conditions::find(&status.conditions, status::POLICY_IN_FORCE).expect("it is there");
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn an_algorithm_that_waits_for_older_members_is_not_in_force() {
    let (status, reason, message) = in_force_with(2, 2);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "OlderMembers"));
    assert_eq!(
        message,
        "RicartAgrawala: waits until members of an older version are replaced: b, c"
    );
    // The older ones are replaced, and the view is about to be.
    let (status, reason, _) = in_force_with(2, 3);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Pending"));
    let (status, reason, message) = in_force_with(3, 3);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "InForce"));
    assert_eq!(message, "the members run generation 1");
}

#[test]
fn caching_waits_for_members_that_know_how_to_give_back() {
    let (status, reason, message) = in_force_of(Caching::Enabled, 3, 3);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "OlderMembers"));
    let waits = "waits until members of an older version are replaced: b, c";
    assert_eq!(message, format!("caching with RicartAgrawala: {waits}"));
    let (_, reason, _) = in_force_of(Caching::Enabled, 3, 4);
    assert_eq!(reason, "Pending");
    let (status, _, _) = in_force_of(Caching::Enabled, 4, 4);
    assert_eq!(status, "True");
}

#[test]
fn older_members_keep_nothing_from_being_in_force_that_they_have() {
    let mut observed = settled();
    if let Register::View(view) = &mut observed.register {
        view.members[1].protocol = (1, 2);
    }
    let status = status::status(&observed);
    assert_eq!(condition(&status, status::POLICY_IN_FORCE), is("True", "InForce"));
}
