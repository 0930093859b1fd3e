//! The generated files are current. `UPDATE=1` writes them.

use std::path::Path;

use conclave_crds::schema;

#[test]
fn the_generated_definition_is_current_here_and_in_the_chart() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in [crate_root.to_owned(), crate_root.join("../charts/conclave/files/crds")] {
        let file = folder.join("conclave.dev_conclaves.yaml");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            std::fs::write(&file, schema::yaml()).expect("the file can be written");
        }
        let committed = std::fs::read_to_string(&file).expect("the file is there");
        assert!(
            committed == schema::yaml(),
            "{} is out of date: UPDATE=1 cargo test -p conclave-crds",
            file.display()
        );
    }
}

#[test]
fn the_definition_keeps_the_conventions_of_the_api() {
    let yaml = schema::yaml();
    for unwanted in ["nullable", "format: uint", "$ref", "Auto-generated derived"] {
        assert!(!yaml.contains(unwanted), "{unwanted}");
    }
    // kubectl's client-side apply copies the whole definition into an annotation of at most 256 KiB.
    assert!(yaml.len() < 200_000, "{} bytes", yaml.len());
}

/// Of an optional enum, the definition would have the description of the type, which names no choice.
#[test]
fn the_definition_describes_the_fields_and_not_their_types() {
    let yaml = schema::yaml();
    assert!(yaml.contains("How the leader averages with `Berkeley`"));
    assert!(yaml.contains("`LargestSet`, the default"));
    assert!(!yaml.contains("How the daemon of `Berkeley` averages"));
}
