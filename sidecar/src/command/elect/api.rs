//! The API of the sidecar, as `conclave elect` calls it.

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// Where the API is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// A port of loopback. A pod may have one family alone.
    Port { ips: Vec<IpAddr>, port: u16 },
    /// A Unix socket.
    Socket(PathBuf),
}

/// The call that follows an election, and stands in it where that has to be done.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Where the API is.
    pub(super) place: Place,
    /// A file that has the bearer token.
    pub(super) token_file: Option<PathBuf>,
    /// The election's name.
    pub(super) election: String,
    /// The priority of the candidate.
    pub(super) priority: i32,
}

/// Events, as long as the connection lasts. It ends with the value.
#[derive(Debug)]
pub(super) struct Stream {
    body: Incoming,
    _sender: SendRequest<Full<Bytes>>,
    _connection: AbortOnDropHandle<hyper::Result<()>>,
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// It may be there later.
    #[error("{0:#}")]
    NotNow(anyhow::Error),
    /// The same call will not succeed.
    #[error("{0:#}")]
    Refused(anyhow::Error),
}

/// What the sidecar answers when it does not do what it is asked for.
#[derive(Debug, Default, Deserialize)]
struct Problem {
    #[serde(default)]
    detail: String,
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Place {
    /// Reads `http://localhost:7070`. A sidecar listens on loopback alone, so that no other name has to be resolved.
    pub(super) fn of_url(url: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("`{url}` is no URL"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let ips = match host.parse() {
            Ok(ip) => vec![ip],
            Err(_) if host == "localhost" => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Err(_) => Vec::new(),
        };
        let is_one = uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        ensure!(
            is_one && ips.iter().any(IpAddr::is_loopback),
            "the URL `{url}` is not that of a sidecar: expected one such as http://localhost:7070"
        );
        Ok(Self::Port { ips, port: uri.port_u16().unwrap_or(80) })
    }

    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        match self {
            Self::Port { ips, port } => {
                let places: Vec<SocketAddr> = ips.iter().map(|ip| (*ip, *port).into()).collect();
                Ok(Box::new(TcpStream::connect(places.as_slice()).await?))
            }
            Self::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port { ips, port } => {
                let places: Vec<String> =
                    ips.iter().map(|ip| SocketAddr::from((*ip, *port)).to_string()).collect();
                f.write_str(&places.join(" and "))
            }
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Call {
    /// Opens the stream. The candidacy lasts as long as that.
    pub(super) async fn open(&self) -> Result<Stream, CallError> {
        let request = self.request().map_err(CallError::Refused)?;
        let answer = tokio::time::timeout(PATIENCE, self.send(request)).await;
        let no_sidecar = || format!("there is no sidecar at {}", self.place);
        let (response, sender, connection) = answer
            .map_err(|_| CallError::NotNow(anyhow::anyhow!("no answer within {PATIENCE:?}")))?
            .with_context(no_sidecar)
            .map_err(CallError::NotNow)?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        if kind.is_none_or(|kind| !kind.as_bytes().starts_with(b"text/event-stream")) {
            let error = anyhow::anyhow!("what answers at {} is no sidecar", self.place);
            return Err(CallError::Refused(error));
        }
        Ok(Stream { body: response.into_body(), _sender: sender, _connection: connection })
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(
        Response<Incoming>,
        SendRequest<Full<Bytes>>,
        AbortOnDropHandle<hyper::Result<()>>,
    )> {
        let io = TokioIo::new(self.place.connect().await?);
        let (mut sender, connection) = handshake(io).await?;
        let connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let response = sender.send_request(request).await?;
        Ok((response, sender, connection))
    }

    fn request(&self) -> anyhow::Result<Request<Full<Bytes>>> {
        let request = Request::builder().header(HOST, "localhost").header(ACCEPT, EVENTS);
        let request = match self.token()? {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        };
        let path = format!("/v1/elections/{}", percent_encode(&self.election));
        // Every member stands in it.
        let request = if self.election == DEFAULT {
            request.method(Method::GET).uri(path).body(Full::default())
        } else {
            let body = serde_json::json!({"priority": self.priority}).to_string();
            let request = request.method(Method::PUT).uri(format!("{path}/candidacy"));
            request.header(CONTENT_TYPE, "application/json").body(Full::from(body))
        };
        request.context("make the request")
    }

    /// The token is read anew for every call: it may have been changed.
    fn token(&self) -> anyhow::Result<Option<HeaderValue>> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("read the token in {}", path.display()))?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", text.trim()))
            .ok()
            .with_context(|| format!("what is in {} is no token", path.display()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

impl Stream {
    /// The next bytes. A sidecar sends some every ten seconds, if only a comment.
    pub(super) async fn next(&mut self) -> anyhow::Result<Bytes> {
        loop {
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.with_context(|| format!("it was silent for {SILENCE:?}"))?;
            if let Ok(bytes) = frame.context("it ended")??.into_data() {
                return Ok(bytes);
            }
        }
    }
}

/// What an answer means that is no success.
async fn refusal(response: Response<Incoming>) -> CallError {
    let status = response.status();
    let body = Limited::new(response.into_body(), PROBLEM_BYTES).collect();
    let body = tokio::time::timeout(PATIENCE, body).await.ok().and_then(Result::ok);
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let problem: Problem = serde_json::from_slice(&body).unwrap_or_default();
    let error = anyhow::anyhow!("the sidecar answers {status}: {}", problem.detail);
    let may_succeed = status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT;
    if may_succeed { CallError::NotNow(error) } else { CallError::Refused(error) }
}

/// A name as one segment of a path.
fn percent_encode(name: &str) -> String {
    let encode = |byte: u8| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(encode).collect()
}

/// The election that nominates the leader of the group.
const DEFAULT: &str = "default";

const EVENTS: &str = "text/event-stream";

/// Longer than a sidecar takes to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than a stream is silent: three comments are missing.
const SILENCE: Duration = Duration::from_secs(35);

/// Bytes of a problem that are read.
const PROBLEM_BYTES: usize = 64 * 1024;
