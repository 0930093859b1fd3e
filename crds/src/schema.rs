//! The custom resource definition, as the API server gets it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::Schema;
use serde_json::Value;

use crate::conclave::Conclave;

/// The definition of `Conclave`.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = serde_json::to_value(Conclave::crd()).expect("a definition is JSON");
    drop_nullable(&mut definition);
    serde_json::from_value(definition).expect("it was a definition before")
}

/// The definition as YAML: the same text every time.
pub fn yaml() -> String {
    let body = serde_saphyr::to_string(&definition()).expect("a definition is YAML");
    format!("{HEADER}{body}")
}

/// Lets an optional enum be described by its field: in the definition, the description of the type would take its place.
pub(crate) fn described_by_field(schema: &mut Schema) {
    let kinds = schema.get_mut("anyOf").and_then(Value::as_array_mut);
    for kind in kinds.into_iter().flatten().filter_map(Value::as_object_mut) {
        kind.remove("description");
    }
}

/// Takes out `nullable: true`, which comes with every `Option`: a field that is absent is left out
/// and never `null`, and the API conventions advise against a third state.
fn drop_nullable(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| key != "nullable" || !value.is_boolean());
            fields.values_mut().for_each(drop_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nullable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const HEADER: &str =
    "# Generated from the crate `conclave-crds`: UPDATE=1 cargo test -p conclave-crds\n";
