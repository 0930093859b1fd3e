//! The inputs where the engine begins.

use std::path::{Path, PathBuf};
use std::{fs, io};

use bytes::Bytes;
use conclave_protocols::election::{self, chang_roberts, spanning_tree};
use conclave_protocols::member::message::{
    Admission, Announced, Announcement, ElectionMessage, Envelope, Heartbeat, LeaderList, Leave,
    LockMessage, MemberChanges, OfElection, PeerMessage, ServiceMessage, Table,
};
use conclave_protocols::mutex::{AnyMessage, ricart_agrawala};
use conclave_protocols::policy::{Policy, Timing};
use conclave_protocols::record::{RECORD_VERSION, Record};
use conclave_protocols::{Epoch, FencingToken, LamportTime, MemberId};
use conclave_sidecar::fuzzing::{data, framed, greeting, relay, sealed};
use conclave_sidecar::wire::Payload;

use crate::frame::member;

/// Where those of a target are.
pub fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target)
}

/// Those of a target, by name.
pub fn of(target: &str) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut seeds = Vec::new();
    for entry in fs::read_dir(directory(target))? {
        let path = entry?.path();
        let seed = fs::read(&path)?;
        seeds.push((path, seed));
    }
    seeds.sort();
    Ok(seeds)
}

/// Those that are made from our own types: target, name, content.
pub fn made() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let record = serde_json::to_vec(&record()).expect("a record is JSON");
    let mut made = vec![
        ("beacon", "first", sealed(false)),
        ("beacon", "later", sealed(true)),
        ("lease", "view.json", record),
        ("handshake", "introduction", greeting(true).to_vec()),
        ("handshake", "relay", relay().to_vec()),
    ];
    let mut conversation = greeting(false).to_vec();
    for (number, (name, message)) in (1..).zip(messages()) {
        let frame: Bytes = data(number, Payload::Member(message));
        conversation.extend(framed(frame.clone()));
        made.push(("frame", name, frame.to_vec()));
    }
    made.push(("handshake", "conversation", conversation));
    made
}

fn messages() -> Vec<(&'static str, PeerMessage)> {
    let announcement =
        Announcement { record: Announced::Whole(record()), carried: Table::default() };
    let heartbeat = Heartbeat {
        epoch: Epoch(12),
        seq: 1,
        admission: Admission { open: true, ceiling: Epoch(15), full: false },
        listed: 0,
        list: Some(LeaderList::default()),
        extended: None,
        announcement: Some(Box::new(announcement)),
    };
    let members = MemberChanges { gone: vec![MemberId(1)], joins: vec![member(2)], digest: 7 };
    let record = Announced::Changes { record: Record { members: vec![], ..record() }, members };
    let announcement = Announcement { record, carried: Table::default() };
    let changes = Heartbeat { announcement: Some(Box::new(announcement)), ..heartbeat.clone() };
    vec![
        ("heartbeat", PeerMessage::Heartbeat(Box::new(heartbeat))),
        ("heartbeat-with-changes", PeerMessage::Heartbeat(Box::new(changes))),
        ("join", PeerMessage::Join(Box::new(member(2)))),
        ("leave", PeerMessage::Leave(Box::new(leave()))),
        ("refusal", PeerMessage::Refusal { floor: Epoch(12) }),
        ("seal-request", PeerMessage::SealRequest { base: Epoch(12) }),
        ("taken", PeerMessage::Taken { epoch: Epoch(13) }),
        ("lock", PeerMessage::Service(Box::new(lock()))),
        ("call", PeerMessage::Service(Box::new(call()))),
        ("nominate", PeerMessage::Nominator { epoch: Epoch(12), message: inquiry() }),
        ("nominate-by-a-tree", PeerMessage::Nominator { epoch: Epoch(12), message: report() }),
    ]
}

fn leave() -> Leave {
    let lock = "orders".to_owned().try_into().expect("a good name");
    Leave { epoch: Epoch(12), holds: vec![(lock, FencingToken::before(Epoch(12)))] }
}

fn call() -> Envelope<ServiceMessage> {
    let name = "election/reports".to_owned().try_into().expect("a good name");
    let what = OfElection::Call { ballot: 1, candidates: vec![MemberId(1), MemberId(0)] };
    let body = ServiceMessage::Election(ElectionMessage { name, what });
    Envelope { epoch: Epoch(12), number: 2, body }
}

fn inquiry() -> election::AnyMessage {
    let (by, leader) = (MemberId(0), Some(MemberId(1)));
    election::AnyMessage::ChangRoberts(chang_roberts::Message::Inquiry { by, leader })
}

fn report() -> election::AnyMessage {
    let of = spanning_tree::Index { wide: false, number: 1, source: MemberId(0) };
    let best = spanning_tree::Best { capacity: 8, member: MemberId(1) };
    election::AnyMessage::SpanningTree(spanning_tree::Message::Report { of, best })
}

fn lock() -> Envelope<ServiceMessage> {
    let request = ricart_agrawala::Message::Request(LamportTime::at(4));
    let body = LockMessage {
        lock: "orders".to_owned().try_into().expect("a good name"),
        highest: FencingToken::before(Epoch(12)),
        note: None,
        message: AnyMessage::RicartAgrawala(request),
    };
    Envelope { epoch: Epoch(12), number: 1, body: ServiceMessage::Lock(body) }
}

fn record() -> Record {
    let members = vec![member(1), member(2)];
    Record {
        version: RECORD_VERSION,
        epoch: Epoch(12),
        ceiling: Epoch(15),
        leader: members.last().map(|member| member.incarnation),
        members,
        settled: true,
        closing: false,
        base_unknown: false,
        base: Some(Epoch(1)),
        held: None,
        timing: Timing::default(),
        longest_leader_lease: Timing::default().leader_lease,
        policy: Policy::default(),
        nonce: 7,
    }
}
