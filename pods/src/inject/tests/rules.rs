//! What the sidecar looks like.

use clap::{Args, FromArgMatches};
use conclave_crds::GROUP_LABEL;

use super::*;

fn sidecar(pod: &Value) -> &Value {
    &pod["spec"]["initContainers"][0]
}

fn environment(container: &Value) -> Vec<(&str, &Value)> {
    let variables = container["env"].as_array().into_iter().flatten();
    variables.map(|v| (v["name"].as_str().unwrap_or_default(), v)).collect()
}

#[test]
fn the_sidecar_is_native_and_stands_first() {
    let pod = injected(|pod| pod["spec"]["initContainers"] = json!([{"name": "migrate"}]));
    assert_eq!(sidecar(&pod)["name"], "conclave");
    assert_eq!(sidecar(&pod)["restartPolicy"], "Always");
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "migrate");
    assert_eq!(pod["metadata"]["labels"]["conclave.dev/injected"], "true");
}

#[test]
fn the_sidecar_keeps_the_restricted_standard() {
    let pod = injected(|_| {});
    let context = &sidecar(&pod)["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    let allowed = ["projected", "emptyDir"];
    for volume in pod["spec"]["volumes"].as_array().expect("volumes") {
        assert!(allowed.iter().any(|kind| volume[kind].is_object()), "{volume}");
    }
}

#[test]
fn the_kubelet_asks_at_the_admin_port_and_has_the_sidecar_drain_itself() {
    let pod = injected(|_| {});
    let sidecar = sidecar(&pod);
    for (probe, path) in
        [("startupProbe", "/startupz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")]
    {
        assert_eq!(sidecar[probe]["httpGet"], json!({"path": path, "port": ADMIN_PORT_NAME}));
    }
    let drain = &sidecar["lifecycle"]["preStop"];
    assert_eq!(*drain, json!({"exec": {"command": ["/conclave", "drain"]}}));
    assert_eq!(sidecar["startupProbe"]["failureThreshold"], 120);
    let ports = sidecar["ports"].as_array().expect("ports");
    assert!(ports.iter().all(|port| port["name"].as_str().is_some_and(|name| name.len() <= 15)));
}

#[test]
fn the_sidecar_has_what_its_command_line_asks_for() {
    let pod = injected(|_| {});
    let names: Vec<_> = environment(sidecar(&pod)).into_iter().map(|(name, _)| name).collect();
    for required in ["CONCLAVE_GROUP", "POD_NAME", "POD_NAMESPACE", "POD_UID", "POD_IPS", "HOST_IP"]
    {
        assert!(names.contains(&required), "{required}");
    }
    assert_eq!(sidecar(&pod)["args"], json!(["sidecar"]));
}

#[test]
fn only_the_sidecar_has_its_token() {
    let pod = injected(|pod| pod["spec"]["automountServiceAccountToken"] = json!(false));
    let mounts = sidecar(&pod)["volumeMounts"].as_array().expect("mounts");
    let token = mounts.iter().find(|mount| mount["name"] == "conclave-token").expect("a token");
    assert_eq!(token["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(token["readOnly"], true);
    assert!(pod["spec"]["containers"][0]["volumeMounts"].is_null());
    let sources = &pod["spec"]["volumes"][0]["projected"]["sources"];
    assert_eq!(sources[0]["serviceAccountToken"]["expirationSeconds"], 3607);
    let own = json!({"audience": "conclave", "path": "conclave-token", "expirationSeconds": 600});
    assert_eq!(sources[1]["serviceAccountToken"], own);
    let path = CERTIFICATE_TOKEN_PATH.strip_suffix("/conclave-token");
    assert_eq!(path, token["mountPath"].as_str());
    assert_eq!(sources[2]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!(sources[3]["downwardAPI"]["items"][0]["path"], "namespace");
}

#[test]
fn every_container_is_given_the_address_of_the_api_unless_it_has_one() {
    let pod = injected(|pod| {
        pod["spec"]["initContainers"] = json!([{"name": "migrate"}]);
        pod["spec"]["containers"] = json!([
            {"name": "till", "env": [{"name": "LOCKS", "value": "$(CONCLAVE_URL)/v1/locks"}]},
            {"name": "own", "env": [{"name": "CONCLAVE_URL", "value": "http://[::1]:7070"}]},
        ]);
    });
    let url = json!({"name": "CONCLAVE_URL", "value": "http://127.0.0.1:7070"});
    assert_eq!(pod["spec"]["initContainers"][1]["env"], json!([url]));
    // Before the variable that refers to it: Kubernetes expands only what stands above.
    assert_eq!(pod["spec"]["containers"][0]["env"][0], url);
    let own = environment(&pod["spec"]["containers"][1]);
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].1["value"], "http://[::1]:7070");
}

#[test]
fn only_the_named_containers_see_the_socket() {
    let pod = injected(|pod| {
        pod["metadata"]["annotations"] =
            json!({"config.conclave.dev/mount-socket": "till, migrate"});
        pod["spec"]["initContainers"] = json!([{"name": "migrate"}]);
        pod["spec"]["containers"] = json!([{"name": "till"}, {"name": "proxy"}]);
    });
    let spec = &pod["spec"];
    let mount = json!([{"name": "conclave-run", "mountPath": "/run/conclave"}]);
    for container in [&spec["initContainers"][1], &spec["containers"][0]] {
        assert_eq!(container["volumeMounts"], mount);
        let environment = environment(container);
        let socket = environment.iter().find(|(name, _)| *name == "CONCLAVE_SOCKET");
        assert_eq!(socket.expect("the path").1["value"], SOCKET_PATH);
    }
    assert!(spec["containers"][1]["volumeMounts"].is_null());
    assert_eq!(environment(&spec["containers"][1]).len(), 1);
    let volume = json!({"medium": "Memory", "sizeLimit": "1Mi"});
    assert_eq!(spec["volumes"][1]["emptyDir"], volume);
}

#[test]
fn with_its_socket_alone_no_port_and_no_address_is_announced() {
    let till = |value: &str| {
        injected(|pod| {
            pod["metadata"]["annotations"] = json!({
                "config.conclave.dev/socket-only": value,
                "config.conclave.dev/mount-socket": "till",
            });
            pod["spec"]["containers"] = json!([{"name": "till"}, {"name": "proxy"}]);
        })
    };
    let names = |container: &Value| -> Vec<String> {
        environment(container).into_iter().map(|(name, _)| name.to_owned()).collect()
    };
    let alone = till("true");
    let only = json!({"name": "CONCLAVE_API_SOCKET_ONLY", "value": "true"});
    assert!(environment(sidecar(&alone)).contains(&("CONCLAVE_API_SOCKET_ONLY", &only)));
    let ports = |pod: &Value| sidecar(pod)["ports"].as_array().map(Vec::len);
    assert_eq!(ports(&alone), Some(3));
    assert!(!sidecar(&alone)["ports"].to_string().contains(API_PORT_NAME));
    assert_eq!(names(&alone["spec"]["containers"][0]), ["CONCLAVE_SOCKET"]);
    assert!(alone["spec"]["containers"][1]["env"].is_null(), "nothing is added that is empty");

    let both = till("false");
    assert_eq!(ports(&both), Some(4));
    assert!(!names(sidecar(&both)).contains(&"CONCLAVE_API_SOCKET_ONLY".to_owned()));
    assert_eq!(names(&both["spec"]["containers"][0]), ["CONCLAVE_URL", "CONCLAVE_SOCKET"]);
}

#[test]
fn only_the_sidecar_sees_the_tokens_that_its_api_asks_for() {
    let pod = injected(|pod| {
        pod["metadata"]["annotations"] = json!({"config.conclave.dev/api-tokens": "till.tokens"});
    });
    let secret =
        json!({"secretName": "till.tokens", "items": [{"key": "tokens", "path": "tokens"}]});
    let volume = json!({"name": "conclave-api-tokens", "secret": secret});
    assert_eq!(pod["spec"]["volumes"][2], volume);
    let path = "/var/run/secrets/conclave.dev";
    let mount = json!({"name": "conclave-api-tokens", "mountPath": path, "readOnly": true});
    assert_eq!(sidecar(&pod)["volumeMounts"][2], mount);
    let variable = json!({"name": "CONCLAVE_API_TOKEN_PATH", "value": format!("{path}/tokens")});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_API_TOKEN_PATH", &variable)));
    assert!(pod["spec"]["containers"][0]["volumeMounts"].is_null());

    let mut again = pod.clone();
    assert_eq!(inject_pod(&mut again, &Options::default()), Ok(true));
    assert_eq!(again, pod, "twice is once");
    again["metadata"]["annotations"] = json!({});
    assert_eq!(inject_pod(&mut again, &Options::default()), Ok(true));
    assert_eq!(again, injected(|pod| pod["metadata"]["annotations"] = json!({})), "and gone again");
}

#[test]
fn containers_that_go_on_read_the_clock_page_and_the_sidecar_alone_writes_it() {
    let clock = |value: &str| {
        injected(|pod| {
            pod["metadata"]["annotations"] = json!({"conclave.dev/clock-page": value});
            pod["spec"]["initContainers"] =
                json!([{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}]);
        })
    };
    let pod = clock("true");
    let spec = &pod["spec"];
    let volume = json!({"medium": "Memory", "sizeLimit": "1Mi"});
    assert_eq!(spec["volumes"][2], json!({"name": "conclave-clock", "emptyDir": volume}));
    let mount = json!({"name": "conclave-clock", "mountPath": "/run/conclave/clock"});
    assert_eq!(sidecar(&pod)["volumeMounts"][2], mount);
    let variable = json!({"name": "CONCLAVE_CLOCK_PAGE", "value": "/run/conclave/clock/page"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_CLOCK_PAGE", &variable)));
    let mut read_only = mount;
    read_only["readOnly"] = json!(true);
    for container in [&spec["initContainers"][2], &spec["containers"][0]] {
        assert_eq!(container["volumeMounts"], json!([read_only]));
        assert!(environment(container).contains(&("CONCLAVE_CLOCK_PAGE", &variable)));
    }
    let before = &spec["initContainers"][1];
    assert!(before["volumeMounts"].is_null());
    assert_eq!(environment(before).len(), 1);

    let mut again = pod.clone();
    assert_eq!(inject_pod(&mut again, &Options::default()), Ok(true));
    assert_eq!(again, pod, "twice is once");
    let without = clock("false");
    again["metadata"]["annotations"] = json!({"conclave.dev/clock-page": "false"});
    assert_eq!(inject_pod(&mut again, &Options::default()), Ok(true));
    assert_eq!(again, without, "and gone again");
    assert!(!without["spec"].to_string().contains("clock"));
}

#[test]
fn a_clock_page_keeps_the_restricted_standard() {
    let pod = annotated("conclave.dev/clock-page", "true");
    for volume in pod["spec"]["volumes"].as_array().expect("volumes") {
        let allowed = volume["projected"].is_object() || volume["emptyDir"].is_object();
        assert!(allowed, "{volume}");
    }
    let plain = injected(|_| {});
    assert_eq!(sidecar(&pod)["securityContext"], sidecar(&plain)["securityContext"]);
    assert_eq!(pod["spec"]["securityContext"], plain["spec"]["securityContext"]);
}

const LEADER_ELECTOR: &str = "config.conclave.dev/leader-elector";

#[test]
fn an_application_that_was_written_for_leader_elector_finds_what_it_looks_for() {
    let pod = injected(|pod| {
        pod["metadata"]["annotations"] = json!({ LEADER_ELECTOR: "reports" });
        pod["spec"]["initContainers"] = json!([{"name": "migrate"}]);
        let own = json!({"name": "ELECTOR_PATH", "value": "localhost:6060"});
        pod["spec"]["containers"] = json!([{"name": "till"}, {"name": "own", "env": [own]}]);
    });
    let election = json!({"name": "CONCLAVE_LEADER_ELECTOR", "value": "reports"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_LEADER_ELECTOR", &election)));
    let ports = sidecar(&pod)["ports"].as_array().expect("ports");
    assert!(ports.contains(&json!({"name": "conclave-leader", "containerPort": 4040})));
    let value = |container: &Value, name: &str| {
        let variables = environment(container);
        let found = variables.into_iter().find(|(other, _)| *other == name);
        found.map(|(_, variable)| variable["value"].clone())
    };
    for container in [&pod["spec"]["initContainers"][1], &pod["spec"]["containers"][0]] {
        assert_eq!(value(container, "ELECTOR_PATH"), Some("localhost:4040".into()));
        assert_eq!(value(container, "ELECTOR_GET_URL"), Some("http://localhost:4040/".into()));
        assert_eq!(value(container, "ELECTOR_SSE_URL"), Some("http://localhost:4040/sse".into()));
    }
    let own = &pod["spec"]["containers"][1];
    assert_eq!(value(own, "ELECTOR_PATH"), Some("localhost:6060".into()));
    assert_eq!(environment(own).len(), 4, "and nothing twice");
}

#[test]
fn the_variables_of_leader_elector_go_with_its_annotation() {
    let mut pod = annotated(LEADER_ELECTOR, "default");
    let once = pod.clone();
    assert_eq!(inject_pod(&mut pod, &Options::default()), Ok(true));
    assert_eq!(pod, once, "twice is once");
    pod["metadata"]["annotations"] = json!({});
    assert_eq!(inject_pod(&mut pod, &Options::default()), Ok(true));
    assert_eq!(pod, injected(|pod| pod["metadata"]["annotations"] = json!({})), "and gone again");
}

/// It may be another sidecar's, which is still in the pod.
#[test]
fn without_the_annotation_the_variables_of_leader_elector_stay_as_they_are() {
    for name in ["ELECTOR_PATH", "ELECTOR_GET_URL", "ELECTOR_SSE_URL"] {
        let shown = annotated(LEADER_ELECTOR, "default");
        let variables = environment(&shown["spec"]["containers"][0]);
        let (_, ours) = variables.into_iter().find(|(other, _)| *other == name).expect("one");
        let mut pod = injected(|pod| pod["spec"]["containers"][0]["env"] = json!([ours]));
        for _ in 0..2 {
            let env = environment(&pod["spec"]["containers"][0]);
            assert_eq!(env[1..], [(name, ours)], "beside the address of the API");
            assert_eq!(inject_pod(&mut pod, &Options::default()), Ok(true));
        }
    }
}

#[test]
fn annotations_change_the_sidecar() {
    let with = |key: &str, value: &str| annotated(&format!("config.conclave.dev/{key}"), value);
    for (key, value, field) in [
        ("image", "conclave:2", "/image"),
        ("cpu-request", "50m", "/resources/requests/cpu"),
        ("cpu-limit", "0.2", "/resources/limits/cpu"),
        ("memory-request", "32Mi", "/resources/requests/memory"),
        ("memory-limit", "0.5Gi", "/resources/limits/memory"),
    ] {
        let pod = with(key, value);
        assert_eq!(sidecar(&pod).pointer(field), Some(&json!(value)), "{key}");
    }
    let pod = with("log-level", "info,kube=warn");
    let log = json!({"name": "CONCLAVE_LOG", "value": "info,kube=warn"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_LOG", &log)));
    let pod = annotated("conclave.dev/elections", "reports, mails");
    let elections = json!({"name": "CONCLAVE_ELECTIONS", "value": "reports,mails"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_ELECTIONS", &elections)));
    let pod = annotated("conclave.dev/priority", "-3");
    let priority = json!({"name": "CONCLAVE_PRIORITY", "value": "-3"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_PRIORITY", &priority)));
    let pod = annotated("conclave.dev/capacity", "8");
    let capacity = json!({"name": "CONCLAVE_CAPACITY", "value": "8"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_CAPACITY", &capacity)));
    let pod = annotated("conclave.dev/zone", "rack-3");
    let zone = json!({"name": "CONCLAVE_ZONE", "value": "rack-3"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_ZONE", &zone)));
    let pod = annotated("config.conclave.dev/app-container", "till");
    let container = json!({"name": "CONCLAVE_APP_CONTAINER", "value": "till"});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_APP_CONTAINER", &container)));
}

#[test]
fn without_an_annotation_the_zone_is_that_of_the_label_which_kubernetes_copies_from_the_node() {
    let field = json!({"fieldPath": "metadata.labels['topology.kubernetes.io/zone']"});
    let zone = json!({"name": "CONCLAVE_ZONE", "valueFrom": {"fieldRef": field}});
    let pod = injected(|_| {});
    assert!(environment(sidecar(&pod)).contains(&("CONCLAVE_ZONE", &zone)));
}

/// A quota of a namespace may ask for each of the four.
#[test]
fn what_the_sidecar_asks_for_and_may_use_is_that_of_the_options_where_no_annotation_says_otherwise()
{
    let options = |flags: &[&str]| {
        let command = Resources::augment_args(clap::Command::new("inject"));
        let matches = command.try_get_matches_from([&["inject"], flags].concat()).expect("flags");
        let resources = Resources::from_arg_matches(&matches).expect("flags");
        Options { resources, ..Options::default() }
    };
    let flags = ["--sidecar-cpu-limit=200m", "--sidecar-memory-request=32Mi"];
    let mut plain = pod(|_| {});
    assert_eq!(inject_pod(&mut plain, &options(&flags)), Ok(true));
    let expected = json!({
        "requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"},
    });
    assert_eq!(sidecar(&plain)["resources"], expected);
    let mut own = pod(|pod| {
        pod["metadata"]["annotations"] = json!({"config.conclave.dev/cpu-limit": "1"});
    });
    assert_eq!(inject_pod(&mut own, &options(&flags)), Ok(true));
    assert_eq!(sidecar(&own)["resources"]["limits"], json!({"cpu": "1", "memory": "128Mi"}));
    let none = sidecar(&injected(|_| {}))["resources"]["limits"].clone();
    assert_eq!(none, json!({"memory": "128Mi"}), "no limit of processor time by default");
}

#[test]
fn nothing_that_is_added_is_null() {
    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.iter().any(has_null),
            Value::Object(fields) => fields.values().any(has_null),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    assert!(!has_null(&injected(|_| {})));
}

#[test]
fn the_api_server_knows_every_field_of_the_pod() {
    let pod = injected(|pod| {
        pod["metadata"]["annotations"] = json!({
            "config.conclave.dev/mount-socket": "till",
            "config.conclave.dev/api-tokens": "till",
            "conclave.dev/clock-page": "true",
        });
    });
    let shown = annotated(LEADER_ELECTOR, "default");
    for pod in [pod, shown] {
        let read: k8s_openapi::api::core::v1::Pod =
            serde_json::from_value(pod.clone()).expect("a pod");
        // A field that the type does not have is lost on the way.
        assert_eq!(serde_json::to_value(read).expect("JSON"), pod);
    }
}

#[test]
fn the_chart_scrapes_what_is_injected() {
    let monitor = include_str!("../../../../charts/conclave/templates/metrics.yaml");
    assert!(monitor.contains(&format!("port: {ADMIN_PORT_NAME}\n")));
    assert!(monitor.contains(&format!("{INJECTED_LABEL}: \"true\"\n")));
}

#[test]
fn the_page_for_operators_names_every_label_annotation_and_port() {
    let page = include_str!("../../../../docs/operating.md");
    for key in settings::KNOWN {
        assert!(page.contains(&format!("| `{}{key}` |", settings::PREFIX)), "{key}");
    }
    for key in settings::OF_APPLICATION {
        assert!(page.contains(&format!("| `{key}` |")), "{key}");
    }
    let elector = (LEADER_ELECTOR_PORT, LEADER_ELECTOR_PORT_NAME);
    for (number, name) in room::PORTS.into_iter().chain([elector]) {
        assert!(page.contains(&format!("| {number} | `{name}` |")), "{name}");
    }
    for label in [GROUP_LABEL, INJECTED_LABEL] {
        assert!(page.contains(&format!("| `{label}: ")), "{label}");
    }
}

#[test]
fn a_variable_that_the_application_wrote_as_we_do_changes_nothing_the_second_time() {
    for own in [
        ("CONCLAVE_SOCKET", SOCKET_PATH),
        ("CONCLAVE_URL", API_URL),
        ("ELECTOR_PATH", "localhost:4040"),
    ] {
        let (name, value) = own;
        let mut once = injected(|pod| {
            pod["metadata"]["annotations"] = json!({ LEADER_ELECTOR: "default" });
            let first = json!({"name": "FIRST", "value": "1"});
            let own = json!({"name": name, "value": value});
            pod["spec"]["containers"][0]["env"] = json!([first, own]);
        });
        let twice = once.clone();
        assert_eq!(inject_pod(&mut once, &Options::default()), Ok(true));
        assert_eq!(once, twice, "{name}");
    }
}
