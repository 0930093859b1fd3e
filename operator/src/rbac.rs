//! What the operator itself may do: the chart grants exactly this.

/// One permission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permission {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
    /// Which code needs it.
    pub why: &'static str,
}

/// What the operator may do in the namespaces that it looks after.
///
/// Kubernetes lets nobody grant what he does not have, so everything in the Role of a group
/// ([`objects::role`](crate::objects::role)) is here too. Such a right names no object, so a policy of the chart
/// (`charts/conclave/templates/cluster.yaml`) has the API server refuse what is no group's.
pub const PERMISSIONS: &[Permission] = &[
    Permission {
        group: "conclave.dev",
        resource: "conclaves",
        verbs: &["get", "list", "watch"],
        why: "`observe` and the watch; `authority`, `injector` and `strays` look a group up; granted to members",
    },
    Permission {
        group: "conclave.dev",
        resource: "conclaves/status",
        verbs: &["patch"],
        why: "`apply` sets the status",
    },
    Permission {
        group: "conclave.dev",
        resource: "conclaves/finalizers",
        verbs: &["update"],
        why: "ownership, where the API server asks for it (OwnerReferencesPermissionEnforcement)",
    },
    Permission {
        group: "",
        resource: "pods",
        verbs: &["get", "list", "watch"],
        why: "`observe`, `relabelled`, `strays` and the watch; granted to members where containers are evidence",
    },
    Permission {
        group: "",
        resource: "services",
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "the headless Service; the Services of elections, deleted when they are wanted no longer",
    },
    Permission {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["get", "list", "watch", "create", "update"],
        why: "the register is created once, marked where its record was lost, and taken over from an earlier group; \
              members update it, and the Leases of elections, which are created too",
    },
    Permission {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "the Role of a group",
    },
    Permission {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "the RoleBinding of a group",
    },
    Permission {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        verbs: &["get", "list", "watch", "create", "patch", "delete"],
        why: "the slices of elections; members find one another by others, and patch those of their elections",
    },
    Permission {
        group: "events.k8s.io",
        resource: "events",
        verbs: &["create", "patch"],
        why: "Events: `apply`, and `injector` of pods that are refused",
    },
];

/// What the operator may do in its own namespace, beside [`PERMISSIONS`].
pub const OWN_NAMESPACE: &[Permission] = &[
    Permission {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["get", "create", "update"],
        why: "`leadership`: which replica acts",
    },
    Permission {
        group: "",
        resource: "secrets",
        verbs: &["get", "create", "update"],
        why: "`authority`: one Secret, by its name",
    },
    Permission {
        group: "",
        resource: "services",
        verbs: &["get"],
        why: "`authority`: its own address, by its name",
    },
];

/// What the operator may do with what belongs to no namespace.
pub const CLUSTER: &[Permission] = &[
    Permission {
        group: "authentication.k8s.io",
        resource: "tokenreviews",
        verbs: &["create"],
        why: "`authority`: which pod a token belongs to",
    },
    Permission {
        group: "admissionregistration.k8s.io",
        resource: "mutatingwebhookconfigurations",
        verbs: &["get", "patch"],
        why: "`authority`: whom the API server trusts when it calls the webhook, by its name",
    },
];

#[cfg(test)]
mod tests {
    use conclave_crds::{Conclave, ConclaveSpec, ElectionSpec, Evidence};

    use super::*;
    use crate::objects;

    #[test]
    fn the_operator_has_whatever_it_grants() {
        let evidence = Evidence::ContainerStatus;
        let (name, lease_name) = ("reports".to_owned(), Some("reports".to_owned()));
        let reports = ElectionSpec { name, lease_name, ..ElectionSpec::default() };
        let elections = vec![reports];
        let spec = ConclaveSpec { evidence, elections, ..ConclaveSpec::default() };
        let role = objects::role(&Conclave::new("orders", spec));
        for rule in role.rules.unwrap_or_default() {
            let (groups, resources) = (rule.api_groups.unwrap_or_default(), rule.resources);
            let resources = resources.unwrap_or_default();
            let same = |permission: &&Permission| {
                groups == [permission.group] && resources == [permission.resource]
            };
            let permission = PERMISSIONS.iter().find(same).expect("a permission for the resource");
            assert!(rule.verbs.iter().all(|verb| permission.verbs.contains(&verb.as_str())));
        }
    }
}
