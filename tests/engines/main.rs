//! Recordings of real engines, compared with what the engines themselves say of the same work: every step, graph and
//! operator, its name, type, shape and inputs, on each thread. These need root (or CAP_BPF and CAP_PERFMON). README.md
//! says what lies in this folder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod any_build;
mod attach;
mod barriers;
mod check;
mod commands;
#[path = "../competitor/mod.rs"]
mod competitor;
mod containers;
#[path = "../control_group/mod.rs"]
mod control_group;
mod costs;
mod ctranslate2;
mod cuda;
mod differences;
mod edges;
mod engine;
mod faults;
mod flight;
mod gains;
mod graph;
mod installed;
#[path = "../invocation/mod.rs"]
mod invocation;
mod known_costs;
mod litert;
mod live;
mod mnn;
mod models;
mod ncnn;
mod ncnn_vulkan;
mod onnxruntime;
mod opencv;
mod openvino;
#[path = "../packages/mod.rs"]
mod packages;
#[path = "../pages/mod.rs"]
mod pages;
mod process;
#[path = "../receiver/mod.rs"]
mod receiver;
mod recording;
mod releases;
mod requests;
mod samples;
mod statistics;
mod stripped;
mod threads;
mod torch;
mod truth;
mod truth_cases;
mod verdicts;
mod vulkan;
mod vulkan_others;
mod webgpu;
mod whisper;
mod work;

use serde_json::Value;

fn rows(table: &Value) -> impl Iterator<Item = &Value> {
    table.as_array().unwrap().iter()
}

fn find<'a>(table: &'a Value, key: &str, value: &str) -> &'a Value {
    rows(table).find(|row| row[key] == value).unwrap_or_else(|| panic!("no {key} {value} in {table:#}"))
}
