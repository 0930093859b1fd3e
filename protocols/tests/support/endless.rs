//! Whether any run of a model goes on for ever.
//!
//! The checker's `eventually` does not notice a run that comes back to a state in which it has been.
//! In a finite model such a cycle is the only way not to end.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

/// Searches the whole model, depth first, for a state that can be reached from itself, and asserts
/// that there is none. States are distinguished by a hash of 64 bits.
pub fn assert_every_run_ends<M: Model>(model: &M)
where
    M::State: Debug + Hash,
{
    assert_runs_go_round_only_where(model, |_| false);
}

/// The same, but for states that a run may come back to. Either all states of a cycle are such or
/// none is: the caller must see to that.
pub fn assert_runs_go_round_only_where<M: Model>(model: &M, may: impl Fn(&M::State) -> bool)
where
    M::State: Debug + Hash,
{
    let mut sections = BTreeMap::new();
    for start in model.init_states() {
        let mut path = Vec::new();
        enter(model, key(&start), &start, &mut path, &mut sections);
        while let Some(place) = path.last_mut() {
            match place.untried.pop() {
                None => {
                    sections.insert(place.key, Section::Left);
                    path.pop();
                }
                Some(next) => {
                    let key = key(&next);
                    match sections.get(&key) {
                        Some(Section::Left) => {}
                        Some(Section::OnPath) if may(&next) => {}
                        Some(Section::OnPath) => panic!("a run may go on for ever: {next:#?}"),
                        None => enter(model, key, &next, &mut path, &mut sections),
                    }
                }
            }
        }
    }
}

struct Place<S> {
    key: u64,
    untried: Vec<S>,
}

enum Section {
    OnPath,
    Left,
}

fn enter<M: Model>(
    model: &M,
    key: u64,
    state: &M::State,
    path: &mut Vec<Place<M::State>>,
    sections: &mut BTreeMap<u64, Section>,
) {
    sections.insert(key, Section::OnPath);
    path.push(Place { key, untried: model.next_states(state) });
}

fn key<S: Hash>(state: &S) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
