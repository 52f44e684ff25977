//! The report by function as data.

use super::interval::wilson;
use super::names::{Names, Symbolizer};
use super::selection::{Selection, place_name};
use profinfer_analysis::{Catalogue, Completeness, Profile, group_digits};
use profinfer_schema::{CodePlace, Sampling};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeMap;

/// A share of fewer samples than this is marked.
pub(crate) const FEW: u64 = 20;

/// How the callers of samples were found; `None` where samples have none.
pub(super) fn callers(stacks: bool, unwind_tables: bool, cut: u64) -> Option<String> {
    stacks.then(|| match (unwind_tables, cut) {
        (false, _) => "by frame pointers".to_owned(),
        (true, 0) => "by unwind tables".to_owned(),
        (true, cut) => format!("by unwind tables, {} without the outermost", group_digits(cut)),
    })
}

/// Shares of functions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionsReport {
    /// `profinfer-functions`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// Is something missing from the trace?
    pub completeness: Completeness,
    /// How the samples were taken.
    pub sampling: SamplesFacts,
    /// The phase that was selected.
    pub phase: Option<&'static str>,
    /// The operators or the place that was selected.
    pub within: Option<String>,
    /// Samples that were selected: what shares are shares of.
    pub samples: u64,
    /// Of them, samples while a lane waited for others, by its operators' `waiting`.
    pub waiting: u64,
    /// By operator type, and what is outside operators.
    pub places: Vec<PlaceRow>,
    /// By function.
    pub functions: Vec<FunctionRow>,
    /// Rows that `functions` would have without `--top`.
    pub functions_total: u64,
}

/// How samples were taken.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SamplesFacts {
    /// `cpu-clock` or `cycles`.
    pub event: String,
    /// Samples of each thread in a second of its CPU time.
    pub hz: u32,
    /// Samples have callers.
    pub stacks: bool,
    /// These are by unwind tables, not by frame pointers.
    pub unwind_tables: bool,
    /// Samples whose outermost callers are missing: their stack was larger than what is copied of one, or not copied.
    pub cut: u64,
    /// Samples in the trace.
    pub samples: u64,
    /// Samples that are not in the trace.
    pub lost: u64,
    /// What was not sampled.
    pub absent: Option<String>,
}

/// Samples in operators of a type, or outside operators.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceRow {
    /// The operator type, or `outside operators`, `outside graphs`, `outside steps`.
    pub place: String,
    /// Samples.
    pub samples: u64,
    /// Their share of those selected.
    pub share: f64,
    /// The share's 95 % interval.
    pub interval: [f64; 2],
    /// Fewer than 20 samples.
    pub few: bool,
    /// The function with most of them.
    pub function: String,
    /// Its share of the place's samples.
    pub function_share: f64,
}

/// Samples in a function itself, callees left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionRow {
    /// Its name; in brackets, the file or kind of code instead.
    pub function: String,
    /// Its file; `kernel`; empty for code without a file.
    pub module: String,
    /// A symbol gave the name.
    pub known: bool,
    /// Samples.
    pub samples: u64,
    /// Their share of those selected.
    pub share: f64,
    /// The share's 95 % interval.
    pub interval: [f64; 2],
    /// Fewer than 20 samples.
    pub few: bool,
    /// Of its samples, those while a lane waited for others.
    pub waiting: u64,
}

/// The report of a trace whose samples were counted.
pub fn functions(
    meta: &Meta,
    completeness: Completeness,
    (profile, catalogue): (&Profile, &Catalogue),
    selection: &Selection,
    symbols: &mut dyn Symbolizer,
) -> FunctionsReport {
    let none = Sampling::default();
    let sampling = meta.sampling.as_ref().unwrap_or(&none);
    let mut names = Names::new(sampling, symbols);
    let mut by_function: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    let mut by_place: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let (mut samples, mut waiting) = (0, 0);
    for (phase, within, waits, stack, count) in profile.counts() {
        if !selection.wants(phase, within, catalogue) {
            continue;
        }
        let unknown = CodePlace { module: CodePlace::UNKNOWN, offset: 0 };
        let function = names.of(profile.stack(stack).first().copied().unwrap_or(unknown));
        let place = place_name(within, catalogue, profile.has_operators());
        *by_place.entry(place).or_default().entry(function.full_name().into_owned()).or_default() += count;
        let of_function = by_function.entry(function).or_default();
        of_function.0 += count;
        samples += count;
        if waits {
            of_function.1 += count;
            waiting += count;
        }
    }
    let figures = |count: u64| {
        let (low, high) = wilson(count, samples);
        (share(count, samples), [low, high], count < FEW)
    };
    let mut functions: Vec<FunctionRow> = by_function
        .into_iter()
        .map(|(function, (count, waiting))| {
            let (share, interval, few) = figures(count);
            let (name, module, known) = (function.name, function.module, function.known);
            FunctionRow { function: name, module, known, samples: count, share, interval, few, waiting }
        })
        .collect();
    functions.sort_by_key(|row| std::cmp::Reverse(row.samples));
    let mut places: Vec<PlaceRow> = by_place
        .into_iter()
        .map(|(place, of)| {
            let count = of.values().sum();
            let (largest, of_largest) = of.into_iter().max_by_key(|(_, count)| *count).unwrap_or_default();
            let (share_of_all, interval, few) = figures(count);
            PlaceRow {
                place,
                samples: count,
                share: share_of_all,
                interval,
                few,
                function: largest,
                function_share: share(of_largest, count),
            }
        })
        .collect();
    places.sort_by_key(|row| std::cmp::Reverse(row.samples));
    FunctionsReport {
        format: "profinfer-functions",
        version: 1,
        completeness,
        sampling: SamplesFacts {
            event: sampling.event.clone(),
            hz: sampling.hz,
            stacks: sampling.stacks,
            unwind_tables: sampling.unwind_tables,
            cut: sampling.cut,
            samples: meta.samples,
            lost: sampling.lost,
            absent: sampling.absent.clone().or_else(|| meta.sampling.is_none().then(|| "none were taken".to_owned())),
        },
        phase: selection.phase.map(profinfer_analysis::Phase::as_str),
        within: selection.within.clone(),
        samples,
        waiting,
        functions_total: functions.len() as u64,
        places,
        functions,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share needs no more")]
fn share(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

impl FunctionsReport {
    /// So many functions at most.
    pub fn truncate(&mut self, rows: usize) {
        self.functions.truncate(rows);
    }
}
