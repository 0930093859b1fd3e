//! What an application asks of its node.

use conclave_protocols::elections::DEFAULT;
use conclave_protocols::member::Command;
use conclave_protocols::{Input, LocalTime};
use tokio::sync::oneshot;

use super::{Ending, Moment, PodNode, Surroundings};
use crate::claims::{Ask, AskError, Claim};
use crate::group::{Asked, ElectionError, ElectionRequest, Request, Stands, Stood};

impl PodNode {
    pub(super) fn on_request(
        &mut self,
        at: Moment,
        request: Request,
        around: &mut impl Surroundings,
    ) {
        let now = at.now;
        match request {
            // The caller has hung up: it may ask once more under the same name.
            Request::Ask(_, reply) if reply.is_closed() => {}
            Request::Ask(ask, reply) => {
                let asked = self.ask(now, ask);
                // What it makes the member send is on its way before the caller is answered.
                self.grant_intents(at, around);
                // Callers of the API, which may name it, are of this thread, and have not hung up since.
                if let Err(Ok(Asked { created: true, claim })) = reply.send(asked) {
                    let Claim { lock, id, .. } = claim.borrow().clone();
                    // Nobody knows its name. It may be over already.
                    let _ = self.book.release(now, &lock, &id);
                }
            }
            Request::Find(lock, id, reply) => answered(reply, self.book.find(now, &lock, &id)),
            Request::Renew(lock, id, ttl, reply) => {
                answered(reply, self.book.renew(now, &lock, &id, ttl));
            }
            Request::Release(lock, id, reply) => {
                let released = self.book.release(now, &lock, &id);
                self.grant_intents(at, around);
                answered(reply, released);
            }
            // The caller hung up while it waited.
            Request::Locks(_, reply) if reply.is_closed() => {}
            Request::Locks(which, reply) => answered(reply, self.locks(now, &which)),
            Request::Claims(reply) => answered(reply, self.book.claims(now)),
            Request::Election(name, request) if name == DEFAULT => {
                self.on_default_request(at, request, around);
            }
            Request::Election(name, request) => self.on_election_request(now, &name, request),
            Request::Abandon(lock, id) => self.book.abandon(now, &lock, &id),
            Request::Drain => {
                self.ending = self.ending.or(Some(Ending::Drains));
                around.ends(Ending::Drains);
                self.candidacies.drain();
                self.feed(at, Input::Command(Command::Drain), around);
            }
        }
    }

    fn ask(&mut self, now: LocalTime, ask: Ask) -> Result<Asked, AskError> {
        self.takes_requests().map_err(AskError::NotReady)?;
        let no_view = || AskError::NotReady(NO_VIEW.to_owned());
        let record = self.member.record().ok_or_else(no_view)?;
        self.book.ask(now, ask, &record.policy)
    }

    fn on_election_request(&mut self, now: LocalTime, name: &str, request: ElectionRequest) {
        match request {
            ElectionRequest::Stand(stands, reply) => {
                answered(reply, self.stand(now, name, stands));
            }
            ElectionRequest::HungUp(connection) => self.candidacies.hung_up(name, &connection),
            ElectionRequest::Withdraw(reply) => {
                answered(reply, self.candidacies.withdraw(now, name));
            }
            ElectionRequest::Resign(to, cooldown, reply) => {
                let record = self.member.record();
                let until = now.after(cooldown);
                answered(reply, self.candidacies.resign(name, to.as_deref(), until, record));
            }
            ElectionRequest::Transfer(to, reply) => {
                answered(reply, self.candidacies.transfer(name, &to, self.member.record()));
            }
        }
    }

    fn stand(
        &mut self,
        now: LocalTime,
        election: &str,
        stands: Stands,
    ) -> Result<Stood, ElectionError> {
        self.takes_requests().map_err(ElectionError::NotReady)?;
        if self.ending.is_some() {
            return Err(ElectionError::Closed);
        }
        // It may have learned of a view that it is not in.
        if !self.candidacies.is_informed() {
            return Err(ElectionError::NotReady(NO_VIEW.to_owned()));
        }
        self.candidacies.stand(now, election, stands)
    }

    /// Else it says why not.
    fn takes_requests(&self) -> Result<(), String> {
        if matches!(self.ending, Some(Ending::Waits | Ending::Leaves)) {
            return Err(LEAVING.to_owned());
        }
        if self.member.is_one_too_many() {
            let members = self.member.record().map_or(0, |record| record.members.len());
            return Err(format!("the group is full: it has {members} members"));
        }
        Ok(())
    }
}

/// Why a member that has yet to enter a view does nothing.
pub(in crate::group) const NO_VIEW: &str = "this member is in no view of its group yet";

/// Why a node that leaves does nothing more.
pub(in crate::group) const LEAVING: &str = "the sidecar is leaving its group";

pub(in crate::group) fn answered<T>(reply: oneshot::Sender<T>, answer: T) {
    // The caller has hung up.
    let _ = reply.send(answer);
}
