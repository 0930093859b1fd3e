//! Connections whose other end is known by its certificate.
//!
//! Only TLS 1.3 with the members of the group is spoken here, and nothing is sent to anybody else.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::PodUid;
use rustls::ConnectionCommon;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::Local;
use crate::identity::{Credentials, Distrust, Leaf};
use crate::probes::{self, ProbeKey};
use crate::wire::{self, NoRelay};

/// A connection with a member of the group.
pub(super) struct Connection<S> {
    pub(super) frames: Framed<S, LengthDelimitedCodec>,
    /// The pod at the other end.
    pub(super) pod: PodUid,
    /// When its certificate ends, and the connection with it.
    pub(super) ends: Instant,
    /// What both ends derived from the handshake, for the beacons of the one that connected.
    pub(super) key: Option<ProbeKey>,
}

/// The one kind of connection that leaves this process: TLS over something.
pub(super) type Secure<S = TcpStream> = Connection<TlsStream<S>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// This member has no certificate to show.
    #[error("no certificate of our own")]
    Bare,
    /// There is nobody.
    #[error("nobody answers: {0}")]
    Unreachable(#[source] io::Error),
    /// It did not begin a handshake.
    #[error("it spoke without TLS: an older version?")]
    PlainText,
    /// It speaks TLS, but not as members do.
    #[error("it does not speak as members do: {0}")]
    Protocol(String),
    /// Its certificate is not good.
    #[error("its certificate is not believed: {0}")]
    Certificate(String),
    /// It is of another group.
    #[error("it is {0}")]
    Group(Distrust),
    /// It is another pod than it should be.
    #[error("it is the pod {found}, and not {expected}")]
    Pod {
        /// Whose the certificate is.
        found: PodUid,
        /// Who it says it is, or who was expected.
        expected: PodUid,
    },
    /// It does not believe us.
    #[error("it refuses us: {0}")]
    Refused(String),
    /// A gateway does not pass on.
    #[error("a gateway passes nothing on: {0}")]
    NoRelay(NoRelay),
    /// There is no place for it.
    #[error("too many connections at a time, from there or in all")]
    Crowded,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
}

impl Refusal {
    /// The label of metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Bare => "no-certificate",
            Self::Unreachable(_) => "unreachable",
            Self::PlainText => "plain-text",
            Self::Protocol(_) => "tls",
            Self::Certificate(_) => "certificate",
            Self::Group(_) => "group",
            Self::Pod { .. } => "pod",
            Self::Refused(_) => "refused",
            Self::NoRelay(_) => "relay",
            Self::Crowded => "crowded",
            Self::Broken(_) => "broken",
        }
    }

    /// Whether somebody should look at it: it is about trust or a flood, and not about a pod that went
    /// away.
    pub(super) fn is_suspicious(&self) -> bool {
        match self {
            Self::PlainText
            | Self::Protocol(_)
            | Self::Certificate(_)
            | Self::Group(_)
            | Self::Pod { .. }
            | Self::Refused(_)
            | Self::Crowded => true,
            Self::Bare | Self::Unreachable(_) | Self::NoRelay(_) | Self::Broken(_) => false,
        }
    }

    /// What an error of a connection, which may be one of TLS, means.
    pub(super) fn of(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let Some(inner) = inner else { return Self::Broken(error) };
        match (Distrust::of(inner), inner) {
            (Some(group @ Distrust::Group(_)), _) => Self::Group(group.clone()),
            (Some(Distrust::Leaf(leaf)), _) => Self::Certificate(leaf.to_string()),
            (
                None,
                rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented,
            ) => Self::Certificate(inner.to_string()),
            (None, rustls::Error::AlertReceived(_)) => Self::Refused(inner.to_string()),
            (None, rustls::Error::InvalidMessage(_)) => Self::PlainText,
            (None, _) => Self::Protocol(inner.to_string()),
        }
    }
}

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

/// Finds out who connected. A client that does not begin a handshake is sent nothing.
pub(super) async fn accept(local: &Local, stream: TcpStream) -> Result<Secure, Refusal> {
    let credentials = local.credentials().ok_or(Refusal::Bare)?;
    stream.set_nodelay(true).map_err(Refusal::Broken)?;
    let mut first = [0];
    match stream.peek(&mut first).await.map_err(Refusal::Broken)? {
        0 => return Err(Refusal::Broken(io::ErrorKind::UnexpectedEof.into())),
        _ if first[0] != HANDSHAKE => return Err(Refusal::PlainText),
        _ => {}
    }
    accept_over(&credentials, stream).await
}

/// Finds out who connected through a gateway that passes on.
pub(super) async fn accept_relayed<S: AsyncRead + AsyncWrite + Unpin>(
    local: &Local,
    stream: S,
) -> Result<Secure<S>, Refusal> {
    accept_over(&*local.credentials().ok_or(Refusal::Bare)?, stream).await
}

async fn accept_over<S: AsyncRead + AsyncWrite + Unpin>(
    credentials: &Credentials,
    stream: S,
) -> Result<Secure<S>, Refusal> {
    let stream = credentials.acceptor().accept(stream).await.map_err(Refusal::of)?;
    let key = derived(stream.get_ref().1);
    known(stream.into(), key)
}

/// Connects to a pod, and to no other that may be at its address now.
pub(super) async fn connect(
    local: &Local,
    addresses: &[SocketAddr],
    pod: PodUid,
) -> Result<Secure, Refusal> {
    greet(local, dial(local, addresses).await?, pod).await
}

/// Opens a connection to the process at an address, if this member has a certificate to show.
pub(super) async fn dial(local: &Local, addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
    local.credentials().ok_or(Refusal::Bare)?;
    let stream = TcpStream::connect(addresses).await.map_err(Refusal::Unreachable)?;
    stream.set_nodelay(true).map_err(Refusal::Broken)?;
    Ok(stream)
}

/// Finds out whether this pod is at the other end, and no other.
pub(super) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    local: &Local,
    stream: S,
    pod: PodUid,
) -> Result<Secure<S>, Refusal> {
    let credentials = local.credentials().ok_or(Refusal::Bare)?;
    // It is neither sent nor looked at.
    let name = ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let stream = credentials.connector().connect(name, stream).await.map_err(Refusal::of)?;
    let key = derived(stream.get_ref().1);
    let connection = known(stream.into(), key)?;
    connection.is(pod)?;
    Ok(connection)
}

/// The key that this end and the other have in common, and nobody else.
fn derived<Side>(session: &ConnectionCommon<Side>) -> Option<ProbeKey> {
    session.export_keying_material([0; 32], probes::LABEL, None).ok().map(ProbeKey::of)
}

/// Puts together what is known after a handshake.
fn known<S: AsyncRead + AsyncWrite + Unpin>(
    stream: TlsStream<S>,
    key: Option<ProbeKey>,
) -> Result<Secure<S>, Refusal> {
    let speaks = || Refusal::Protocol("no version of our protocol".to_owned());
    let leaf: Leaf = Credentials::peer(stream.get_ref().1).ok_or_else(speaks)?;
    let left = leaf.ends.duration_since(std::time::SystemTime::now()).unwrap_or_default();
    Ok(Connection { key, ..Connection::of(stream, leaf.pod(), left) })
}

impl<S: AsyncRead + AsyncWrite> Connection<S> {
    /// A stream whose other end is this pod, for so long.
    pub(super) fn of(stream: S, pod: PodUid, left: Duration) -> Self {
        let ends = Instant::now() + left.min(LONGEST);
        Self { frames: Framed::new(stream, wire::codec()), pod, ends, key: None }
    }
}

impl<S> Connection<S> {
    /// Whether the other end is this pod.
    pub(super) fn is(&self, expected: PodUid) -> Result<(), Refusal> {
        if self.pod == expected {
            return Ok(());
        }
        Err(Refusal::Pod { found: self.pod, expected })
    }
}

impl Local {
    /// What to show to others; nothing if there is no certificate that is still good.
    fn credentials(&self) -> Option<Arc<Credentials>> {
        self.held.borrow().clone().filter(|held| !held.has_ended())
    }
}

/// No connection lasts longer, whatever a certificate says.
const LONGEST: Duration = Duration::from_hours(24);
