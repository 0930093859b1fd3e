//! The product on the cluster, as a user has it: the chart installed, a group, pods with the
//! sidecar, and calls from the application's container.

mod calls;
mod witness;

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::traces::{self, Traces};

pub(crate) use calls::{ADMIN, API};
use conclave_testbed::binaries::{self, Binary};
use conclave_testbed::cluster::{Cluster, Namespace, Pod};
use conclave_testbed::{cache, command, image, wait};
use witness::Witness;

/// The release and the namespace of the operator.
pub const RELEASE: &str = "conclave";

/// Where the operator runs.
pub const SYSTEM: &str = "conclave-system";

/// What the pods of a test are labelled with.
pub const SELECTOR: &str = "app=shop";

/// The container of the application.
pub const APPLICATION: &str = "application";

/// The container of the sidecar.
pub const SIDECAR: &str = "conclave";

/// What sidecars log by themselves.
const DEFAULT_LOG: &str = "info,kube=warn";

/// What a cluster may take for something that is surely quick.
pub const SOON: Duration = Duration::from_secs(60);

/// Whether this process has installed the operator as its chart has it, and helm has done nothing else to the release since.
/// Helm refuses to do two things to one release at a time.
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// Installs the operator with its chart, or brings it up to date, unless this process has done so and it is there.
pub fn install(cluster: &Cluster) -> Result<()> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !(*installed && is_available(cluster)) {
        upgrade(cluster, binaries::HELM_3, &[])?;
        *installed = true;
    }
    Ok(())
}

/// Whether both of its replicas are, which a test may have taken away.
fn is_available(cluster: &Cluster) -> bool {
    let replicas = cluster.replicas(SYSTEM, &format!("{RELEASE}-operator"));
    replicas.is_ok_and(|replicas| replicas == 2)
}

/// Installs the operator in any case, with further arguments.
pub fn helm_install(cluster: &Cluster, more: &[&str]) -> Result<()> {
    helm_install_by(cluster, binaries::HELM_3, more)
}

/// The same, by one of the [`HELMS`](binaries::HELMS).
pub fn helm_install_by(cluster: &Cluster, helm: Binary, more: &[&str]) -> Result<()> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    *installed = false;
    upgrade(cluster, helm, more)
}

/// Uninstalls the operator, if it is there.
pub fn helm_uninstall(cluster: &Cluster) -> Result<()> {
    helm_uninstall_by(cluster, binaries::HELM_3)
}

/// The same, by one of the [`HELMS`](binaries::HELMS).
pub fn helm_uninstall_by(cluster: &Cluster, helm: Binary) -> Result<()> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    *installed = false;
    let uninstall = ["uninstall", RELEASE, "--namespace", SYSTEM, "--wait", "--ignore-not-found"];
    cluster.helm_of(helm, &uninstall).map(drop)
}

fn upgrade(cluster: &Cluster, helm: Binary, more: &[&str]) -> Result<()> {
    let set = image_values(cluster)?;
    let chart = chart();
    let chart = chart.to_str().context("the path of the chart is text")?;
    let arguments = ["upgrade", "--install", RELEASE, chart, "--namespace", SYSTEM];
    let options = ["--create-namespace", "--wait", "--timeout=120s", "--set", &set];
    cluster.helm_of(helm, &[&arguments[..], &options, more].concat()).map(drop)
}

/// The values by which the chart takes the image that is on the cluster.
pub fn image_values(cluster: &Cluster) -> Result<String> {
    let (name, tag) = cluster.images().product.rsplit_once(':').context("the image has no tag")?;
    let (registry, repository) = name.split_once('/').context("the image has no registry")?;
    Ok(format!(
        "image.registry={registry},image.repository={repository},image.tag={tag},\
         image.pullPolicy=IfNotPresent"
    ))
}

/// The chart in the source tree.
pub fn chart() -> PathBuf {
    cache::workspace().join("charts/conclave")
}

/// A group with pods.
#[derive(Debug)]
pub struct Group<'a> {
    /// Where it is.
    pub namespace: &'a Namespace<'a>,
    /// Its name.
    pub name: &'static str,
    witness: Witness,
    /// What its sidecars log.
    log: &'static str,
}

/// What a sidecar answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body; null if it is no JSON.
    pub body: Value,
    /// How long the application waited for it.
    pub took: Duration,
}

impl Answer {
    /// A number in the body.
    pub fn number(&self, field: &str) -> Result<u64> {
        self.body[field].as_u64().with_context(|| format!("no number `{field}` in {self:?}"))
    }

    /// A text in the body.
    pub fn text(&self, field: &str) -> Result<&str> {
        self.body[field].as_str().with_context(|| format!("no text `{field}` in {self:?}"))
    }
}

impl<'a> Group<'a> {
    /// Makes a group of that many pods, and waits until all are members.
    pub fn start(namespace: &'a Namespace<'a>, spec: &str, pods: usize) -> Result<Self> {
        install(namespace.cluster())?;
        Self::form(namespace, spec, pods)
    }

    /// Makes a group for a test. All that its sidecars do is held against the rules of the leader lease.
    pub fn traced(
        namespace: &'a Namespace<'a>,
        spec: &str,
        pods: usize,
        test: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        install(namespace.cluster())?;
        let traces = Traces::follow(namespace.cluster(), namespace.name())?;
        let log = traces.as_ref().map_or(DEFAULT_LOG, |_| traces::LOG);
        let tested = Self::make(namespace, spec, pods, log).and_then(|group| test(&group));
        let checked = traces.map_or(Ok(()), Traces::check);
        if let (Err(_), Err(breach)) = (&tested, &checked) {
            println!("the test has failed, and so has its trace: {breach:#}");
        }
        tested.and(checked)
    }

    /// As [`Self::start`], where the operator is installed.
    pub fn form(namespace: &'a Namespace<'a>, spec: &str, pods: usize) -> Result<Self> {
        Self::make(namespace, spec, pods, DEFAULT_LOG)
    }

    fn make(
        namespace: &'a Namespace<'a>,
        spec: &str,
        pods: usize,
        log: &'static str,
    ) -> Result<Self> {
        let name = "orders";
        let conclave = format!(
            "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {{name: {name}}}\n\
             spec: {spec}\n"
        );
        namespace.apply(&conclave)?;
        let mut group = Self::of(namespace, name);
        group.log = log;
        group.deploy(pods)?;
        group.await_members(pods)?;
        Ok(group)
    }

    /// The pods of a group that there is or will be.
    pub fn of(namespace: &'a Namespace<'a>, name: &'static str) -> Self {
        let witness = Witness::new(namespace.cluster().is_on_this_machine());
        Self { namespace, name, witness, log: DEFAULT_LOG }
    }

    /// Deploys the application with its sidecar, as a user does.
    pub fn deploy(&self, pods: usize) -> Result<()> {
        self.apply_deployment("shop", pods)?;
        self.namespace.await_deployment("shop")
    }

    /// Applies a deployment of the application with its sidecar.
    pub fn apply_deployment(&self, name: &str, pods: usize) -> Result<()> {
        let sidecar = &self.namespace.cluster().images().product;
        self.apply_deployment_with(name, pods, sidecar)
    }

    /// The same, with a sidecar of that image.
    pub fn apply_deployment_with(&self, name: &str, pods: usize, sidecar: &str) -> Result<()> {
        let images = self.namespace.cluster().images();
        let manifest = APPLICATION_MANIFEST
            .replace("DEPLOYMENT", name)
            .replace("REPLICAS", &pods.to_string())
            .replace("SIDECAR", sidecar)
            .replace("LOG", self.log)
            .replace("IMAGE", &images.client);
        let injected = inject(&manifest, self.name, sidecar)?;
        self.namespace.apply(&injected).map(drop)
    }

    /// Deploys a pod whose clock is off, by so many milliseconds, and runs too fast, by so many parts per million. From
    /// then on the webhook leaves the namespace alone: it would put its own sidecar there, whose clock is right.
    pub fn deploy_with_wrong_clock(&self, name: &str, (off, fast): (i32, i32)) -> Result<()> {
        let mine = ["namespace", self.namespace.name(), "conclave.dev/admission-webhooks=disabled"];
        self.namespace.cluster().kubectl(&[&["label", "--overwrite"], &mine[..]].concat())?;
        self.apply_deployment(name, 0)?;
        let variables = "/spec/template/spec/initContainers/0/env/-";
        let set = |variable: &str, value: i32| {
            let variable = json!({ "name": variable, "value": value.to_string() });
            json!({ "op": "add", "path": variables, "value": variable })
        };
        let changed = json!([
            set("CONCLAVE_TEST_CLOCK_OFFSET_MS", off),
            set("CONCLAVE_TEST_CLOCK_DRIFT_PPM", fast),
            { "op": "replace", "path": "/spec/replicas", "value": 1 },
        ]);
        let target = format!("deployment/{name}");
        let changed = changed.to_string();
        let patch = ["patch", &target, "--type=json", "--patch", &changed];
        self.namespace.kubectl(&patch).map(drop)
    }

    /// Waits until the pods agree who leads, as each states.
    pub fn await_agreement(&self, pods: &[Pod]) -> Result<String> {
        wait::until("one leader for all", SOON, || {
            let mut leaders = std::collections::BTreeSet::new();
            for pod in pods {
                let election = self.get(pod, "/v1/elections/default")?;
                let leader = election.body["leader"]["pod"].as_str();
                leaders.insert(leader.context("it knows no leader")?.to_owned());
            }
            ensure!(leaders.len() == 1, "they follow {leaders:?}");
            leaders.pop_first().context("there is one")
        })
    }

    /// Waits until the group has that many members, all of which know it.
    pub fn await_members(&self, members: usize) -> Result<()> {
        wait::until(&format!("{members} members"), SOON, || {
            let pods = self.pods()?;
            ensure!(pods.len() == members, "there are {} pods", pods.len());
            for pod in &pods {
                let answer = self.get(pod, "/v1/members")?;
                let known = answer.body["members"].as_array().map_or(0, Vec::len);
                ensure!(known == members, "{} knows {known} members: {answer:?}", pod.name);
            }
            Ok(())
        })
    }

    /// The pods of the group.
    pub fn pods(&self) -> Result<Vec<Pod>> {
        self.namespace.pods(SELECTOR)
    }

    /// Takes a lock, waiting for it.
    pub fn lock(&self, pod: &Pod, lock: &str, wait: &str) -> Result<Answer> {
        let claim = self.witness.asks(lock);
        let answer = self.post(pod, &format!("/v1/locks/{lock}?wait={wait}"))?;
        ensure!(answer.status == 201, "{} did not get `{lock}`: {answer:?}", pod.name);
        self.witness.knows(answer.text("claim")?, claim);
        self.witness.sees(&answer)?;
        Ok(answer)
    }

    /// Asks for a lock by a claim of that name, and leaves it to wait.
    pub fn line_up(&self, pod: &Pod, lock: &str, claim: &str) -> Result<Answer> {
        self.witness.knows(claim, self.witness.asks(lock));
        let path = format!("/v1/locks/{lock}/claims/{claim}?wait=forever");
        let answer = self.call_with(pod, "PUT", &path, &["Prefer: respond-async"], "")?;
        ensure!(matches!(answer.status, 201 | 202), "{} cannot wait: {answer:?}", pod.name);
        Ok(answer)
    }

    /// What becomes of a claim, waiting or held.
    pub fn look(&self, pod: &Pod, claim: &Answer) -> Result<Answer> {
        let answer = self.get(pod, &claim_path(claim)?)?;
        ensure!(answer.status == 200, "{} has no such claim: {answer:?}", pod.name);
        self.witness.sees(&answer)?;
        Ok(answer)
    }

    /// Gives a lock back.
    pub fn unlock(&self, pod: &Pod, grant: &Answer) -> Result<()> {
        let path = claim_path(grant)?;
        self.witness.gives_back(grant)?;
        let answer = self.call(pod, "DELETE", &path)?;
        ensure!(answer.status == 204, "{} could not release: {answer:?}", pod.name);
        Ok(())
    }

    /// Whether a claim still holds: 204, or 410 once it does not.
    pub fn check(&self, pod: &Pod, grant: &Answer) -> Result<u16> {
        Ok(self.get(pod, &format!("{}/check", claim_path(grant)?))?.status)
    }

    /// Waits until exactly one pod says that it leads, and returns it.
    pub fn await_leader(&self) -> Result<Pod> {
        wait::until("one leader", SOON, || self.leader())
    }

    /// The pod that says it leads.
    pub fn leader(&self) -> Result<Pod> {
        let mut leaders = Vec::new();
        for pod in self.pods()? {
            let answer = self.get(&pod, "/v1/elections/default/self")?;
            if answer.status == 200 {
                leaders.push(pod);
            }
        }
        ensure!(leaders.len() == 1, "{} pods say that they lead", leaders.len());
        leaders.pop().context("there is one")
    }

    /// The pods that do not lead.
    pub fn followers(&self) -> Result<Vec<Pod>> {
        let leader = self.await_leader()?;
        Ok(self.pods()?.into_iter().filter(|pod| pod.uid != leader.uid).collect())
    }

    /// Changes the algorithm of the group's own election, and waits until all sidecars know.
    pub fn elects_by(&self, algorithm: &str) -> Result<()> {
        let patch = format!(
            r#"{{"spec":{{"elections":[{{"name":"default","algorithm":"{algorithm}"}}]}}}}"#
        );
        self.namespace.kubectl(&["patch", "ccv", self.name, "--type=merge", "--patch", &patch])?;
        let pods = self.pods()?;
        wait::until(algorithm, SOON, || {
            for pod in &pods {
                let election = self.get(pod, "/v1/elections/default")?;
                ensure!(election.text("algorithm")? == algorithm, "{election:?}");
            }
            Ok(())
        })
    }

    /// The epoch that a pod knows.
    pub fn epoch(&self, pod: &Pod) -> Result<u64> {
        self.get(pod, "/v1/status")?.number("epoch")
    }
}

impl Drop for Group<'_> {
    /// Fails the test if what it was answered breaks a promise.
    fn drop(&mut self) {
        if !thread::panicking() {
            match self.witness.check() {
                Ok(sent) => println!("what the group told: no law is broken; {sent}"),
                Err(error) => panic!("{error:#}"),
            }
        }
    }
}

/// The path of a granted claim.
pub fn claim_path(grant: &Answer) -> Result<String> {
    Ok(format!("/v1/locks/{}/claims/{}", grant.text("lock")?, grant.text("claim")?))
}

/// `conclave inject`, as a user runs it.
pub fn inject(manifest: &str, group: &str, image: &str) -> Result<String> {
    let mut conclave = Command::new(image::product::binary("conclave"));
    conclave.args(["inject", "-f", "-", "--group", group, "--image", image]);
    command::output_of_input(&mut conclave, manifest)
}

const APPLICATION_MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: DEPLOYMENT}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: shop, of: DEPLOYMENT}}
  template:
    metadata:
      labels: {app: shop, of: DEPLOYMENT}
      # Else the webhook would give each pod the sidecar of the release that is installed.
      annotations: {config.conclave.dev/image: SIDECAR, config.conclave.dev/log-level: 'LOG'}
    spec:
      terminationGracePeriodSeconds: 5
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: shop}}
      containers:
      - name: application
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [bash, -c, 'trap exit TERM; sleep infinity & wait']
";
