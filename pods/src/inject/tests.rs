//! Manifests, before and after.

mod refusals;
mod rules;

use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// A Deployment in the group `orders`, with this much more in the specification of its pods.
fn deployment(more: &str) -> String {
    let pod = r#""containers": [{"name": "till", "image": "till:1"}]"#;
    let labels = r#"{"app": "till", "conclave.dev/group": "orders"}"#;
    format!(
        r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "till"}},
            "spec": {{"template": {{"metadata": {{"labels": {labels}}}, "spec": {{{pod}{more}}}}}}}}}"#
    )
}

/// A pod in the group `orders`, which may be changed before it is injected.
fn pod(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "till", "labels": {"conclave.dev/group": "orders"}},
        "spec": {"containers": [{"name": "till", "image": "till:1"}]},
    });
    change(&mut pod);
    pod
}

/// A pod with the sidecar.
fn injected(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = pod(change);
    assert_eq!(inject_pod(&mut pod, &Options::default()), Ok(true));
    pod
}

fn annotated(key: &str, value: &str) -> Value {
    injected(|pod| pod["metadata"]["annotations"] = json!({ key: value }))
}

/// The only document of a text.
fn only(text: &str) -> Value {
    let documents = documents::split(text);
    assert_eq!(documents.len(), 1);
    documents[0].value().expect("YAML").expect("a document")
}

#[test]
fn a_manifest_becomes_what_the_golden_file_says() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/inject/golden");
    let read = |name: &str| std::fs::read_to_string(golden.join(name)).unwrap_or_default();
    let options =
        Options { image: "registry.example.com/conclave:1".to_owned(), ..Options::default() };
    let written = inject(&read("deployment.yaml"), &options).expect("a manifest");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(golden.join("injected.yaml"), &written).expect("the file can be written");
    }
    assert_eq!(written, read("injected.yaml"), "UPDATE=1 writes it anew");
    assert_eq!(inject(&written, &options).as_deref().ok(), Some(written.as_str()), "twice");
}

#[test]
fn doing_it_twice_is_doing_it_once() {
    let bare = deployment("").replace(r#", "conclave.dev/group": "orders""#, "");
    let options = Options { group: Some("orders".to_owned()), ..Options::default() };
    for text in [deployment(r#", "volumes": [], "initContainers": null"#), bare] {
        let once = inject(&text, &options).expect("a manifest");
        assert_eq!(inject(&once, &options).expect("a manifest"), once);
    }
}

#[test]
fn what_is_injected_anew_takes_the_new_image_and_settings() {
    let once = inject(&deployment(""), &Options::default()).expect("a manifest");
    let newer = Options { image: "conclave:2".to_owned(), ..Options::default() };
    let again = inject(&once, &newer).expect("a manifest");
    assert_eq!(again, inject(&deployment(""), &newer).expect("a manifest"));
    assert!(again.contains("image: conclave:2"));
}

#[test]
fn a_socket_that_is_no_longer_wanted_is_taken_away() {
    let key = "config.conclave.dev/mount-socket";
    let mut pod = annotated(key, "till");
    assert!(pod["spec"]["containers"][0]["volumeMounts"].is_array());
    pod["metadata"]["annotations"] = json!({});
    assert_eq!(inject_pod(&mut pod, &Options::default()), Ok(true));
    let expected = injected(|pod| pod["metadata"]["annotations"] = json!({}));
    assert_eq!(pod, expected);
}

#[test]
fn other_documents_keep_their_text() {
    let other = "# a comment\nkind: Service # here too\nmetadata: {  name: till }\n";
    let text = format!("{other}---\n{}\n---\n{other}", deployment(""));
    let written = inject(&text, &Options::default()).expect("a manifest");
    assert!(written.starts_with(other) && written.ends_with(&format!("---\n{other}")));
    assert_eq!(inject(other, &Options::default()).expect("a manifest"), other);
}

#[test]
fn every_kind_of_workload_is_found() {
    let template = json!({
        "metadata": {"labels": {"conclave.dev/group": "orders"}},
        "spec": {"containers": []},
    });
    let below = |path: &[&str]| {
        path.iter().rev().fold(template.clone(), |inner, key| json!({ *key: inner }))
    };
    let template_at: &[&str] = &["spec", "template"];
    for (version, kind, path) in [
        ("v1", "Pod", &[] as &[&str]),
        ("apps/v1", "Deployment", template_at),
        ("apps/v1", "StatefulSet", template_at),
        ("apps/v1", "DaemonSet", template_at),
        ("apps/v1", "ReplicaSet", template_at),
        ("batch/v1", "Job", template_at),
        ("batch/v1", "CronJob", &["spec", "jobTemplate", "spec", "template"]),
    ] {
        let mut workload = below(path);
        workload["apiVersion"] = version.into();
        workload["kind"] = kind.into();
        let mut list = json!({"apiVersion": "v1", "kind": "List", "items": [workload.clone()]});
        assert_eq!(workload::inject(&mut workload, &Options::default()), Ok(1), "{kind}");
        let pod = path.iter().fold(&workload, |object, key| &object[key]);
        assert_eq!(pod["spec"]["initContainers"][0]["name"], "conclave", "{kind}");

        assert_eq!(workload::inject(&mut list, &Options::default()), Ok(1), "{kind}");
        assert_eq!(list["items"][0], workload, "{kind}");
    }
}

#[test]
fn what_only_has_the_name_of_a_workload_is_left_alone() {
    let text = deployment("").replace("apps/v1", "apps.example.com/v1");
    assert_eq!(inject(&text, &Options::default()).expect("a manifest"), text);
}

#[test]
fn without_a_group_only_labelled_pods_get_the_sidecar() {
    let bare = deployment("").replace(r#", "conclave.dev/group": "orders""#, "");
    assert_eq!(inject(&bare, &Options::default()).expect("a manifest"), bare);

    let options = Options { group: Some("tills".to_owned()), ..Options::default() };
    let written = only(&inject(&bare, &options).expect("a manifest"));
    let template = &written["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["conclave.dev/group"], "tills");
    assert!(written["metadata"]["labels"].is_null(), "the label belongs to the pods");
}
