//! Ends a connection whose client takes nothing of its answer.
//!
//! Nothing in HTTP makes a client read. One that does not would keep its connection for ever, and
//! what a stream on it holds.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection that fails when nothing of what is to be written was taken for so long.
pub(super) struct Unread<I> {
    io: I,
    patience: Duration,
    end: Option<Pin<Box<Sleep>>>,
}

impl<I> Unread<I> {
    pub(super) fn new(io: I, patience: Duration) -> Self {
        Self { io, patience, end: None }
    }

    /// What a write came to: a part that was taken begins the time anew.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.end = None;
            return written;
        }
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Unread<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Unread<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::http::tests::double::soon;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (_client, server) = tokio::io::duplex(8);
        let mut server = Unread::new(server, Duration::from_millis(50));
        let error = soon(server.write_all(&[0; 64])).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_takes_a_little_now_and_then_is_waited_for() {
        let (mut client, server) = tokio::io::duplex(1);
        let patience = Duration::from_secs(1);
        let mut server = Unread::new(server, patience);
        let writing = tokio::spawn(async move { server.write_all(&[0; 8]).await });
        // All of it takes longer than the patience, and no part of it does.
        for _ in 0..8 {
            tokio::time::sleep(patience / 5).await;
            client.read_u8().await.expect("it is written");
        }
        writing.await.expect("it ends").expect("it is not given up");
    }
}
