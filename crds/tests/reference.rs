//! `docs/resource.md` states every field of the resource as the schema does. `UPDATE=1` writes it.

use std::fmt::Write;
use std::path::Path;

use conclave_crds::schema;
use serde_json::{Map, Value};

#[test]
fn the_reference_of_the_resource_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/resource.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &page).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(&file).expect("the file is there");
    assert!(
        committed == page,
        "docs/resource.md is out of date: UPDATE=1 cargo test -p conclave-crds"
    );
}

/// A field that is explained nowhere is one that nobody can use.
#[test]
fn every_field_is_described() {
    let mut missing = Vec::new();
    for (path, object) in objects() {
        for (name, field) in properties(&object) {
            let description = field["description"].as_str().unwrap_or_default();
            if !description.ends_with('.') {
                missing.push(format!("{path}.{name}: {description}"));
            }
        }
    }
    assert!(missing.is_empty(), "no sentence describes {missing:#?}");
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for rule in rules(&root()).filter(|rule| rule["fieldPath"].is_null()) {
        writeln!(page, "- {}", text(&rule["message"])).expect("a text has room");
    }
    for (path, object) in objects() {
        let description = in_a_row(&object["description"]);
        write!(page, "\n## `{path}`\n\n{description}\n\n{HEAD}").expect("a text has room");
        for (name, field) in properties(&object) {
            page.push_str(&row(&path, &object, name, field));
        }
    }
    page
}

const INTRODUCTION: &str = "\
# The resource `Conclave`

One `Conclave` is one group of pods. Its API version is `conclave.dev/v1alpha1`, its short name is `ccv`, and it
belongs to a namespace. You write `spec`, and `spec: {}` is enough. The operator writes `status`.

This page is made from the schema in `crds/conclave.dev_conclaves.yaml`, and a test compares the two. The API server
refuses a resource that breaks a bound, and its message names the field. `kubectl explain` shows the same
descriptions:

```sh
kubectl explain conclaves.spec --recursive
kubectl explain conclaves.spec.timing.leaderLease
```

A *period* is a length of time such as `250ms` or `1m30s`: one to four whole numbers of up to five digits, each with
the unit `h`, `m`, `s` or `ms` ([GEP-2257](https://gateway-api.sigs.k8s.io/geps/gep-2257/)).

These rules concern the whole resource:

";

const HEAD: &str = "\
| Field | Type | Default | Bounds | Effect |
| --- | --- | --- | --- | --- |
";

fn row(path: &str, object: &Value, name: &str, field: &Value) -> String {
    let default = match &field["default"] {
        Value::Null if is_required(object, name) => "required".to_owned(),
        Value::Null => "none".to_owned(),
        Value::Object(_) => "see there".to_owned(),
        Value::Array(entries) if entries.iter().all(Value::is_object) => {
            format!("{} with the defaults below", entries.len())
        }
        Value::String(text) => format!("`{text}`"),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => format!("`{}`", field["default"]),
    };
    let cells =
        [format!("`{name}`"), kind(path, name, field), default, bounds(object, name, field)];
    format!("| {} | {} |\n", cells.join(" | "), in_a_row(&field["description"]))
}

/// The type of a field; an object, or a list of objects, has a table of its own.
fn kind(path: &str, name: &str, field: &Value) -> String {
    let link =
        |path: &str| format!("[object](#{})", path.replace(['.', '[', ']'], "").to_lowercase());
    match text(&field["type"]) {
        "object" => link(&format!("{path}.{name}")),
        "array" if is_object(&field["items"]) => {
            format!("list of {}", link(&format!("{path}.{name}[]")))
        }
        "array" => format!("list of {}s", text(&field["items"]["type"])),
        "string" if field["pattern"] == PERIOD => "period".to_owned(),
        "string" if field["format"] == "date-time" => "time".to_owned(),
        other => other.to_owned(),
    }
}

/// What the API server asks of a field.
fn bounds(object: &Value, name: &str, field: &Value) -> String {
    let mut bounds: Vec<String> = Vec::new();
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", text(value))).collect();
        bounds.push(values.join(", "));
    }
    if let Some(pattern) = field["pattern"].as_str().filter(|pattern| *pattern != PERIOD) {
        bounds.push(format!("matches `{pattern}`"));
    }
    bounds.extend(range(field, "minimum", "maximum", ""));
    if field["pattern"] != PERIOD {
        bounds.extend(range(field, "minLength", "maxLength", " characters"));
    }
    bounds.extend(range(field, "minItems", "maxItems", " entries"));
    bounds.extend(range(&field["items"], "minLength", "maxLength", " characters each"));
    if let Some(keys) = field["x-kubernetes-list-map-keys"].as_array() {
        let keys: Vec<_> = keys.iter().map(|key| format!("`{}`", text(key))).collect();
        bounds.push(format!("no two with the same {}", keys.join(" and ")));
    }
    if field["x-kubernetes-list-type"] == "set" {
        bounds.push("no two the same".to_owned());
    }
    let at = format!(".{name}");
    let of_the_field = rules(object).filter(|rule| rule["fieldPath"] == *at);
    let own = if is_object(field) { None } else { Some(rules(field)) };
    for rule in of_the_field.chain(own.into_iter().flatten()) {
        let message = text(&rule["message"]);
        bounds.push(message.strip_prefix(&format!("`{name}` ")).unwrap_or(message).to_owned());
    }
    bounds.join("; ").replace('|', "\\|")
}

fn range(field: &Value, min: &str, max: &str, unit: &str) -> Option<String> {
    // Bounds of numbers are floating, and whole.
    let bound = |name: &str| field[name].as_f64().map(|bound| format!("{bound}"));
    match (bound(min), bound(max)) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (Some(min), None) => Some(format!("at least {min}{unit}")),
        (None, None) => None,
    }
}

/// Every object of the schema with its path, each before what it has.
fn objects() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        collect(part, &root()["properties"][part], &mut found);
    }
    found
}

fn collect(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
    if !is_object(schema) {
        return;
    }
    found.push((path.to_owned(), schema.clone()));
    for (name, field) in properties(schema) {
        collect(&format!("{path}.{name}"), field, found);
        collect(&format!("{path}.{name}[]"), &field["items"], found);
    }
}

fn root() -> Value {
    let definition = serde_json::to_value(schema::definition()).expect("a definition is JSON");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flat_map(Map::iter)
}

fn rules(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["x-kubernetes-validations"].as_array().into_iter().flatten()
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object()
}

fn is_required(object: &Value, name: &str) -> bool {
    object["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text in one line, as a cell of a table has it.
fn in_a_row(value: &Value) -> String {
    text(value).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// How a period is recognised.
const PERIOD: &str = "^([0-9]{1,5}(h|m|s|ms)){1,4}$";
