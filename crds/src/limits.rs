//! The rules of a specification. Each is one value or one function, from which both the CEL rule
//! for the API server and the check in [`policy()`](crate::policy()) are made.

use std::time::Duration;

use conclave_protocols::detection::Threshold;
use conclave_protocols::policy::LockAlgorithm;
use kube::core::Rule;

use crate::period::{Period, PeriodError, well_formed};
use crate::policy::PolicyError;

/// The shortest and the longest that a period may be.
pub(crate) struct Limits {
    /// The field, as the last part of its path.
    field: &'static str,
    min: &'static str,
    max: &'static str,
}

pub(crate) const LEADER_LEASE: Limits = Limits { field: "leaderLease", min: "300ms", max: "1m" };
pub(crate) const HEARTBEAT: Limits = Limits { field: "heartbeat", min: "50ms", max: "10s" };
pub(crate) const MEMBER_LEASE: Limits = Limits { field: "memberLease", min: "2s", max: "10m" };
pub(crate) const API_OUTAGE: Limits = Limits { field: "apiOutage", min: "3s", max: "1h" };
pub(crate) const MAX_HOLD: Limits = Limits { field: "maxHold", min: "1s", max: "24h" };
pub(crate) const LOCK_DELAY: Limits = Limits { field: "lockDelay", min: "0s", max: "1h" };
/// What else is asked of it depends on other fields.
pub(crate) const TIMEOUT: Limits = Limits { field: "timeout", min: "100ms", max: "1m" };
pub(crate) const PRECISION: Limits = Limits { field: "precision", min: "1ms", max: "10s" };

/// One of ten heartbeats.
pub(crate) const PHI_MIN: i32 = Threshold::MIN as i32;
/// One of 10^16.
pub(crate) const PHI_MAX: i32 = Threshold::MAX as i32;

/// Somebody coordinates.
pub(crate) const SHARE_PERCENT_MIN: i32 = 1;
pub(crate) const SHARE_PERCENT_MAX: i32 = 100;

/// A clock that is exact is none.
pub(crate) const DRIFT_PPM_MIN: i32 = 1;
/// One per cent: a clock that goes more wrong is broken.
pub(crate) const DRIFT_PPM_MAX: i32 = 10_000;

/// A clock whose rate never changes is none.
pub(crate) const WANDER_PPB_MIN: i32 = 1;
/// One per mille: a clock whose rate changes by more is broken.
pub(crate) const WANDER_PPB_MAX: i32 = 1_000_000;

/// So that `conclave-NAME` and what Kubernetes appends to it stay below 63 characters.
pub(crate) const NAME_LENGTH_MAX: usize = 40;

/// The election that nominates the leader of the group.
pub const DEFAULT_ELECTION: &str = "default";
/// How many elections a group has at most.
pub(crate) const ELECTIONS_MAX: usize = 16;
/// How long the name of one is at most: that of a label.
pub(crate) const ELECTION_NAME_MAX: usize = 63;

/// How long the name of a Lease is at most.
pub(crate) const LEASE_NAME_MAX: usize = 253;

/// How long the name of a Service is at most.
pub(crate) const SERVICE_NAME_MAX: usize = 63;
/// The first port.
pub(crate) const PORT_MIN: i32 = 1;
/// The last port.
pub(crate) const PORT_MAX: i32 = 65_535;

/// How much longer than the leader lease a lock must last: the time for an election and for the new
/// leader to hear of the holds of the members that live.
pub(crate) const MEMBER_LEASE_MARGIN: Duration = Duration::from_secs(2);

/// How many heartbeats in a row must be lost before a leader loses a member's promise.
pub(crate) const HEARTBEATS_IN_LEADER_LEASE: u32 = 5;

/// What must be true, in the words that follow the name of the field.
pub(crate) mod must {
    pub(crate) const BE_A_LABEL: &str = "must be a DNS-1035 label of at most 40 characters: \
         lower-case letters, digits and dashes, with a letter first and no dash last";
    pub(crate) const HOLD_FIVE_HEARTBEATS: &str = "must be at least five times `heartbeat`";
    pub(crate) const OUTLAST_THE_LEADER_LEASE: &str = "must be at least 2s more than `leaderLease`";
    pub(crate) const LIE_BETWEEN_BEATS_AND_LEASE: &str =
        "must be at least twice `timing.heartbeat` and at most `timing.leaderLease`";
    pub(crate) const BE_A_NAME_OF_AN_ELECTION: &str = "must be 1 to 63 lower-case letters, \
         digits and dashes, and neither begin nor end with a dash";
    pub(crate) const BE_NO_OTHER_ELECTIONS: &str = "must not be that of another election";
    pub(crate) const BE_AFTER_STOP_IN_DEFAULT: &str =
        "must be `afterStop` in the election `default`";
    pub(crate) const BE_NEVER_IN_DEFAULT: &str = "must be `Never` in the election `default`, in which \
         no application states a priority";
    pub(crate) const BE_A_NAME_OF_A_SERVICE: &str = "must be a DNS-1035 label of at most 63 \
         characters that does not begin with `conclave-`";
    pub(crate) const BE_GIVEN: &str = "must be given where the name of the group, a dash and that of \
         the election have more than 63 characters, and in a group whose name is `conclave` or \
         begins with `conclave-`";
    pub(crate) const BE_NO_OTHER_SERVICES: &str = "must not be that of another election's Service";
    pub(crate) const BE_A_NAME_OF_A_LEASE: &str = "must be a DNS-1123 subdomain of at most 253 \
         characters that does not begin with `conclave-`, as the names of registers do";
    pub(crate) const BE_OF_NO_DEFAULT: &str = "must not be given in the election `default`: the \
         leader of the group has the group's register alone";
    pub(crate) const BE_AFTER_STOP_WITH_A_LEASE: &str = "must be `afterStop` with `leaseName`: the \
         next holder of the Lease does not know that the leader before may still believe";
    pub(crate) const BE_NO_OTHER_LEASES: &str = "must not be that of another election's Lease";
    pub(crate) const END_WITH_THE_STAR: &str = "may have `*` only at the end of a pattern";
    pub(crate) const AVERAGE: &str =
        "must not be given with `Cristian` and `NTP`, in which the leader averages nothing";
    pub(crate) const BE_DISTINCT: &str = "may not have two equal patterns in `names`";

    pub(crate) fn ask_each_time() -> String {
        let names: Vec<_> = super::asking().map(|name| format!("`{name}`")).collect();
        let names = match names.as_slice() {
            [others @ .., last] if !others.is_empty() => {
                format!("{} and {last}", others.join(", "))
            }
            few => few.join(""),
        };
        format!("must be `Disabled` with {names}, which ask for each entry")
    }
}

impl Limits {
    /// The rule for the object that has the field.
    fn rule(&self) -> Rule {
        let Self { field, min, max } = self;
        let period = format!("self.{field}");
        let text = format!(
            "duration({period}) >= duration('{min}') && duration({period}) <= duration('{max}')"
        );
        rule(&of_periods(&[&period], &text), field, &self.expectation())
    }

    /// The length of a period within these limits.
    pub(crate) fn check(&self, parent: &str, period: &Period) -> Result<Duration, PolicyError> {
        let field = format!("{parent}.{}", self.field);
        let wrong = |error: PeriodError| PolicyError::new(&field, format!("is wrong: {error}"));
        let duration = period.duration().map_err(wrong)?;
        let within = |min: Duration, max: Duration| (min..=max).contains(&duration);
        let limits =
            Period::new(self.min).duration().ok().zip(Period::new(self.max).duration().ok());
        if limits.is_some_and(|(min, max)| within(min, max)) {
            return Ok(duration);
        }
        Err(PolicyError::new(&field, format!("{}, and is {period}", self.expectation())))
    }

    fn expectation(&self) -> String {
        format!("must be between {} and {}", self.min, self.max)
    }
}

/// The rule for the whole resource.
pub(crate) fn name_rule() -> Rule {
    let text = format!(
        "self.metadata.name.size() <= {NAME_LENGTH_MAX} && \
         self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    );
    Rule::new(text).message(format!("`metadata.name` {}", must::BE_A_LABEL).as_str())
}

/// The same as [`name_rule`], for a name.
pub(crate) fn is_label(name: &str) -> bool {
    name.len() <= NAME_LENGTH_MAX && is_dns_1035(name)
}

fn is_dns_1035(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(inner)
}

/// The rule for the names of Services that come from the name of the group. It counts and compares with a
/// short text alone: the API server takes the name of a resource for one of any length, and adds up the cost.
pub(crate) fn service_rule() -> Rule {
    let room = SERVICE_NAME_MAX - 1;
    let text = format!(
        "self.spec.elections.all(e, !has(e.service) || has(e.service.name) || \
         (self.metadata.name.size() + e.name.size() <= {room} && \
         self.metadata.name != 'conclave' && !self.metadata.name.startsWith('conclave-')))"
    );
    Rule::new(text).message(format!("`service.name` {}", must::BE_GIVEN).as_str())
}

/// The same, for an election of a group.
pub(crate) fn has_room_for_service(group: &str, election: &str) -> bool {
    let ours = group == "conclave" || group.starts_with("conclave-");
    group.len() + election.len() < SERVICE_NAME_MAX && !ours
}

/// The rules for one `service`.
pub(crate) fn service_rules() -> Vec<Rule> {
    let text = "!has(self.name) || (self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && \
                !self.name.startsWith('conclave-'))";
    vec![rule(text, "name", must::BE_A_NAME_OF_A_SERVICE)]
}

/// The same, for a name.
pub(crate) fn is_service_name(name: &str) -> bool {
    name.len() <= SERVICE_NAME_MAX && is_dns_1035(name) && !name.starts_with("conclave-")
}

/// The rule for the names of Services in the list of elections. Those that come from the name of the group are
/// compared by [`policy()`](crate::policy()) alone.
pub(crate) fn distinct_services_rule() -> Rule {
    let named = |e: &str| format!("has({e}.service) && has({e}.service.name)");
    let text = format!(
        "self.all(a, !({}) || self.filter(b, {} && b.service.name == a.service.name).size() == 1)",
        named("a"),
        named("b")
    );
    Rule::new(text).message(format!("`service.name` {}", must::BE_NO_OTHER_SERVICES).as_str())
}

/// The rule for the names of Leases in the list of elections.
pub(crate) fn distinct_leases_rule() -> Rule {
    let text = "self.all(a, !has(a.leaseName) || \
                self.filter(b, has(b.leaseName) && b.leaseName == a.leaseName).size() == 1)";
    Rule::new(text).message(format!("`leaseName` {}", must::BE_NO_OTHER_LEASES).as_str())
}

/// Whether a Lease may have that name: it is no group's register.
pub(crate) fn is_lease_name(name: &str) -> bool {
    let end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.into_iter().all(|byte| byte.is_some_and(|b| end(*b)))
            && bytes.iter().all(|b| end(*b) || *b == b'-')
    };
    name.len() <= LEASE_NAME_MAX && name.split('.').all(label) && !name.starts_with("conclave-")
}

/// The rules for `timing`.
pub(crate) fn timing_rules() -> Vec<Rule> {
    let heartbeats = vec!["duration(self.heartbeat)"; HEARTBEATS_IN_LEADER_LEASE as usize];
    let margin = Period::from(MEMBER_LEASE_MARGIN);
    vec![
        LEADER_LEASE.rule(),
        HEARTBEAT.rule(),
        MEMBER_LEASE.rule(),
        API_OUTAGE.rule(),
        rule(
            &of_periods(
                &["self.leaderLease", "self.heartbeat"],
                &format!("duration(self.leaderLease) >= {}", heartbeats.join(" + ")),
            ),
            "leaderLease",
            must::HOLD_FIVE_HEARTBEATS,
        ),
        rule(
            &of_periods(
                &["self.memberLease", "self.leaderLease"],
                &format!(
                    "duration(self.memberLease) >= duration(self.leaderLease) + duration('{margin}')"
                ),
            ),
            "memberLease",
            must::OUTLAST_THE_LEADER_LEASE,
        ),
    ]
}

/// The rules for `failureDetection` by itself.
pub(crate) fn failure_detection_rules() -> Vec<Rule> {
    let Rule { rule, .. } = TIMEOUT.rule();
    let Limits { field, .. } = &TIMEOUT;
    vec![self::rule(&format!("!has(self.{field}) || {rule}"), field, &TIMEOUT.expectation())]
}

/// The rule for the timeout of detection. A shorter one would suspect a member that loses one heartbeat, or none; after a longer
/// one a lead has ended by its lease.
pub(crate) fn timeout_rule() -> Rule {
    let [timeout, heartbeat, lease] =
        ["failureDetection.timeout", "timing.heartbeat", "timing.leaderLease"]
            .map(|field| format!("self.spec.{field}"));
    let text = format!(
        "duration({timeout}) >= duration({heartbeat}) + duration({heartbeat}) && \
         duration({timeout}) <= duration({lease})"
    );
    let text = of_periods(&[&timeout, &heartbeat, &lease], &text);
    let text = format!("!has({timeout}) || {text}");
    let must = must::LIE_BETWEEN_BEATS_AND_LEASE;
    Rule::new(text).message(format!("`failureDetection.timeout` {must}").as_str())
}

/// The rules for one entry of `elections`. That no two have one name is the list's to see to.
pub(crate) fn election_rules() -> Vec<Rule> {
    let text = "self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
    let handoff = "self.name != 'default' || self.handoff == 'afterStop'";
    let preemption = "self.name != 'default' || self.preemption == 'Never'";
    let lease = "!has(self.leaseName) || (!self.leaseName.startsWith('conclave-') && \
                 self.leaseName.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))";
    vec![
        rule(text, "name", must::BE_A_NAME_OF_AN_ELECTION),
        rule(handoff, "handoff", must::BE_AFTER_STOP_IN_DEFAULT),
        rule(preemption, "preemption", must::BE_NEVER_IN_DEFAULT),
        rule(lease, "leaseName", must::BE_A_NAME_OF_A_LEASE),
        rule("!has(self.leaseName) || self.name != 'default'", "leaseName", must::BE_OF_NO_DEFAULT),
        rule(
            "!has(self.leaseName) || self.handoff == 'afterStop'",
            "handoff",
            must::BE_AFTER_STOP_WITH_A_LEASE,
        ),
    ]
}

/// The same, for a name.
pub(crate) fn is_election_name(name: &str) -> bool {
    let end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=ELECTION_NAME_MAX).contains(&name.len())
        && name.bytes().all(|b| end(b) || b == b'-')
        && name.bytes().next().is_some_and(end)
        && name.bytes().last().is_some_and(end)
}

/// The rules for one entry of `locks`.
pub(crate) fn lock_rules() -> Vec<Rule> {
    let star = "self.names.all(n, n.matches('^[^*]*[*]?$'))";
    let asking = asking().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let cached = format!("self.caching == 'Disabled' || !(self.algorithm in [{asking}])");
    vec![
        MAX_HOLD.rule(),
        LOCK_DELAY.rule(),
        rule(star, "names", must::END_WITH_THE_STAR),
        rule(&cached, "caching", &must::ask_each_time()),
    ]
}

/// The lock algorithms in which a member asks for each entry, by name.
fn asking() -> impl Iterator<Item = &'static str> {
    LockAlgorithm::ALL.into_iter().filter(|one| !one.may_cache()).map(LockAlgorithm::name)
}

/// The same as the rule for `names` in [`lock_rules`], for a pattern.
pub(crate) fn star_is_last(pattern: &str) -> bool {
    pattern.find('*').is_none_or(|at| at + 1 == pattern.len())
}

/// The rule for the list of locks. Within one entry, `names` is a set.
pub(crate) fn distinct_patterns_rule() -> Rule {
    // An entry without names has none in common even with itself: another rule states that it lacks them.
    let text = "self.all(a, self.filter(b, b.names.exists(n, n in a.names)).size() <= 1)";
    Rule::new(text).message(format!("`locks` {}", must::BE_DISTINCT).as_str())
}

/// The rules for `clock`.
pub(crate) fn clock_rules() -> Vec<Rule> {
    let averaging = "!has(self.averaging) || self.algorithm == 'Berkeley'";
    vec![PRECISION.rule(), rule(averaging, "averaging", must::AVERAGE)]
}

/// What must be true of periods that can be read. Of one that cannot, its own rule speaks.
fn of_periods(periods: &[&str], text: &str) -> String {
    let malformed = periods.iter().map(|period| format!("!{}", well_formed(period)));
    format!("{} || ({text})", malformed.collect::<Vec<_>>().join(" || "))
}

fn rule(text: &str, field: &str, must: &str) -> Rule {
    Rule::new(text).message(format!("`{field}` {must}").as_str()).field_path(format!(".{field}"))
}
