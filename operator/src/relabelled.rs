//! Members whose pod lives and does not have the label of their group any more: somebody has changed it, or taken it off.
//! The sidecar goes on in the group that it was injected for, so the `Conclave` has a condition that says so, and the
//! pod an Event.

use conclave_crds::GROUP_LABEL;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
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
    pods: &Api<Pod>,
    register: &Register,
    labelled: &[PodSeen],
) -> kube::Result<Vec<Relabelled>> {
    let members = register.view().map(|view| view.members.as_slice()).unwrap_or_default();
    let is_missing = |member: &&MemberView| {
        let uid = member.incarnation.pod.to_string();
        labelled.iter().all(|pod| pod.uid != uid)
    };
    let looks = members.iter().filter(is_missing).take(LOOKS).map(|member| async move {
        let pod = pods.get_opt(&member.name).await?;
        let same = pod.filter(|pod| pod.uid() == Some(member.incarnation.pod.to_string()));
        Ok::<_, kube::Error>(same.filter(is_alive).map(|pod| Relabelled {
            pod: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            label: pod.labels().get(GROUP_LABEL).cloned(),
        }))
    });
    Ok(try_join_all(looks).await?.into_iter().flatten().collect())
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

/// How many pods are looked for at a time: a record names its members long after they are gone.
const LOOKS: usize = 8;
