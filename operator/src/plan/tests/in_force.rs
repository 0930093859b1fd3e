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
