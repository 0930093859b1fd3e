//! The engine, with the target that `CONCLAVE_TARGET` names.

#![no_main]
#![allow(unsafe_code, reason = "the engine calls from C++")]

use std::sync::LazyLock;

use conclave_fuzz::{Target, named};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("CONCLAVE_TARGET").unwrap_or_default();
    named(&name).unwrap_or_else(|| panic!("CONCLAVE_TARGET=`{name}` names no target"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
