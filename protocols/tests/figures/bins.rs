//! How full the fullest of some bins is, if balls are thrown into them at random.
//!
//! Source: Chernoff, *A Measure of Asymptotic Efficiency for Tests of a Hypothesis Based on the Sum of Observations*,
//! Annals of Mathematical Statistics 23(4), 1952; in the form of Mitzenmacher and Upfal, *Probability and Computing*, 2005,
//! 4.2: P(X ≥ x) ≤ E(e^λX) / e^λx for each λ > 0. A binomial X of mean m has E(e^λX) ≤ e^m(e^λ - 1). With c bins, none
//! has more than (m(e^λ - 1) + ln(c / p)) / λ balls but with a probability of p.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of some thousands, in floating point"
)]

/// The probability with which a bound is exceeded is one in so many.
pub(crate) const ONE_IN: f64 = 1_000.0;

/// The most balls of a bin, of so many balls in so many bins.
pub(crate) fn balls(balls: u64, bins: u64) -> u64 {
    least(balls, bins, f64::exp_m1)
}

/// The most throws at the balls of a bin, if as many throws hit balls at random: what one ball gets is random too, so
/// there is a bound of the bound in the exponent.
pub(crate) fn throws_at_balls(balls: u64, bins: u64) -> u64 {
    least(balls, bins, |lambda| lambda.exp_m1().exp_m1())
}

/// The least of the bounds for several λ, and no more than there are.
fn least(balls: u64, bins: u64, grows: impl Fn(f64) -> f64) -> u64 {
    if bins == 1 {
        return balls;
    }
    let mean = balls as f64 / bins as f64;
    let of = |lambda: f64| (mean * grows(lambda) + (bins as f64 * ONE_IN).ln()) / lambda;
    let bounds = (1..=300).map(|hundredths| of(f64::from(hundredths) / 100.0));
    (bounds.fold(f64::INFINITY, f64::min) as u64).min(balls)
}

#[cfg(test)]
mod tests {
    use conclave_protocols::random::Random;

    use super::*;

    /// A thousand times a hundred balls, of which each is hit by a throw on average.
    #[test]
    fn chance_hardly_ever_exceeds_the_bounds_and_often_comes_near() {
        let mut random = Random::new(3);
        let (mut most, mut exceeded) = ([0, 0], [0, 0]);
        let bounds = [balls(100, 16), throws_at_balls(100, 16)];
        for _ in 0..1_000 {
            let bin_of: Vec<usize> = (0..100).map(|_| random.up_to(16) as usize).collect();
            let mut full = [[0; 16], [0; 16]];
            for bin in &bin_of {
                full[0][*bin] += 1;
                full[1][bin_of[random.up_to(100) as usize]] += 1;
            }
            for (kind, full) in full.iter().enumerate() {
                let fullest = full.iter().copied().max().unwrap_or(0);
                most[kind] = fullest.max(most[kind]);
                exceeded[kind] += u64::from(fullest > bounds[kind]);
            }
        }
        assert!(exceeded.iter().all(|times| *times <= 1), "{exceeded:?}");
        assert!(most.iter().zip(bounds).all(|(most, bound)| 3 * most >= 2 * bound), "{most:?}");
    }

    #[test]
    fn one_bin_has_them_all_and_no_bin_has_more() {
        assert_eq!((balls(20, 1), throws_at_balls(20, 1)), (20, 20));
        assert_eq!((balls(3, 2), throws_at_balls(3, 2)), (3, 3));
    }
}
