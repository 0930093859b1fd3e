//! Pods that cannot have the sidecar as they are.

use conclave_crds::{Conclave, ConclaveSpec, policy};

use super::*;

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let problem = inject_pod(&mut pod(change), &Options::default());
    problem.expect_err("refused").to_string()
}

#[test]
fn the_error_names_the_document_the_object_and_the_field() {
    let text = format!("kind: Service\n---\n{}", deployment(r#", "hostNetwork": true"#));
    let error = inject(&text, &Options::default()).expect_err("refused").to_string();
    let expected = "document 2 (Deployment `till`): `spec.template.spec.hostNetwork` must not be \
                    true: ports are shared with the node there";
    assert_eq!(error, expected);
}

#[test]
fn names_and_ports_of_the_sidecar_are_taken() {
    for (container, expected) in [
        (json!({"name": "conclave"}), "`spec.containers[0].name` may not be `conclave`"),
        (
            json!({"name": "till", "ports": [{"containerPort": 80}, {"containerPort": 7072}]}),
            "`spec.containers[0].ports[1].containerPort` may not be `7072`",
        ),
        (
            json!({"name": "till", "ports": [{"name": "conclave-http", "containerPort": 80}]}),
            "`spec.containers[0].ports[0].name` may not be `conclave-http`",
        ),
    ] {
        let error = refusal(|pod| pod["spec"]["containers"][0] = container);
        assert!(error.starts_with(expected), "{error}");
    }
    for name in ["conclave-run", "conclave-token", "conclave-api-tokens", "conclave-clock"] {
        let error = refusal(|pod| pod["spec"]["volumes"] = json!([{"name": "a"}, {"name": name}]));
        let expected = format!("`spec.volumes[1].name` may not be `{name}`");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_leader_elector_that_is_still_in_the_pod_has_its_port() {
    let old = json!({"name": "elector", "ports": [{"containerPort": 4040}]});
    let with = |annotations: Value| {
        let mut pod = pod(|pod| {
            pod["metadata"]["annotations"] = annotations;
            pod["spec"]["containers"][0] = old.clone();
        });
        inject_pod(&mut pod, &Options::default()).map_err(|problem| problem.to_string())
    };
    let error = with(json!({"config.conclave.dev/leader-elector": "default"})).expect_err("taken");
    assert!(error.starts_with("`spec.containers[0].ports[0].containerPort` may not be `4040`"));
    assert_eq!(with(json!({})), Ok(true));
}

#[test]
fn the_port_of_leader_elector_is_not_opened_where_callers_are_restricted() {
    for (key, value) in [("api-tokens", "tokens"), ("socket-only", "true")] {
        let key = format!("config.conclave.dev/{key}");
        let elector = "config.conclave.dev/leader-elector";
        let annotations = json!({ key.clone(): value, elector: "default" });
        let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
        assert!(error.starts_with(&format!("`metadata.annotations[{elector}]` opens a port that")));
        assert!(error.ends_with(&format!("does not go with `{key}`")), "{error}");
    }
}

#[test]
fn an_annotation_that_puts_the_application_forward_names_elections() {
    for (value, expected) in [
        ("", "must be names of elections, separated by commas, and is ``"),
        ("reports,Mails", "must be names of elections"),
        ("reports,default", "may not name `default`: every member stands in it"),
    ] {
        let annotations = json!({"conclave.dev/elections": value});
        let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
        let field = "`metadata.annotations[conclave.dev/elections]` ";
        assert!(error.starts_with(&format!("{field}{expected}")), "{error}");
    }
}

#[test]
fn a_priority_is_a_whole_number() {
    for value in ["", "-", "+1", "high", "1.5", "2147483648", "-2147483649", " 4"] {
        let annotations = json!({"conclave.dev/priority": value});
        let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
        let expected = format!(
            "`metadata.annotations[conclave.dev/priority]` must be a whole number from -2147483648 to 2147483647, \
             and is `{value}`"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn a_capacity_is_a_whole_number() {
    for value in ["", "-1", "+1", "much", "1.5", "4294967296", " 4"] {
        let annotations = json!({"conclave.dev/capacity": value});
        let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
        let expected = format!(
            "`metadata.annotations[conclave.dev/capacity]` must be a whole number from 0 to 4294967295, \
             and is `{value}`"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn a_zone_is_what_a_label_can_state() {
    let long = "z".repeat(64);
    for value in ["", "a b", "-a", "a-", "eu/a", &long] {
        let annotations = json!({"conclave.dev/zone": value});
        let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
        let expected = format!(
            "`metadata.annotations[conclave.dev/zone]` must be 1 to 63 letters, digits, `-`, `_` and `.`, with a \
             letter or a digit first and last, and is `{value}`"
        );
        assert_eq!(error, expected);
    }
}

/// The API server would refuse it too, in words about the container.
#[test]
fn a_limit_is_no_less_than_the_request() {
    let with = |request: &str, limit: &str| {
        refusal(|pod| {
            pod["metadata"]["annotations"] = json!({
                "config.conclave.dev/cpu-request": request, "config.conclave.dev/cpu-limit": limit,
            });
        })
    };
    let expected = "`metadata.annotations[config.conclave.dev/cpu-limit]` must be at least the request, which is 0.5, \
                    and is 499m";
    assert_eq!(with("0.5", "499m"), expected);
}

#[test]
fn an_annotation_that_is_unknown_or_wrong_is_named() {
    for (key, value, expected) in [
        ("imgae", "a", "is unknown; there are image, log-level"),
        ("image", "", "must be the name of an image"),
        ("log-level", "conclave=loudly", "must be a level or directives"),
        ("memory-limit", "much", "must be a quantity such as `10m` or `64Mi`, and is `much`"),
        ("socket-only", "yes", "must be `true` or `false`, and is `yes`"),
        ("cpu-request", "1.2.3", "must be a quantity"),
        ("cpu-request", "17", "must be between 1m and 16, and is `17`"),
        ("cpu-request", "10n", "must be between 1m and 16, and is `10n`"),
        ("cpu-limit", "49m", "must be between 50m and 16, and is `49m`"),
        ("memory-request", "3Mi", "must be between 4Mi and 16Gi, and is `3Mi`"),
        ("memory-limit", "64", "must be between 32Mi and 16Gi, and is `64`"),
        ("cpu-limit", "", "must be a quantity"),
        ("memory-request", "129Mi", "must be at most the limit, which is 128Mi, and is 129Mi"),
        ("api-tokens", "", "must be the name of a Secret, and is ``"),
        ("api-tokens", "../tokens", "must be the name of a Secret"),
        ("api-tokens", "a..b", "must be the name of a Secret"),
        ("api-tokens", "Tokens", "must be the name of a Secret"),
        ("api-tokens", "-tokens", "must be the name of a Secret"),
        ("leader-elector", "", "must be `default` or the name of an election, and is ``"),
        ("leader-elector", "a,b", "must be `default` or the name of an election"),
        ("app-health-port", "http", "must be a port, a number from 1 to 65535, and is `http`"),
        ("app-health-path", "healthz", "must be a path such as `/healthz`, of at most"),
        ("app-health-interval", "2", "must be a duration from 100ms to 1h, and is `2`"),
        ("app-health-timeout", "0s", "must be a duration from 100ms to 1h, and is `0s`"),
        ("app-health-threshold", "0", "must be a number from 1 to 100, and is `0`"),
        ("app-health-path", "/", "says nothing without `config.conclave.dev/app-health-port`"),
        ("app-health-port", "7072", "must be a port of the application, and 7072 is the sidecar's"),
        ("app-container", "tlil", "must name a container that goes on, and there is no `tlil`"),
    ] {
        let key = format!("config.conclave.dev/{key}");
        let error = refusal(|pod| pod["metadata"]["annotations"] = json!({ key.clone(): value }));
        assert!(error.starts_with(&format!("`metadata.annotations[{key}]` {expected}")), "{error}");
    }
}

#[test]
fn an_answer_about_health_comes_before_the_next_question() {
    let prefix = "config.conclave.dev/app-health-";
    for (more, given, longest) in
        [(json!({"timeout": "3s"}), "3s", "2s"), (json!({"interval": "500ms"}), "1s", "500ms")]
    {
        let mut annotations = json!({ format!("{prefix}port"): "8080" });
        for (key, value) in more.as_object().expect("annotations") {
            annotations[format!("{prefix}{key}")] = value.clone();
        }
        let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
        let expected = format!(
            "`metadata.annotations[{prefix}timeout]` must be at most the interval (`{prefix}interval`), \
             {longest}, and is `{given}`"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn the_application_is_no_container_that_ends_before_the_others_begin() {
    let with = |policy: Value| {
        let mut pod = pod(|pod| {
            pod["metadata"]["annotations"] = json!({"config.conclave.dev/app-container": "first"});
            pod["spec"]["initContainers"] = json!([{"name": "first", "restartPolicy": policy}]);
        });
        inject_pod(&mut pod, &Options::default()).is_ok()
    };
    assert!(!with(Value::Null) && with(json!("Always")));
}

#[test]
fn the_socket_goes_to_a_container_that_exists_and_has_its_place_free() {
    let annotations = json!({"config.conclave.dev/mount-socket": "tlil"});
    let error = refusal(|pod| pod["metadata"]["annotations"] = annotations);
    assert!(error.ends_with("names `tlil`, which is no container"), "{error}");

    let error = refusal(|pod| {
        pod["metadata"]["annotations"] = json!({"config.conclave.dev/mount-socket": "till"});
        let mounts = json!([{"name": "own", "mountPath": "/run/conclave"}]);
        pod["spec"]["containers"][0]["volumeMounts"] = mounts;
    });
    assert!(error.contains("has something at /run/conclave"), "{error}");
}

#[test]
fn a_pod_is_in_one_group() {
    let options = Options { group: Some("tills".to_owned()), ..Options::default() };
    let error = inject(&deployment(""), &options).expect_err("refused").to_string();
    assert!(error.contains("must be `tills` as --group says, and is `orders`"), "{error}");
}

#[test]
fn a_group_has_the_name_that_a_resource_may_have() {
    for name in ["orders", "o", "o-1", "Orders", "1o", "o-", "-o", "o.p", "", &"o".repeat(41)] {
        let allowed = policy(&Conclave::new(name, ConclaveSpec::default())).is_ok();
        assert_eq!(pod::check_group(name).is_ok(), allowed, "{name:?}");
    }
}

#[test]
fn what_is_not_where_it_belongs_is_named() {
    let error = refusal(|pod| pod["spec"]["volumes"] = json!({}));
    assert_eq!(error, "`spec.volumes` must be a list");
    let error = refusal(|pod| pod["spec"]["containers"][0]["env"] = json!("A=1"));
    assert_eq!(error, "`spec.containers[till].env` must be a list");
    let error = refusal(|pod| pod["spec"] = json!([]));
    assert_eq!(error, "`spec` must be an object");
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\nspec: {}\n";
    let error = inject(text, &Options::default()).expect_err("refused").to_string();
    assert_eq!(error, "document 1 (Deployment `till`): `spec.template` is missing");
}

#[test]
fn what_is_no_yaml_is_named_by_its_number() {
    let error = inject("a: 1\n---\nb: [\n", &Options::default()).expect_err("refused").to_string();
    assert!(error.starts_with("document 2 is no YAML: "), "{error}");
}

#[test]
fn a_clock_page_is_wanted_or_not_and_has_its_place() {
    let key = "conclave.dev/clock-page";
    let error = refusal(|pod| pod["metadata"]["annotations"] = json!({ key: "yes" }));
    let expected = format!("`metadata.annotations[{key}]` must be `true` or `false`, and is `yes`");
    assert_eq!(error, expected);
    let error = refusal(|pod| {
        pod["metadata"]["annotations"] = json!({ key: "true" });
        let mount = json!({"name": "data", "mountPath": "/run/conclave/clock"});
        pod["spec"]["containers"] =
            json!([{"name": "till"}, {"name": "proxy", "volumeMounts": [mount]}]);
    });
    let field = "`volumeMounts of the container `proxy`` ";
    assert_eq!(
        error,
        format!("{field}has something at /run/conclave/clock, where the clock page belongs")
    );
}
