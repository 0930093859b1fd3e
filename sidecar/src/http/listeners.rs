//! The sockets that a service listens on.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use tracing::warn;

use super::tokens::TokenFile;

/// The sockets of a service, and whom it is for. They take connections from the moment they exist.
#[derive(Debug, Default)]
pub struct Listeners {
    pub(super) tcp: Vec<TcpListener>,
    pub(super) unix: Vec<UnixListener>,
    tokens: Option<TokenFile>,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address}")]
pub struct ListenError {
    /// Which.
    pub address: SocketAddr,
    /// Why not.
    #[source]
    pub source: io::Error,
}

impl Listeners {
    /// Listens on both loopback addresses; fails if another process has one of them, or if neither works.
    /// With port 0 both get the port that the first is given.
    pub fn on_loopback(port: u16) -> Result<Self, ListenError> {
        // A port that was drawn may be in use at the other address, and clients are not bound to it.
        let is_asked_for = port != 0;
        let is_taken =
            |error: &ListenError| is_asked_for && error.source.kind() == io::ErrorKind::AddrInUse;
        let first = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let drawn = first.as_ref().ok().and_then(|listener| listener.local_addr().ok());
        let port = drawn.map_or(port, |address| address.port());
        let second = listen(SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
        match (first, second) {
            (Ok(first), Ok(second)) => Ok(Self { tcp: vec![first, second], ..Self::default() }),
            // Else clients would call the one or the other, by the address that they take.
            (Ok(_), Err(error)) | (Err(error), Ok(_)) if is_taken(&error) => Err(error),
            (Ok(one), Err(error)) | (Err(error), Ok(one)) => {
                let ListenError { address, source } = error;
                warn!(%address, error = %source, "only one loopback address can be listened on");
                Ok(Self { tcp: vec![one], ..Self::default() })
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Listens on one address.
    pub fn on(address: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self { tcp: vec![listen(address)?], ..Self::default() })
    }

    /// Listens on a Unix socket (too), which everybody may use who sees it. A socket that an earlier
    /// process left behind is replaced.
    pub fn and_unix(mut self, path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(left) if left.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) | Err(_) => {}
        }
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        let listener = socket.listen(BACKLOG)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        self.unix.push(listener);
        Ok(self)
    }

    /// Takes calls from those alone who have a token of this file.
    pub fn for_tokens(self, tokens: TokenFile) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Who may call; everybody if there is none.
    pub(super) fn tokens(&self) -> Option<&TokenFile> {
        self.tokens.as_ref()
    }

    /// The TCP addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.tcp.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }
}

/// Listens on one address.
pub fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let begin = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // What an earlier process left behind in `TIME_WAIT` is no reason to refuse.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    begin().map_err(|source| ListenError { address, source })
}

/// Connections that the kernel keeps until they are accepted: as many as it may (`net.core.somaxconn`). Those that find
/// no room there are dropped, and their clients try again after a second, and later and later.
const BACKLOG: u32 = 4096;
