//! All courses up to a length, and some by name.

use super::*;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> LocalTime {
    LocalTime(ms * MS)
}

fn leads(until: u64) -> Input {
    Input::Leads(Lead { until: at(until), token: Some(7) })
}

/// A course whose COMMAND runs since 0 ms, with the deadline at 1,200 ms: SIGTERM at 800 ms, SIGKILL at 1,100 ms.
fn running(once: bool) -> Course {
    let mut course = Course::new(Duration::from_secs(10), once);
    assert_eq!(course.handle(at(0), leads(1_200)), Some(Action::Start(Some(7))));
    course
}

const TERM: Option<Action> = Some(Action::Send(Signal::TERM));
const KILL: Option<Action> = Some(Action::Kill);

#[test]
fn a_lead_that_goes_on_is_not_disturbed() {
    let mut course = running(false);
    for third in 1..100 {
        let now = third * 400;
        assert_eq!(course.handle(at(now), leads(now + 1_200)), None);
        assert_eq!(course.wake(), Some(at(now + 800)));
    }
}

#[test]
fn without_a_later_deadline_command_is_asked_to_end_and_then_killed_before_it() {
    let mut course = running(false);
    assert_eq!(course.handle(at(799), Input::Time), None);
    assert_eq!(course.handle(at(800), Input::Time), TERM);
    assert_eq!(course.wake(), Some(at(1_100)));
    assert_eq!(course.handle(at(1_099), Input::Time), None);
    assert_eq!(course.handle(at(1_100), Input::Time), KILL);
    assert_eq!(course.wake(), None);
    assert_eq!(course.handle(at(1_110), Input::Ended(137)), Some(Action::StandAnew));
}

#[test]
fn a_late_awakening_kills_at_once() {
    assert_eq!(running(false).handle(at(1_100), Input::Time), KILL);
    assert_eq!(running(false).handle(at(1_150), leads(2_000)), None, "the sidecar was in time");
    assert_eq!(running(false).handle(at(1_200), leads(2_000)), KILL, "others may have led");
}

#[test]
fn command_that_was_asked_to_end_ends_whatever_deadline_comes() {
    let mut course = running(false);
    assert_eq!(course.handle(at(800), Input::Time), TERM);
    assert_eq!(course.handle(at(810), leads(2_000)), None);
    assert_eq!(course.wake(), Some(at(1_100)), "no later than it was to be");
    assert_eq!(course.handle(at(900), Input::Ended(0)), Some(Action::StandAnew));
    assert_eq!(course.handle(at(1_000), leads(2_200)), Some(Action::Start(Some(7))));
}

#[test]
fn whatever_ends_the_lead_kills_at_once() {
    let other = Input::Leads(Lead { until: at(9_000), token: Some(8) });
    for input in [Input::LeadsNot, Input::Broken, other, leads(10)] {
        assert_eq!(running(false).handle(at(10), input), KILL, "{input:?}");
    }
    for input in [Input::LeadsNot, Input::Broken, other] {
        let mut course = running(false);
        assert_eq!(course.handle(at(800), Input::Time), TERM);
        assert_eq!(course.handle(at(810), input), KILL, "{input:?}");
    }
}

#[test]
fn an_earlier_deadline_counts() {
    let mut course = running(false);
    assert_eq!(course.handle(at(100), leads(700)), None);
    assert_eq!(course.wake(), Some(at(300)));
    assert_eq!(course.handle(at(300), Input::Time), TERM);
    assert_eq!(course.handle(at(310), leads(322)), KILL, "when it ends, too");
}

/// What is kept free before a deadline is a part of the lease, and not of what is left when it is stated again.
#[test]
fn a_deadline_that_is_stated_again_is_not_nearer_to_the_end_of_command() {
    let mut course = Course::new(Duration::from_secs(5), false);
    assert_eq!(course.handle(at(0), leads(1_200)), Some(Action::Start(Some(7))));
    let stop = course.wake();
    for now in [300, 600, 790] {
        assert_eq!(course.handle(at(now), leads(1_200)), None);
        assert_eq!(course.wake(), stop);
    }
    assert_eq!(course.handle(at(800), leads(1_200)), TERM);
    assert_eq!(course.handle(at(1_099), leads(1_200)), None);
    assert_eq!(course.handle(at(1_100), leads(1_200)), KILL);
}

#[test]
fn command_does_not_start_for_a_lead_that_is_nearly_over() {
    let mut course = Course::new(Duration::ZERO, false);
    assert_eq!(course.handle(at(0), leads(99)), None);
    assert!(course.handle(at(50), leads(150)).is_some());
}

#[test]
fn the_grace_is_the_one_that_was_asked_for_where_the_lease_has_room_for_it() {
    for (grace, until, stop, kill) in [
        (Duration::from_millis(500), 60_000, 59_000, 59_000),
        (Duration::from_secs(5), 60_000, 55_000, 59_000),
        (Duration::from_secs(5), 6_000, 4_000, 5_500),
        (Duration::ZERO, 1_200, 1_100, 1_100),
    ] {
        let mut course = Course::new(grace, false);
        course.handle(at(0), leads(until));
        assert_eq!(course.wake(), Some(at(stop)), "{grace:?}");
        assert_eq!(course.handle(at(kill - 1), Input::Time) == TERM, stop < kill, "{grace:?}");
        assert_eq!(course.handle(at(kill), Input::Time), KILL, "{grace:?}");
    }
}

#[test]
fn the_status_is_that_of_command_when_it_ends_by_itself_or_was_asked_from_outside() {
    assert_eq!(running(false).handle(at(10), Input::Ended(3)), Some(Action::Exit(3)));
    let mut course = running(false);
    assert_eq!(course.handle(at(10), Input::Signal(Signal::TERM)), TERM);
    assert_eq!(course.handle(at(20), Input::LeadsNot), KILL);
    assert_eq!(course.handle(at(30), Input::Ended(137)), Some(Action::Exit(137)));
    let mut course = running(false);
    assert_eq!(course.handle(at(10), Input::LeadsNot), KILL);
    assert_eq!(course.handle(at(20), Input::Signal(Signal::INT)), None);
    assert_eq!(course.handle(at(30), Input::Ended(137)), Some(Action::Exit(137)));
}

#[test]
fn a_hang_up_is_passed_on_and_ends_nothing_but_a_wait() {
    let hang_up = Input::Signal(Signal::HUP);
    let mut course = running(false);
    assert_eq!(course.handle(at(10), hang_up), Some(Action::Send(Signal::HUP)));
    assert_eq!(course.handle(at(20), Input::LeadsNot), KILL);
    assert_eq!(course.handle(at(30), Input::Ended(137)), Some(Action::StandAnew));
    assert_eq!(course.handle(at(40), hang_up), Some(Action::Exit(129)));
}

#[test]
fn with_once_the_first_lead_is_the_last() {
    let mut course = running(true);
    assert_eq!(course.handle(at(10), Input::LeadsNot), KILL);
    assert_eq!(course.handle(at(20), Input::Ended(137)), Some(Action::Exit(75)));
    let mut course = Course::new(Duration::ZERO, true);
    assert_eq!(course.handle(at(0), Input::Broken), Some(Action::StandAnew), "it never led");
}

/// What is true of the world beside the course.
#[derive(Clone, Debug)]
struct World {
    course: Course,
    now: u64,
    /// The last deadline and token, while the sidecar states that this member leads.
    stated: Option<(u64, u64)>,
    runs: bool,
    killed: bool,
    over: bool,
    trail: Vec<(u64, Input, Option<Action>)>,
}

impl World {
    fn new() -> Self {
        let course = Course::new(Duration::from_secs(10), false);
        let (stated, trail) = (None, Vec::new());
        Self { course, now: 0, stated, runs: false, killed: false, over: false, trail }
    }

    /// A step of the world, and whether it can be.
    fn step(&mut self, step: Step) -> bool {
        let input = match step {
            Step::Leads { left, token } => {
                let until = self.now + left;
                self.stated = Some((until, token));
                Input::Leads(Lead { until: at(until), token: Some(token) })
            }
            Step::Not(input) => {
                self.stated = None;
                input
            }
            Step::Ends if self.runs => Input::Ended(5),
            Step::Signal(signal) => Input::Signal(signal),
            Step::Wakes { late } => {
                let Some(wake) = self.course.wake() else { return false };
                self.now = self.now.max(wake.0 / MS + late);
                Input::Time
            }
            Step::Ends => return false,
        };
        let led = self.stated;
        let action = self.course.handle(at(self.now), input);
        self.trail.push((self.now, input, action));
        self.check(input, action, led);
        true
    }

    fn check(&mut self, input: Input, action: Option<Action>, led: Option<(u64, u64)>) {
        let trail = &self.trail;
        let ended = matches!(input, Input::Ended(_));
        assert!(!self.over || action.is_none(), "it goes on after its end: {trail:?}");
        match action {
            Some(Action::Start(token)) => {
                assert!(!self.runs, "it runs twice: {trail:?}");
                let leads = led.filter(|(until, by)| self.now < *until && Some(*by) == token);
                assert!(leads.is_some(), "it starts without a lead: {trail:?}");
                self.runs = true;
            }
            Some(Action::Send(_)) => assert!(self.runs && !self.killed, "{trail:?}"),
            Some(Action::Kill) => {
                assert!(self.runs && !self.killed, "{trail:?}");
                self.killed = true;
            }
            Some(Action::StandAnew) => assert!(!self.runs || ended, "{trail:?}"),
            Some(Action::Exit(_)) => {
                assert!(!self.runs || ended, "it leaves COMMAND behind: {trail:?}");
                self.over = true;
            }
            None => {}
        }
        if ended {
            (self.runs, self.killed) = (false, false);
        }
        if self.runs && !self.killed {
            assert!(led.is_some_and(|(until, _)| self.now < until), "no lead, no kill: {trail:?}");
            let wake = self.course.wake().expect("it watches the clock");
            assert!(wake > at(self.now), "it would spin: {trail:?}");
            assert!(led.is_some_and(|(until, _)| wake < at(until)), "too late: {trail:?}");
        }
        assert_eq!(self.course.is_running(), self.runs, "{trail:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Leads { left: u64, token: u64 },
    Not(Input),
    Ends,
    Signal(Signal),
    Wakes { late: u64 },
}

const STEPS: [Step; 11] = [
    Step::Leads { left: 1_200, token: 7 },
    Step::Leads { left: 60_000, token: 7 },
    Step::Leads { left: 0, token: 7 },
    Step::Leads { left: 1_200, token: 8 },
    Step::Not(Input::LeadsNot),
    Step::Not(Input::Broken),
    Step::Ends,
    Step::Signal(Signal::TERM),
    Step::Signal(Signal::HUP),
    Step::Wakes { late: 0 },
    Step::Wakes { late: 5_000 },
];

fn explore(world: &World, depth: usize) -> usize {
    if depth == 0 {
        return 1;
    }
    let next = STEPS.iter().map(|step| {
        let mut world = world.clone();
        if world.step(*step) { explore(&world, depth - 1) } else { 0 }
    });
    1 + next.sum::<usize>()
}

#[test]
fn on_no_course_command_runs_without_a_lead() {
    let courses = explore(&World::new(), 6);
    assert!(courses > 100_000, "only {courses}");
}
