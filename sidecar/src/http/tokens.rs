//! Who may call, where a file of tokens says so.
//!
//! The check stands around all routes, and asks for the scope of the route that was found: the one
//! that would run. So no spelling of a path can be one thing for the check and another for the
//! router.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use tracing::{info, warn};

use super::problem::Problem;
use super::problem_type::ProblemType;
use super::routes;
use super::scope::Scope;

/// A file of tokens, each on a line of its own after its scope: `use 1sGxOBQaStJ3vS8b`.
///
/// It is read for every request: a token is good or void as soon as the file says so, and none is
/// kept. Such a file is small, and Kubernetes mounts it from memory.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
    /// Whether the log says that it cannot be used.
    complained: Arc<AtomicBool>,
}

/// Why a file of tokens cannot be used. Nobody is admitted then.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("the file of tokens cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is a folder, a pipe or the like.
    #[error("the file of tokens is no file")]
    NotAFile,
    /// It is too large.
    #[error("the file of tokens has more than {FILE_BYTES} bytes")]
    TooLarge,
    /// A line is not what it should be. What it is may be half a token, so it is not shown.
    #[error(
        "line {line} of the file of tokens must be `use`, `inspect` or `admin`, a space, and a \
         token of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} of A-Z a-z 0-9 - . _ ~ + / ="
    )]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// There is no token in it.
    #[error("the file of tokens has no token")]
    Empty,
}

impl TokenFile {
    /// The file at a path, which must be a right one now.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, TokenFileError> {
        let file = Self { path: path.into(), complained: Arc::default() };
        file.read().map(|_| file)
    }

    /// The scopes of a token.
    fn scopes(&self, given: &Token) -> Vec<Scope> {
        let tokens = match self.read() {
            Ok(tokens) => {
                if self.complained.swap(false, Ordering::Relaxed) {
                    info!("the file of tokens can be used again");
                }
                tokens
            }
            Err(error) => {
                if !self.complained.swap(true, Ordering::Relaxed) {
                    warn!(%error, "no caller is authorized");
                }
                return Vec::new();
            }
        };
        // All are looked at, whichever fits.
        tokens.iter().filter(|(_, token)| token.is(given)).map(|(scope, _)| *scope).collect()
    }

    fn read(&self) -> Result<Vec<(Scope, Token)>, TokenFileError> {
        // A pipe would be waited for.
        let kind = std::fs::metadata(&self.path).map_err(TokenFileError::Unreadable)?;
        if !kind.is_file() {
            return Err(TokenFileError::NotAFile);
        }
        let file = File::open(&self.path).map_err(TokenFileError::Unreadable)?;
        let mut text = String::new();
        let most = FILE_BYTES as u64 + 1;
        file.take(most).read_to_string(&mut text).map_err(TokenFileError::Unreadable)?;
        if text.len() > FILE_BYTES {
            return Err(TokenFileError::TooLarge);
        }
        parse(&text)
    }
}

/// What a caller shows. It has no `Debug`, so that no log and no answer has it.
struct Token(String);

impl Token {
    fn new(text: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        (fits && text.chars().all(allowed)).then(|| Self(text.to_owned()))
    }

    /// The token of a request, if it has one and no second.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(only), None) = (given.next(), given.next()) else { return None };
        let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        Self::new(token.trim())
    }

    /// Compares all of it, so that the time reveals nothing but the length.
    fn is(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        let differ = |so_far: u8, (ours, theirs): (&u8, &u8)| black_box(so_far | (ours ^ theirs));
        ours.len() == theirs.len() && ours.iter().zip(theirs).fold(0, differ) == 0
    }
}

/// Admits callers that show a token of the scope that the route needs, and everybody where there is no
/// file of tokens.
pub(super) fn admit(file: Option<&TokenFile>, request: &mut Request) -> Result<(), Refusal> {
    let Some(file) = file else { return Ok(()) };
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let needed = route.map(routes::needed);
    check(file, request.headers(), needed)?;
    // No handler has a use for it.
    request.headers_mut().remove(AUTHORIZATION);
    Ok(())
}

/// Why a call is not admitted.
pub(super) enum Refusal {
    /// It has no token, or several.
    NoToken,
    /// Its token is not in the file.
    WrongToken,
    /// Its token is for something else.
    WrongScope(Scope),
}

/// Where there is no route, any token will do: there is nothing but `not-found`.
fn check(file: &TokenFile, headers: &HeaderMap, needed: Option<Scope>) -> Result<(), Refusal> {
    let token = Token::of(headers).ok_or(Refusal::NoToken)?;
    let scopes = file.scopes(&token);
    if scopes.is_empty() {
        return Err(Refusal::WrongToken);
    }
    match needed {
        Some(needed) if !scopes.iter().any(|scope| scope.covers(needed)) => {
            Err(Refusal::WrongScope(needed))
        }
        Some(_) | None => Ok(()),
    }
}

impl IntoResponse for Refusal {
    /// The challenge is that of RFC 6750, section 3.
    fn into_response(self) -> Response {
        let unknown = "a call needs the header `Authorization: Bearer TOKEN`, with a known token";
        let (problem, more) = match self {
            Self::NoToken => (Problem::new(ProblemType::Unauthorized, unknown), String::new()),
            Self::WrongToken => {
                let more = r#", error="invalid_token""#.to_owned();
                (Problem::new(ProblemType::Unauthorized, unknown), more)
            }
            Self::WrongScope(needed) => {
                let scope = needed.name();
                let detail = format!("this path needs a token of the scope `{scope}` or `admin`");
                let more = format!(r#", error="insufficient_scope", scope="{scope}""#);
                (Problem::new(ProblemType::Forbidden, detail), more)
            }
        };
        let challenge = format!(r#"Bearer realm="conclave"{more}"#);
        ([(WWW_AUTHENTICATE, challenge)], problem).into_response()
    }
}

fn parse(text: &str) -> Result<Vec<(Scope, Token)>, TokenFileError> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        tokens.push(parse_line(line).ok_or(TokenFileError::Line { line: index + 1 })?);
    }
    if tokens.is_empty() { Err(TokenFileError::Empty) } else { Ok(tokens) }
}

fn parse_line(line: &str) -> Option<(Scope, Token)> {
    let (name, token) = line.split_once(char::is_whitespace)?;
    let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name)?;
    Some((scope, Token::new(token.trim())?))
}

/// A shorter one can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

const TOKEN_BYTES_MAX: usize = 1024;

const FILE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
