//! An operator of one team's: it is installed by somebody who has no right outside of two namespaces,
//! and an administrator adds what belongs to no namespace.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use conclave_e2e::product::{self, Group};
use conclave_testbed::cluster::{Cluster, Namespace};

#[test]
fn a_team_without_a_right_in_the_cluster_installs_its_own_operator() -> Result<()> {
    let cluster = Cluster::from_env()?;
    // It brings the definition, which stays when it goes: two operators would look after the
    // groups of the team.
    product::install(&cluster)?;
    product::helm_uninstall(&cluster)?;
    let outcome = cluster.in_namespace("team-system", |system| {
        cluster.in_namespace("team-shop", |shop| {
            let team = Team { system, shop };
            let administrators = team.what_the_administrator_adds()?;
            let outcome = team.installs(&administrators);
            let delete = ["delete", "--ignore-not-found", "--filename=-"];
            // Also after a failure: a webhook without its operator admits no pod.
            let deleted = cluster.kubectl_with_input(&delete, &administrators).map(drop);
            outcome.and(deleted)
        })
    });
    let installed = product::install(&cluster);
    outcome.and(installed)
}

/// Who may do everything in these two namespaces, and nothing elsewhere.
struct Team<'a> {
    system: &'a Namespace<'a>,
    shop: &'a Namespace<'a>,
}

impl Team<'_> {
    fn installs(&self, administrators: &str) -> Result<()> {
        for namespace in [self.system, self.shop] {
            let everything = ["--clusterrole=cluster-admin", "--user=team"];
            namespace.kubectl(&[&["create", "rolebinding", TEAM], &everything[..]].concat())?;
        }
        let values = self.values()?;
        let install = ["install", TEAM, &chart()?, "--wait", "--timeout=120s", "--set", &values];
        let all = ["--set", "clusterScoped.create=true"];
        let refused = self.helm(&[&install[..], &all].concat());
        let refused = refused.err().context("the team may change the cluster")?.to_string();
        ensure!(refused.contains("forbidden"), "the team is refused otherwise: {refused}");
        self.helm(&["uninstall", TEAM, "--ignore-not-found"])?;

        self.system.cluster().apply(administrators)?;
        self.helm(&install)?;
        self.operator_has_only_what_it_was_given()?;
        let group = Group::form(self.shop, "{}", 3)?;
        let pods = group.pods()?;
        let held = group.lock(&pods[0], "report", "5s")?;
        group.unlock(&pods[0], &held)?;
        self.helm(&["uninstall", TEAM, "--wait"]).map(drop)
    }

    /// What an administrator applies, rendered with the team's values but one.
    fn what_the_administrator_adds(&self) -> Result<String> {
        let values = self.values()?;
        let release = ["template", TEAM, &chart()?, "--namespace", self.system.name()];
        let values = ["--set", &values, "--set", "clusterScoped.create=true"];
        // A helm that is built without a version takes any cluster for an old one.
        let alone = ["--show-only", "templates/cluster.yaml", "--kube-version=1.34.0"];
        self.system.cluster().helm(&[&release[..], &values, &alone].concat())
    }

    fn values(&self) -> Result<String> {
        let image = product::image_values(self.system.cluster())?;
        let namespace = self.shop.name();
        let none = "clusterScoped.create=false,crds.enabled=false";
        Ok(format!("watchNamespaces={{{namespace}}},{none},{image}"))
    }

    /// helm, with the rights of the team and in its namespace.
    fn helm(&self, arguments: &[&str]) -> Result<String> {
        let who = ["--kube-as-user", TEAM, "--namespace", self.system.name()];
        self.system.cluster().helm(&[arguments, &who].concat())
    }

    fn operator_has_only_what_it_was_given(&self) -> Result<()> {
        let cluster = self.system.cluster();
        self.system.kubectl(&["create", "serviceaccount", "bare"])?;
        // A namespace that the operator does not look after.
        let elsewhere = |account| cluster.rights([self.system.name(), account], "default");
        let more: BTreeSet<String> = &elsewhere(OPERATOR)? - &elsewhere("bare")?;
        let given = [
            format!(
                "mutatingwebhookconfigurations.admissionregistration.k8s.io [] [{OPERATOR}] \
                 [get patch]"
            ),
            "tokenreviews.authentication.k8s.io [] [] [create]".to_owned(),
        ];
        ensure!(more.iter().eq(&given), "outside of its namespaces the operator may {more:#?}");
        Ok(())
    }
}

fn chart() -> Result<String> {
    product::chart().into_os_string().into_string().ok().context("the path of the chart is text")
}

/// The user, and the release.
const TEAM: &str = "team";

/// The chart's name for the operator of that release, and for its service account.
const OPERATOR: &str = "team-conclave-operator";
