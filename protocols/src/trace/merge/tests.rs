//! Where a write stands among what others did, and whose it was.

use super::*;
use crate::ids::{Epoch, PodUid};
use crate::policy::Timing;
use crate::time::LocalTime;

/// Members one and two of a group, and their lines.
#[derive(Default)]
struct Lines(Vec<Line>);

fn member(number: u128) -> Incarnation {
    Incarnation { pod: PodUid(number), run: 0 }
}

fn view(epoch: u64) -> Content {
    Content {
        epoch: Epoch(epoch),
        ceiling: Epoch(epoch + 3),
        members: vec![member(1), member(2)],
        leader: Some(member(1)),
        closing: false,
        base_unknown: false,
        base: None,
        timing: Timing::default(),
        lease: Timing::default().member_lease,
        lead_lease: Timing::default().leader_lease,
        believes_evidence: false,
        is_advisory: false,
    }
}

impl Lines {
    fn and(mut self, at: u64, number: u128, what: What) -> Self {
        let who = member(number);
        let number = self.0.iter().filter(|line| line.who == who).count() as u64;
        self.0.push(Line { who, number, at: LocalTime(at), what });
        self
    }

    fn calls(self, at: u64, number: u128, version: u64, epoch: u64) -> Self {
        let (id, content) = (CallId(version), view(epoch));
        self.and(at, number, What::Calls { id, version, content })
    }

    fn wrote(self, at: u64, number: u128, base: u64, version: u64) -> Self {
        self.and(at, number, What::Wrote { id: CallId(base), version })
    }

    fn reads(self, at: u64, number: u128, version: u64, epoch: Option<u64>) -> Self {
        self.and(at, number, What::Read { version, content: epoch.map(view) })
    }

    /// What was written, when, and by whom; whether it compared, if somebody of the group wrote it.
    fn writes(self) -> Vec<(u64, Option<Incarnation>, Option<bool>)> {
        let write = |step: Step| {
            let at = u64::try_from(step.at.as_nanos()).expect("small");
            if let Event::Wrote { compared, .. } = step.entry.event {
                return Some((at, step.entry.who, Some(compared)));
            }
            matches!(step.entry.event, Event::Replaced(_)).then_some((at, None, None))
        };
        merge(self.0).steps.into_iter().filter(|s| !s.is_call).filter_map(write).collect()
    }
}

#[test]
fn a_write_stands_before_the_first_who_reads_it() {
    let lines = Lines::default().reads(1, 1, 7, None).calls(2, 1, 7, 1);
    let heard = lines.reads(3, 2, 8, Some(1)).wrote(4, 1, 7, 8);
    assert_eq!(heard.writes(), [(1, None, None), (3, Some(member(1)), Some(true))]);
}

#[test]
fn a_write_whose_writer_never_heard_of_it_is_its_own() {
    let lines = Lines::default().reads(1, 1, 7, None).calls(2, 1, 7, 1);
    let read = lines.reads(9, 2, 8, Some(1));
    assert_eq!(read.writes(), [(1, None, None), (9, Some(member(1)), Some(true))]);
}

#[test]
fn a_member_that_reads_a_later_version_knows_that_the_earlier_ones_were_there() {
    let lines = Lines::default().reads(1, 1, 7, None).calls(2, 1, 7, 1);
    let read = lines.reads(5, 2, 9, None).wrote(6, 1, 7, 8);
    let expected = [(1, None, None), (5, Some(member(1)), Some(true)), (5, None, None)];
    assert_eq!(read.writes(), expected);
}

#[test]
fn a_write_that_was_refused_is_nobodys_and_what_nobody_called_for_somebody_else_wrote() {
    let lines = Lines::default().reads(1, 1, 7, None).calls(2, 1, 7, 1);
    let read = lines.and(3, 1, What::Refused(CallId(7))).reads(4, 2, 8, Some(1));
    assert_eq!(read.writes(), [(1, None, None), (4, None, None)]);
}

#[test]
fn the_same_content_in_another_version_is_no_second_write() {
    let lines = Lines::default().reads(1, 1, 7, None).calls(2, 1, 7, 1).calls(2, 2, 7, 1);
    let read = lines.reads(4, 2, 8, Some(1)).reads(5, 2, 9, Some(1));
    let expected = [(1, None, None), (4, Some(member(1)), Some(true)), (5, None, None)];
    assert_eq!(read.writes(), expected);
}

#[test]
fn a_write_over_what_the_writer_had_not_read_did_not_compare() {
    let lines = Lines::default().reads(1, 1, 7, None).reads(1, 2, 8, None).calls(2, 1, 7, 1);
    let wrote = lines.wrote(4, 1, 7, 9);
    let expected = [(1, None, None), (1, None, None), (4, Some(member(1)), Some(false))];
    assert_eq!(wrote.writes(), expected);
}

#[test]
fn a_process_whose_lines_stop_has_ended_with_the_last() {
    let lines = Lines::default().reads(1, 1, 7, None).reads(5, 2, 7, None).reads(9, 1, 7, None);
    let ended = merge(lines.0).steps.into_iter().filter(|s| s.entry.event == Event::Ended);
    let ended: Vec<_> = ended.map(|step| (step.at.as_nanos(), step.entry.who)).collect();
    assert_eq!(ended, [(5, Some(member(2))), (9, Some(member(1)))]);
}
