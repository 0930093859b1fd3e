//! Manifests: of workloads, as `conclave inject` has them, and of a `Conclave`.

use conclave_pods::inject::{Options, inject};

/// Injecting twice is injecting once; a `Conclave` that was read is read again.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for group in [None, Some("orders".to_owned())] {
        let options = Options { group, ..Options::default() };
        if let Ok(once) = inject(text, &options) {
            let twice = inject(&once, &options);
            let twice = twice.unwrap_or_else(|error| panic!("{error}:\n{once}"));
            assert_eq!(once, twice, "injected twice");
        }
    }
    if let Ok(conclave) = conclave_crds::read(text) {
        let written = serde_json::to_string(&conclave).expect("a resource is JSON");
        let again = conclave_crds::read(&written);
        let again = again.unwrap_or_else(|error| panic!("{error}:\n{written}"));
        assert_eq!(again.spec, conclave.spec);
    }
}
