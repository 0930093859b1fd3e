//! Claims: what an application asks of a lock, and what it is notified of.
//!
//! A claim is one resource, waiting or held. The group task owns it; a caller gets a
//! [`tokio::sync::watch`] channel with its present state, so that a poll, a long poll, a stream and
//! a check read the same value.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::member::message::Metadata;
use conclave_protocols::policy::{Arbiter, LockAlgorithm};
use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime, LockName};

/// The name of a claim: 1 to 128 letters, digits, `.`, `_`, `~` or `-`, and not `.` or `..` alone, which a URL
/// cannot have.
///
/// One that the sidecar draws begins with its maker, so that a claim of an earlier process is recognised as lost,
/// and a claim of another member as none of this one's.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClaimId(Arc<str>);

/// Why a text is no claim id.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a claim id has 1 to 128 letters, digits, `.`, `_`, `~` or `-`, and is not `.` or `..`")]
pub struct ClaimIdError;

/// The process that drew the name of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Maker {
    /// As much of its pod's UID as tells the pods of a group apart.
    pod: u32,
    /// The process' own number.
    run: u64,
}

impl Maker {
    /// Whether it is that process.
    pub(crate) fn is_run(self, run: u64) -> bool {
        self.run == run
    }
}

impl From<Incarnation> for Maker {
    fn from(Incarnation { pod, run }: Incarnation) -> Self {
        // Most of a UID is random, and some of it is fixed.
        let quarters = [0, 32, 64, 96].map(|shift| (pod.0 >> shift) & u128::from(u32::MAX));
        let pod = quarters.into_iter().fold(0, |mark, quarter| mark ^ quarter);
        Self { pod: u32::try_from(pod).unwrap_or_default(), run }
    }
}

impl TryFrom<String> for ClaimId {
    type Error = ClaimIdError;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._~-".contains(&b);
        let fits = (1..=128).contains(&id.len()) && id.bytes().all(allowed);
        if !fits || [".", ".."].contains(&id.as_str()) {
            return Err(ClaimIdError);
        }
        Ok(Self(id.into()))
    }
}

impl ClaimId {
    /// The name that a process gives its claim of that number.
    pub(crate) fn draw(Maker { pod, run }: Maker, number: u64) -> Self {
        Self(format!("{pod:08x}{run:014x}-{number}").into())
    }

    /// Who drew it; nothing if a client chose it.
    pub(crate) fn maker(&self) -> Option<Maker> {
        let (maker, number) = self.0.split_once('-')?;
        let is_drawn = maker.len() == 22 && maker.bytes().all(|b| b"0123456789abcdef".contains(&b));
        number.parse::<u64>().ok().filter(|_| is_drawn)?;
        let (pod, run) = maker.split_at(8);
        let pod = u32::from_str_radix(pod, 16).ok()?;
        Some(Maker { pod, run: u64::from_str_radix(run, 16).ok()? })
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How long a claim may wait for its lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Not longer than this; zero tries once.
    For(Duration),
    /// Until it is granted or given up.
    Forever,
}

/// What an application asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ask {
    /// Which lock.
    pub lock: LockName,
    /// The client's own name for the claim; drawn if absent.
    pub claim: Option<ClaimId>,
    /// How long it may wait.
    pub wait: Wait,
    /// With it, the application must renew within this time; without, the sidecar renews until the
    /// claim is released, the pod ends or `max_hold` is over.
    pub ttl: Option<Duration>,
    /// The longest that it may hold; the policy's if absent, never more than the policy's.
    pub max_hold: Option<Duration>,
    /// Who asks, for people; the pod's name if absent.
    pub owner: Option<String>,
    /// JSON shown to those who are kept waiting, at most 2 KiB.
    pub metadata: Option<Metadata>,
}

/// Where a claim stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClaimState {
    /// It waits.
    Waiting {
        /// Who holds the lock, as far as is known.
        holder: Option<Holder>,
        /// Whether somebody who can grant has answered.
        heard: bool,
    },
    /// It holds.
    Held(Held),
    /// It was given back, or given up while it waited.
    Released,
    /// It held, and no longer does.
    Lost(LostReason),
    /// It was not granted.
    Refused(Refusal),
}

/// A hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// The fencing token; none with arbiter `None`.
    pub token: Option<FencingToken>,
    /// The view that granted it.
    pub epoch: Epoch,
    /// Until when it is safe, by this member's own clock. It moves on with every renewal.
    pub safe_until: LocalTime,
    /// Why it is lost then, if nothing moves that on.
    pub ends_by: LostReason,
    /// When it was granted.
    pub since: LocalTime,
    /// Renewals stay away: still safe until `safe_until`.
    pub jeopardy: bool,
    /// Another wants the lock.
    pub contended: bool,
    /// The messages that this entry cost so far, as the textbook counts them.
    pub messages: u64,
}

/// Who holds a lock that somebody waits for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Holder {
    /// The pod's name.
    pub pod: String,
    /// Who asked for it there.
    pub owner: String,
    /// Its token.
    pub token: Option<FencingToken>,
    /// For how long it had held it when that was reported.
    pub held: Duration,
    /// When that was reported, by this member's own clock.
    pub notified: LocalTime,
    /// Its JSON.
    pub metadata: Option<Metadata>,
}

impl Holder {
    /// For how long it has held it by then.
    pub fn held_at(&self, now: LocalTime) -> Duration {
        self.held + (now - self.notified)
    }
}

/// Why a hold ended that nobody gave back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LostReason {
    /// It was not renewed in time: this member was cut off, or paused.
    LeaseExpired,
    /// The application did not renew within its `ttl`.
    TtlExpired,
    /// It held for `max_hold`.
    MaxHold,
    /// A new view did not know it.
    ViewChange,
    /// The sidecar is going, or the group was dissolved.
    Terminated,
    /// The claim was one of an earlier process of this sidecar.
    Restarted,
}

impl LostReason {
    conclave_protocols::by_variant! {
        /// As answers and metrics have it.
        pub fn name -> &'static str {
            LeaseExpired => "lease-expired",
            TtlExpired => "ttl-expired",
            MaxHold => "max-hold",
            ViewChange => "view-change",
            Terminated => "terminated",
            Restarted => "restarted",
        }
    }
}

/// Why a claim was not granted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// Another holds the lock, and the claim did not want to wait.
    Held {
        /// Who.
        holder: Option<Holder>,
    },
    /// It waited in vain.
    WaitTimeout {
        /// Who holds the lock.
        holder: Option<Holder>,
    },
    /// Nobody who could grant was heard of all the while.
    NoQuorum,
    /// Nothing is newly granted for a while: somebody of an earlier view may hold.
    GracePeriod {
        /// Until then.
        until: LocalTime,
    },
    /// The sidecar is going, or the group was dissolved.
    Terminated,
}

/// A claim, as it stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// Its name.
    pub id: ClaimId,
    /// Its lock.
    pub lock: LockName,
    /// Where it stands.
    pub state: ClaimState,
    /// When it was asked for.
    pub asked: LocalTime,
    /// When it stopped waiting.
    pub settled: Option<LocalTime>,
    /// When it ended.
    pub ended: Option<LocalTime>,
    /// Who asked.
    pub owner: String,
    /// Its JSON.
    pub metadata: Option<Metadata>,
    /// What the application must renew within, if it must.
    pub ttl: Option<Duration>,
    /// The longest that it may hold, whether or not it is renewed.
    pub max_hold: Duration,
    /// How the lock is granted.
    pub algorithm: LockAlgorithm,
    /// What makes it safe.
    pub arbiter: Arbiter,
    /// Rises with every change of this claim; starts at 1.
    pub index: u64,
}

/// Why a request was turned away before it became a claim.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AskError {
    /// No policy of the group names this lock.
    #[error("no policy of the group allows a lock of this name")]
    NotAllowed,
    /// The claim's name is taken by a claim that asked for something else.
    #[error("a claim of this name asked for something else before")]
    Differs,
    /// The name is of the form of those that sidecars draw, and this one knows no claim of this lock that has it.
    #[error(
        "a name of your own: sidecars draw those of this form, and this one knows no claim of it"
    )]
    Drawn,
    /// A claim of this name has ended.
    #[error("a claim of this name has ended: {0:?}")]
    Ended(Box<Claim>),
    /// Too many claims.
    #[error("{what}: at most {limit}")]
    Full {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// This member belongs to no group yet.
    #[error("{0}")]
    NotReady(String),
    /// The sidecar is going.
    #[error("the sidecar is shutting down")]
    Closed,
}

/// Why a claim could not be found or changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClaimError {
    /// There never was one of this name here, or it is forgotten.
    #[error(
        "this member knows no claim of this name on this lock; a claim is known to the member that was \
         asked for it, and to no other"
    )]
    NotFound,
    /// Another member made it, and only that member knows how it stands.
    #[error("another member made this claim, and only that member knows how it stands: ask there")]
    OfAnother(Maker),
    /// It has ended.
    #[error("the claim has ended: {0:?}")]
    Ended(Box<Claim>),
    /// It belonged to an earlier process of this sidecar, and is lost.
    #[error("the claim belonged to an earlier process of this sidecar and is lost")]
    Restarted,
    /// It still waits, so there is nothing to renew.
    #[error("the claim does not hold yet")]
    Waiting,
    /// The sidecar is going.
    #[error("the sidecar is shutting down")]
    Closed,
}

impl ClaimError {
    /// Why the process `me` does not know a claim of that name.
    pub(crate) fn unknown(id: &ClaimId, me: Maker) -> Self {
        match id.maker() {
            Some(maker) if maker.pod != me.pod => Self::OfAnother(maker),
            Some(maker) if maker.run != me.run => Self::Restarted,
            Some(_) | None => Self::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;

    use super::*;

    fn maker(pod: u128, run: u64) -> Maker {
        Incarnation { pod: PodUid(pod), run }.into()
    }

    #[test]
    fn a_name_that_was_drawn_states_who_drew_it_and_no_other_does() {
        let most = (1 << 53) - 1;
        for (pod, run, number) in [(u128::MAX, 0, 1), (0xc0ff_ee00 << 96, most, u64::MAX)] {
            let id = ClaimId::draw(maker(pod, run), number);
            assert_eq!(ClaimId::try_from(id.to_string()), Ok(id.clone()));
            assert_eq!(id.maker(), Some(maker(pod, run)), "{id}");
        }
        let drawn = ClaimId::draw(maker(1, 7), 1).to_string();
        let (long, large) = (format!("0{drawn}"), drawn.replace("01", "0F"));
        let without_number = drawn.trim_end_matches('1');
        for chosen in ["1f-1", "run-17", &drawn[1..], &long, &large, without_number] {
            let id = ClaimId::try_from(chosen.to_owned()).expect("a name");
            assert_eq!(id.maker(), None, "{chosen}");
        }
    }

    #[test]
    fn a_claim_of_an_earlier_process_is_lost_and_one_of_another_pod_is_not() {
        let unknown =
            |pod, run| ClaimError::unknown(&ClaimId::draw(maker(pod, run), 3), maker(1, 7));
        assert_eq!(unknown(1, 6), ClaimError::Restarted);
        assert_eq!(unknown(1, 7), ClaimError::NotFound);
        assert_eq!(unknown(2, 7), ClaimError::OfAnother(maker(2, 7)));
        let chosen = ClaimId::try_from("run-17".to_owned()).expect("a name");
        assert_eq!(ClaimError::unknown(&chosen, maker(1, 7)), ClaimError::NotFound);
    }
}
