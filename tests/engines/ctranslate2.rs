//! CTranslate2 as its users install it: the recorded products of matrices are those that MKL, which computes them, lists
//! of the same run, and operators and tokens are those of the model. Needs root (or CAP_BPF and CAP_PERFMON), and PyPI
//! the first time.

use crate::invocation::{json, lines, profinfer, succeeds};
use crate::packages::{installed_version, scripts};
use serde_json::Value;
use std::collections::BTreeMap;

const LAYERS: usize = 2;
const TOKENS: usize = 5;
const PROMPT: u64 = 5;

/// Rows, columns and inner extent of a product, in the order of the engine's list.
type Product = (i64, i64, i64);

/// `MKL_VERBOSE SGEMM_COMPUTE(P,N,192,4,64,…)` and `SGEMM_BATCH_STRIDED(T,N,4,4,16,…)`: columns, rows, inner extent.
fn listed(output: &str) -> Vec<Product> {
    let calls = output.lines().filter_map(|line| line.strip_prefix("MKL_VERBOSE SGEMM"));
    let calls = calls.filter(|call| ["(", "_COMPUTE(", "_BATCH_STRIDED("].iter().any(|start| call.starts_with(start)));
    let product = |call: &str| {
        let numbers: Vec<i64> =
            call.split('(').nth(1).unwrap().split(',').skip(2).map_while(|n| n.parse().ok()).collect();
        (numbers[1], numbers[0], numbers[2])
    };
    calls.map(product).collect()
}

fn assert_recorded(build: &str, version: &str, kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi").display().to_string();
    let mut command = profinfer(&["record", "ctranslate2", "-o", &trace, "--"]);
    command.arg(installed_version("install_ctranslate2.sh", build)).arg(scripts().join("run_ctranslate2.py"));
    command.arg(folder.path()).args([kind, &TOKENS.to_string()]).env("MKL_VERBOSE", "1").env("CT2_USE_MKL", "1");
    let output = String::from_utf8(succeeds(&mut command).stdout).unwrap();
    assert!(output.contains(version), "{output}");
    let events = lines(&succeeds(profinfer(&["dump"]).arg(&trace)).stdout);

    let mut shapes: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut ours: Vec<(u64, Product)> = Vec::new();
    let list = |value: &Value| -> Vec<i64> { value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect() };
    for event in &events {
        if event["probe"] == "storage" || event["object"] == "storage" {
            shapes.insert(event["address"].as_str().unwrap().to_owned(), list(&event["fields"]["shape"]));
        }
        if event["probe"] == "product" {
            assert_eq!(event["fields"]["dtype"], "FLOAT32");
            let shape = list(&event["fields"]["shape"]);
            let input = event["fields"]["inputs"][0].as_str().unwrap();
            // The engine computes a batch of products at once, and rows of all sequences in one product.
            ours.push((event["start_ns"].as_u64().unwrap(), (shape[2], shape[3], shapes[input][3])));
        }
    }
    ours.sort_by_key(|(start, _)| *start);
    let ours: Vec<Product> = ours.into_iter().map(|(_, product)| product).collect();
    assert_eq!(ours, listed(&output), "{version} {kind}");

    // Steps, tokens, and the operators of a layer that are not products.
    let of = |name: &str| events.iter().filter(|event| event["probe"] == name).collect::<Vec<_>>();
    let decoded = of("decode");
    let tokens = |event: &Value| event["fields"]["tokens"].as_u64().unwrap();
    // The prompt's last word is the first that is decoded; a translation begins with a word of its own.
    let prompt = if kind == "generate" { vec![PROMPT - 1] } else { Vec::new() };
    let expected: Vec<u64> =
        prompt.into_iter().chain(decoded.iter().skip(usize::from(kind == "generate")).map(|_| 1)).collect();
    assert_eq!(decoded.iter().map(|event| tokens(event)).collect::<Vec<_>>(), expected);
    assert!(decoded.len() >= TOKENS, "{}", decoded.len());
    let encoded = of("encode");
    assert_eq!(
        encoded.iter().map(|event| tokens(event)).collect::<Vec<_>>(),
        if kind == "translate" { vec![PROMPT] } else { vec![] }
    );
    let attentions = LAYERS * if kind == "translate" { 2 * decoded.len() + 1 } else { decoded.len() };
    assert_eq!(of("softmax").len(), attentions);

    let report = json(&["report", &trace, "--json"]);
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
    assert_eq!(report["completeness"]["missing_records"], 0);
}

#[test]
#[ignore = "needs root"]
fn products_of_ctranslate2_are_those_that_mkl_lists() {
    assert_recorded("newest", "4.8.5", "generate");
}

/// The same probeset on a release of a year before, and a model with an encoder.
#[test]
#[ignore = "needs root"]
fn products_of_an_older_ctranslate2_are_those_that_mkl_lists() {
    assert_recorded("older", "4.6.0", "translate");
}
