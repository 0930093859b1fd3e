//! The programs of the control plane, which run in the host's own network.

use super::daemon::Daemon;
use super::node::{HOST, SERVICES};
use super::pki::{self, API_PORT, API_SERVER, CONTROLLER_MANAGER, KUBELET_CLIENT, SCHEDULER};
use super::state::State;
use crate::binaries::{self, Binary};

/// The store. It is set not to wait for the disk, which is fine for everything but a benchmark
/// or a power cut.
pub(super) fn etcd(state: &State) -> Daemon {
    let peers = "http://127.0.0.1:12380";
    daemon(
        binaries::ETCD,
        vec![
            format!("--data-dir={}", state.etcd().display()),
            format!("--listen-client-urls={ETCD_CLIENTS}"),
            format!("--advertise-client-urls={ETCD_CLIENTS}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ],
    )
}

/// The API server. It calls webhooks by the addresses of their pods, because no proxy that knows
/// the addresses of Services runs beside it.
pub(super) fn api_server(state: &State) -> Daemon {
    let pki = |name: &str| {
        (
            pki::certificate(state, name).display().to_string(),
            pki::key(state, name).display().to_string(),
        )
    };
    let (certificate, key) = pki(API_SERVER.file);
    let (kubelet_certificate, kubelet_key) = pki(KUBELET_CLIENT.file);
    let authority = pki::authority(state).display().to_string();
    let accounts = pki::service_account_public_key(state).display().to_string();
    let accounts_key = pki::service_account_key(state).display().to_string();
    daemon(
        binaries::API_SERVER,
        vec![
            format!("--etcd-servers={ETCD_CLIENTS}"),
            format!("--bind-address={HOST}"),
            format!("--advertise-address={HOST}"),
            format!("--secure-port={API_PORT}"),
            format!("--tls-cert-file={certificate}"),
            format!("--tls-private-key-file={key}"),
            format!("--client-ca-file={authority}"),
            format!("--kubelet-certificate-authority={authority}"),
            format!("--kubelet-client-certificate={kubelet_certificate}"),
            format!("--kubelet-client-key={kubelet_key}"),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={accounts}"),
            format!("--service-account-signing-key-file={accounts_key}"),
            format!("--service-cluster-ip-range={SERVICES}"),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--enable-aggregator-routing=true".to_owned(),
            "--allow-privileged=true".to_owned(),
        ],
    )
}

/// The controllers of Kubernetes' own resources.
pub(super) fn controller_manager(state: &State) -> Daemon {
    let kubeconfig = state.kubeconfig(CONTROLLER_MANAGER.file);
    daemon(
        binaries::CONTROLLER_MANAGER,
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--root-ca-file={}", pki::authority(state).display()),
            format!(
                "--service-account-private-key-file={}",
                pki::service_account_key(state).display()
            ),
            format!(
                "--flex-volume-plugin-dir={}",
                state.directory().join("volume-plugins").display()
            ),
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ],
    )
}

/// The scheduler.
pub(super) fn scheduler(state: &State) -> Daemon {
    let kubeconfig = state.kubeconfig(SCHEDULER.file);
    daemon(
        binaries::SCHEDULER,
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
        ],
    )
}

/// Asks the API server on behalf of tests, with every right, so that not each question costs a process and a handshake.
pub(super) fn api_proxy(state: &State) -> Daemon {
    Daemon {
        name: "api-proxy".to_owned(),
        ..daemon(
            binaries::KUBECTL,
            vec![
                "proxy".to_owned(),
                format!("--kubeconfig={}", state.admin_kubeconfig().display()),
                format!("--unix-socket={}", state.api_socket().display()),
            ],
        )
    }
}

fn daemon(binary: Binary, arguments: Vec<String>) -> Daemon {
    Daemon { name: binary.name().to_owned(), program: binary.path(), arguments, node: None }
}

const ETCD_CLIENTS: &str = "http://127.0.0.1:12379";
