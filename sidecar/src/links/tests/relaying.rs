//! Members that do not reach each other, and the gateways between them.

mod ways;

use std::time::{Duration, SystemTime};

use conclave_protocols::policy::{Policy, Topology};
use conclave_protocols::record::Record;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsStream;
use tokio_util::codec::Framed;

use super::stranger::{Stranger, hears, sends};
use super::*;
use crate::group::sample;
use crate::identity::tests::{PATIENCE, bundle_of, certified};
use crate::links::crowd::{Crowd, RELAYS};
use crate::links::relays::{alone, pass_on};
use crate::links::secure::{self, Connection};
use crate::wire::{Frame, NoRelay, Relay};

/// Two zones of three. The first two of each are its gateways.
struct Zones {
    authority: LocalAuthority,
    members: Vec<Process>,
    /// They keep the ports where nobody listens from others.
    silent: Vec<TcpSocket>,
}

const SPEAKER: usize = 2;
const LISTENER: usize = 5;

/// The gateways of the speaker's zone, and of the listener's.
const NEAR: [usize; 2] = [0, 1];
const FAR: [usize; 2] = [3, 4];

impl Zones {
    async fn new() -> Self {
        Self::of(authority(), |_| None).await
    }

    /// Some of them with credentials of their own.
    async fn of(
        authority: LocalAuthority,
        other: impl Fn(usize) -> Option<Arc<Credentials>>,
    ) -> Self {
        let mut members = Vec::new();
        for (pod, zone) in (1..).zip(["a", "a", "a", "b", "b", "b"]) {
            let credentials = other(members.len());
            let credentials = credentials.unwrap_or_else(|| of_pod(pod, &authority, &[&authority]));
            members.push(process_in(Some(zone), pod, Some(credentials)).await);
        }
        let infos: Vec<MemberInfo> = members.iter().map(|member| member.info.clone()).collect();
        let view = view(&infos);
        for member in &mut members {
            for info in &infos {
                member.links.meet(info);
            }
            member.links.go_by(&view);
        }
        Self { authority, members, silent: Vec::new() }
    }

    /// From now on one has another address of the other.
    fn misleads(&mut self, one: usize, other: usize, address: SocketAddr) {
        let info = self.members[other].info.clone();
        self.members[one].links.meet(&MemberInfo { addresses: vec![address], ..info });
    }

    /// From now on one does not reach the other.
    fn parts(&mut self, one: usize, other: usize) {
        let silent = TcpSocket::new_v4().expect("a socket");
        silent.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        self.misleads(one, other, silent.local_addr().expect("it is bound"));
        self.silent.push(silent);
    }

    /// Sends something to the listener, and waits until it is heard.
    async fn speaks(&mut self, from: usize) {
        self.sends(from, LISTENER);
        let heard = self.members[LISTENER].hears().await;
        assert_eq!(heard, self.incarnation(from));
    }

    fn sends(&mut self, from: usize, to: usize) {
        let to = self.incarnation(to);
        let leave = Payload::Member(PeerMessage::Leave(Box::default()));
        self.members[from].links.send(to, leave);
    }

    fn is_open(&self, from: usize, to: usize) -> bool {
        self.members[from].links.is_open(self.incarnation(to))
    }

    /// The gateway near the speaker that passes on for it, once no other does that lost a race.
    async fn passes_on(&self) -> usize {
        let near = || NEAR.into_iter().filter(|one| self.relays()[*one] > 0);
        until("one passes on", || near().count() == 1).await;
        near().next().expect("one does")
    }

    /// Waits until so many relays are left.
    async fn relay(&self, many: i64) {
        until("others lost the race", || self.relays().iter().sum::<i64>() == many).await;
    }

    fn relayed(&self, by: usize) -> u64 {
        self.members[by].local.metrics.peers.relayed.get()
    }

    fn relays(&self) -> Vec<i64> {
        self.members.iter().map(|one| one.local.metrics.peers.relays.get()).collect()
    }

    fn incarnation(&self, member: usize) -> Incarnation {
        self.members[member].info.incarnation
    }

    /// Asks a gateway as the speaker would.
    async fn asks(&self, gateway: usize, relay: Relay) -> Option<Frame> {
        let pod = self.incarnation(SPEAKER).pod.0;
        let speaker = Stranger::new(certified(&self.authority, &id(GROUP, pod), |_| {}));
        let answer = sends(&speaker.connector(), &self.members[gateway], Frame::Relay(relay)).await;
        answer.map(|(frame, _)| frame)
    }
}

fn view(members: &[MemberInfo]) -> Record {
    let policy = Policy { topology: Topology::Zones, ..Policy::default() };
    Record { policy, ..sample::view(members.to_vec()) }
}

#[tokio::test]
async fn a_member_is_reached_through_one_gateway_and_through_two() {
    let mut zones = Zones::new().await;
    zones.speaks(SPEAKER).await;
    assert_eq!((zones.relayed(SPEAKER), zones.relays()), (0, vec![0; 6]), "directly");

    let mut zones = Zones::new().await;
    zones.parts(NEAR[0], LISTENER);
    zones.speaks(NEAR[0]).await;
    assert_eq!(zones.relayed(NEAR[0]), 1);
    zones.relay(1).await;
    assert!(zones.members[NEAR[0]].links.has_key(zones.incarnation(LISTENER)), "of both ends");

    zones.parts(SPEAKER, LISTENER);
    zones.speaks(SPEAKER).await;
    assert_eq!(zones.relayed(SPEAKER), 1);
    zones.relay(3).await;
    for _ in 0..100 {
        zones.speaks(SPEAKER).await;
    }
    assert_eq!(zones.relayed(SPEAKER), 1, "on one connection");
}

#[tokio::test]
async fn a_link_ends_with_the_certificate_of_the_gateway_that_passes_it_on() {
    let authority = authority();
    let bundle = bundle_of(&[&authority]);
    let brief = |member: usize| {
        let me = id(GROUP, member as u128 + 1);
        let (key, certificate) = certified(&authority, &me, |params| {
            params.not_after = (SystemTime::now() + Duration::from_secs(3)).into();
        });
        let credentials = Credentials::new(me.group, me.pod, &key, &certificate, bundle.clone());
        NEAR.contains(&member).then(|| Arc::new(credentials.expect("credentials")))
    };
    let credentials: Vec<_> = (0..6).map(brief).collect();
    let mut zones = Zones::of(authority, |member| credentials[member].clone()).await;
    zones.parts(SPEAKER, FAR[0]);
    zones.sends(SPEAKER, FAR[0]);
    zones.members[FAR[0]].hears().await;
    assert_eq!(zones.relayed(SPEAKER), 1);
    until("the end", || !zones.is_open(SPEAKER, FAR[0])).await;
}

#[tokio::test]
async fn nothing_is_passed_on_for_a_stranger() {
    let zones = Zones::new().await;
    let (gateway, to) = (&zones.members[NEAR[0]], zones.incarnation(LISTENER));
    let foreign = authority();
    let relay = || Frame::Relay(Relay { by: None, to });
    for (authority, group, reason) in
        [(&zones.authority, GROUP + 1, "group"), (&foreign, GROUP, "certificate")]
    {
        let stranger = Stranger::new(certified(authority, &id(group, 3), |_| {}));
        let answer = sends(&stranger.connector(), gateway, relay()).await.map(|(frame, _)| frame);
        assert!(answer.is_none(), "{answer:?}");
        until("counted", || gateway.failures(reason) == 1).await;
    }
    assert!(matches!(
        zones.asks(NEAR[0], Relay { by: None, to }).await,
        Some(Frame::Relayed(Ok(())))
    ));
}

#[tokio::test]
async fn a_gateway_says_why_it_passes_nothing_on() {
    let mut zones = Zones::new().await;
    let unknown = Incarnation { pod: PodUid(77), run: 1 };
    let earlier = Incarnation { run: 0, ..zones.incarnation(LISTENER) };
    let (to, far) = (zones.incarnation(LISTENER), zones.incarnation(FAR[0]));
    zones.parts(NEAR[0], LISTENER);
    zones.parts(FAR[0], LISTENER);
    for (by, to, why) in [
        (None, unknown, NoRelay::Unknown),
        (None, earlier, NoRelay::Unknown),
        (Some(unknown), to, NoRelay::Unknown),
        (Some(far), unknown, NoRelay::Unknown),
        (None, to, NoRelay::Unreachable),
        (Some(far), to, NoRelay::Unreachable),
    ] {
        let answer = zones.asks(NEAR[0], Relay { by, to }).await;
        let Some(Frame::Relayed(Err(answer))) = answer else { panic!("{answer:?}, not {why}") };
        assert_eq!(answer, why, "{by:?}, {to}");
    }
    let apart = BTreeSet::from([zones.incarnation(FAR[1]).pod]);
    zones.members[NEAR[0]].apart.send_replace(apart);
    let answer = zones.asks(NEAR[0], Relay { by: Some(zones.incarnation(FAR[1])), to }).await;
    assert!(matches!(answer, Some(Frame::Relayed(Err(NoRelay::Unreachable)))), "{answer:?}");
    let mesh = Record { policy: Policy::default(), nonce: 1, ..view(&[]) };
    zones.members[FAR[1]].links.go_by(&mesh);
    let answer = zones.asks(FAR[1], Relay { by: None, to }).await;
    assert!(matches!(answer, Some(Frame::Relayed(Err(NoRelay::Topology)))), "{answer:?}");
    assert_eq!(zones.relays(), [0; 6]);
}

/// A member may state any address as its own. What listens there is sent the beginning of a handshake, and nothing of what
/// is to be passed on.
#[tokio::test]
async fn nothing_is_passed_on_to_a_process_that_is_not_the_member_that_is_meant() {
    let mut zones = Zones::new().await;
    let relay = Relay { by: None, to: zones.incarnation(LISTENER) };
    let service = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    zones.misleads(FAR[0], LISTENER, service.local_addr().expect("it is bound"));
    let served = tokio::spawn(async move {
        let (mut stream, _) = service.accept().await.expect("a connection");
        let mut heard = vec![0; 4096];
        let read = stream.read(&mut heard).await.expect("something");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("it is answered");
        let more = stream.read_to_end(&mut Vec::new()).await.unwrap_or(0);
        (heard[0], read, more)
    });
    let answer = zones.asks(FAR[0], relay).await;
    assert!(matches!(answer, Some(Frame::Relayed(Err(NoRelay::Unreachable)))), "{answer:?}");
    let (first, read, more) = served.await.expect("no panic");
    assert!(first == 22 && read > 100, "the beginning of a handshake");
    assert!(more < 100, "an alert, and not {more} bytes");

    let another = zones.members[NEAR[0]].address();
    zones.misleads(FAR[0], LISTENER, another);
    let answer = zones.asks(FAR[0], relay).await;
    assert!(matches!(answer, Some(Frame::Relayed(Err(NoRelay::Unreachable)))), "{answer:?}");
}

#[tokio::test]
async fn a_gateway_passes_on_so_many_at_a_time() {
    let zones = Zones::new().await;
    let crowd = Crowd::new();
    let mut places: Vec<_> = (0..RELAYS).map(|_| crowd.relay().expect("a place")).collect();
    for is_full in [true, false] {
        let (ours, theirs) = tokio::io::duplex(1024);
        let pod = zones.incarnation(SPEAKER).pod;
        let connection = Connection::of(ours, pod, Duration::from_mins(1));
        let relay = Relay { by: None, to: zones.incarnation(LISTENER) };
        let (local, crowd) = (zones.members[NEAR[0]].local.clone(), crowd.clone());
        tokio::spawn(async move { pass_on(&local, connection, relay, &crowd).await });
        let answer = Framed::new(theirs, wire::codec()).next().await.expect("an answer");
        let answer = Frame::decode(&answer.expect("a frame")).expect("a frame");
        let refused = matches!(answer, Frame::Relayed(Err(NoRelay::Crowded)));
        assert_eq!(refused, is_full, "{answer:?}");
        places.pop();
    }
    assert_eq!(zones.members[NEAR[0]].failures("crowded"), 1);
}

/// What ends a relay.
#[derive(Clone, Copy, Debug)]
enum Ender {
    Speaker,
    Listener,
    CutFromSpeaker,
    CutFromListener,
    Gateway,
    Certificate,
}

#[tokio::test]
async fn a_relay_ends_with_either_end_and_with_the_gateway() {
    use Ender::{Certificate, CutFromListener, CutFromSpeaker, Gateway, Listener, Speaker};
    for ender in [Speaker, Listener, CutFromSpeaker, CutFromListener, Gateway, Certificate] {
        let mut zones = Zones::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        zones.misleads(NEAR[0], LISTENER, address);
        let (speaker, to) = (zones.incarnation(SPEAKER).pod, zones.incarnation(LISTENER));
        let shown = certified(&zones.authority, &id(GROUP, speaker.0), |params| {
            if let Certificate = ender {
                params.not_after = (SystemTime::now() + Duration::from_secs(3)).into();
            }
        });
        let gateway = &zones.members[NEAR[0]];
        let relay = Frame::Relay(Relay { by: None, to });
        let stranger = Stranger::new(shown).connector();
        let heard = taken(&zones.members[LISTENER].local, &listener);
        let (answer, stream) = tokio::join!(sends(&stranger, gateway, relay), heard);
        let Some((Frame::Relayed(Ok(())), mut frames)) = answer else { panic!("{ender:?}") };
        let (mut stream, mut frames) = (Some(stream), {
            frames.send(bytes::Bytes::from_static(b"word")).await.expect("sent");
            Some(frames)
        });
        let mut passed = [0; 8];
        stream.as_mut().expect("it is open").read_exact(&mut passed).await.expect("passed on");
        assert_eq!(&passed, b"\0\0\0\x04word", "{ender:?}");
        assert_eq!(gateway.local.metrics.peers.relays.get(), 1, "{ender:?}");
        match ender {
            Speaker => drop(frames.take()),
            Listener => drop(stream.take()),
            CutFromSpeaker => _ = gateway.apart.send_replace(BTreeSet::from([speaker])),
            CutFromListener => _ = gateway.apart.send_replace(BTreeSet::from([to.pod])),
            Gateway => gateway.local.end.cancel(),
            Certificate => {}
        }
        if let Some(frames) = &mut frames {
            assert!(hears(frames).await.is_none(), "{ender:?}");
        }
        if let Some(stream) = &mut stream {
            assert_eq!(rest(stream).await, 0, "{ender:?}");
        }
        until("counted", || gateway.local.metrics.peers.relays.get() == 0).await;
    }
}

/// What a gateway passes on to a member, which is asked to take it.
async fn taken(local: &Local, listener: &TcpListener) -> TlsStream<TcpStream> {
    let (stream, _) = listener.accept().await.expect("it is connected to");
    let mut gateway = secure::accept(local, stream).await.expect("a member");
    let asked = gateway.frames.next().await.expect("it goes on").expect("a frame");
    assert!(matches!(Frame::decode(&asked), Ok(Frame::Relay(Relay { by: None, .. }))));
    gateway.frames.send(Frame::Relayed(Ok(())).encode()).await.expect("it is answered");
    alone(gateway).expect("nothing more")
}

/// How many more bytes come up to the end.
async fn rest(stream: &mut TlsStream<TcpStream>) -> usize {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    read.expect("it ends").unwrap_or(0)
}

#[tokio::test]
async fn a_gateway_cannot_pose_as_the_other_end() {
    let mut zones = Zones::new().await;
    let impostor = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    zones.parts(SPEAKER, LISTENER);
    zones.parts(SPEAKER, NEAR[1]);
    zones.misleads(SPEAKER, NEAR[0], impostor.local_addr().expect("it is bound"));
    let local = zones.members[NEAR[0]].local.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = impostor.accept().await.expect("a connection");
            let mut gateway = secure::accept(&local, stream).await.expect("the speaker");
            gateway.frames.next().await.expect("it asks").expect("a frame");
            gateway.frames.send(Frame::Relayed(Ok(())).encode()).await.expect("it is answered");
            // It goes on as if it were the other end.
            let _ = secure::accept_relayed(&local, alone(gateway).expect("nothing more")).await;
        }
    });
    zones.sends(SPEAKER, LISTENER);
    until("refused", || zones.members[SPEAKER].failures("pod") > 1).await;
    assert!(!zones.is_open(SPEAKER, LISTENER));
}
