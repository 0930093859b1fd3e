//! The register's record: one view of a group, as the API server keeps it.

mod held;

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::held::LEFT_BYTES_MAX;
pub use self::held::LeftHold;
use crate::ids::{Epoch, Incarnation, MemberId};
use crate::policy::{Arbiter, Policy, Timing};
use crate::version::{self, Versions};
use crate::view::View;
use crate::zone::is_zone;

/// One view: number, frozen members, leader, policy. Replaced as a whole by compare-and-swap (rule 1
/// of `docs/views.md`).
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The version of this layout.
    pub version: u32,
    /// The number of the view.
    pub epoch: Epoch,
    /// The highest `high` of a token that the view may give; the next epoch lies above it.
    pub ceiling: Epoch,
    /// The members in the order of their ranks.
    pub members: Vec<MemberInfo>,
    /// Who leads; nobody after the last member left in order.
    pub leader: Option<Incarnation>,
    /// No hold of an earlier view runs that this view does not know. Where the leader lists what
    /// nobody else could report, a record with a leader does not state it: its members know better.
    pub settled: bool,
    /// A candidate waits for all promises to run out: members no longer confirm this view.
    pub closing: bool,
    /// The record was lost and made anew: nobody knows the view before.
    pub base_unknown: bool,
    /// The view that this one was made from, as far as its leader knew: zero for the first, and the number
    /// before its own if the one before was lost and everything of it has run out. Nothing where nothing
    /// arbitrates, and where the record was lost.
    pub base: Option<Epoch>,
    /// Of a closed record: all that may still be held. Nothing if nobody knows.
    pub held: Option<Vec<LeftHold>>,
    /// The waits that hold in this view, whatever the policy states.
    pub timing: Timing,
    /// No leader lease of this view lasts longer, nor any of an earlier view that its leader knew of.
    #[serde(deserialize_with = "crate::time::read_wait")]
    pub longest_leader_lease: Duration,
    /// The policy of this view.
    pub policy: Policy,
    /// Drawn for every write, so that a writer finds out whether its own was carried out.
    pub nonce: u64,
}

/// The version of [`Record`]'s layout that this code writes.
pub const RECORD_VERSION: u32 = 1;

/// How far above the epoch the first ceiling of a view lies, and by how much it is raised.
pub const CEILING_STEP: u64 = 3;

/// What everybody knows of a member.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberInfo {
    /// Its pod and its process.
    pub incarnation: Incarnation,
    /// The pod's name.
    pub name: String,
    /// Where its peer port answers.
    pub addresses: Vec<SocketAddr>,
    /// Higher ones get higher ranks.
    pub priority: i32,
    /// How fit it is to lead, as its pod states it: an election by capacity elects the greatest.
    pub capacity: u32,
    /// In which zone its pod is: the value of a label of Kubernetes, or nothing.
    pub zone: Option<String>,
    /// Counts the pods that were admitted: smaller is more senior. Zero until admitted.
    pub seniority: u64,
    /// The protocol versions that it speaks, lowest and highest.
    pub protocol: Versions,
}

impl Record {
    /// The view as the textbook algorithms see it. Without a leader the highest rank stands in.
    pub fn view(&self) -> View {
        let size = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let highest = MemberId(size.saturating_sub(1));
        let leader = self.leader.and_then(|leader| self.rank(leader)).unwrap_or(highest);
        View { epoch: self.epoch, size, leader }
    }

    /// The rank of a member.
    pub fn rank(&self, member: Incarnation) -> Option<MemberId> {
        let place = self.members.iter().position(|info| info.incarnation == member)?;
        u32::try_from(place).ok().map(MemberId)
    }

    /// Who has a rank.
    pub fn member(&self, rank: MemberId) -> Option<&MemberInfo> {
        self.members.get(rank.0 as usize)
    }

    /// The version that the members of this view speak: the highest that all of them do.
    pub fn speaks(&self) -> u16 {
        version::common(self.versions()).unwrap_or(version::FIRST)
    }

    /// Whether the leader of this view lists what nobody else could report, and seals report it. Where
    /// nothing arbitrates nobody seals, and a member alone reports to nobody.
    pub fn lists(&self) -> bool {
        let arbitrated = self.policy.arbiter == Arbiter::Quorum;
        arbitrated && self.members.len() > 1
    }

    fn versions(&self) -> impl Iterator<Item = Versions> + '_ {
        self.members.iter().map(|info| info.protocol)
    }

    /// Whether a member would leave this view a version that all speak.
    pub fn can_speak_with(&self, joiner: &MemberInfo) -> bool {
        version::common(self.versions().chain([joiner.protocol])).is_some()
    }

    /// Whether the group can have a member more, and this one.
    pub fn has_room_for(&self, joiner: &MemberInfo) -> bool {
        let bytes: usize = self.members.iter().map(MemberInfo::bytes_most).sum();
        self.members.len() < MEMBERS_MAX && bytes + joiner.bytes_most() <= MEMBER_BYTES_MAX
    }

    /// All incarnations, by rank.
    pub fn incarnations(&self) -> impl DoubleEndedIterator<Item = Incarnation> + Clone + '_ {
        self.members.iter().map(|info| info.incarnation)
    }

    /// All incarnations but one.
    pub fn others(&self, me: Incarnation) -> impl DoubleEndedIterator<Item = Incarnation> + '_ {
        self.incarnations().filter(move |member| *member != me)
    }

    /// How many promises make a leader lease: those of a majority. Where nothing makes an election safe,
    /// the elected member has it.
    pub fn promises_needed(&self) -> usize {
        match self.policy.arbiter {
            Arbiter::Quorum => self.members.len() / 2 + 1,
            Arbiter::None => 1,
        }
    }

    /// How many seals end a leader lease: enough that the rest is no majority.
    pub fn seals_needed(&self) -> usize {
        self.members.len() - self.members.len() / 2
    }

    /// Whether the last member left in order: nobody leads, and nobody else can.
    pub fn is_closed(&self) -> bool {
        self.leader.is_none() && !self.base_unknown
    }

    /// The members of a group's first view: the one that begins it, then those that followed it before there was an
    /// arbiter.
    pub fn first_members(
        me: &MemberInfo,
        follow: impl IntoIterator<Item = MemberInfo>,
    ) -> Vec<MemberInfo> {
        let first = MemberInfo { seniority: 1, ..me.clone() };
        admit(vec![first], 1, follow, MEMBERS_MAX)
    }

    /// The members of the next view: those that stay, by their seniority, then the joiners. One that would leave them
    /// no version that all speak, or finds no room, is left out. So is one after [`ADMITTED_MAX`] others, until the
    /// next view; but not where a view without an arbiter ends, whose members keep their places in line, nor after a
    /// group was closed.
    pub fn succession(
        &self,
        stays: impl Fn(Incarnation) -> bool,
        joiners: impl IntoIterator<Item = MemberInfo>,
    ) -> Vec<MemberInfo> {
        let members = self.members.iter().filter(|info| stays(info.incarnation)).cloned().collect();
        let seniority = self.members.iter().map(|info| info.seniority).max().unwrap_or(0);
        let goes_on = self.policy.arbiter == Arbiter::Quorum && !self.is_closed();
        admit(members, seniority, joiners, if goes_on { ADMITTED_MAX } else { MEMBERS_MAX })
    }
}

/// So many of those who want to join become members too, as far as there is room. `seniority`: of the latest.
fn admit(
    mut members: Vec<MemberInfo>,
    mut seniority: u64,
    joiners: impl IntoIterator<Item = MemberInfo>,
    most: usize,
) -> Vec<MemberInfo> {
    let most = MEMBERS_MAX.min(members.len() + most);
    let mut bytes: usize = members.iter().map(MemberInfo::bytes_most).sum();
    for joiner in joiners {
        let versions = members.iter().map(|info| info.protocol).chain([joiner.protocol]);
        let needs = joiner.bytes_most();
        if members.len() < most
            && bytes + needs <= MEMBER_BYTES_MAX
            && version::common(versions).is_some()
            && members.iter().all(|info| info.incarnation != joiner.incarnation)
        {
            bytes += needs;
            seniority = seniority.saturating_add(1);
            members.push(MemberInfo { seniority, ..joiner });
        }
    }
    members.sort_by_key(MemberInfo::rank_key);
    members
}

impl MemberInfo {
    /// Whether what a peer states about itself can be so, and is no longer than it can be.
    pub fn is_sound(&self) -> bool {
        let is_zone = self.zone.as_ref().is_none_or(|zone| is_zone(zone));
        self.name.len() <= 253 && self.addresses.len() <= 16 && is_zone
    }

    /// So many bytes it has in the register, at the most: as JSON, with a comma.
    fn bytes_most(&self) -> usize {
        let address = |address: &SocketAddr| if address.is_ipv4() { 24 } else { 61 };
        let addresses: usize = self.addresses.iter().map(address).sum();
        MEMBER_BYTES + escaped(&self.name) + self.zone.as_deref().map_or(0, escaped) + addresses
    }

    /// What ranks go by: the higher, the higher.
    pub fn rank_key(&self) -> (i32, Reverse<u64>, Incarnation) {
        (self.priority, Reverse(self.seniority), self.incarnation)
    }
}

/// The most members that a group has.
pub const MEMBERS_MAX: usize = 512;

/// So many may join with one change of the view. Each of them needs the whole record, and the members of the view before
/// only what has changed; so that the beginning of a view costs no more than that. View changes come a second apart.
pub const ADMITTED_MAX: usize = 64;

/// So many bytes a record has in the register at the most. All annotations of a Lease together may have 256 KiB; what
/// others have put there has the rest.
pub const RECORD_BYTES_MAX: usize = 250 << 10;

/// For all members there are so many bytes in the record: what a policy, the locks of a closed group and the rest of a
/// record leave.
const MEMBER_BYTES_MAX: usize = RECORD_BYTES_MAX - POLICY_BYTES_MAX - LEFT_BYTES_MAX - (2 << 10);

/// So many bytes a policy has in a record, as JSON. A longer one is no policy.
pub const POLICY_BYTES_MAX: usize = 24 << 10;

/// The bytes of a text in JSON.
fn escaped(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// What a member has in the record besides its texts, at the most.
const MEMBER_BYTES: usize = 230;

#[cfg(test)]
pub(crate) mod tests;
