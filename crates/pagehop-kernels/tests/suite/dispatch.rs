//! The choice of an instruction set, and the refusal of arguments whose lengths differ.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use pagehop_kernels::{Isa, Kernels, ROUNDED_DIM_MAX, is_before_x86_64_v2};

use crate::inputs::on_every_isa;

const EXPECTED: &str = "PAGEHOP_TEST_EXPECTED_ISA";

/// Does nothing in this process. The next test runs it in child processes, with `EXPECTED` set.
#[test]
fn the_active_set_is_the_one_that_the_parent_expects() {
    if let Ok(expected) = std::env::var(EXPECTED) {
        assert_eq!(Kernels::active().isa().name(), expected);
    }
}

#[test]
fn the_environment_chooses_among_available_sets() {
    let widest = Isa::available().last().expect("portable is always there");
    let asked = Isa::available().map(|isa| (isa.name(), isa)).chain([("sse9", widest), ("", widest)]);
    for (name, isa) in asked {
        let output = this_test()
            .args(["--exact", "dispatch::the_active_set_is_the_one_that_the_parent_expects"])
            .env("PAGEHOP_ISA", name)
            .env(EXPECTED, isa.name())
            .output()
            .expect("this test runs again");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{name}: {text}");
    }
}

#[test]
fn a_cpu_with_vector_instructions_of_ours_is_not_the_first_of_its_kind() {
    assert!(!is_before_x86_64_v2() || Isa::available().eq([Isa::Portable]));
}

/// This program, with the emulator that runs it, if there is one.
fn this_test() -> Command {
    let path = std::env::current_exe().expect("this test's path");
    let Ok(emulator) = std::env::var("PAGEHOP_TEST_EMULATOR") else { return Command::new(path) };
    let mut command = Command::new(emulator);
    command.arg(path);
    command
}

#[test]
fn kernels_exist_for_exactly_the_available_sets() {
    for isa in Isa::ALL {
        let kernels = Kernels::on(isa);
        assert_eq!(kernels.is_some(), Isa::available().any(|available| available == isa));
        assert!(kernels.is_none_or(|kernels| kernels.isa() == isa));
    }
    assert_eq!(Isa::available().next(), Some(Isa::Portable));
}

#[track_caller]
fn assert_refused(call: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "lengths that disagree were accepted");
}

#[test]
fn lengths_that_disagree_are_refused() {
    on_every_isa(|kernels| {
        let (f, h, u, i) = ([0.0f32; 9], [0u16; 9], [0u8; 9], [0i8; 9]);
        assert_refused(|| _ = kernels.l2sq_f32(&f, &f[1..]));
        assert_refused(|| _ = kernels.l2sq_f16(&h, &h[1..]));
        assert_refused(|| _ = kernels.l2sq_u8(&u, &u[1..]));
        assert_refused(|| _ = kernels.dot_f32(&f[1..], &f));
        assert_refused(|| _ = kernels.dot_f16(&h[1..], &h));
        assert_refused(|| _ = kernels.dot_u8(&u[1..], &u));
        assert_refused(|| _ = kernels.dot_i8(&i[1..], &i));
        let mut rounded = kernels.rounded();
        rounded.round(&f);
        assert_refused(|| _ = rounded.dot_i8(&i[1..]));
        assert_refused(|| _ = rounded.dot_i12(&i, &u));
        assert_refused(|| _ = rounded.dot_i12(&i[1..], &u[..5]));
        assert_refused(|| kernels.rounded().round(&[0.0; ROUNDED_DIM_MAX + 1]));
        assert_refused(|| kernels.f16_to_f32(&h, &mut [0.0; 8]));
        assert_refused(|| kernels.f32_to_f16(&f, &mut [0; 8]));
        assert_refused(|| kernels.dot_i8_block(&i, &i, 3, &mut [0; 8]));
        assert_refused(|| kernels.dot_i8_block(&i, &i, 2, &mut [0; 16]));
        assert_refused(|| kernels.dot_i8_block(&[], &[], 0, &mut []));
        let mut scan = kernels.scan();
        scan.prepare(&[0; 4]);
        assert_refused(|| scan.count(&[0; 64], &mut [0; 9]));
        assert_refused(|| scan.count(&[0; 63], &mut [0; 8]));
        assert_refused(|| kernels.scan().prepare(&[0; 5]));
        assert_refused(|| kernels.level_planes(&[0.0; 65], 1.0, &mut [0; 3]));
        assert_refused(|| kernels.level_planes(&[0.0; 64], 1.0, &mut [0; 9]));
        assert_refused(|| kernels.level_planes(&[0.0; 64], 1.0, &mut []));
        assert_refused(|| kernels.multiply(&mut [0.0; 8], &f));
        assert_refused(|| kernels.hadamard(&mut [0.0; 0]));
        assert_refused(|| kernels.hadamard(&mut [0.0; 12]));
        assert_refused(|| kernels.hadamard(&mut [0.0; 8192]));
    });
}

#[test]
fn prefetch_takes_any_slice() {
    let bytes = [0; 300];
    for start in [0, 1, 63, 64, 299, 300] {
        pagehop_kernels::prefetch(&bytes[start..]);
    }
}
