//! Every seed goes through its target. `UPDATE=1` writes those anew that are made from our types.

use std::fs;
use std::path::Path;

use conclave_fuzz::{TARGETS, seeds};

#[test]
fn no_seed_is_a_finding() {
    for target in TARGETS {
        let seeds = seeds::of(target.name).expect("every target has seeds");
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for (path, seed) in seeds {
            println!("{}", path.display());
            (target.run)(&seed);
        }
    }
}

#[test]
fn every_directory_of_seeds_has_a_target() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for entry in fs::read_dir(all).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        assert!(TARGETS.iter().any(|target| *target.name == *name), "{name:?}");
    }
}

#[test]
fn seeds_of_our_own_types_are_as_those_are_now() {
    for (target, name, content) in seeds::made() {
        let path = seeds::directory(target).join(name);
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(seeds::directory(target)).expect("a directory");
            fs::write(&path, &content).expect("a file");
        }
        let committed = fs::read(&path).unwrap_or_default();
        assert_eq!(committed, content, "{}: run it with UPDATE=1", path.display());
    }
}
