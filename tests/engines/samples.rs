//! Timer samples of a real engine: products of matrices are computed by the kernel for their weights' type.

use crate::engine::{Engine, Workload, alone, workload};
use crate::{record, rows};
use serde_json::Value;

fn within(recording: &crate::Recording, what: &str) -> Value {
    recording.report(&["--by", "function", "--phase", "decode", "--within", what])
}

/// Samples in functions of the engine's own module, by how their names begin.
fn in_engine(report: &Value, begins: &str) -> u64 {
    let rows = rows(&report["functions"]).filter(|row| row["module"].as_str().unwrap().contains("xllamacpp"));
    let named = rows.filter(|row| row["function"].as_str().unwrap().starts_with(begins));
    named.map(|row| row["samples"].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "needs root"]
fn products_are_computed_by_the_kernel_for_their_weights() {
    let _alone = alone();
    for (model, kernel) in [("small-dense", "ggml_vec_dot_f32"), ("small-dense-q8_0", "ggml_vec_dot_q8_0_q8_0")] {
        let work = Workload { tokens: 150, ..workload(model, 1) };
        let recording = record(Engine::Wheel, &work, &["--sample", "1999"]);
        recording.assert_complete();
        let products = within(&recording, "MUL_MAT");
        let (all, of_kernel) = (in_engine(&products, ""), in_engine(&products, kernel));
        assert!(all > 100, "{model}: {products:#}");
        assert!(of_kernel * 10 > all * 6, "{model}: {of_kernel} of {all} in {kernel}\n{products:#}");
        // Attention multiplies numbers of 16 bits; weights of no other type are there.
        let quantised = in_engine(&products, "ggml_vec_dot_q");
        assert_eq!(quantised, if kernel.contains("_q") { of_kernel } else { 0 }, "{model}: {products:#}");
        // The verdict has the class of that kernel, by the probeset.
        let verdict = recording.report(&[])["verdict"].clone();
        let decode = rows(&verdict["phases"]).find(|row| row["phase"] == "decode").unwrap();
        let multiply = rows(&decode["sampled"]["classes"]).find(|row| row["what"] == "multiply").unwrap();
        assert!(multiply["samples"].as_u64().unwrap() >= of_kernel, "{model}: {multiply} has not the {of_kernel}");
        assert!(multiply["function"].as_str().unwrap().starts_with(kernel), "{model}: {multiply}");
        // Most of what is outside operators has a name.
        let outside = recording.report(&["--by", "function", "--within", "outside operators"]);
        let named: u64 = rows(&outside["functions"])
            .filter(|row| row["known"] == true)
            .map(|row| row["samples"].as_u64().unwrap())
            .sum();
        assert!(named * 10 >= outside["samples"].as_u64().unwrap() * 8, "{model}: {outside:#}");
    }
}
