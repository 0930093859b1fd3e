//! Runs one search and says what came of it.

use stateright::report::WriteReporter;
use stateright::{Checker, HasDiscoveries, Model};

use super::model::OfficeModel;
use super::properties::{ONE_HOLDER, ONE_OFFICE, TOKENS_RISE};
use super::rules::Rules;
use super::scope::Scope;

const THREADS: usize = 2;

/// Searches the whole of a scope under all rules: nothing bad may be found, and every situation
/// that is named must be.
pub(crate) fn holds(name: &str, scope: Scope, reaches: &'static [&'static str]) {
    exhaust(name, Rules::ALL, scope, reaches);
}

/// Searches the whole of a scope under these rules.
pub(crate) fn exhaust(name: &str, rules: Rules, scope: Scope, reaches: &'static [&'static str]) {
    let model = OfficeModel { rules, scope, reaches };
    let mut report = Vec::new();
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join_and_report(&mut WriteReporter::new(&mut report));
    print_last(name, &report);
    for promise in [ONE_OFFICE, ONE_HOLDER, TOKENS_RISE] {
        checker.assert_no_discovery(promise);
    }
    for situation in reaches {
        checker.assert_any_discovery(situation);
    }
    assert!(checker.is_done(), "the search ended early");
}

/// Searches a scope without one rule until this promise is broken.
pub(crate) fn breaks(promise: &'static str, rules: Rules, scope: Scope) {
    let model = OfficeModel { rules, scope, reaches: &[] };
    let mut report = Vec::new();
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyOf([promise].into()))
        .spawn_bfs()
        .join_and_report(&mut WriteReporter::new(&mut report));
    print_last("", &report);
    let trace = checker.assert_any_discovery(promise);
    let steps = trace.into_actions();
    println!("\"{promise}\" is broken after {} steps:", steps.len());
    for step in steps {
        println!("  {step:?}");
    }
}

/// The reporter's last line: states, unique states, depth, seconds.
fn print_last(name: &str, report: &[u8]) {
    let text = String::from_utf8_lossy(report);
    let last = text.lines().filter(|line| line.starts_with("Done")).last();
    println!("{name}: {}", last.unwrap_or("the search did not end"));
}
