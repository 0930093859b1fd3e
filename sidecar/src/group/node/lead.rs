//! The election `default`: this member, which leads the group, gives the lead to another, or asks for that.

use std::time::Duration;

use conclave_protocols::elections::{DEFAULT, hold_of};
use conclave_protocols::member::{Command, ElectionCommand, Leadership};
use conclave_protocols::{Incarnation, Input, LocalTime};

use super::requests::answered;
use super::{Moment, PodNode, Surroundings};
use crate::group::candidacies::is_of_pod;
use crate::group::{ElectionError, ElectionRequest};

impl PodNode {
    /// All members stand in it, whatever their applications say.
    pub(super) fn on_default_request(
        &mut self,
        at: Moment,
        request: ElectionRequest,
        around: &mut impl Surroundings,
    ) {
        match request {
            ElectionRequest::Resign(to, cooldown, reply) => {
                let named = self.names(at.now, to.as_deref());
                if let Ok(to) = named {
                    self.feed(at, Input::Command(Command::Resign { to, cooldown }), around);
                    // The application has stopped. Another may still follow its stream, and is notified by that.
                    if self.notified.streams == 0 {
                        self.feed(at, Input::Command(Command::Notified(at.now)), around);
                    }
                }
                answered(reply, named.map(|_| ()));
            }
            ElectionRequest::Transfer(to, reply) => {
                answered(reply, self.ask_for_transfer(at, &to, around));
            }
            ElectionRequest::Stand(..)
            | ElectionRequest::HungUp(_)
            | ElectionRequest::Withdraw(_) => request.refuse(ElectionError::NoElection),
        }
    }

    /// The member that is to lead next, if this one leads and a pod is named.
    fn names(
        &self,
        now: LocalTime,
        to: Option<&str>,
    ) -> Result<Option<Incarnation>, ElectionError> {
        match self.leadership {
            Leadership::Leading(_) | Leadership::HandingOver => {}
            Leadership::Following(..) | Leadership::Electing | Leadership::Isolated => {
                return Err(ElectionError::NotLeader);
            }
        }
        let others = |to: &str| {
            let member = self.candidate(now, to)?;
            let other = Some(member).filter(|member| *member != self.me);
            other.ok_or_else(|| ElectionError::NoCandidate(to.to_owned()))
        };
        to.map(others).transpose()
    }

    /// Asks the leader, whichever member that is. To the leader itself there is nothing to transfer.
    fn ask_for_transfer(
        &mut self,
        at: Moment,
        to: &str,
        around: &mut impl Surroundings,
    ) -> Result<(), ElectionError> {
        let leader = self.member.record().and_then(|record| record.leader);
        if leader.is_some() && self.find(to) == leader {
            return Ok(());
        }
        let to = self.candidate(at.now, to)?;
        let command = match self.leadership {
            Leadership::Leading(_) | Leadership::HandingOver => {
                Command::Resign { to: Some(to), cooldown: Duration::ZERO }
            }
            Leadership::Following(..) => {
                let election = hold_of(DEFAULT).ok_or(ElectionError::NoElection)?;
                Command::Service(ElectionCommand::Transfer { election, to }.into())
            }
            Leadership::Electing | Leadership::Isolated => {
                let why = "this member knows nobody that leads the group at the moment";
                return Err(ElectionError::NotReady(why.to_owned()));
            }
        };
        self.feed(at, Input::Command(command), around);
        Ok(())
    }

    /// The member of that pod's name or UID, if it could lead next.
    fn candidate(&self, now: LocalTime, pod: &str) -> Result<Incarnation, ElectionError> {
        let member = self.find(pod).filter(|member| self.member.may_lead_next(now, *member));
        member.ok_or_else(|| ElectionError::NoCandidate(pod.to_owned()))
    }

    fn find(&self, pod: &str) -> Option<Incarnation> {
        let mut members = self.member.record()?.members.iter();
        members.find(|info| is_of_pod(info, pod)).map(|info| info.incarnation)
    }
}
