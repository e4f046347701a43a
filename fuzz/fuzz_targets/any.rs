//! libFuzzer with one of the targets, which `FUZZ_TARGET` names.
#![no_main]

use citius_fuzz::{caught_panics_are_fine, chosen};
use libfuzzer_sys::fuzz_target;

fn init() {
    caught_panics_are_fine();
    chosen();
}

fuzz_target!(init: init(), |input: &[u8]| (chosen().run)(input));
