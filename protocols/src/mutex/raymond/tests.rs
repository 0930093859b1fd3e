use super::*;
use crate::ids::Epoch;
use crate::protocol::{Effect, EffectOf, Outbox};

/// A group, all that was sent in it, and who entered, in order.
struct Group {
    members: Vec<Raymond>,
    under_way: VecDeque<(MemberId, MemberId, Message)>,
    sent: Vec<(u32, u32, Message)>,
    entered: Vec<u32>,
}

impl Group {
    fn new(size: u32, carried: &Carried) -> Self {
        let view = view(size);
        let members: Vec<Raymond> =
            view.members().map(|me| Raymond::new(me, view, carried)).collect();
        let mut group =
            Self { members, under_way: VecDeque::new(), sent: Vec::new(), entered: Vec::new() };
        for me in view.members() {
            let mut out = Outbox::default();
            group.members[me.0 as usize].start(LocalTime(0), &mut out);
            group.carry_out(me, out);
        }
        group
    }

    fn ask(&mut self, member: u32, command: Command) {
        self.feed(MemberId(member), Input::Command(command));
    }

    /// A member asks for something, and all that follows happens.
    fn command(&mut self, member: u32, command: Command) {
        self.ask(member, command);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((from, to, message)) = self.under_way.pop_front() {
            self.feed(to, Input::Message { from, message });
        }
    }

    fn feed(&mut self, member: MemberId, input: InputOf<Raymond>) {
        let mut out = Outbox::default();
        self.members[member.0 as usize].handle(LocalTime(0), input, &mut out);
        self.carry_out(member, out);
    }

    fn carry_out(&mut self, me: MemberId, mut out: OutboxOf<Raymond>) {
        for effect in out.drain() {
            let effect: EffectOf<Raymond> = effect;
            match effect {
                Effect::Send { to, message } => {
                    self.sent.push((me.0, to.0, message));
                    self.under_way.push_back((me, to, message));
                }
                Effect::Tell(event) => {
                    assert_eq!(event, Event::Entered);
                    self.entered.push(me.0);
                }
                Effect::Arm { .. } | Effect::Disarm(_) => unreachable!("no timers"),
            }
        }
    }
}

fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(size - 1) }
}

fn group(size: u32) -> Group {
    Group::new(size, &Carried::default())
}

fn ids<const N: usize>(ranks: [u32; N]) -> Vec<MemberId> {
    ranks.map(MemberId).to_vec()
}

use Message::{Privilege, Request};

#[test]
fn the_root_has_the_privilege_and_five_gets_it_along_the_tree() {
    let mut group = group(6);
    group.command(5, Command::Enter);
    assert_eq!(group.entered, [5]);
    assert_eq!(
        group.sent,
        [(5, 2, Request), (2, 0, Request), (0, 2, Privilege), (2, 5, Privilege)]
    );
}

#[test]
fn a_privilege_that_nobody_else_wants_stays_and_its_holder_enters_again_without_a_message() {
    let mut group = group(6);
    group.command(5, Command::Enter);
    group.sent.clear();
    for command in [Command::Exit, Command::Enter, Command::Exit] {
        group.command(5, command);
    }
    assert_eq!((group.entered.clone(), group.sent.len()), (vec![5, 5], 0));
    group.command(1, Command::Enter);
    assert_eq!(group.entered, [5, 5, 1]);
    assert_eq!(group.sent.len(), 6, "1, 0, 2, 5 and back");
}

#[test]
fn the_privilege_goes_on_with_a_request_behind_it_if_others_wait() {
    let mut group = group(3);
    for member in [0, 1, 2] {
        group.command(member, Command::Enter);
    }
    group.sent.clear();
    group.command(0, Command::Exit);
    assert_eq!(group.sent, [(0, 1, Privilege), (0, 1, Request)]);
    group.command(1, Command::Exit);
    assert_eq!(group.sent[2..], [(1, 0, Privilege), (0, 2, Privilege)]);
    assert_eq!(group.entered, [0, 1, 2]);
}

#[test]
fn the_order_is_that_of_arrival_at_each_member() {
    let mut group = group(7);
    for member in [0, 2, 5, 1, 6] {
        group.command(member, Command::Enter);
    }
    for member in [0, 2, 5, 6] {
        group.command(member, Command::Exit);
    }
    assert_eq!(group.entered, [0, 2, 5, 6, 1], "6 asked at 2 before 0 asked there for 1");
}

#[test]
fn a_member_that_gives_up_and_asks_again_goes_to_the_end_and_asks_once() {
    let mut group = group(7);
    group.command(0, Command::Enter);
    group.command(2, Command::Enter);
    group.command(5, Command::Enter);
    group.command(2, Command::Exit);
    group.command(2, Command::Enter);
    assert_eq!(group.sent, [(2, 0, Request), (5, 2, Request)]);
    group.command(0, Command::Exit);
    assert_eq!(group.entered, [0, 5], "5 has become the first at 2");
    group.command(5, Command::Exit);
    group.command(2, Command::Exit);
    assert_eq!(group.entered, [0, 5, 2]);
    assert_eq!(group.members[2].phase(), Phase::Idle);
}

#[test]
fn a_privilege_for_a_member_that_gave_up_comes_and_stays() {
    let mut group = group(6);
    group.ask(5, Command::Enter);
    group.ask(5, Command::Exit);
    group.settle();
    assert_eq!(group.entered, [0; 0]);
    assert!(group.members[5].has_token());
    group.sent.clear();
    group.command(5, Command::Enter);
    assert_eq!((group.entered.clone(), group.sent.len()), (vec![5], 0));
    group.command(5, Command::Exit);
    group.command(0, Command::Enter);
    assert_eq!(group.entered, [5, 0], "5 asks no less the next time");
}

#[test]
fn a_privilege_for_a_member_that_gave_up_goes_on_to_the_member_that_waits() {
    let mut group = group(7);
    group.command(0, Command::Enter);
    group.command(5, Command::Enter);
    group.command(1, Command::Enter);
    group.command(5, Command::Exit);
    group.command(0, Command::Exit);
    assert_eq!(group.entered, [0, 1]);
}

#[test]
fn a_member_that_waits_or_is_in_section_does_not_ask_again() {
    let mut group = group(3);
    for member in [1, 1, 2, 2] {
        group.command(member, Command::Enter);
    }
    assert_eq!(group.entered, [1]);
    assert_eq!(group.members[2].requests, ids([2]));
    group.command(1, Command::Exit);
    group.command(2, Command::Exit);
    assert_eq!((group.entered.clone(), group.members[1].phase()), (vec![1, 2], Phase::Idle));
}

#[test]
fn all_pointers_lead_to_the_privilege_in_every_view() {
    for size in 1..=16 {
        for begin in view(size).members() {
            let carried = Carried { holder: Some(begin), waiting: vec![] };
            for me in view(size).members() {
                let next = |member: &MemberId| Raymond::new(*member, view(size), &carried).holder;
                let path = std::iter::successors(Some(me), |at| Some(next(at)));
                let length = path.clone().take_while(|at| *at != begin).take(99).count();
                assert!(length <= 2 * size.ilog2() as usize, "{length} from {me} to {begin}");
            }
        }
    }
}

/// What a member takes for granted at the start of a view is what it would know, had the holder got
/// the privilege and the others asked after that, in their order.
#[test]
fn a_view_begins_as_if_all_that_waited_had_asked_in_their_order() {
    let cases = [(0, vec![]), (0, ids([6, 1])), (5, ids([6, 0, 2, 3])), (4, ids([5, 3, 1, 6, 0]))];
    for (holder, waiting) in cases {
        let mut group = group(7);
        group.command(holder, Command::Enter);
        for member in &waiting {
            group.command(member.0, Command::Enter);
        }
        let carried = Carried { holder: Some(MemberId(holder)), waiting };
        for member in &group.members {
            assert_eq!(*member, Raymond::new(member.me, member.view, &carried), "{carried:?}");
        }
    }
}

#[test]
fn without_a_holder_the_privilege_begins_with_the_first_that_waited() {
    let carried = Carried { holder: None, waiting: ids([2, 1, 0]) };
    let mut group = Group::new(3, &carried);
    assert_eq!((group.entered.clone(), group.sent.len()), (vec![2], 0));
    group.command(2, Command::Exit);
    group.command(1, Command::Exit);
    assert_eq!(group.entered, [2, 1, 0]);
}

#[test]
fn what_makes_no_sense_is_ignored() {
    let mut group = group(7);
    group.command(0, Command::Enter);
    group.command(1, Command::Enter);
    let before = group.members.clone();
    let nonsense = [
        (0, 2, Privilege), // which it did not ask for
        (3, 1, Privilege), // from elsewhere than the pointer leads
        (1, 0, Request),   // again
        (5, 0, Request),   // from no neighbour
        (0, 0, Request),
        (7, 3, Request), // from outside the view
        (9, 0, Privilege),
    ];
    for (from, to, message) in nonsense {
        group.feed(MemberId(to), Input::Message { from: MemberId(from), message });
        assert_eq!(group.members, before, "{message:?} of {from} to {to}");
    }
    assert_eq!((group.entered, group.sent.len()), (vec![0], 1));
}
