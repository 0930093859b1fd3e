//! Views and leader leases: which steps there are, when each may be taken, and what follows.
//!
//! Each condition stands at the words `RULE n`, with the number that it has in `docs/views.md`. What is
//! looked at is what could be seen by somebody who sees everybody: not whether a candidate knows enough
//! seals, but whether enough were given.

use std::collections::BTreeMap;
use std::time::Duration;

use super::breach::{Allowed, Breach, need};
use super::clocks::Clocks;
use super::content::Content;
use super::event::{Event, TraceEntry};
use super::leader_lease::{LeaderLease, Processes, Promise};
use super::process::{Belief, Process};
use crate::ids::{Epoch, FencingToken, Incarnation, LockName};

/// The rules, and what is so after the steps that were taken so far.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) clocks: Clocks,
    /// What the register holds.
    register: Option<Content>,
    /// All views that it ever held.
    pub(super) leader_leases: BTreeMap<Epoch, LeaderLease>,
    pub(super) processes: Processes,
    /// The highest token of each lock that anybody was given.
    pub(super) tokens: BTreeMap<LockName, FencingToken>,
    steps: u64,
}

impl Rules {
    /// A group whose register was never used.
    pub fn new(clocks: Clocks) -> Self {
        Self {
            clocks,
            register: None,
            leader_leases: BTreeMap::new(),
            processes: Processes::new(),
            tokens: BTreeMap::new(),
            steps: 0,
        }
    }

    /// How many steps were taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Takes a step, if it is one.
    ///
    /// # Errors
    ///
    /// The rule that does not allow it.
    pub fn step(&mut self, at: Duration, entry: &TraceEntry<Duration>) -> Result<(), Breach> {
        self.steps += 1;
        let Some(who) = entry.who else {
            if let Event::Replaced(content) = &entry.event {
                self.put(at, content.clone());
            }
            return Ok(());
        };
        match &entry.event {
            Event::Started(rate) => {
                self.processes.insert(who, Process::new(*rate));
                Ok(())
            }
            Event::Ended => {
                self.process(who).ended.get_or_insert(at);
                Ok(())
            }
            Event::Read(content) => {
                // RULE 8. The register confirms a view that is not closing.
                if content.confirms() {
                    self.process(who).confirm(at, content.epoch);
                }
                Ok(())
            }
            Event::Wrote { compared, content } => self.wrote(at, who, *compared, content),
            Event::Replaced(content) => {
                self.put(at, content.clone());
                Ok(())
            }
            Event::Entered(epoch) => self.entered(at, who, *epoch),
            Event::Refused(epoch) => {
                self.refuse(at, who, *epoch);
                Ok(())
            }
            Event::Promised(epoch) => self.promised(at, who, *epoch),
            Event::Sealed(epoch) => self.sealed(at, who, *epoch),
            Event::GaveTable(epoch) => self.gave_table(at, who, *epoch),
            Event::Leads(epoch, until) => self.leads(at, who, *epoch, *until),
            Event::LeadsNot => {
                self.leads_not(at, who);
                Ok(())
            }
            Event::Acknowledged { epoch, member, stamp } => {
                self.acknowledged(at, who, *epoch, (*member, *stamp))
            }
            Event::Granted(epoch) => self.granted(at, who, *epoch),
            Event::Held { lock, token, epoch, until } => {
                self.held(at, who, lock, *token, *epoch, *until)
            }
            Event::Extended { lock, until } => self.extended(at, who, lock, *until),
            Event::Released(lock) => {
                self.released(who, lock);
                Ok(())
            }
            Event::Lost(lock) => {
                self.lost(who, lock);
                Ok(())
            }
        }
    }

    pub(super) fn process(&mut self, who: Incarnation) -> &mut Process {
        self.processes.entry(who).or_default()
    }

    pub(super) fn leader_lease(
        &mut self,
        rule: u8,
        epoch: Epoch,
    ) -> Result<&mut LeaderLease, Breach> {
        let what = || Breach { rule, what: format!("the register never held view {epoch}") };
        self.leader_leases.get_mut(&epoch).ok_or_else(what)
    }

    // ----- the register

    /// The register holds this from now on.
    fn put(&mut self, at: Duration, content: Option<Content>) {
        // RULE 15 (c). A view that the register does not hold, or holds as closing, is confirmed to nobody.
        let confirmable = |held: &Option<Content>| {
            held.as_ref().filter(|content| content.confirms()).map(|content| content.epoch)
        };
        let (old, new) = (confirmable(&self.register), confirmable(&content));
        if let Some(leader_lease) =
            old.filter(|old| Some(*old) != new).and_then(|old| self.leader_leases.get_mut(&old))
        {
            leader_lease.unconfirmed = Some(at);
        }
        if let Some(leader_lease) = new.and_then(|new| self.leader_leases.get_mut(&new)) {
            leader_lease.unconfirmed = None;
        }
        self.register = content;
    }

    /// A member replaced what the register held.
    fn wrote(
        &mut self,
        at: Duration,
        by: Incarnation,
        compared: bool,
        content: &Content,
    ) -> Allowed {
        // RULE 1.
        need(1, compared, || format!("{by} replaced what it had not read"))?;
        let before = self.register.clone();
        match &before {
            Some(before) if before.epoch == content.epoch => {
                self.rewrote(at, by, before, content)?;
            }
            Some(_) | None => self.began(at, by, before.as_ref(), content)?,
        }
        self.put(at, Some(content.clone()));
        if content.confirms() {
            self.process(by).confirm(at, content.epoch);
        }
        Ok(())
    }

    /// The record of a view was changed.
    fn rewrote(
        &mut self,
        at: Duration,
        by: Incarnation,
        before: &Content,
        content: &Content,
    ) -> Allowed {
        let epoch = content.epoch;
        if content.closing && !before.closing {
            // RULE 15 (c). The mark, which states nothing else.
            let same = (&before.members, before.leader) == (&content.members, content.leader);
            return need(15, same, || format!("{by} marked view {epoch} and changed it"));
        }
        if content.leader.is_none() && before.leader.is_some() {
            // RULE 13. The member that leaves last resigns before it writes that nobody leads.
            let led = before.leader == Some(by);
            let resigned = self.leader_lease(13, epoch)?.resigned.is_some();
            let believes = self.process(by).leads(at, epoch);
            return need(13, led && resigned && !believes, || {
                format!("{by} wrote that nobody leads view {epoch}, and it is still led")
            });
        }
        // RULE 23. The leader raises the ceiling.
        let raised = content.ceiling > before.ceiling && content.leader == Some(by);
        need(23, raised, || format!("{by} changed view {epoch}"))?;
        let leader_lease = self.leader_lease(23, epoch)?;
        leader_lease.content.ceiling = leader_lease.content.ceiling.max(content.ceiling);
        Ok(())
    }

    /// A view began.
    fn began(
        &mut self,
        at: Duration,
        by: Incarnation,
        before: Option<&Content>,
        content: &Content,
    ) -> Allowed {
        let epoch = content.epoch;
        // RULE 17. Its number, its leader and its members.
        let above = before.is_none_or(|before| epoch > before.epoch.max(before.ceiling));
        let known = self.leader_leases.last_key_value().is_none_or(|(last, _)| epoch > *last);
        need(17, above && known, || format!("view {epoch} is not above those before"))?;
        let leads = content.leader == Some(by) && content.members.contains(&by);
        need(17, leads && content.confirms(), || format!("{by} began view {epoch} for another"))?;
        // RULE 15. Every leader lease of before is over.
        let mut grace_until = Duration::ZERO;
        for (earlier, leader_lease) in &mut self.leader_leases {
            let over = || leader_lease.over_since(at, by, self.clocks, &self.processes);
            leader_lease.over = leader_lease.over.or_else(over);
            need(15, leader_lease.over.is_some(), || {
                format!("{by} began view {epoch} while the leader lease of view {earlier} may live")
            })?;
            grace_until = leader_lease.grace_after(at, by, self.clocks, &self.processes);
        }
        // RULE 20. A record that was closed states by itself what is to be waited for. That nothing is granted
        // which somebody holds is looked at with each grant.
        if before.is_some_and(|before| before.leader.is_none() && !before.base_unknown) {
            grace_until = Duration::ZERO;
        }
        self.leader_leases.insert(epoch, LeaderLease::new(content.clone(), grace_until));
        Ok(())
    }

    // ----- members

    fn entered(&mut self, at: Duration, who: Incarnation, epoch: Epoch) -> Allowed {
        let member = self.leader_lease(12, epoch)?.content.members.contains(&who);
        need(12, member, || format!("{who} entered view {epoch}, which does not name it"))?;
        // RULE 38. Nobody leaves a view that it follows for one that does not go back to it.
        let base = self.leader_lease(38, epoch)?.content.base.unwrap_or(epoch);
        let mut between = self.leader_leases.range(base.next().min(epoch)..epoch);
        let left = between.find(|(_, leader_lease)| {
            leader_lease.promises.get(&who).is_some_and(|promise| promise.until > at + GRAIN)
        });
        let left = left.map(|(view, _)| *view);
        need(38, left.is_none(), || {
            format!("{who} entered view {epoch}, made from {base}, and promised in {left:?}")
        })?;
        let process = self.process(who);
        // RULES 12 and 19. What was sealed, left, or entered before is not entered again.
        let open = process.refuses < epoch && process.entered < epoch;
        need(19, open, || format!("{who} entered view {epoch} again"))?;
        process.entered = epoch;
        self.refuse(at, who, Epoch(epoch.0 - 1));
        Ok(())
    }

    /// A member takes no part in any view up to this one; if it led one, that leader lease is over.
    fn refuse(&mut self, at: Duration, who: Incarnation, epoch: Epoch) {
        let process = self.process(who);
        process.refuses = process.refuses.max(epoch);
        let belief = process.belief;
        for (led, leader_lease) in self.leader_leases.range_mut(..=epoch) {
            if leader_lease.content.leader == Some(who) && leader_lease.resigned.is_none() {
                leader_lease.resigned = Some(at);
                // RULE 13. A leader that resigns with its leader lease has its table.
                let leads = belief.is_some_and(|b| b.epoch == *led && b.until > at);
                leader_lease.has_table |= leads;
            }
        }
    }

    fn promised(&mut self, at: Duration, who: Incarnation, epoch: Epoch) -> Allowed {
        let content = &self.leader_lease(8, epoch)?.content;
        let (named, timing) = (content.members.contains(&who), content.timing);
        // RULE 8. In the view that it is in, which refuses nothing as high, ...
        need(8, named, || format!("{who} promised in view {epoch}, which does not name it"))?;
        let process = self.process(who);
        let open = process.refuses < epoch && process.entered <= epoch && process.ended.is_none();
        need(8, open, || format!("{who} promised in view {epoch}, which it refuses"))?;
        // ... and which the register confirmed within E.
        let confirmed = process.confirmed(epoch);
        let outage = process.span(timing.api_outage);
        let until = at + process.span(timing.leader_lease);
        need(8, confirmed.is_some_and(|confirmed| at < confirmed + outage), || {
            format!("{who} promised in view {epoch}, last confirmed at {confirmed:?}")
        })?;
        self.leader_lease(8, epoch)?.promises.insert(who, Promise { at, until });
        Ok(())
    }

    fn sealed(&mut self, at: Duration, who: Incarnation, epoch: Epoch) -> Allowed {
        // RULE 12. Nobody seals while its own promise runs. What a leader promised itself counts for nobody else.
        let led = self
            .leader_leases
            .get(&epoch)
            .is_some_and(|leader_lease| leader_lease.content.leader == Some(who));
        for (view, leader_lease) in self.leader_leases.range(..=epoch) {
            let promise = leader_lease.promises.get(&who).map(|promise| promise.until);
            let ran_out = promise.is_none_or(|until| until <= at + GRAIN);
            // RULE 13. Of an earlier view whose leader gave its table nothing is left to be waited for: the
            // next began with all that it held.
            let handed_on = *view < epoch && leader_lease.has_table;
            let own = led || leader_lease.content.leader == Some(who);
            need(12, ran_out || own || handed_on, || {
                format!("{who} sealed view {epoch}, and promised in view {view} until {promise:?}")
            })?;
        }
        let believes = self.process(who).leads(at, epoch);
        need(12, !believes, || format!("{who} sealed view {epoch}, and leads it"))?;
        if let Some(leader_lease) = self.leader_leases.get_mut(&epoch) {
            leader_lease.seals.entry(who).or_insert(at);
        }
        self.refuse(at, who, epoch);
        Ok(())
    }

    fn gave_table(&mut self, at: Duration, who: Incarnation, epoch: Epoch) -> Allowed {
        let leader_lease = self.leader_lease(13, epoch)?;
        // RULE 13.
        let led = leader_lease.content.leader == Some(who);
        need(13, led, || format!("{who} gave a table of view {epoch}, which it never led"))?;
        leader_lease.has_table = true;
        self.refuse(at, who, epoch);
        Ok(())
    }

    fn leads(&mut self, at: Duration, who: Incarnation, epoch: Epoch, until: Duration) -> Allowed {
        let clocks = self.clocks;
        let process = self.process(who).clone();
        let leader_lease = self.leader_lease(9, epoch)?;
        let named = leader_lease.content.leader == Some(who);
        need(9, named, || format!("{who} leads view {epoch}, which names another"))?;
        // RULES 13 and 19. Resigning is final, and nobody takes a leader lease that it sealed.
        let open =
            leader_lease.resigned.is_none() && process.refuses < epoch && process.ended.is_none();
        need(13, open, || format!("{who} leads view {epoch}, which it gave up"))?;
        // RULE 9.
        let lasts = leader_lease.lasts_until(clocks, &process);
        need(9, until <= lasts + GRAIN, || {
            format!("{who} leads view {epoch} until {until:?}, promised until {lasts:?}")
        })?;
        // RULE 15. No leader before believes that it leads any more.
        let other = self.processes.iter().find(|(other, process)| {
            **other != who && process.belief.is_some_and(|belief| belief.until > at)
        });
        need(15, other.is_none(), || {
            format!(
                "{who} leads view {epoch}, and {:?} believes to lead",
                other.map(|(who, _)| *who)
            )
        })?;
        // RULE 7.
        let notified = process.belief.filter(|belief| belief.epoch == epoch && belief.until > at);
        need(7, notified.is_none_or(|belief| belief.until <= until + GRAIN), || {
            format!(
                "the leader lease of {who} was promised until {notified:?}, and is over at {until:?}"
            )
        })?;
        self.process(who).belief = Some(Belief { epoch, until });
        Ok(())
    }

    /// A leader lease that ends before its time was given up.
    fn leads_not(&mut self, at: Duration, who: Incarnation) {
        let process = self.process(who);
        let belief = process.belief.filter(|_| process.ended.is_none());
        if let Some(known) = &mut process.belief {
            known.until = known.until.min(at);
        }
        if let Some(belief) = belief.filter(|belief| belief.until > at + GRAIN)
            && let Some(leader_lease) = self.leader_leases.get_mut(&belief.epoch)
        {
            leader_lease.resigned.get_or_insert(at);
            leader_lease.has_table = true;
        }
    }
}

/// Readings of clocks that are turned into true time and back differ by that.
pub(super) const GRAIN: Duration = Duration::from_micros(2);

impl Content {
    /// Whether a member that reads this may go on promising in its view (rule 8).
    fn confirms(&self) -> bool {
        !self.closing && !self.base_unknown
    }
}
