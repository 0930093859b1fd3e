//! Clients that misbehave, over real connections: each costs no more than the limits say.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::double::*;
use super::hanging_up::{connect, read_until, send};
use super::serving::rest;

/// The short times of these tests, where the real ones are seconds.
const SHORT: Duration = Duration::from_millis(100);

/// The status line of the next answer.
async fn status(stream: &mut TcpStream) -> String {
    read_until(stream, "HTTP").await
}

/// Reads one whole answer that has a length.
async fn whole(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.expect("a length").parse().expect("a number") {
                return text;
            }
        }
        let mut bytes = [0; 1024];
        let read = soon(stream.read(&mut bytes)).await.expect("it writes");
        assert_ne!(read, 0, "it goes on: {text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).expect("text"));
    }
}

/// Sends this over and over, until the other side has had enough.
async fn send_repeatedly(stream: &mut TcpStream, text: &str, pause: Duration) {
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        while writer.write_all(text.as_bytes()).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    };
    let listening = async {
        let mut bytes = [0; 1024];
        while reader.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    };
    soon(async {
        tokio::select! {
            () = sending => {}
            () = listening => {}
        }
    })
    .await;
}

#[tokio::test]
async fn a_head_that_comes_in_drops_ends_the_connection() {
    let mut double = Double::new();
    double.limits.head_time = SHORT;
    let (mut stream, _shutdown) = connect(&double).await;
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nx: ").await.unwrap();
    send_repeatedly(&mut stream, "x", Duration::from_millis(10)).await;
}

#[tokio::test]
async fn a_connection_that_idles_after_an_answer_ends() {
    let mut double = Double::new();
    double.limits.head_time = SHORT;
    let (mut stream, _shutdown) = connect(&double).await;
    send(&mut stream, "GET /v1/time", "").await;
    whole(&mut stream).await;
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_head_without_an_end_is_not_read_to_it() {
    for beginning in ["GET /", "GET / HTTP/1.1\r\nx: ", "GET / HTTP/1.1\r\n"] {
        for more in ["x".repeat(1024), "x: 1\r\n".repeat(100), "\0".repeat(1024)] {
            let (mut stream, _shutdown) = connect(&Double::new()).await;
            stream.write_all(beginning.as_bytes()).await.unwrap();
            send_repeatedly(&mut stream, &more, Duration::ZERO).await;
        }
    }
}

#[tokio::test]
async fn a_huge_length_is_refused_before_anything_is_read() {
    let double = Double::new();
    let gibibyte = (1_u64 << 30).to_string();
    for line in ["POST /v1/locks/a", "DELETE /v1/locks/a/claims/b", "GET /v1/status"] {
        for length in ["65537", &gibibyte, "9223372036854775807"] {
            let (mut stream, _shutdown) = connect(&double).await;
            let headers = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
            send(&mut stream, line, &headers).await;
            let answer = rest(&mut stream).await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{line} {length}: {answer}");
            assert!(answer.contains("https://conclave.dev/problems/body-too-large"), "{answer}");
        }
    }
}

#[tokio::test]
async fn lengths_that_make_no_sense_are_refused() {
    let double = Double::new();
    for headers in [
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 2x\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: gzip\r\n",
    ] {
        let (mut stream, _shutdown) = connect(&double).await;
        send(&mut stream, "POST /v1/locks/a", headers).await;
        stream.write_all(b"{}").await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers}: {answer}");
    }
}

#[tokio::test]
async fn chunks_count_as_much_as_a_length() {
    let mut double = Double::new();
    double.limits.body_time = SHORT;
    let headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let many = format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(65);
    for (chunks, status) in [
        (many.as_str(), "413"),
        // A chunk that says that it is large, and never comes.
        ("FFFFFFFFFFFFFFF\r\nx", "408"),
        ("FFFFFFFFFFFFFFFFFFFF\r\nx", "400"),
        ("x\r\n", "400"),
    ] {
        let (mut stream, _shutdown) = connect(&double).await;
        send(&mut stream, "POST /v1/locks/a", headers).await;
        stream.write_all(chunks.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_nobody_asked_for_is_not_read_to_its_end() {
    let double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    send(&mut stream, "GET /v1/status", "Transfer-Encoding: chunked\r\n").await;
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
    send_repeatedly(&mut stream, "400\r\n", Duration::ZERO).await;
}

#[tokio::test]
async fn deep_json_is_refused_and_the_connection_goes_on() {
    let double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    let arrays = "[".repeat(10_000);
    let closed = format!("{arrays}{}", "]".repeat(10_000));
    for body in [
        arrays.clone(),
        closed.clone(),
        format!(r#"{{"metadata":{closed}}}"#),
        format!(r#"{{"metadata":{{"a":{closed}}}}}"#),
        format!(r#"{{"wait":{arrays}"#),
        format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000)),
    ] {
        let headers =
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        send(&mut stream, "POST /v1/locks/a", &headers).await;
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = whole(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains(r#""field":"body""#), "{answer}");
    }
}

#[tokio::test]
async fn many_connections_wait_while_those_that_there_are_go_on() {
    const SERVED: usize = 8;
    // As many as fit into the kernel's queue.
    const FURTHER: usize = 100;
    let mut double = Double::new();
    double.limits.connections = SERVED;
    let (first, _shutdown) = connect(&double).await;
    let address = first.peer_addr().unwrap();
    let mut served = vec![first];
    while served.len() < SERVED {
        served.push(TcpStream::connect(address).await.unwrap());
    }
    for stream in &mut served {
        send(stream, "GET /v1/status", "").await;
        whole(stream).await;
    }
    let mut further = Vec::new();
    while further.len() < FURTHER {
        let mut stream = TcpStream::connect(address).await.unwrap();
        send(&mut stream, "GET /v1/status", "Connection: close\r\n").await;
        further.push(stream);
    }
    for stream in &mut served {
        send(stream, "GET /v1/status", "").await;
        assert!(whole(stream).await.starts_with("HTTP/1.1 200 "));
    }
    for stream in &further {
        let early = stream.try_read(&mut [0]).expect_err("it is not served yet");
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
    }
    drop(served);
    for stream in &mut further {
        assert!(rest(stream).await.starts_with("HTTP/1.1 200 "));
    }
}

#[tokio::test]
async fn http_2_is_not_spoken() {
    let double = Double::new();
    let (mut stream, _shutdown) = connect(&double).await;
    // The preface, an empty SETTINGS, and streams that are begun and reset.
    let mut rapid = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1_u8..100).step_by(2) {
        rapid.extend([0, 0, 1, 1, 5, 0, 0, 0, stream, 0x82]);
        rapid.extend([0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, 8]);
    }
    stream.write_all(&rapid).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");

    let (mut stream, _shutdown) = connect(&double).await;
    let headers =
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    send(&mut stream, "GET /v1/status", headers).await;
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_client_that_reads_nothing_loses_its_connection() {
    let mut double = Double::new();
    double.limits.connections = 1;
    double.limits.unread_time = SHORT;
    let (first, _shutdown) = connect(&double).await;
    let address = first.peer_addr().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut deaf = socket.connect(address).await.unwrap();
    drop(first);
    let asking = tokio::spawn(async move {
        let ask = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(64);
        while deaf.write_all(ask.as_bytes()).await.is_ok() {}
        deaf
    });
    let _deaf = soon(asking).await.expect("it was turned out");
    let mut other = TcpStream::connect(address).await.unwrap();
    send(&mut other, "GET /v1/status", "").await;
    assert_eq!(status(&mut other).await, "HTTP/1.1 200 OK");
}
