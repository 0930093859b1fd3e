//! What was found of the pages of a group.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use conclave_clock_page::{Reading, Status};

/// What many samples of all pages show.
#[derive(Debug, Default)]
pub struct Findings {
    /// The largest difference of two pages, in nanoseconds, for each sample in which every clock was in step.
    pub apart: Vec<u64>,
    /// The error that each page stated in those samples, in nanoseconds, but for the least of each sample: the clock of a
    /// leader is group time.
    pub bounds: Vec<u64>,
    /// How many pairs of pages were compared, of all samples.
    pub pairs: usize,
    /// The pairs that were further apart than their errors allow.
    pub outside: Vec<[Reading; 2]>,
    /// Readings of one page of which the later has the earlier time.
    pub backward: Vec<[Reading; 2]>,
    /// How many readings had which status.
    pub statuses: BTreeMap<&'static str, usize>,
    /// How many samples there are.
    pub samples: usize,
    /// How often no sample was had, because some page changed all the while.
    pub missed: usize,
    last: Vec<Option<Reading>>,
}

impl Findings {
    /// Adds a sample: what each page gave at one reading of the raw clock.
    pub fn note(&mut self, sample: Option<&[Reading]>) {
        let Some(sample) = sample else {
            self.missed += 1;
            return;
        };
        self.samples += 1;
        for reading in sample {
            *self.statuses.entry(name(reading.status)).or_default() += 1;
        }
        self.note_pairs(sample);
        self.note_course(sample);
        if sample.iter().all(|reading| reading.status == Status::Synchronised) {
            let times = sample.iter().map(|reading| reading.time_ns);
            if let (Some(least), Some(most)) = (times.clone().min(), times.max()) {
                self.apart.push(most.abs_diff(least));
            }
            let mut errors: Vec<u64> = sample.iter().map(|reading| reading.error_ns).collect();
            errors.sort_unstable();
            self.bounds.extend(errors.into_iter().skip(1));
        }
    }

    fn note_pairs(&mut self, sample: &[Reading]) {
        let holds =
            |reading: &&Reading| matches!(reading.status, Status::Synchronised | Status::Holdover);
        let known: Vec<&Reading> = sample.iter().filter(holds).collect();
        for (place, one) in known.iter().enumerate() {
            for other in &known[..place] {
                self.pairs += 1;
                let allowed = one.error_ns.saturating_add(other.error_ns);
                if one.time_ns.abs_diff(other.time_ns) > allowed {
                    self.outside.push([**other, **one]);
                }
            }
        }
    }

    fn note_course(&mut self, sample: &[Reading]) {
        self.last.resize(sample.len(), None);
        for (last, reading) in self.last.iter_mut().zip(sample) {
            if reading.status == Status::Unknown {
                continue;
            }
            if let Some(before) = last.replace(*reading)
                && reading.time_ns < before.time_ns
            {
                self.backward.push([before, *reading]);
            }
        }
    }

    /// Fails if a page stated what was not true, or went back, or if pages stated too little to show anything: half of the
    /// readings are to be in step, all clocks at once in a tenth of the samples, and half of the errors below a millisecond.
    pub fn check(&self) -> Result<()> {
        let known = self.statuses.get(name(Status::Synchronised)).copied().unwrap_or(0);
        let all: usize = self.statuses.values().sum();
        ensure!(
            self.pairs > 0 && 2 * known >= all,
            "too few pages stated a time: {:?}",
            self.statuses
        );
        let in_step = self.apart.len();
        ensure!(
            10 * in_step >= self.samples,
            "all clocks were in step in {in_step} of {} samples",
            self.samples
        );
        let error = at(&self.bounds, 500);
        let is_tight = error.is_some_and(|error| error < TIGHT_NS);
        ensure!(is_tight, "half of the errors are greater than {error:?} ns");
        let (outside, backward) = (self.outside.len(), self.backward.len());
        ensure!(
            outside == 0,
            "{outside} of {} pairs are further apart than their errors allow, the first: {:?}",
            self.pairs,
            self.outside[0]
        );
        ensure!(backward == 0, "{backward} steps backward, the first: {:?}", self.backward[0]);
        Ok(())
    }
}

/// The error that a page states is half a round trip and little more: tens of microseconds, on a busy machine hundreds.
const TIGHT_NS: u64 = 1_000_000;

fn name(status: Status) -> &'static str {
    match status {
        Status::Unknown => "unknown",
        Status::Synchronised => "synchronized",
        Status::Disrupted => "disrupted",
        Status::Holdover => "holdover",
    }
}

/// The sorted value below which so many of a thousand are; nothing of nothing.
pub fn at(values: &[u64], per_mille: usize) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * per_mille / 1_000).copied()
}

#[cfg(test)]
mod tests {
    use conclave_clock_page::Words;

    use super::*;

    const ALL: [Status; 4] =
        [Status::Unknown, Status::Synchronised, Status::Disrupted, Status::Holdover];

    fn reading(time_ns: i64, error_ns: u64, status: Status) -> Reading {
        Reading { time_ns, error_ns, status, ..Words::UNKNOWN.at(0) }
    }

    #[test]
    fn two_pages_further_apart_than_their_errors_are_found() {
        for (apart, is_found) in [(70, false), (71, true)] {
            let mut findings = Findings::default();
            let all = [(0, 30), (apart, 40)];
            let sample = all.map(|(time, error)| reading(time, error, Status::Synchronised));
            findings.note(Some(&sample));
            assert_eq!(findings.outside.len(), usize::from(is_found), "{apart}");
            assert_eq!(findings.check().is_err(), is_found);
            assert_eq!((&findings.apart[..], findings.pairs), (&[apart.unsigned_abs()][..], 1));
        }
    }

    #[test]
    fn a_clock_in_holdover_is_held_to_its_error_and_one_that_states_nothing_is_not() {
        for status in ALL {
            let mut findings = Findings::default();
            findings.note(Some(&[reading(0, 1, Status::Synchronised), reading(9, 1, status)]));
            let is_held = matches!(status, Status::Synchronised | Status::Holdover);
            assert_eq!(findings.outside.len(), usize::from(is_held), "{status:?}");
            let in_step = status == Status::Synchronised;
            assert_eq!(findings.apart.len(), usize::from(in_step), "{status:?}");
        }
    }

    #[test]
    fn a_step_backward_is_found_even_after_the_time_was_unknown() {
        let mut findings = Findings::default();
        for (time, status) in
            [(5, Status::Synchronised), (0, Status::Unknown), (5, Status::Holdover)]
        {
            findings.note(Some(&[reading(time, 1, status)]));
        }
        assert!(findings.backward.is_empty());
        findings.note(Some(&[reading(4, 1, Status::Synchronised)]));
        assert_eq!(findings.backward.len(), 1);
        assert_eq!(findings.backward[0].map(|reading| reading.time_ns), [5, 4]);
    }

    #[test]
    fn nothing_is_shown_by_pages_that_state_nothing() {
        let mut findings = Findings::default();
        findings.note(Some(&[reading(0, 1, Status::Unknown), reading(9, 1, Status::Unknown)]));
        findings.note(None);
        assert!(findings.check().is_err() && findings.missed == 1);
    }

    #[test]
    fn little_is_shown_by_pages_that_are_seldom_in_step_or_state_large_errors() {
        let check = |many: usize, error_ns: u64| {
            let mut findings = Findings::default();
            for sample in 0..10 {
                let status = if sample < many { Status::Synchronised } else { Status::Holdover };
                findings.note(Some(&[reading(9, error_ns, status); 2]));
            }
            findings.check()
        };
        assert!(check(5, TIGHT_NS - 1).is_ok());
        assert!(check(4, TIGHT_NS - 1).is_err() && check(5, TIGHT_NS).is_err());
    }

    #[test]
    fn nothing_is_shown_of_a_group_in_which_one_page_never_states_anything() {
        let check = |last: Status| {
            let mut findings = Findings::default();
            for time in 0..10 {
                let known = reading(time, 1, Status::Synchronised);
                findings.note(Some(&[known, known, known, reading(time, 1, last)]));
            }
            findings.check()
        };
        assert!(check(Status::Synchronised).is_ok() && check(Status::Unknown).is_err());
    }

    #[test]
    fn a_share_of_the_values_is_below() {
        let values: Vec<u64> = (0..=1_000).rev().collect();
        assert_eq!(
            (at(&values, 500), at(&values, 990), at(&[], 500)),
            (Some(500), Some(990), None)
        );
    }
}
