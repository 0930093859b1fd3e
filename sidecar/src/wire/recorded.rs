//! Frames as each version wrote them, kept for ever: what was once sent must be read by every later
//! program, and written as it was.
//!
//! `UPDATE=1` adds the frames of new messages. It never changes one that is there.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use conclave_protocols::member::message::{
    ElectionMessage, ElectionState, Envelope, Heartbeat, Leave, LockMessage, LockNote, Metadata,
    OfElection, Promise, Seal, ServiceMessage,
};
use conclave_protocols::member::{Candidacy, Profile};
use conclave_protocols::mutex::central::{self, RequestNumber};
use conclave_protocols::mutex::{
    AnyMessage, lamport, maekawa, raymond, ricart_agrawala, token_ring, voting,
};
use conclave_protocols::{LamportTime, LocalTime, MemberId, election};

use self::values::{
    changes, hand_over, heartbeat, heartbeat_with_changes, known, lock, member, note, one, seal,
    token,
};
use super::*;

mod values;

/// The frames of every message and of every shape that it has, with the version that brought it.
fn frames() -> Vec<(u16, &'static str, Frame)> {
    let mut frames: Vec<_> =
        connecting().into_iter().map(|(name, frame)| (1, name, frame)).collect();
    for (number, (name, message)) in (1..).zip(messages()) {
        let since = message.since();
        frames.push((since, name, Frame::Data { number, payload: Payload::Member(message) }));
    }
    for (number, (name, message)) in (100..).zip(clocks()) {
        let payload = Payload::Clock { epoch: Epoch(12), message };
        frames.push((version::FIRST, name, Frame::Data { number, payload }));
    }
    frames
}

fn connecting() -> Vec<(&'static str, Frame)> {
    let hello =
        Hello { versions: (1, 1), group: 0x0c9d_8f1e, from: one(1), to: one(2), session: 3 };
    let relay = |by| Frame::Relay(Relay { by, to: one(2) });
    let no_relay = |why| Frame::Relayed(Err(why));
    let introduction = Introduction { group: 0x0c9d_8f1e, from: member(1), to: one(2).pod };
    vec![
        ("hello", Frame::Hello(hello)),
        ("welcome", Frame::Welcome { received: 300 }),
        ("reject-version", Frame::Reject(Rejection::Version)),
        ("reject-group", Frame::Reject(Rejection::Group)),
        ("reject-incarnation", Frame::Reject(Rejection::Incarnation)),
        ("reject-session", Frame::Reject(Rejection::Session)),
        ("ack", Frame::Ack { received: 300 }),
        ("introduce", Frame::Introduce(Box::new(introduction))),
        ("introduced", Frame::Introduced(Box::new(member(2)))),
        ("relay", relay(None)),
        ("relay-by-another", relay(Some(one(3)))),
        ("relayed", Frame::Relayed(Ok(()))),
        ("no-relay-topology", no_relay(NoRelay::Topology)),
        ("no-relay-unknown", no_relay(NoRelay::Unknown)),
        ("no-relay-unreachable", no_relay(NoRelay::Unreachable)),
        ("no-relay-crowded", no_relay(NoRelay::Crowded)),
    ]
}

fn messages() -> Vec<(&'static str, PeerMessage)> {
    let mut messages = leader_lease();
    messages.extend(elections());
    messages.extend(named_elections());
    messages.extend(locks());
    messages
}

fn leader_lease() -> Vec<(&'static str, PeerMessage)> {
    let promise = Promise {
        epoch: Epoch(12),
        seq: 7,
        stamp: LocalTime(5_000_000_000),
        changes: changes(),
        listed: 8,
        notes: vec![(lock(), note())],
        drains: true,
    };
    let leave = Leave { epoch: Epoch(12), holds: vec![(lock(), token())] };
    let at_rest = Heartbeat { list: None, extended: None, announcement: None, ..heartbeat() };
    let plain = Seal { list: None, hand_over: None, ..seal() };
    vec![
        ("join", PeerMessage::Join(Box::new(member(2)))),
        ("noted", PeerMessage::Noted),
        ("leave", PeerMessage::Leave(Box::new(leave))),
        ("leave-of-a-joiner", PeerMessage::Leave(Box::default())),
        ("heartbeat", PeerMessage::Heartbeat(Box::new(heartbeat()))),
        ("heartbeat-with-changes", PeerMessage::Heartbeat(Box::new(heartbeat_with_changes()))),
        ("heartbeat-at-rest", PeerMessage::Heartbeat(Box::new(at_rest))),
        ("promise", PeerMessage::Promise(Box::new(promise))),
        ("refusal", PeerMessage::Refusal { floor: Epoch(12) }),
        ("seal-request", PeerMessage::SealRequest { base: Epoch(12) }),
        ("seal", PeerMessage::Seal(Box::new(seal()))),
        ("seal-of-nothing", PeerMessage::Seal(Box::new(plain))),
        ("seal-refused", PeerMessage::SealRefused { base: Epoch(12) }),
        ("hand-over", PeerMessage::HandOver(Box::new(hand_over()))),
        ("taken", PeerMessage::Taken { epoch: Epoch(13) }),
    ]
}

fn elections() -> Vec<(&'static str, PeerMessage)> {
    use election::AnyMessage::{Bully, ChangRoberts, Ring};
    use election::chang_roberts;
    let living = vec![MemberId(0), MemberId(2)];
    let (leader, candidate) = (MemberId(2), MemberId(1));
    let asks = chang_roberts::Message::Inquiry { by: MemberId(0), leader: Some(leader) };
    let coordinator = election::ring::Message::Coordinator {
        leader,
        living: living.clone(),
        notified: living.clone(),
    };
    let inquiry = election::ring::Message::Inquiry { leader: Some(leader), asked: living.clone() };
    let sent = [
        ("bully-election", Bully(election::bully::Message::Election)),
        ("bully-answer", Bully(election::bully::Message::Answer)),
        ("bully-coordinator", Bully(election::bully::Message::Coordinator)),
        ("ring-election", Ring(election::ring::Message::Election { living })),
        ("ring-coordinator", Ring(coordinator)),
        ("ring-inquiry", Ring(inquiry)),
        ("ring-ack", Ring(election::ring::Message::Ack)),
        ("chang-roberts-election", ChangRoberts(chang_roberts::Message::Election { candidate })),
        ("chang-roberts-elected", ChangRoberts(chang_roberts::Message::Elected { leader })),
        ("chang-roberts-inquiry", ChangRoberts(asks)),
        ("chang-roberts-ack", ChangRoberts(chang_roberts::Message::Ack)),
    ];
    let epoch = Epoch(12);
    let all = sent.into_iter().chain(spanning_trees());
    all.map(|(name, message)| (name, PeerMessage::Nominator { epoch, message })).collect()
}

fn spanning_trees() -> [(&'static str, election::AnyMessage); 11] {
    use election::spanning_tree::{Answer, Best, Index, Message};
    let of = Index { wide: false, number: 4, source: MemberId(1) };
    let by = Index { wide: true, number: 5, source: MemberId(0) };
    let (best, leader) = (Best { capacity: 8, member: MemberId(2) }, MemberId(2));
    let reply = |sent| Message::Reply { of, sent };
    [
        ("spanning-tree-election", Message::Election { of }),
        ("spanning-tree-not-child", Message::NotChild { of }),
        ("spanning-tree-report", Message::Report { of, best }),
        ("spanning-tree-leader", Message::Leader { of, leader }),
        ("spanning-tree-probe", Message::Probe { of, reported: None }),
        ("spanning-tree-probe-of-a-child", Message::Probe { of, reported: Some(best) }),
        ("spanning-tree-reply", reply(None)),
        ("spanning-tree-reply-not-child", reply(Some(Answer::NotChild))),
        ("spanning-tree-reply-report", reply(Some(Answer::Report(best)))),
        ("spanning-tree-reply-leader", reply(Some(Answer::Leader(leader)))),
        ("spanning-tree-outdated", Message::Outdated { of, by }),
    ]
    .map(|(name, message)| (name, election::AnyMessage::SpanningTree(message)))
}

fn locks() -> Vec<(&'static str, PeerMessage)> {
    use AnyMessage::{
        Central, Lamport, Maekawa, Raymond, RicartAgrawala, Superpeers, TokenRing, Voting,
    };
    let number = RequestNumber(4);
    let at = LamportTime::at(4);
    let (request, highest) = (at, LamportTime::at(6));
    let (lap, pause) = (token_ring::Lap::default(), Duration::from_millis(100));
    let attempt = voting::AttemptNumber(4);
    let sent = [
        ("central-request", Central(central::Message::Request(number))),
        ("central-queued", Central(central::Message::Queued(number))),
        ("central-grant", Central(central::Message::Grant(number))),
        ("central-release", Central(central::Message::Release(number))),
        ("central-wanted", Central(central::Message::Wanted(number))),
        ("central-in-use", Central(central::Message::InUse(number))),
        ("token", TokenRing(token_ring::Message::Token(lap))),
        ("idle-token", TokenRing(token_ring::Message::IdleToken { lap, pause })),
        ("wake", TokenRing(token_ring::Message::Wake(lap))),
        ("raymond-request", Raymond(raymond::Message::Request)),
        ("raymond-privilege", Raymond(raymond::Message::Privilege)),
        ("lamport-request", Lamport(lamport::Message::Request(at))),
        ("lamport-acknowledgment", Lamport(lamport::Message::Acknowledgment(at))),
        ("lamport-release", Lamport(lamport::Message::Release(at))),
        ("ricart-agrawala-request", RicartAgrawala(ricart_agrawala::Message::Request(at))),
        ("ricart-agrawala-reply", RicartAgrawala(ricart_agrawala::Message::Reply(at))),
        ("ricart-agrawala-queued", RicartAgrawala(ricart_agrawala::Message::Queued(at))),
        ("maekawa-request", Maekawa(maekawa::Message::Request(at))),
        ("maekawa-locked", Maekawa(maekawa::Message::Locked { request, highest })),
        ("maekawa-failed", Maekawa(maekawa::Message::Failed(at))),
        ("maekawa-inquire", Maekawa(maekawa::Message::Inquire(at))),
        ("maekawa-relinquish", Maekawa(maekawa::Message::Relinquish(at))),
        ("maekawa-release", Maekawa(maekawa::Message::Release(at))),
        ("voting-request", Voting(voting::Message::Request(attempt))),
        ("voting-grant", Voting(voting::Message::Grant(attempt))),
        ("voting-deny", Voting(voting::Message::Deny(attempt))),
        ("voting-release", Voting(voting::Message::Release(attempt))),
        ("superpeers-request", Superpeers(central::Message::Request(number))),
        ("superpeers-queued", Superpeers(central::Message::Queued(number))),
        ("superpeers-grant", Superpeers(central::Message::Grant(number))),
        ("superpeers-release", Superpeers(central::Message::Release(number))),
        ("superpeers-wanted", Superpeers(central::Message::Wanted(number))),
        ("superpeers-in-use", Superpeers(central::Message::InUse(number))),
    ];
    let message = |message| LockMessage {
        lock: lock(),
        highest: token(),
        note: Some(Box::new(LockNote {
            member: one(1),
            note: note(),
            token: Some(token()),
            held: Duration::from_secs(2),
        })),
        message,
    };
    let envelope = |sent| {
        let body = ServiceMessage::Lock(message(sent));
        Envelope { epoch: Epoch(12), number: 300, body }
    };
    sent.map(|(name, sent)| (name, PeerMessage::Service(Box::new(envelope(sent))))).into()
}

fn named_elections() -> Vec<(&'static str, PeerMessage)> {
    let call = OfElection::Call { ballot: 3, candidates: vec![MemberId(2), MemberId(0)] };
    let asks = election::AnyMessage::Bully(election::bully::Message::Election);
    let metadata = Some(Metadata::from(r#"{"zone":"a"}"#.to_owned()));
    let profile = Profile { address: Some("10.0.0.2:80".to_owned()), metadata };
    let candidates = vec![(MemberId(0), 3)];
    let state = ElectionState { leader: Some(MemberId(2)), profile: profile.clone(), candidates };
    let sent = [
        ("election-stand", OfElection::Stand(Candidacy { priority: -1, profile })),
        ("election-withdraw", OfElection::Withdraw),
        ("election-call", call),
        ("election-nominate", OfElection::Nominate { ballot: 3, message: asks }),
        ("election-state", OfElection::State { number: 2, state }),
        ("election-known", OfElection::Known(2)),
        ("election-transfer", OfElection::Transfer(MemberId(1))),
        ("election-hand-over", OfElection::HandOver),
    ];
    let envelope = |what| {
        let body = ServiceMessage::Election(ElectionMessage { name: lock(), what });
        Envelope { epoch: Epoch(12), number: 300, body }
    };
    sent.map(|(name, what)| (name, PeerMessage::Service(Box::new(envelope(what))))).into()
}

fn clocks() -> Vec<(&'static str, clock::AnyMessage)> {
    use clock::{berkeley, cristian, ntp};

    let (round, attempt, reading_ns) = (7, 8, -1_500);
    let (stamp, error_ns) = (LocalTime(5_000_000_000), Some(800));
    let correction = clock::Correction { delta_ns: -250, ahead_ns: 40, error_ns: 900 };
    let system = ntp::System {
        stratum: 2,
        reference: Some(MemberId(1)),
        root_delay_ns: 300,
        root_dispersion_ns: 40,
    };
    let reply = ntp::Reply {
        origin: LocalTime(4_000_000_000),
        receive_ns: reading_ns,
        transmit_ns: -1_400,
        stamp,
        system,
        error_ns,
    };
    let known = Some(Box::new(known()));
    let adjust =
        berkeley::Message::Adjust { round, correction, half_trip_ns: 60, known: known.clone() };
    let request =
        cristian::Message::Request { attempt, origin: Some(stamp), wants: clock::Wants::Nothing };
    let answered =
        cristian::Message::Reply { attempt, stamp, time_ns: reading_ns, error_ns, known };
    let client =
        ntp::Message::Client { origin: None, transmit: stamp, wants: clock::Wants::GroupTime };
    let of_berkeley = clock::AnyMessage::Berkeley;
    vec![
        (
            "clock-poll",
            of_berkeley(berkeley::Message::Poll { round, wants: clock::Wants::Nothing }),
        ),
        ("clock-answer", of_berkeley(berkeley::Message::Answer { round, reading_ns, error_ns })),
        ("clock-adjust", of_berkeley(adjust)),
        ("clock-request", clock::AnyMessage::Cristian(request)),
        ("clock-reply", clock::AnyMessage::Cristian(answered)),
        ("clock-client", clock::AnyMessage::Ntp(client)),
        ("clock-server", clock::AnyMessage::Ntp(ntp::Message::Server(reply, None))),
    ]
}

fn path(version: u16) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/wire/recorded");
    directory.join(format!("version-{version}.txt"))
}

/// What a version wrote: names, and frames in hexadecimal digits.
fn recorded(version: u16) -> Vec<(String, Vec<u8>)> {
    let text = fs::read_to_string(path(version)).unwrap_or_default();
    let line = |line: &str| {
        let (name, digits) = line.split_once(' ').expect("a name and a frame");
        let byte = |place| u8::from_str_radix(&digits[place..place + 2], 16).expect("two digits");
        (name.to_owned(), (0..digits.len()).step_by(2).map(byte).collect())
    };
    text.lines().map(line).collect()
}

fn add(version: u16, name: &str, bytes: &[u8]) {
    let mut text = fs::read_to_string(path(version)).unwrap_or_default();
    write!(text, "{name} ").expect("a string");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string");
    }
    text.push('\n');
    fs::write(path(version), text).expect("the sources can be written");
}

#[test]
fn every_message_is_written_as_the_version_that_brought_it_wrote_it() {
    for (version, name, frame) in frames() {
        let bytes = frame.encode();
        let known = recorded(version).into_iter().find(|(other, _)| other == name);
        if known.is_none() && env::var_os("UPDATE").is_some() {
            add(version, name, &bytes);
            continue;
        }
        let (_, known) = known.unwrap_or_else(|| panic!("{name} is not recorded: UPDATE=1"));
        assert_eq!(*bytes, *known, "{name} is no longer written as version {version} wrote it");
    }
}

/// Where the number of a member's message stands in a frame: after the layout, the kind of the frame,
/// a small number and the kind of the payload.
const NUMBER: usize = 4;

#[test]
fn no_message_is_without_a_record() {
    let begin = [LAYOUT, 3, 0, 0];
    let numbers: BTreeSet<u8> = frames()
        .iter()
        .filter(|(_, _, frame)| matches!(frame, Frame::Data { payload: Payload::Member(_), .. }))
        .map(|(_, _, frame)| frame.encode()[NUMBER])
        .collect();
    let next = u8::try_from(numbers.len()).expect("few");
    assert!(numbers.into_iter().eq(0..next), "a number without a message");
    // The message of the next version stands for all that is not known here.
    let unknown: Vec<u8> = begin.into_iter().chain([next + 1]).chain([0; 256]).collect();
    let read = Frame::decode(&unknown);
    assert!(matches!(read, Err(FrameError::Malformed(_))), "no record of the like of {read:?}");
}

#[test]
fn every_frame_of_a_version_that_is_spoken_is_read() {
    for version in version::FIRST..=version::LATEST {
        let recorded = recorded(version);
        assert!(!recorded.is_empty(), "version {version} has no frames");
        for (name, bytes) in recorded {
            let frame = Frame::decode(&bytes).expect(&name);
            assert_eq!(*frame.encode(), *bytes, "{name}");
        }
    }
}

#[test]
fn a_message_of_a_version_that_is_not_spoken_is_refused() {
    let message = PeerMessage::NextHeartbeat(Box::new(heartbeat()));
    let bytes = Frame::Data { number: 1, payload: Payload::Member(message) }.encode();
    match Frame::decode(&bytes) {
        Ok(_) if version::NEXT <= HIGHEST => {}
        Err(FrameError::Version(version::NEXT)) if version::NEXT > HIGHEST => {}
        other => panic!("{other:?}"),
    }
}
