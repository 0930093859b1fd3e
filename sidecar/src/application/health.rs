//! Asks an application whether it is well, as a kubelet does: by GET, and any status from 200 to 399 is good.

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use conclave_pods::health::HealthCheck;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::{Application, Health};
use crate::metrics::Metrics;

/// What becomes of the answers of an application: it is healthy after one that is good, and no longer after so many in
/// a row that are not.
#[derive(Clone, Copy, Debug)]
struct Answers {
    threshold: u32,
    failures: u32,
    health: Health,
}

impl Answers {
    /// It has yet to answer, and is not healthy before.
    fn new(threshold: u32) -> Self {
        Self { threshold, failures: 0, health: Health::Unhealthy }
    }

    /// It has answered, or has not. How it is then.
    fn note(&mut self, is_good: bool) -> Health {
        if is_good {
            (self.failures, self.health) = (0, Health::Healthy);
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.failures >= self.threshold {
                self.health = Health::Unhealthy;
            }
        }
        self.health
    }
}

/// Asks for ever, and hands on how the application is. Nothing is asked where no check is set.
pub(crate) async fn look_after(
    check: Option<HealthCheck>,
    application: watch::Sender<Application>,
    metrics: Metrics,
) {
    let Some(check) = check else { return };
    let mut answers = Answers::new(check.threshold);
    let show = |health| {
        metrics.application.show(health);
        let set = |now: &mut Application| std::mem::replace(&mut now.health, health) != health;
        application.send_if_modified(set)
    };
    show(answers.health);
    let mut questions = tokio::time::interval(check.interval);
    questions.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        questions.tick().await;
        let answer = ask(&check).await;
        if let Err(why) = &answer {
            debug!(why, "the application's answer about its health is not good");
        }
        let is_news = show(answers.note(answer.is_ok()));
        match answer {
            Ok(()) if is_news => info!("the application is healthy"),
            Err(why) if is_news => warn!(why, "the application is not healthy any more"),
            Ok(()) | Err(_) => {}
        }
    }
}

/// One question. An error says why the answer is not good.
async fn ask(check: &HealthCheck) -> Result<(), String> {
    let late = |_| format!("no answer within {} ms", check.timeout.as_millis());
    let status = timeout(check.timeout, status(check)).await.map_err(late)??;
    if (200..400).contains(&status) { Ok(()) } else { Err(format!("status {status}")) }
}

async fn status(check: &HealthCheck) -> Result<u16, String> {
    let stream = connect(check.port).await.map_err(text)?;
    let mut http = http1::Builder::new();
    http.max_buf_size(HEAD_BYTES);
    let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await.map_err(text)?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::get(&check.path)
        .header(HOST, format!("127.0.0.1:{}", check.port))
        .header(USER_AGENT, concat!("conclave/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.map_err(text)?).await.map_err(text)?;
    // The body says nothing here: the connection ends before it is read.
    Ok(answer.status().as_u16())
}

/// A connection with the application on loopback. It may listen in one family alone.
async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let four = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    let Err(error) = four else { return four };
    TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.map_err(|_| error)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// The longest head of an answer.
const HEAD_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn it_takes_so_many_failures_in_a_row_and_one_good_answer() {
        let mut answers = Answers::new(3);
        assert_eq!(answers.health, Health::Unhealthy, "it has yet to begin");
        assert_eq!(answers.note(false), Health::Unhealthy);
        let mut seen = |good: &str| -> String {
            let of = |c| if answers.note(c == '+') == Health::Healthy { '+' } else { '-' };
            good.chars().map(of).collect()
        };
        assert_eq!(seen("+--+--+---+---+"), "+++++++++-+++-+");
    }

    /// An application that answers each connection with these bytes, in turn; then it goes.
    async fn application(listener: TcpListener, answers: Vec<&'static [u8]>) {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            let request = std::str::from_utf8(&request[..read]).unwrap();
            assert!(request.starts_with("GET /live?full=1 HTTP/1.1\r\n"), "{request}");
            stream.write_all(answer).await.unwrap();
            if answer.is_empty() {
                std::future::pending::<()>().await;
            }
        }
    }

    #[tokio::test]
    async fn statuses_from_200_to_399_are_good_and_nothing_else_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).await.unwrap();
            let check = HealthCheck {
                port: listener.local_addr().unwrap().port(),
                path: "/live?full=1".to_owned(),
                interval: Duration::from_secs(1),
                timeout: Duration::from_secs(60),
                threshold: 3,
            };
            let answers: Vec<&[u8]> = vec![
                b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\nmore",
                b"HTTP/1.1 302 Found\r\nlocation: http://example.com/\r\n\r\n",
                b"HTTP/1.1 404 Not Found\r\n\r\n",
                b"HTTP/1.1 500 Oh\r\n\r\n",
                b"220 mail\r\n",
                b"",
            ];
            let serving = tokio::spawn(application(listener, answers));
            assert_eq!(ask(&check).await, Ok(()));
            assert_eq!(ask(&check).await, Ok(()), "where it leads to is not asked");
            assert_eq!(ask(&check).await, Err("status 404".to_owned()));
            assert_eq!(ask(&check).await, Err("status 500".to_owned()));
            assert!(ask(&check).await.is_err(), "it speaks another protocol");
            let hurried = HealthCheck { timeout: Duration::from_millis(300), ..check.clone() };
            assert_eq!(ask(&hurried).await, Err("no answer within 300 ms".to_owned()));
            serving.abort();
            let _ = serving.await;
            assert!(ask(&check).await.is_err_and(|why| why.contains("refused")));
        }
    }
}
