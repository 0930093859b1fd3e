//! All the rules of the operator.

use std::collections::BTreeSet;

use conclave_crds::{AuthorityStatus, ConclaveStatus};
use conclave_protocols::record::Record;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;

use crate::elections;
use crate::notices::{Notice, notices};
use crate::objects::{self, covers};
use crate::observe::{Observed, PodSeen};
use crate::record::{Loss, Register, lost_record};
use crate::status;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Tell the group who certifies its members, if nobody has changed the resource since.
    SetAuthority(AuthorityStatus),
    /// Make a Service as it should be.
    ApplyService(Box<Service>),
    /// Make the Role as it should be.
    ApplyRole(Box<Role>),
    /// Make the RoleBinding as it should be.
    ApplyRoleBinding(Box<RoleBinding>),
    /// Replace the status, if nobody has changed the resource since it was read.
    SetStatus(Box<ConclaveStatus>),
    /// Create the register. If somebody else has, so be it.
    CreateLease(Box<Lease>),
    /// Put a mark in the place of a record that was lost, if nobody has changed the Lease since it was
    /// read.
    MarkLease(Box<Lease>),
    /// Make the register of an earlier resource of the same name this one's, if nobody has changed the Lease since it
    /// was read.
    TakeOverLease(Box<Lease>),
    /// Make of an election's slice what is the operator's.
    ApplySlice(Box<EndpointSlice>),
    /// Take a pod that is gone off a slice, if nobody has changed that since it was read.
    EmptySlice(ObjectRef),
    /// Delete the Service of an election that has none any more.
    DeleteService(ObjectRef),
    /// Delete the slice of an election that is not published any more.
    DeleteSlice(ObjectRef),
    /// Tell people.
    Announce(Notice),
}

/// An object as it was read, and no other of the same name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectRef {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

impl ObjectRef {
    pub(crate) fn of(object: &impl ResourceExt) -> Self {
        Self { name: object.name_any(), uid: object.uid(), version: object.resource_version() }
    }
}

/// What to do, in this order, so that a group is as it should be. If one change fails, those after
/// it are not tried.
///
/// A resource that is being deleted is left alone: everything made for it but its Lease goes with it, by its
/// owner.
pub fn plan(observed: &Observed) -> Vec<Change> {
    if observed.conclave.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let status = status::status(observed);
    let mut changes: Vec<_> = authority(observed).into_iter().collect();
    changes.extend(children(observed));
    let authority = status.authority.clone();
    let before = observed.conclave.status.clone();
    if before.map(|before| ConclaveStatus { authority, ..before }).as_ref() != Some(&status) {
        changes.push(Change::SetStatus(Box::new(status.clone())));
    }
    changes.extend(register(observed));
    changes.extend(notices(observed, &status).into_iter().map(Change::Announce));
    // Last, so that a Service that is refused keeps nothing else from the group.
    changes.extend(elections::changes(observed));
    changes
}

/// The authority of the members comes first: what is refused of the rest may not keep it from them, and
/// one that may refuse it may not keep the authority from being replaced.
fn authority(observed: &Observed) -> Option<Change> {
    let known = observed.conclave.status.as_ref().and_then(|status| status.authority.as_ref());
    let notified = observed.authority.as_ref().filter(|notified| Some(*notified) != known)?;
    Some(Change::SetAuthority(notified.clone()))
}

fn children(observed: &Observed) -> Vec<Change> {
    let (conclave, children) = (&observed.conclave, &observed.children);
    let mut changes = Vec::new();
    let service = objects::service(conclave);
    if !covers(children.service.as_ref(), &service) {
        changes.push(Change::ApplyService(Box::new(service)));
    }
    let role = objects::role(conclave);
    if !covers(children.role.as_ref(), &role) {
        changes.push(Change::ApplyRole(Box::new(role)));
    }
    let binding = objects::role_binding(conclave, &accounts(&observed.pods));
    if !covers(children.role_binding.as_ref(), &binding) {
        changes.push(Change::ApplyRoleBinding(Box::new(binding)));
    }
    changes.extend(elections::no_longer_wanted(observed));
    changes
}

/// The service accounts that need the role: a pod that is going down still hands over.
fn accounts(pods: &[PodSeen]) -> BTreeSet<String> {
    pods.iter().filter(|pod| !pod.is_over).map(|pod| pod.service_account.clone()).collect()
}

/// A missing register is created, and a mark put in the place of a record that was lost.
///
/// Whether a missing one was lost is shown by the status, which has an epoch from before the register was
/// first created ([`Change::SetStatus`] comes first, and fails if the resource is not the one that was
/// read). So a status without an epoch proves that there was never a register, and nobody can be
/// in a leader lease that a fresh one would give away again. A crash between the two writes looks like a
/// loss: then the group waits once in vain, which is safe.
///
/// The register of an earlier resource of the same name is taken over: members of that may go on to lead and to hold where
/// notice of its end has not come, for as long as its record states. The status, which comes first, has the numbers and the
/// waits of it. Where it has no record any more that can be read, a person has to know that nothing runs of that group.
fn register(observed: &Observed) -> Vec<Change> {
    let conclave = &observed.conclave;
    let loss = match &observed.register {
        Register::Absent
            if conclave.status.as_ref().is_none_or(|status| status.epoch.is_none()) =>
        {
            return vec![Change::CreateLease(Box::new(objects::new_lease(conclave)))];
        }
        Register::Absent => Loss::Deleted,
        Register::Empty if status::was_used(conclave) => Loss::Emptied,
        Register::Unreadable(error) => Loss::Unreadable(error.clone()),
        Register::Earlier(record) => return take_over(observed, record.as_deref()),
        Register::Foreign
        | Register::EarlierUnknown
        | Register::Empty
        | Register::Later(_)
        | Register::View(_) => return Vec::new(),
    };
    let mark = lost_record(conclave, observed.nonce);
    let change = if let Some(lease) = &observed.lease {
        Change::MarkLease(Box::new(objects::with_record(lease.clone(), &mark)))
    } else {
        let lease = objects::with_record(objects::new_lease(conclave), &mark);
        Change::CreateLease(Box::new(lease))
    };
    vec![change, Change::Announce(Notice::RegisterLost { loss, waits: mark.timing })]
}

fn take_over(observed: &Observed, record: Option<&Record>) -> Vec<Change> {
    let Some(lease) = observed.lease.clone() else { return Vec::new() };
    let lease = objects::taken_over(lease, record, &observed.conclave);
    let notice = record.map(|record| {
        let waits = (!record.is_closed()).then_some(record.timing);
        Change::Announce(Notice::RegisterTakenOver { waits })
    });
    [Change::TakeOverLease(Box::new(lease))].into_iter().chain(notice).collect()
}

#[cfg(test)]
mod tests;
