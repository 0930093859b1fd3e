//! Runs one search and reports what came of it.

use stateright::{Checker, HasDiscoveries};

use super::budget::{Budget, search};
use super::model::LeaderModel;
use super::properties::{LEADER_COMES_BACK, ONE_HOLDER, ONE_LEADER, TOKENS_RISE};
use super::replay::{covers, replay};
use super::rules::Rules;
use super::scope::Scope;

/// Searches the whole of a scope under all rules. No promise may be broken, and every situation
/// that is named must be reached.
pub(crate) fn holds(scope: Scope, reaches: &'static [&'static str]) {
    holds_without(scope, reaches, |_| {});
}

/// The same without some rules, which these bounds do not show to be needed.
pub(crate) fn holds_without(
    scope: Scope,
    reaches: &'static [&'static str],
    leave_out: impl FnOnce(&mut Rules),
) {
    let mut rules = Rules::ALL;
    leave_out(&mut rules);
    let outcome = run(rules, scope, reaches, HasDiscoveries::AnyFailures);
    let checker = outcome.checker;
    for promise in [ONE_LEADER, ONE_HOLDER, TOKENS_RISE] {
        checker.assert_no_discovery(promise);
    }
    if scope.recovers {
        checker.assert_no_discovery(LEADER_COMES_BACK);
    }
    for situation in reaches {
        if outcome.exhausted {
            checker.assert_any_discovery(situation);
        } else if checker.discovery(situation).is_none() {
            println!("  not reached yet: {situation}");
        }
    }
}

/// Leaves out a rule, and searches the scope until this promise is broken. With the rule back in
/// force the same search must find nothing, so that it is this rule that makes the difference.
pub(crate) fn breaks(promise: &'static str, scope: Scope, leave_out: impl FnOnce(&mut Rules)) {
    let mut rules = Rules::ALL;
    leave_out(&mut rules);
    let checker = run(rules, scope, &[], HasDiscoveries::AnyOf([promise].into())).checker;
    let path = checker.assert_any_discovery(promise).into_vec();
    println!("  {promise}: broken after {} steps", path.len() - 1);
    for step in path.iter().filter_map(|(_, step)| *step) {
        println!("    {step:?}");
    }
    // A trace reports a token when its holder is notified, and a run may be broken before that.
    if [ONE_LEADER, ONE_HOLDER].contains(&promise) && covers(checker.model()) {
        let breach = replay(checker.model(), &path).expect_err("a broken run is none of the rules");
        println!("  as a trace: {breach}");
    }
    holds(scope, &[]);
}

fn run(
    rules: Rules,
    scope: Scope,
    reaches: &'static [&'static str],
    finish: HasDiscoveries,
) -> super::budget::Outcome<impl Checker<LeaderModel>> {
    let budget = Budget::default();
    search(LeaderModel { rules, scope, reaches, budget: budget.clone() }, budget, finish)
}
