//! A way that takes every change of one thing into another.

/// Goes from each of so many things to each other one exactly once, and ends where it began: an
/// Eulerian circuit of the complete directed graph, which has one since as many ways lead to each as
/// away from it (Good, *Normal Recurring Decimals*, Journal of the London Mathematical Society 21,
/// 1946).
///
/// From each it goes to every later one and back; from the last one it does not come back, but goes on
/// to the next.
///
/// ```
/// use conclave_protocols::sim::circuit;
///
/// assert_eq!(circuit(3), [(0, 1), (1, 0), (0, 2), (2, 1), (1, 2), (2, 0)]);
/// ```
pub fn circuit(count: usize) -> Vec<(usize, usize)> {
    let later = |one: usize| (one + 1..count).flat_map(move |other| [one, other]);
    let stops: Vec<usize> = (0..count).flat_map(later).collect();
    let next = stops.iter().cycle().skip(1);
    stops.iter().copied().zip(next.copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_ordered_pair_comes_once_and_begins_where_the_one_before_ended() {
        for count in 0..10 {
            let circuit = circuit(count);
            let all = (0..count).flat_map(|one| (0..count).map(move |other| (one, other)));
            let pairs: BTreeSet<_> = all.filter(|(one, other)| one != other).collect();
            assert_eq!(circuit.len(), pairs.len(), "{count}");
            assert_eq!(circuit.iter().copied().collect::<BTreeSet<_>>(), pairs, "{count}");
            let next = circuit.iter().cycle().skip(1);
            assert!(circuit.iter().zip(next).all(|(one, next)| one.1 == next.0), "{count}");
        }
    }
}
