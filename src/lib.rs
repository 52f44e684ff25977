//! profinfer profiles inference engines from outside. One YAML *probeset* says everything it knows about an
//! engine; each arrow below is one public function between two named types, so that a phase cannot be skipped:
//!
//! ```text
//! probeset.yaml ─ spec::load ─▶ Probeset ─ plan::plan ─▶ ProbePlan ─ codegen::generate ─▶ CSource
//!                                              │                                            │ bpf::build
//!                       Target ─ plan::place ──┤                                            ▼
//!                                              ▼                                        BpfObject
//!                                          Placement ────────── record::record ────────────┤
//!                                                                                           ▼
//!       reports ◀─ report ─ Timeline ◀─ analysis ─ Record ◀─ trace::TraceReader ◀─ trace file
//! ```
//!
//! Recording and analysis meet only at the trace file. `spec`, `path`, `plan`, `codegen`, `trace` and `analysis`
//! are pure: what they know of the world comes in through [`target::Target`] or a byte stream.

pub mod analysis;
#[cfg(feature = "record")]
pub mod bpf;
#[cfg(target_os = "linux")]
pub mod cache;
pub mod cli;
pub mod codegen;
pub mod counters;
pub mod diag;
pub mod output;
pub mod path;
pub mod plan;
#[cfg(feature = "record")]
pub mod record;
pub mod report;
#[cfg(feature = "record")]
pub mod roofline;
pub mod scaffold;
pub mod spec;
pub mod target;
pub mod trace;
