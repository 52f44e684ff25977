//! The command line.

use crate::conditions::{CONDITIONS, Condition};
use std::path::PathBuf;

/// Measures what being recorded costs an engine.
#[derive(Debug, clap::Parser)]
pub(crate) struct Arguments {
    /// Pairs of turns for each condition and model
    #[arg(long, default_value_t = 150)]
    pub(crate) pairs: usize,
    /// How long a turn is to be, ms
    #[arg(long, default_value_t = 100.0)]
    pub(crate) turn_ms: f64,
    /// The processor that the copies share, with one thread
    #[arg(long, default_value_t = 1)]
    pub(crate) cpu: usize,
    /// The engine's threads: with several, on as many processors from the first on, which the tool shares
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Models of tests/engines/make_models.py
    #[arg(long = "model", default_values = ["tiny-dense", "medium-dense", "large-dense"])]
    pub(crate) models: Vec<String>,
    /// Only these conditions, on every model, and nothing else; `none` is the one that must give 1
    #[arg(long, value_delimiter = ',', value_parser = named())]
    only: Vec<String>,
    /// What the order of turns and the samples of the bootstrap start from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Replace what stands between the marks in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured besides the conditions.
const BESIDES: [&str; 4] = ["recorder", "onnxruntime", "on-device", "serve-itself"];

fn named() -> clap::builder::PossibleValuesParser {
    CONDITIONS.iter().map(|condition| condition.name).chain(BESIDES).collect::<Vec<_>>().into()
}

impl Arguments {
    /// The conditions asked for.
    pub(crate) fn conditions(&self) -> Vec<&'static Condition> {
        CONDITIONS.iter().filter(|condition| self.only.is_empty() || self.names(condition)).collect()
    }

    /// Whether the condition is asked for by name.
    pub(crate) fn names(&self, condition: &Condition) -> bool {
        self.only.iter().any(|name| name == condition.name)
    }

    /// Whether the recorder's own needs are measured.
    pub(crate) fn measures_recorder(&self) -> bool {
        self.measures(BESIDES[0])
    }

    /// Whether the engine with a profiler of its own is measured.
    pub(crate) fn measures_own_profiler(&self) -> bool {
        self.measures(BESIDES[1])
    }

    /// Whether the engine that gives its operators to a device is measured.
    pub(crate) fn measures_on_device(&self) -> bool {
        self.measures(BESIDES[2])
    }

    /// Whether the needs of `serve` are measured.
    pub(crate) fn measures_served(&self) -> bool {
        self.measures(BESIDES[3])
    }

    fn measures(&self, beside: &str) -> bool {
        if self.only.is_empty() { self.threads == 1 } else { self.only.iter().any(|name| name == beside) }
    }

    /// The processors that the copies share.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        if self.threads == 1 { vec![self.cpu] } else { (0..self.threads).collect() }
    }
}
