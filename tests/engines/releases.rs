//! Releases of each package: the oldest and one of between, as `scripts/engine-matrix` compares them with the engine's own
//! account. The newest have tests of their own; the script without options records all.

use crate::process::run;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every operator has the account's name, type and shape, where it has them.
fn compare(releases: &[&str]) {
    let mut matrix = Command::new(Path::new(ROOT).join("scripts/engine-matrix"));
    matrix.arg("--keep").args(releases.iter().flat_map(|release| ["--only", release]));
    let printed = run(matrix.env("PROFINFER", env!("CARGO_BIN_EXE_profinfer")), 0);
    let printed = String::from_utf8(printed.stderr).unwrap();
    let rows: Vec<&str> = printed.lines().filter(|line| line.starts_with("| ")).collect();
    for release in releases {
        assert!(rows.iter().any(|row| row[2..].starts_with(release)), "{release} is not among\n{printed}");
    }
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let steps = cells[1].split(", ").next().unwrap().split_once(" of ");
        assert!(steps.is_some_and(|(recorded, all)| recorded == all), "{row}");
        assert!(cells[2].starts_with("all "), "{row}");
        assert!(cells[3..6].iter().all(|cell| cell.starts_with("all ") || *cell == "–"), "{row}");
        assert!(!cells[6].contains("Incomplete"), "{row}");
    }
}

#[test]
#[ignore = "needs root"]
fn llama_cpp() {
    compare(&["xllamacpp 0.1.0", "xllamacpp 0.2.14", "node-llama-cpp 3.2.0", "node-llama-cpp 3.14.5", "cyllama 0.2.7"]);
}

#[test]
#[ignore = "needs root"]
fn engines_of_audio_and_of_chats() {
    compare(&["pywhispercpp 1.3.1", "pywhispercpp 1.4.1", "gpt4all 2.8.2"]);
}

#[test]
#[ignore = "needs root"]
fn onnx_runtime() {
    compare(&["onnxruntime 1.16.0", "onnxruntime 1.24.1", "sherpa-onnx-core 1.12.9", "sherpa-onnx-core 1.13.0"]);
    compare(&["onnxruntime-genai 0.6.0", "onnxruntime-genai 0.12.0", "onnxruntime-genai 0.18.0"]);
}

#[test]
#[ignore = "needs root"]
fn engines_of_devices() {
    compare(&["ncnn 1.0.20240102", "ncnn 1.0.20250503", "MNN 3.0.0", "MNN 3.4.1", "ai-edge-litert 1.3.0"]);
}

#[test]
#[ignore = "needs root"]
fn engines_of_servers() {
    compare(&["ctranslate2 4.4.0", "ctranslate2 4.7.0", "openvino 2024.5.0", "openvino 2025.2.0"]);
}
