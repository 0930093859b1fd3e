//! Asking the operator's authority for a certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::credentials::provider;
use super::{Bundle, IssueError};

/// Asks for certificates, with the pod's own token as proof of its identity.
pub struct AuthorityClient {
    group: String,
    token: PathBuf,
}

#[derive(Serialize)]
struct Ask<'a> {
    group: &'a str,
    request: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    certificate: String,
}

/// Why it refuses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: String,
    detail: String,
}

/// The name in the authority's certificate, whatever its address is.
const NAME: &str = "authority.conclave.dev";

/// How long the authority may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer.
const ANSWER_MAX: usize = 64 * 1024;

/// The longest token: they are far shorter.
const TOKEN_MAX: usize = 64 * 1024;

/// How much is shown of what the authority says.
const SHOWN: usize = 300;

impl AuthorityClient {
    /// Asks for members of the group of that name, with the token in that file.
    pub fn new(group: &str, token: PathBuf) -> Self {
        Self { group: group.to_owned(), token }
    }

    /// Asks for a certificate.
    pub(super) async fn certify(
        &self,
        address: &str,
        bundle: &Bundle,
        request: &str,
    ) -> Result<String, IssueError> {
        let unreachable = |why: String| IssueError::Unreachable(address.to_owned(), why);
        let asked = async {
            let token = self.token().await?;
            let stream = connect(address, bundle).await.map_err(|e| unreachable(e.to_string()))?;
            let request = self.request(token, request)?;
            exchange(stream, request).await.map_err(|error| unreachable(error.to_string()))
        };
        let answered = timeout(PATIENCE, asked).await;
        let (status, body) = answered.map_err(|_| unreachable("no answer in time".into()))??;
        if status != StatusCode::OK {
            return Err(refused(status, &body));
        }
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|error| IssueError::Unusable(format!("it is no certificate: {error}")))?;
        Ok(answer.certificate)
    }

    /// The token, read anew each time: the kubelet replaces it every few minutes.
    async fn token(&self) -> Result<HeaderValue, IssueError> {
        let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidData);
        let text = tokio::fs::read_to_string(&self.token).await.map_err(IssueError::Token)?;
        let text = text.trim();
        if text.is_empty() || text.len() > TOKEN_MAX {
            return Err(IssueError::Token(wrong()));
        }
        let mut value = HeaderValue::from_str(&format!("Bearer {text}"))
            .map_err(|_| IssueError::Token(wrong()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn request(
        &self,
        token: HeaderValue,
        request: &str,
    ) -> Result<Request<Full<Bytes>>, IssueError> {
        let unusable = |error: &dyn std::error::Error| IssueError::Unusable(error.to_string());
        let body = serde_json::to_vec(&Ask { group: &self.group, request })
            .map_err(|error| unusable(&error))?;
        Request::post("/v1/certificates")
            .header(HOST, NAME)
            .header(AUTHORIZATION, token)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| unusable(&error))
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn connect(address: &str, bundle: &Bundle) -> Result<TlsStream<TcpStream>, Failure> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(bundle.roots())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    let address: std::net::SocketAddr = address.parse()?;
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(NAME)?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

async fn exchange(
    stream: TlsStream<TcpStream>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Failure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await?.to_bytes();
    Ok((status, body))
}

fn refused(status: StatusCode, body: &[u8]) -> IssueError {
    let Problem { title, detail } = serde_json::from_slice(body).unwrap_or_default();
    let sent = if detail.is_empty() { title } else { detail };
    let plain = sent.chars().map(|c| if c.is_control() { ' ' } else { c });
    IssueError::Refused { status: status.as_u16(), detail: plain.take(SHOWN).collect() }
}
