//! Who takes part in a simulated group: a pod, which drives its node as the group task does, and the
//! register.

mod around;

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::clock::{Params, Reading, VirtualClock};
use conclave_protocols::elections::DEFAULT;
use conclave_protocols::member::{Candidacy, Command, Member, Node, StatusEpoch};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::register;
use conclave_protocols::trace::{Log, Watch};
use conclave_protocols::{Epoch, Input, LocalTime, LockName, Named, Protocol};
use tokio::sync::{oneshot, watch};

use self::around::Around;
use super::register::Register;
use crate::claims::{Ask, Claim, ClaimId, ClaimState, Wait};
use crate::group::believers::Notified;
use crate::group::candidacies::Candidacies;
use crate::group::node::{Arrival, Moment, PodNode, Relations};
use crate::group::{ElectionError, ElectionRequest, Keepalive, NamedElections, Request, Stands};
use crate::metrics::LockMetrics;
use crate::wire::Payload;

/// Tells the claims of a run apart.
pub(super) type Number = u64;

pub(super) enum Place {
    Pod(Box<Pod>),
    Register(Box<Register>),
}

/// What an application, or a test, asks of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Call {
    Ask(Question),
    /// The same, and the caller has hung up by then.
    AskTooLate(Question),
    /// The same, and the caller hangs up while the node carries it out.
    AskUnheard(Question),
    Renew(Number),
    Release(Number),
    /// The caller hung up.
    HangUp(Number),
    Drain,
    /// Its application stands in that election, with that priority; by a `ttl` it has to repeat that.
    Stand(&'static str, i32, Option<Duration>),
    /// It stands no longer.
    Withdraw(&'static str),
    /// It gives the lead in that election up, and may name a pod.
    Resign(&'static str, Option<String>, Duration),
    /// It wants that pod to lead in that election.
    Transfer(&'static str, String),
    /// The group has another policy.
    Policy(Box<Policy>),
    /// Discovery finds these pods.
    Found(Vec<MemberInfo>),
    /// Its probes say this about the peers' raw clocks.
    Relations(Relations),
    /// The pod ends in order.
    End,
    /// Of the register: one call in so many has an unknown outcome; none if zero.
    Unsure(u64),
}

/// A claim that an application makes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Question {
    pub(super) number: Number,
    pub(super) lock: LockName,
    pub(super) named: bool,
    pub(super) limits: Limits,
    pub(super) ttl: Option<Duration>,
}

impl Question {
    fn ask(self) -> Ask {
        let claim = self.named.then(|| format!("claim-{}", self.number));
        Ask {
            claim: claim.map(|id| ClaimId::try_from(id).expect("letters and digits")),
            lock: self.lock,
            wait: self.limits.wait.map_or(Wait::Forever, Wait::For),
            ttl: self.ttl,
            max_hold: Some(self.limits.max_hold),
            owner: None,
            metadata: None,
        }
    }
}

/// How long a claim waits, and the longest that it holds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Limits {
    pub(super) wait: Option<Duration>,
    pub(super) max_hold: Duration,
}

/// What an application sees.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Seen {
    /// A claim stands so now.
    Claim(Number, Shows),
    /// A renewal was answered.
    Renewed(Number, bool),
    /// A release of a hold was answered.
    Released(Number, bool),
    Leads {
        epoch: Epoch,
        until: LocalTime,
    },
    LeadsNot,
    /// It leads so in the named election, or does not.
    Lead(Option<Lead>),
    /// What was asked about an election is done: this.
    Done(&'static str),
    View(Box<Record>),
    /// The group clock has another course.
    Adjusted,
    Left,
}

/// How a claim stands, as far as its application must know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Shows {
    Held {
        token: Option<u64>,
        epoch: Epoch,
        until: LocalTime,
        /// Else it is advisory.
        is_safe: bool,
    },
    Released,
    /// Why.
    Lost(&'static str),
    Refused,
}

/// A lead, as far as its application must know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Lead {
    pub(super) token: Option<u64>,
    pub(super) until: LocalTime,
    /// Else it is advisory.
    pub(super) is_safe: bool,
}

/// The one timer of a pod: the next of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Due;

/// What travels between them.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Parcel {
    /// Between pods.
    Payload(Payload),
    /// To and from the register.
    Register(register::Message),
}

impl Named for Parcel {
    fn name(&self) -> &'static str {
        match self {
            Self::Payload(payload) => payload.names().1,
            Self::Register(message) => message.name(),
        }
    }
}

pub(super) type Out = OutboxOf<Place>;

pub(super) struct Pod {
    node: PodNode,
    around: Around,
    open: BTreeMap<Number, (watch::Receiver<Claim>, Option<Shows>)>,
    ids: BTreeMap<Number, (LockName, ClaimId)>,
    elections: watch::Receiver<NamedElections>,
    lead: Option<Lead>,
    gone: bool,
}

/// The clocks of a pod's node when the pod begins.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    pub(super) rate_ppm: i32,
    /// What the clock that deadlines are counted by shows.
    pub(super) now: LocalTime,
    pub(super) utc: Duration,
}

impl Clocks {
    /// The wall clock less the raw clock. A wall clock is off by up to 20 ms.
    fn utc_offset(self, raw: RawClock) -> i64 {
        let utc = i64::try_from(self.utc.as_nanos()).expect("292 years");
        let raw = i64::try_from(raw.read(self.now).0).expect("292 years");
        utc + i64::from(self.rate_ppm) * 1_000 - raw
    }
}

/// By how many ppm a raw clock is off at most.
pub(super) const RAW_DRIFT_PPM: i64 = 15;

/// A clock with a rate error of its own, from one that is off by far more.
#[derive(Clone, Copy)]
struct RawClock {
    rate_ppm: i32,
}

impl RawClock {
    /// By how many ppm it is fast.
    fn ppm(self) -> i64 {
        i64::from(self.rate_ppm) % (RAW_DRIFT_PPM + 1)
    }

    fn read(self, now: LocalTime) -> LocalTime {
        let (own, far) =
            (1_000_000 + i128::from(self.ppm()), 1_000_000 + i128::from(self.rate_ppm));
        LocalTime(u64::try_from(i128::from(now.0) * own / far).unwrap_or(u64::MAX))
    }
}

impl Pod {
    pub(super) fn new(
        me: MemberInfo,
        policy: Policy,
        status: StatusEpoch,
        metrics: LockMetrics,
        (clocks, log): (Clocks, Log),
    ) -> Self {
        let rate_ppm = clocks.rate_ppm;
        let raw = RawClock { rate_ppm };
        let clock = VirtualClock::new(clocks.utc_offset(raw), Params::from(&policy.clock).rates());
        let map = clock.map();
        let shown = watch::Sender::default();
        let elections = shown.subscribe();
        let candidacies = Candidacies::new(&me.name, me.incarnation, shown, &[]);
        let node = PodNode::new(me, policy, status, metrics, clock, candidacies);
        let around = Around {
            watch: Watch::new(node.member(), rate_ppm, log),
            raw,
            map,
            leads: false,
            notified: Notified::default(),
            is_new: false,
            hangs_up: None,
            out: Out::default(),
        };
        let (open, ids) = (BTreeMap::new(), BTreeMap::new());
        Self { node, around, open, ids, elections, lead: None, gone: false }
    }

    pub(super) fn member(&self) -> &Member {
        self.node.member()
    }

    /// Whether its application was notified that it leads, and of no end of that.
    pub(super) fn leads(&self) -> bool {
        self.around.leads
    }

    pub(super) fn has_left(&self) -> bool {
        self.gone
    }

    /// What an application reads of the group clock when this pod's other clock shows that.
    pub(super) fn group_time(&self, now: LocalTime) -> Reading {
        self.around.map.reading(self.around.raw.read(now).0)
    }

    /// What its raw clock shows when its other clock shows that, and by how many ppm the raw clock is fast.
    pub(super) fn raw(&self, now: LocalTime) -> (u64, i64) {
        (self.around.raw.read(now).0, self.around.raw.ppm())
    }

    fn handle(&mut self, now: LocalTime, arrival: Arrival) {
        let at = Moment { now, raw: self.around.raw.read(now) };
        self.node.handle(at, arrival, &mut self.around);
        if std::mem::take(&mut self.around.is_new) {
            self.node.handle(at, Arrival::Notified, &mut self.around);
        }
    }

    fn request<T>(
        &mut self,
        now: LocalTime,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> T {
        let (reply, mut answer) = oneshot::channel();
        self.handle(now, Arrival::Request(request(reply)));
        answer.try_recv().expect("a node answers at once")
    }

    fn call(&mut self, now: LocalTime, call: Call) {
        match call {
            Call::Ask(question) => self.ask(now, question.number, question.ask()),
            Call::AskTooLate(question) => {
                let (reply, _) = oneshot::channel();
                self.handle(now, Arrival::Request(Request::Ask(question.ask(), reply)));
            }
            Call::AskUnheard(question) => {
                let (reply, answer) = oneshot::channel();
                self.around.hangs_up = Some(answer);
                self.handle(now, Arrival::Request(Request::Ask(question.ask(), reply)));
                assert!(self.around.hangs_up.is_none(), "the member was to do something");
            }
            Call::Renew(number) => {
                let Some((lock, id)) = self.ids.get(&number).cloned() else { return };
                let renewed = self.request(now, |reply| Request::Renew(lock, id, None, reply));
                self.around.out.tell(Seen::Renewed(number, renewed.is_ok()));
            }
            Call::Release(number) => {
                let Some((lock, id)) = self.ids.get(&number).cloned() else { return };
                let released = self.request(now, |reply| Request::Release(lock, id, reply));
                if released.is_ok() {
                    let still =
                        self.open.get(&number).and_then(|(claim, _)| shows(&claim.borrow()));
                    let is_held = matches!(still, Some(Shows::Held { .. }));
                    assert!(!is_held, "claim {number} is held after it was given back: {still:?}");
                }
                self.around.out.tell(Seen::Released(number, released.is_ok()));
            }
            Call::HangUp(number) => {
                let Some((lock, id)) = self.ids.get(&number).cloned() else { return };
                self.handle(now, Arrival::Request(Request::Abandon(lock, id)));
            }
            Call::Drain => self.handle(now, Arrival::Request(Request::Drain)),
            Call::Stand(election, priority, ttl) => {
                let candidacy = Candidacy { priority, ..Candidacy::default() };
                let keepalive = ttl.map_or(Keepalive::Sidecar, Keepalive::Client);
                let stands = Stands { candidacy, keepalive };
                let stand = |reply| ElectionRequest::Stand(stands, reply);
                self.about(now, election, "stand", stand);
            }
            Call::Withdraw(election) => {
                self.about(now, election, "withdraw", ElectionRequest::Withdraw);
            }
            Call::Resign(election, to, cooldown) => {
                let what = if election == DEFAULT { "resign" } else { "resign a lead" };
                let resign = |reply| ElectionRequest::Resign(to, cooldown, reply);
                self.about(now, election, what, resign);
            }
            Call::Transfer(election, to) => {
                let what = if election == DEFAULT { "transfer" } else { "transfer a lead" };
                self.about(now, election, what, |reply| ElectionRequest::Transfer(to, reply));
            }
            Call::Policy(policy) => {
                self.handle(now, Arrival::Command(Command::Policy(policy)));
            }
            Call::Found(pods) => self.handle(now, Arrival::Command(Command::Discovered(pods))),
            Call::Relations(relations) => self.handle(now, Arrival::Relations(relations)),
            Call::End => self.handle(now, Arrival::End),
            Call::Unsure(_) => {}
        }
    }

    fn about<T>(
        &mut self,
        now: LocalTime,
        election: &str,
        what: &'static str,
        request: impl FnOnce(oneshot::Sender<Result<T, ElectionError>>) -> ElectionRequest,
    ) {
        let name = election.to_owned();
        let done = self.request(now, |reply| Request::Election(name, request(reply)));
        if done.is_ok() {
            self.around.out.tell(Seen::Done(what));
        }
    }

    fn ask(&mut self, now: LocalTime, number: Number, ask: Ask) {
        let lock = ask.lock.clone();
        match self.request(now, |reply| Request::Ask(ask, reply)) {
            Ok(asked) => {
                let id = asked.claim.borrow().id.clone();
                self.ids.insert(number, (lock, id));
                self.open.insert(number, (asked.claim, None));
            }
            Err(_) => self.around.out.tell(Seen::Claim(number, Shows::Refused)),
        }
    }

    /// Its lead in the one election that has a name.
    fn lead(&self) -> Option<Lead> {
        let elections = self.elections.borrow();
        let election = elections.values().next()?.borrow();
        let token = election.token.map(conclave_protocols::FencingToken::get);
        let is_safe = election.arbiter == Arbiter::Quorum;
        Some(Lead { token, until: election.deadline()?, is_safe })
    }

    /// Shows applications what has changed, as polls and streams do, and sets the timer.
    fn after(&mut self, now: LocalTime, out: &mut Out) {
        let mut ended = Vec::new();
        for (number, (claim, shown)) in &mut self.open {
            let Some(shows) = shows(&claim.borrow()) else { continue };
            if *shown != Some(shows) {
                *shown = Some(shows);
                self.around.out.tell(Seen::Claim(*number, shows));
            }
            if !matches!(shows, Shows::Held { .. }) {
                ended.push(*number);
            }
        }
        for number in ended {
            self.open.remove(&number);
        }
        let lead = self.lead();
        if self.lead != lead {
            self.lead = lead;
            self.around.out.tell(Seen::Lead(lead));
        }
        *out = std::mem::take(&mut self.around.out);
        if self.node.has_left() {
            self.gone = true;
            out.tell(Seen::Left);
        }
        match self.node.next_due() {
            Some(at) => out.arm(Due, now.until(at)),
            None => out.disarm(Due),
        }
    }
}

fn shows(claim: &Claim) -> Option<Shows> {
    match &claim.state {
        ClaimState::Waiting { .. } => None,
        ClaimState::Held(held) => {
            let token = held.token.map(conclave_protocols::FencingToken::get);
            let is_safe = claim.arbiter == Arbiter::Quorum;
            Some(Shows::Held { token, epoch: held.epoch, until: held.safe_until, is_safe })
        }
        ClaimState::Released => Some(Shows::Released),
        ClaimState::Lost(reason) => Some(Shows::Lost(reason.name())),
        ClaimState::Refused(_) => Some(Shows::Refused),
    }
}

impl Protocol for Place {
    type Peer = Node;
    type Command = Call;
    type Message = Parcel;
    type Timer = Due;
    type Event = Seen;

    fn start(&mut self, now: LocalTime, out: &mut Out) {
        if let Self::Pod(pod) = self {
            let at = Moment { now, raw: pod.around.raw.read(now) };
            pod.node.start(at, &mut pod.around);
            pod.after(now, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut Out) {
        match self {
            Self::Pod(pod) if pod.gone => {}
            Self::Pod(pod) => {
                match input {
                    Input::Command(call) => pod.call(now, call),
                    Input::Message {
                        from: Node::Member(from),
                        message: Parcel::Payload(payload),
                    } => {
                        pod.handle(now, Arrival::Payload(from, payload));
                    }
                    Input::Message { message: Parcel::Register(answer), .. } => {
                        pod.handle(now, Arrival::Register(answer));
                    }
                    Input::Message { .. } => unreachable!("the register has no payloads"),
                    Input::Timer(Due) => pod.handle(now, Arrival::Nothing),
                }
                pod.after(now, out);
            }
            Self::Register(register) => match input {
                Input::Command(Call::Unsure(times)) => register.unsure = times,
                Input::Message { from, message: Parcel::Register(call) } => {
                    register.answer(from, &call, out);
                }
                Input::Message { .. } | Input::Command(_) | Input::Timer(_) => {}
            },
        }
    }
}
