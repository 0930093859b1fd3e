use std::future::{pending, ready};
use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::watch;

use super::*;

const HOUR: Duration = Duration::from_hours(1);
const LIMITS: Limits =
    Limits { served: 8, served_for_one: 8, open: 16, open_for_one: 16, lifetime: HOUR };

async fn server(limits: Limits, router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(serve(listener, |stream| ready(Ok(stream)), router, limits));
    address
}

/// A client on the loopback address with this last part, which has sent a request for a path.
async fn client(server: SocketAddr, part: u8, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, part], 0))).expect("a loopback address");
    let mut stream = socket.connect(server).await.expect("connected");
    stream.write_all(head(path).as_bytes()).await.expect("written");
    stream
}

fn head(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// All that the server says before it closes.
async fn sent(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // What was not read by the server makes its end a reset.
    let end = stream.read_to_end(&mut text);
    drop(timeout(Duration::from_secs(60), end).await.expect("an end"));
    String::from_utf8(text).expect("UTF-8")
}

#[tokio::test]
async fn a_connection_carries_one_request() {
    let router = Router::new().route("/hello", get(|| async { "hello" }));
    let server = server(LIMITS, router).await;
    let stream = client(server, 1, "/hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello").await;
    let answer = sent(stream).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.contains("connection: close") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn a_client_that_never_reads_the_answer_loses_its_place() {
    let long = || async { vec![0_u8; 64 * 1024 * 1024] };
    let hello = || async { "hello" };
    let router = Router::new().route("/long", get(long)).route("/hello", get(hello));
    let lifetime = Duration::from_millis(200);
    let server = server(Limits { served: 1, lifetime, ..LIMITS }, router).await;
    let mut first = client(server, 1, "/long").await;
    first.read_u8().await.expect("the answer begins");
    // A client that waits as long as the place is taken grows old too, and comes again.
    let answered =
        async { while !sent(client(server, 2, "/hello").await).await.ends_with("hello") {} };
    timeout(Duration::from_secs(60), answered).await.expect("the place is free again");
}

#[tokio::test]
async fn an_address_waits_for_itself_and_not_the_others_for_it() {
    let (free, freed) = watch::channel(false);
    let (begun, _) = watch::channel(0);
    let held = {
        let begun = begun.clone();
        move || async move {
            begun.send_modify(|number| *number += 1);
            freed.clone().wait_for(|free| *free).await.map_or("nobody", |_| "held")
        }
    };
    let hello = || async { "hello" };
    let router = Router::new().route("/held", get(held)).route("/hello", get(hello));
    let server = server(Limits { served: 2, served_for_one: 1, ..LIMITS }, router).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(client(server, 1, "/held").await);
    }
    begun.subscribe().wait_for(|number| *number > 0).await.expect("one is served");
    assert!(sent(client(server, 2, "/hello").await).await.ends_with("hello"));
    assert_eq!(*begun.borrow(), 1, "the others of that address wait");
    free.send_replace(true);
    for stream in waiting {
        assert!(sent(stream).await.ends_with("held"), "and are served in their turn");
    }
}

#[tokio::test]
async fn an_address_that_opens_too_many_connections_gets_no_answer() {
    let router = Router::new()
        .route("/stuck", get(pending::<&str>))
        .route("/hello", get(|| async { "hello" }));
    let server = server(Limits { open_for_one: 2, ..LIMITS }, router).await;
    let open = [client(server, 1, "/stuck").await, client(server, 1, "/stuck").await];
    assert_eq!(sent(client(server, 1, "/hello").await).await, "");
    assert!(sent(client(server, 2, "/hello").await).await.ends_with("hello"));
    drop(open);
    let answered =
        async { while !sent(client(server, 1, "/hello").await).await.ends_with("hello") {} };
    timeout(Duration::from_secs(60), answered).await.expect("those that ended count no more");
}

#[test]
fn addresses_without_connections_are_forgotten() {
    let mut addresses = Addresses { limits: LIMITS, places: HashMap::new() };
    let kept = addresses.enter(IpAddr::from([10, 0, 0, 1])).expect("a place");
    for part in 0..=u8::MAX {
        addresses.enter(IpAddr::from([10, 0, 1, part])).expect("a place");
    }
    assert!(addresses.places.len() <= 2 * LIMITS.open);
    // The same address in the form that a socket for both families shows.
    let mapped = "::ffff:10.0.0.1".parse().expect("an address");
    assert!(Arc::ptr_eq(&kept, &addresses.enter(mapped).expect("a place")));
}
