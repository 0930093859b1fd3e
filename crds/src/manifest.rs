//! Reads a manifest from a file, as strictly as kubectl and the API server together would.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::Resource;
use serde_json::Value;

use crate::conclave::Conclave;
use crate::policy::{PolicyError, policy};
use crate::schema;

/// Why a text is no manifest of a `Conclave`.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML.
    #[error("the manifest is no YAML: {0}")]
    Yaml(String),
    /// It is of another kind.
    #[error("the manifest must have `apiVersion: {}` and `kind: Conclave`", Conclave::api_version(&()))]
    Kind,
    /// It does not fit the schema.
    #[error("`{field}` {problem}")]
    Field {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It breaks a rule.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Reads one `Conclave` from YAML or JSON. Unknown fields are refused, and so is everything that
/// the API server would refuse.
pub fn read(text: &str) -> Result<Conclave, ManifestError> {
    let value: Value =
        serde_saphyr::from_str(text).map_err(|error| ManifestError::Yaml(error.to_string()))?;
    if value["apiVersion"] != Conclave::api_version(&()).as_ref()
        || value["kind"] != Conclave::kind(&()).as_ref()
    {
        return Err(ManifestError::Kind);
    }
    fits_definition(&value)?;
    let conclave: Conclave =
        serde_json::from_value(value).map_err(|error| field("spec", error.to_string()))?;
    policy(&conclave)?;
    Ok(conclave)
}

/// Whether all parts of a manifest are known and fit. The schema has all but what every resource
/// has.
fn fits_definition(manifest: &Value) -> Result<(), ManifestError> {
    let definition = schema::definition();
    let schema = definition.spec.versions.into_iter().next().and_then(|version| version.schema);
    let parts = schema.and_then(|schema| schema.open_api_v3_schema?.properties).unwrap_or_default();
    let mut fields = manifest.as_object().into_iter().flatten();
    fields.try_for_each(|(key, value)| match (key.as_str(), parts.get(key)) {
        ("apiVersion" | "kind" | "metadata", _) => Ok(()),
        (_, Some(schema)) => fits(key, value, schema),
        (_, None) => Err(field(key, "is unknown".to_owned())),
    })
}

/// Whether a value has the type, the fields and the enumerated values of its schema. Lengths and
/// rules are left to [`policy()`].
fn fits(path: &str, value: &Value, schema: &JSONSchemaProps) -> Result<(), ManifestError> {
    let expected = schema.type_.as_deref().unwrap_or_default();
    if !has_type(value, expected) {
        return Err(field(path, format!("must be of type {expected}")));
    }
    if let Some(allowed) = &schema.enum_
        && !allowed.iter().any(|option| option.0 == *value)
    {
        let allowed: Vec<_> = allowed.iter().map(|option| option.0.to_string()).collect();
        return Err(field(path, format!("must be one of {}", allowed.join(", "))));
    }
    match (value, &schema.properties, &schema.items) {
        (Value::Object(fields), Some(known), _) => {
            fields.iter().try_for_each(|(key, value)| match known.get(key) {
                Some(schema) => fits(&join(path, key), value, schema),
                None => Err(field(&join(path, key), "is unknown".to_owned())),
            })
        }
        (Value::Array(items), _, Some(JSONSchemaPropsOrArray::Schema(schema))) => {
            let mut indexed = items.iter().enumerate();
            indexed.try_for_each(|(index, item)| fits(&format!("{path}[{index}]"), item, schema))
        }
        _ => Ok(()),
    }
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        _ => true,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn field(path: &str, problem: String) -> ManifestError {
    ManifestError::Field { field: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Result<Conclave, String> {
        let head = "apiVersion: conclave.dev/v1alpha1\nkind: Conclave\nmetadata: {name: orders}\n";
        read(&format!("{head}spec: {text}")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_specification_has_all_defaults() {
        assert_eq!(spec("{}").map(|conclave| conclave.spec), Ok(crate::ConclaveSpec::default()));
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_the_path_of_the_field() {
        for (text, expected) in [
            ("{timing: {leaderLaese: 1s}}", "`spec.timing.leaderLaese` is unknown"),
            (
                "{locks: [{}, {algorithm: Best}]}",
                "`spec.locks[1].algorithm` must be one of \"Central\", \"TokenRing\", \
                 \"Raymond\", \"Lamport\", \"RicartAgrawala\", \"Maekawa\", \"Voting\", \"Superpeers\"",
            ),
            ("{clock: {maxDriftPpm: lots}}", "`spec.clock.maxDriftPpm` must be of type integer"),
            (
                "{timing: {heartbeat: 1s}}",
                "`spec.timing.leaderLease` must be at least five times `heartbeat`",
            ),
        ] {
            assert_eq!(spec(text).err().as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_field_beside_the_specification_is_refused() {
        let result = spec("{}\nspecs: {}");
        assert_eq!(result.err().as_deref(), Some("`specs` is unknown"));
    }

    #[test]
    fn another_kind_is_refused() {
        assert!(matches!(read("{kind: Pod}"), Err(ManifestError::Kind)));
    }
}
