//! The keys and certificates of the cluster, and the kubeconfigs that use them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::node::{API_SERVICE, HOST, Node};
use super::state::State;

/// The port of the API server.
pub(super) const API_PORT: u16 = 6443;

/// Makes everything.
pub(super) fn create(state: &State) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state.pki())?;
    let authority = Authority::create(state)?;
    authority.issue(&API_SERVER)?;
    authority.issue(&KUBELET_CLIENT)?;
    for client in [ADMIN, CONTROLLER_MANAGER, SCHEDULER, KUBE_PROXY] {
        authority.issue(&client)?;
        write_kubeconfig(state, client.file)?;
    }
    for node in Node::ALL {
        let name = node.name();
        let user = format!("system:node:{name}");
        let address = node.address().to_string();
        authority.issue(&Subject {
            file: &name,
            user: &user,
            group: Some("system:nodes"),
            names: &[&name, &address],
        })?;
        write_kubeconfig(state, &name)?;
    }
    // Its only use is to sign the tokens of service accounts.
    let accounts = KeyPair::generate()?;
    fs::write(service_account_key(state), accounts.serialize_pem())?;
    fs::write(service_account_public_key(state), accounts.public_key_pem())?;
    Ok(())
}

/// The certificate of the authority.
pub(super) fn authority(state: &State) -> PathBuf {
    certificate(state, "ca")
}

/// The key that signs the tokens of service accounts.
pub(super) fn service_account_key(state: &State) -> PathBuf {
    key(state, "service-accounts")
}

/// The key that verifies them.
pub(super) fn service_account_public_key(state: &State) -> PathBuf {
    state.pki().join("service-accounts.pub")
}

/// The certificate called `name`.
pub(super) fn certificate(state: &State, name: &str) -> PathBuf {
    state.pki().join(format!("{name}.crt"))
}

/// The key called `name`.
pub(super) fn key(state: &State, name: &str) -> PathBuf {
    state.pki().join(format!("{name}.key"))
}

/// Whom a certificate is for.
pub(super) struct Subject<'a> {
    /// The name of its files.
    pub file: &'a str,
    user: &'a str,
    group: Option<&'a str>,
    /// What a server is called by its clients.
    names: &'a [&'a str],
}

/// The API server, as its clients see it.
pub(super) const API_SERVER: Subject<'_> = Subject {
    file: "kube-apiserver",
    user: "kube-apiserver",
    group: None,
    names: &["kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"],
};

/// The API server, as kubelets see it when somebody wants logs or a shell.
pub(super) const KUBELET_CLIENT: Subject<'_> = Subject {
    file: "kubelet-client",
    user: "kube-apiserver-kubelet-client",
    group: Some("system:masters"),
    names: &[],
};

/// People and tests.
pub(super) const ADMIN: Subject<'_> =
    Subject { file: "admin", user: "admin", group: Some("system:masters"), names: &[] };

/// The controller manager.
pub(super) const CONTROLLER_MANAGER: Subject<'_> = Subject {
    file: "kube-controller-manager",
    user: "system:kube-controller-manager",
    group: None,
    names: &[],
};

/// The scheduler.
pub(super) const SCHEDULER: Subject<'_> =
    Subject { file: "kube-scheduler", user: "system:kube-scheduler", group: None, names: &[] };

/// The proxies of all nodes.
pub(super) const KUBE_PROXY: Subject<'_> =
    Subject { file: "kube-proxy", user: "system:kube-proxy", group: None, names: &[] };

struct Authority<'a> {
    state: &'a State,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl<'a> Authority<'a> {
    fn create(state: &'a State) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "conclave-test-cluster");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::write(authority(state), issuer.pem())?;
        Ok(Self { state, issuer })
    }

    fn issue(&self, subject: &Subject<'_>) -> Result<()> {
        let mut names: Vec<String> = subject.names.iter().map(ToString::to_string).collect();
        if subject.file == API_SERVER.file {
            names.extend([HOST.to_string(), API_SERVICE.to_string(), "127.0.0.1".to_owned()]);
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject.user);
        if let Some(group) = subject.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let pair = KeyPair::generate()?;
        let issued = params.signed_by(&pair, &self.issuer)?;
        fs::write(certificate(self.state, subject.file), issued.pem())?;
        fs::write(key(self.state, subject.file), pair.serialize_pem())?;
        Ok(())
    }
}

fn write_kubeconfig(state: &State, who: &str) -> Result<()> {
    // JSON is YAML.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "conclave",
            "cluster": {
                "server": format!("https://{HOST}:{API_PORT}"),
                "certificate-authority": authority(state),
            },
        }],
        "users": [{
            "name": who,
            "user": {
                "client-certificate": certificate(state, who),
                "client-key": key(state, who),
            },
        }],
        "contexts": [{ "name": "conclave", "context": { "cluster": "conclave", "user": who } }],
        "current-context": "conclave",
    });
    fs::write(state.kubeconfig(who), serde_json::to_vec_pretty(&config)?)?;
    Ok(())
}
