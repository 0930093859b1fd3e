//! How the operator and the sidecars ask the API server: under which name, how long they wait for an answer, and what
//! is logged of a request that fails.
//!
//! The client of `kube` logs that too, without the request it is about. Its line is turned off ([`filter`]), and one
//! stands in its place that has method, path, status, and how much time was left ([`within`]).

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};
use tower::{BoxError, Service, layer::layer_fn};
use tracing::error;

/// A client of the API server that this process finds: of its pod's, or of the user's configuration. The API server
/// and its audit log see the name of the program, such as `conclave-sidecar`, and its version.
///
/// # Errors
///
/// No API server is known, or no way to it.
pub async fn client(program: &str) -> kube::Result<Client> {
    client_of(Config::infer().await.map_err(kube::Error::InferConfig)?, program)
}

/// The same, of this API server.
///
/// # Errors
///
/// There is no way to it.
pub fn client_of(mut config: Config, program: &str) -> kube::Result<Client> {
    let name = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
    let name = HeaderValue::try_from(name).map_err(hyper::http::Error::from);
    config.headers.push((USER_AGENT, name.map_err(kube::Error::HttpError)?));
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer_fn(Reporting)).build())
}

/// Asks for so long at most. What is logged meanwhile of a request that fails says how much of that is left.
///
/// # Errors
///
/// The time is over.
pub async fn within<F: Future>(limit: Duration, asking: F) -> Result<F::Output, Elapsed> {
    until(Instant::now() + limit, asking).await
}

/// The same, until then.
///
/// # Errors
///
/// The time is over.
pub async fn until<F: Future>(deadline: Instant, asking: F) -> Result<F::Output, Elapsed> {
    timeout_at(deadline, DEADLINE.scope(deadline, asking)).await
}

/// A log filter with this text, in which each request that fails is logged once. Directives of the text come later, and
/// beat what is put before it.
pub fn filter(text: &str) -> String {
    format!("kube_client::client::builder=off,{text}")
}

/// How long the API server may take until it begins to answer. A connection may be lost without either end being
/// notified, and `kube` by itself would wait for ever.
const ANSWER: Duration = Duration::from_secs(30);

tokio::task_local! {
    static DEADLINE: Instant;
}

/// Logs each request that fails, and gives one up that is not answered. What the API server refuses (4xx) is no failure:
/// its caller knows what it means.
#[derive(Clone, Debug)]
struct Reporting<S>(S);

impl<S, B> Service<Request<Body>> for Reporting<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answering = self.0.call(request);
        Box::pin(async move {
            let answer: Result<_, BoxError> = match timeout(ANSWER, answering).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs()).into()),
            };
            match &answer {
                Ok(response) if response.status().is_server_error() => {
                    report(&method, &path, Some(response.status().as_u16()), None);
                }
                Ok(_) => {}
                Err(error) => report(&method, &path, None, Some(&**error)),
            }
            answer
        })
    }
}

fn report(
    method: &Method,
    path: &str,
    status: Option<u16>,
    failure: Option<&(dyn Error + Send + Sync + 'static)>,
) {
    let remaining = DEADLINE.try_with(|deadline| deadline.duration_since(Instant::now())).ok();
    let remaining_ms = remaining.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
    let failure = failure.map(|failure| failure as &(dyn Error + 'static));
    error!(
        %method,
        path,
        status,
        remaining_ms,
        error = failure,
        "a request to the API server failed"
    );
}

#[cfg(test)]
mod tests;
