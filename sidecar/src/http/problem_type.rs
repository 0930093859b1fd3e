//! The closed list of what can go wrong, with the status of each.

use axum::http::StatusCode;
use conclave_protocols::by_variant;

/// The types of problems. Programs branch on them, so that none is ever renamed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ProblemType {
    /// Another holds the lock, and the call did not want to wait.
    Held,
    /// The call waited in vain.
    WaitTimeout,
    /// Too many wait already.
    QueueFull,
    /// Nobody who could grant was heard of.
    NoQuorum,
    /// A view has begun, and nothing is granted yet: somebody of an earlier one may hold.
    GracePeriod,
    /// This member is in no group yet.
    NotReady,
    /// The sidecar is going.
    Terminating,
    /// The claim held, and no longer does.
    Lost,
    /// Another member made the claim: this one does not know how it stands.
    OtherMember,
    /// The claim was given back or given up before.
    Released,
    /// The claim's name was refused before, and names are not used twice.
    ClaimReused,
    /// The claim's name is taken by one that asked for something else.
    ClaimDiffers,
    /// The claim still waits.
    NotHeld,
    /// This member does not lead.
    NotLeader,
    /// No policy allows a lock of this name.
    NotAllowed,
    /// The clock of this name is of another kind.
    KindDiffers,
    /// A pod has as many clocks as it may have.
    TooManyClocks,
    /// The clock cannot give a later stamp.
    ClockExhausted,
    /// The vector has no room for the processes of the stamp, and ticks on.
    VectorFull,
    /// The stamp is later than any clock of the group can show.
    StampAhead,
    /// A hybrid clock needs the group time, and it is not known closely enough.
    TimeUnknown,
    /// Something in the request is wrong: `field` and `expected` say what.
    Invalid,
    /// The request has no token that is known.
    Unauthorized,
    /// The request came from where requests must not come from, or its token is for something else.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The path exists, and does not know the method.
    MethodNotAllowed,
    /// The body came too slowly.
    RequestTimeout,
    /// The body is too large.
    BodyTooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
}

/// What is fixed about a type.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The last part of its URI.
    pub name: &'static str,
    /// Its status.
    pub status: StatusCode,
    /// What it says to people.
    pub title: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// When to try again, in seconds.
    pub retry_after: Option<u16>,
}

impl ProblemType {
    by_variant! {
        /// The table of types.
        pub fn row -> Row {
            Held => soon(423, "held", "The lock is held by another"),
            WaitTimeout => soon(423, "wait-timeout", "What the call waited for had not come when its time was over"),
            QueueFull => soon(429, "queue-full", "Too many wait already"),
            NoQuorum => soon(503, "no-quorum", "Nobody who could grant was heard of"),
            GracePeriod => soon(503, "grace-period", "Nothing is granted yet: locks of before may be held"),
            NotReady => soon(503, "not-ready", "This member is in no group yet"),
            Terminating => never(503, "terminating", "The sidecar is shutting down"),
            Lost => never(410, "lost", "The claim held, and no longer does"),
            OtherMember => never(404, "other-member", "Another member made the claim, and only that member knows how it stands"),
            Released => never(410, "released", "The claim was released before"),
            ClaimReused => never(409, "claim-reused", "The name of the claim was used before"),
            ClaimDiffers => never(412, "claim-differs", "The claim asked for something else before"),
            NotHeld => soon(409, "not-held", "The claim does not hold yet"),
            NotLeader => never(409, "not-leader", "This member does not lead"),
            NotAllowed => never(403, "not-allowed", "No policy allows a lock of this name"),
            KindDiffers => never(409, "kind-differs", "The clock of this name is of another kind"),
            TooManyClocks => never(429, "too-many-clocks", "The pod has as many clocks as it may have"),
            ClockExhausted => never(409, "clock-exhausted", "The clock has no later stamp to give"),
            VectorFull => never(409, "vector-full", "The vector has no room for the processes of the stamp"),
            StampAhead => soon(409, "stamp-ahead", "The stamp is later than any clock of the group can show"),
            TimeUnknown => soon(503, "time-unknown", "The group time is not known closely enough"),
            Invalid => never(400, "invalid", "The request is wrong"),
            Unauthorized => never(401, "unauthorized", "The request has no token that is known"),
            Forbidden => never(403, "forbidden", "The caller may not do this"),
            NotFound => never(404, "not-found", "There is no such thing"),
            MethodNotAllowed => never(405, "method-not-allowed", "The path does not know this method"),
            RequestTimeout => never(408, "request-timeout", "The body came too slowly"),
            BodyTooLarge => never(413, "body-too-large", "The body is too large"),
            UnsupportedMediaType => never(415, "unsupported-media-type", "The body is not JSON"),
        }
    }

    /// Its URI.
    pub fn uri(self) -> String {
        format!("{BASE}{}", self.row().name)
    }
}

fn soon(status: u16, name: &'static str, title: &'static str) -> Row {
    Row { retryable: true, retry_after: Some(1), ..never(status, name, title) }
}

fn never(status: u16, name: &'static str, title: &'static str) -> Row {
    let status = StatusCode::from_u16(status).expect("the table has valid codes");
    Row { name, status, title, retryable: false, retry_after: None }
}

const BASE: &str = "https://conclave.dev/problems/";
