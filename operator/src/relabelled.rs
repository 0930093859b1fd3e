//! Members whose pod lives and does not have the label of their group any more: somebody has changed it, or taken it off.
//! The sidecar goes on in the group that it was injected for, so the `Conclave` has a condition that says so, and the
//! pod an Event.

use std::collections::BTreeSet;

use conclave_crds::GROUP_LABEL;
use conclave_pods::inject::INJECTED_LABEL;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::conditions::{Finding, Verdict};
use crate::observe::{Observed, PodSeen, is_alive};
use crate::record::{MemberView, Register};
use crate::status::{MEMBERS_LABELLED, finding, some_of};

/// Such a member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Relabelled {
    /// The name of its pod.
    pub pod: String,
    /// The UID of that.
    pub uid: String,
    /// What its label says now, if it has one.
    pub label: Option<String>,
}

impl Relabelled {
    /// What that means, for people.
    pub(crate) fn note(&self, group: &str) -> String {
        let what = match &self.label {
            Some(label) => format!("was changed to `{label}`"),
            None => "was taken off".to_owned(),
        };
        format!(
            "the label `{GROUP_LABEL}` of this pod {what} while it lives, which does not move it: its sidecar stays a \
             member of `{group}`, without what the operator gives to pods of that, until the pod is made anew"
        )
    }
}

/// Looks for pods of members that are not among those with the label. Most of them are gone.
pub(crate) async fn find(
    group: &str,
    pods: &Api<Pod>,
    register: &Register,
    labelled: &[PodSeen],
) -> kube::Result<Vec<Relabelled>> {
    let members = register.view().map(|view| view.members.as_slice()).unwrap_or_default();
    let uid_of = |member: &MemberView| member.incarnation.pod.to_string();
    let mut missing: BTreeSet<String> = members.iter().map(uid_of).collect();
    missing.retain(|uid| labelled.iter().all(|pod| pod.uid != *uid));
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let elsewhere = format!("{INJECTED_LABEL}=true,{GROUP_LABEL}!={group}");
    let elsewhere = pods.list(&ListParams::default().labels(&elsewhere)).await?;
    let is_one = |pod: &&Pod| pod.uid().is_some_and(|uid| missing.contains(&uid)) && is_alive(pod);
    let relabelled = elsewhere.iter().filter(is_one).map(|pod| Relabelled {
        pod: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        label: pod.labels().get(GROUP_LABEL).cloned(),
    });
    Ok(relabelled.collect())
}

/// The condition, if there is such a member.
pub(crate) fn condition(observed: &Observed) -> Option<Finding> {
    let relabelled = &observed.relabelled;
    let names = some_of(relabelled.iter().map(|member| member.pod.as_str()));
    let message = format!(
        "the label `{GROUP_LABEL}` of living pods was changed or taken off, and their sidecars are members as before: {names}"
    );
    (!relabelled.is_empty())
        .then(|| finding(MEMBERS_LABELLED, Verdict::False, "LabelChanged", message))
}
