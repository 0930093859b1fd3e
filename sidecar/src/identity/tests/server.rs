//! An authority that answers over the network.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use conclave_crds::AuthorityStatus;
use conclave_pods::PeerId;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateSigningRequestParams, ExtendedKeyUsagePurpose, SanType};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::identity::credentials::provider;

/// What it answers.
#[derive(Clone)]
pub(super) enum Answer {
    /// A certificate of this member.
    Certify(Arc<LocalAuthority>, PeerId),
    /// A certificate of this member that is changed.
    Brief(Arc<LocalAuthority>, PeerId, fn(&mut CertificateParams)),
    /// Something else.
    Send(u16, String),
}

/// The authority's server, and what it was asked.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) sent: Arc<Mutex<Answer>>,
    pub(super) asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    /// Starts a server whose own certificate has this name.
    pub(super) async fn start(authority: &LocalAuthority, name: &str, answer: Answer) -> Self {
        let (key, certificate) = certified(authority, &id(0, 0), |params| {
            params.subject_alt_names = vec![SanType::DnsName(name.try_into().expect("ASCII"))];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let server = Self { address, sent: Arc::new(Mutex::new(answer)), asked: Arc::default() };
        tokio::spawn(server.clone().serve(listener, Arc::new(config).into()));
        server
    }

    async fn serve(self, listener: TcpListener, acceptor: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let server = self.clone();
            let service = service_fn(move |request| server.clone().answer(request));
            // A client that goes away is none.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        assert_eq!((head.method.as_str(), head.uri.path()), ("POST", "/v1/certificates"));
        let token = head.headers["authorization"].to_str().expect("a token").to_owned();
        let body = body.collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let request = body["request"].as_str().expect("a request").to_owned();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((token, body));
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (status, text) = match sent {
            Answer::Certify(authority, id) => (200, certify(&authority, &id, |_| {}, &request)),
            Answer::Brief(authority, id, change) => {
                (200, certify(&authority, &id, change, &request))
            }
            Answer::Send(status, text) => (status, text),
        };
        let answer = Response::builder().status(status).body(Full::from(text));
        Ok(answer.expect("an answer"))
    }

    pub(super) fn set_answer(&self, answer: Answer) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    pub(super) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn status(&self, believed: &[&LocalAuthority]) -> AuthorityStatus {
        let all: Vec<_> = believed.iter().map(|authority| authority.bundle()).collect();
        AuthorityStatus { address: self.address.to_string(), bundle: all.join(" ") }
    }
}

fn certify(
    authority: &LocalAuthority,
    id: &PeerId,
    change: fn(&mut CertificateParams),
    request: &str,
) -> String {
    let request = CertificateSigningRequestParams::from_pem(request);
    let key = request.expect("a request that is signed by its key").public_key;
    let mut params = params_of(id);
    change(&mut params);
    let certificate = authority.sign(&params, &key).expect("a certificate");
    json!({"certificate": certificate}).to_string()
}
