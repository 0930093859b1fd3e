//! What an application asks of its node.

use conclave_protocols::member::Command;
use conclave_protocols::record::MEMBERS_MAX;
use conclave_protocols::{Input, LocalTime};
use tokio::sync::oneshot;

use super::{Ending, Moment, PodNode, Surroundings};
use crate::claims::{Ask, AskError, Claim};
use crate::group::{Asked, Connection, Request, Stood};

impl PodNode {
    pub(super) fn on_request(
        &mut self,
        at: Moment,
        request: Request,
        around: &mut impl Surroundings,
    ) {
        let now = at.now;
        match request {
            Request::Ask(ask, reply) => {
                let is_named = ask.claim.is_some();
                if let Err(Ok(unheard)) = reply.send(self.ask(now, ask)) {
                    self.give_up(now, &unheard, is_named);
                }
            }
            Request::Find(lock, id, reply) => answered(reply, self.book.find(now, &lock, &id)),
            Request::Renew(lock, id, ttl, reply) => {
                answered(reply, self.book.renew(now, &lock, &id, ttl));
            }
            Request::Release(lock, id, reply) => {
                answered(reply, self.book.release(now, &lock, &id));
            }
            Request::Claims(reply) => answered(reply, self.book.claims(now)),
            Request::Stand(name, priority, connection, reply) => {
                answered(reply, self.stand(&name, priority, connection));
            }
            Request::HungUp(name, connection) => self.candidacies.hung_up(&name, &connection),
            Request::Withdraw(name, reply) => answered(reply, self.candidacies.withdraw(&name)),
            Request::Abandon(lock, id) => self.book.abandon(now, &lock, &id),
            Request::Drain => {
                self.ending = self.ending.or(Some(Ending::Drains));
                around.ends(Ending::Drains);
                self.candidacies.drain();
                self.feed(at, Input::Command(Command::Drain), around);
            }
        }
    }

    /// The caller hung up before it heard of its claim.
    fn give_up(&mut self, now: LocalTime, asked: &Asked, is_named: bool) {
        let Claim { lock, id, .. } = asked.claim.borrow().clone();
        if asked.created && is_named {
            self.book.abandon(now, &lock, &id);
        } else if asked.created {
            // Nobody knows its name. It may be over already.
            let _ = self.book.release(now, &lock, &id);
        }
    }

    fn ask(&mut self, now: LocalTime, ask: Ask) -> Result<Asked, AskError> {
        self.takes_requests()?;
        let Some(record) = self.member.record() else { return not_ready(NO_VIEW) };
        self.book.ask(now, ask, &record.policy)
    }

    fn stand(
        &mut self,
        election: &str,
        priority: i32,
        connection: Option<Connection>,
    ) -> Result<Stood, AskError> {
        self.takes_requests()?;
        if self.ending.is_some() {
            return Err(AskError::Closed);
        }
        // It may have learned of a view that it is not in.
        if !self.candidacies.is_informed() {
            return not_ready(NO_VIEW);
        }
        self.candidacies.stand(election, priority, connection).ok_or(AskError::NoElection)
    }

    fn takes_requests(&self) -> Result<(), AskError> {
        if self.ending == Some(Ending::Leaves) {
            return not_ready(LEAVING);
        }
        if self.member.is_one_too_many() {
            return not_ready(&format!("the group is full: it has {MEMBERS_MAX} members"));
        }
        Ok(())
    }
}

fn not_ready<T>(why: &str) -> Result<T, AskError> {
    Err(AskError::NotReady(why.to_owned()))
}

/// Why a member that has yet to enter a view does nothing.
pub(in crate::group) const NO_VIEW: &str = "this member is in no view of its group yet";

/// Why a node that leaves does nothing more.
pub(in crate::group) const LEAVING: &str = "the sidecar is leaving its group";

pub(in crate::group) fn answered<T>(reply: oneshot::Sender<T>, answer: T) {
    // The caller has hung up.
    let _ = reply.send(answer);
}
