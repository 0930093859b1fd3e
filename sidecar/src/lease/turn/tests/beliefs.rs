//! Who believed, and who did so at once.

use std::cmp::Reverse;

use super::world::True;

/// Who believed when.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    pub(super) who: String,
    pub(super) program: bool,
    pub(super) from: True,
    pub(super) to: True,
}

/// The times for which two believed at once, the longest first.
pub(super) fn overlaps(beliefs: &[Belief]) -> Vec<(True, Belief, Belief)> {
    let mut found = Vec::new();
    for (place, one) in beliefs.iter().enumerate() {
        for other in &beliefs[..place] {
            let both = one.to.min(other.to).saturating_sub(one.from.max(other.from));
            // An application that hears of its next lead before the end of the last one goes on.
            if both > 0 && one.who != other.who {
                let (first, second) =
                    if one.from < other.from { (one, other) } else { (other, one) };
                found.push((both, first.clone(), second.clone()));
            }
        }
    }
    found.sort_by_key(|(both, ..)| Reverse(*both));
    found
}
