//! Runs one search and says what came of it.

use stateright::report::WriteReporter;
use stateright::{Checker, HasDiscoveries, Model};

use super::model::OfficeModel;
use super::properties::{ONE_HOLDER, ONE_OFFICE, TOKENS_RISE};
use super::rules::Rules;
use super::scope::Scope;

const THREADS: usize = 2;

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
    let checker = search(OfficeModel { rules, scope, reaches }, HasDiscoveries::AnyFailures);
    for promise in [ONE_OFFICE, ONE_HOLDER, TOKENS_RISE] {
        checker.assert_no_discovery(promise);
    }
    for situation in reaches {
        checker.assert_any_discovery(situation);
    }
    assert!(checker.is_done(), "the search ended early");
}

/// Leaves out a rule, and searches the scope until this promise is broken. With the rule back in
/// force the same search must find nothing, so that it is this rule that makes the difference.
pub(crate) fn breaks(promise: &'static str, scope: Scope, leave_out: impl FnOnce(&mut Rules)) {
    let mut rules = Rules::ALL;
    leave_out(&mut rules);
    let model = OfficeModel { rules, scope, reaches: &[] };
    let trace = search(model, HasDiscoveries::AnyOf([promise].into()))
        .assert_any_discovery(promise)
        .into_actions();
    println!("  {promise}: broken after {} steps", trace.len());
    for step in trace {
        println!("    {step:?}");
    }
    holds(scope, &[]);
}

fn search(model: OfficeModel, finish: HasDiscoveries) -> impl Checker<OfficeModel> {
    let mut report = Vec::new();
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(finish)
        .spawn_bfs()
        .join_and_report(&mut WriteReporter::new(&mut report));
    // The reporter's last line has states, unique states, depth and seconds.
    let report = String::from_utf8_lossy(&report);
    let last = report.lines().rfind(|line| line.starts_with("Done"));
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or_default();
    println!("{test}: {}", last.unwrap_or("the search did not end"));
    checker
}
