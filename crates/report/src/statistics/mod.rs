//! What many steps together show, as data and as text: a section each for rates, growth, work, counters, backends,
//! experts, lanes, layers and models. `docs/statistics.md` documents every key of the JSON. Series are bounded: where
//! points were put together or left out, their section states how many.

mod backends;
mod experts;
mod growth;
mod lanes;
mod layers;
mod models;
mod steps;
#[cfg(test)]
mod tests;
mod work;

pub use backends::{BackendPair, BackendSide, BackendsSection, Crossing};
pub use experts::{ExpertBalance, ExpertSeries, ExpertsSection, ReuseRow};
pub use growth::{GrowthPoint, GrowthRow, GrowthSection};
pub use lanes::{Imbalance, LaneStatistics, LanesSection};
pub use layers::{LayerStatistics, LayersSection, OddOperator};
pub use models::{ModelRow, ModelsSection, RoundsRow, SequenceRow};
pub use steps::{RateWindow, StepsSection};
pub use work::{WorkPoint, WorkRow, WorkSection};

use crate::model::metrics::{MetricsReport, absent as absent_metrics};
use crate::model::rows::{OperatorRow, TraceFacts};
use crate::report::Report;
use crate::text::{Columns, TextStyle, few, metrics_table};
use profinfer_analysis::{Catalogue, Completeness, Statistics, Study, Timeline};
use profinfer_diagnostics::printable;
use profinfer_trace::Meta;
use serde::Serialize;

/// Operators whose counts are listed.
const MOST_OPERATORS: usize = 256;

/// A part of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Time to first token, time per output token, tokens per second over time
    Steps,
    /// Operators whose cost grows with the context, and those that do not
    Growth,
    /// Time against work, by operator type
    Work,
    /// Counters and metrics by operator
    Counters,
    /// The same operator on several backends
    Backends,
    /// Experts: balance, reuse, major faults
    Experts,
    /// Lanes: imbalance, waiting, migrations, interference
    Lanes,
    /// Layers that differ from the others
    Layers,
    /// Models and sequences: speculative decoding, continuous batching
    Models,
}

/// All of it. Sections that were not asked for are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatisticsReport {
    /// `profinfer-statistics`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// Is something missing?
    pub completeness: Completeness,
    /// Where the trace comes from.
    pub trace: TraceFacts,
    /// Time to first token, time per output token, tokens per second over time.
    pub steps: Option<StepsSection>,
    /// Operators whose cost grows with the context, and those that do not.
    pub growth: Option<GrowthSection>,
    /// Time against work, by operator type.
    pub work: Option<WorkSection>,
    /// What was counted.
    pub counters: Option<CountersSection>,
    /// The same operator on several backends.
    pub backends: Option<BackendsSection>,
    /// Experts.
    pub experts: Option<ExpertsSection>,
    /// Lanes.
    pub lanes: Option<LanesSection>,
    /// Layers.
    pub layers: Option<LayersSection>,
    /// Models and sequences.
    pub models: Option<ModelsSection>,
}

/// What was counted, as the report has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountersSection {
    /// Which counters and metrics there are; by phase, of all operators together.
    #[serde(flatten)]
    pub available: MetricsReport,
    /// By operator, the most time first.
    pub operators: Vec<OperatorRow>,
    /// Operators beyond those.
    pub left_out: u64,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// What a section is made of.
struct Given<'a> {
    meta: &'a Meta,
    report: &'a Report,
    statistics: &'a Statistics,
    study: &'a Study,
    catalogue: &'a Catalogue,
}

/// Builds the statistics of a trace that was read to its end: these sections, all where none is named. `report` has all
/// rows: it was built with the default options.
pub fn build_statistics(
    meta: &Meta,
    report: &Report,
    (statistics, study): (&Statistics, &Study),
    timeline: &Timeline,
    only: &[Section],
) -> StatisticsReport {
    let given = Given { meta, report, statistics, study, catalogue: timeline.catalogue() };
    let wanted = |section: Section| only.is_empty() || only.contains(&section);
    StatisticsReport {
        format: "profinfer-statistics",
        version: 1,
        steps: wanted(Section::Steps).then(|| StepsSection::new(&given)),
        growth: wanted(Section::Growth).then(|| GrowthSection::new(&given)),
        work: wanted(Section::Work).then(|| WorkSection::new(&given)),
        counters: wanted(Section::Counters).then(|| CountersSection::new(report)),
        backends: wanted(Section::Backends).then(|| BackendsSection::new(&given)),
        experts: wanted(Section::Experts).then(|| ExpertsSection::new(&given)),
        lanes: wanted(Section::Lanes).then(|| LanesSection::new(&given)),
        layers: wanted(Section::Layers).then(|| LayersSection::new(&given)),
        models: wanted(Section::Models).then(|| ModelsSection::new(&given)),
        completeness: report.completeness.clone(),
        trace: report.trace.clone(),
    }
}

impl CountersSection {
    fn new(report: &Report) -> Self {
        let counted = report.metrics.counters.iter().any(|counter| counter.absent.is_none());
        let absent = (!counted).then(|| {
            let why = absent_metrics(&report.metrics);
            match (report.metrics.counters.is_empty(), why.is_empty()) {
                (true, _) => "No counters were recorded. Request them with `record --counter NAME`.".to_owned(),
                (false, true) => "No counters were recorded.".to_owned(),
                (false, false) => why.join(" "),
            }
        });
        let mut operators = if counted { report.operators.clone() } else { Vec::new() };
        let left_out = operators.len().saturating_sub(MOST_OPERATORS) as u64;
        operators.truncate(MOST_OPERATORS);
        Self { available: report.metrics.clone(), operators, left_out, absent }
    }

    fn text(&self, out: &mut String, style: &TextStyle) {
        if let Some(why) = &self.absent {
            return absent(out, style, "Counters", why);
        }
        let mut columns = Columns::new(&self.available);
        let (rows, more) = few(&self.operators, "`report --top N` and `--json` show all");
        if let Some(table) = metrics_table(rows, &mut columns) {
            style.table(out, "Counters by operator (from the sums of each row)", &table, more);
        }
        sentences(out, &columns.marks().iter().map(|mark| (*mark).to_owned()).collect::<Vec<_>>());
        sentences(out, &absent_metrics(&self.available));
    }
}

/// The statistics as text.
pub fn statistics_text(report: &StatisticsReport, style: &TextStyle) -> String {
    let mut out = crate::text::completeness(&report.completeness, style);
    out.push_str(&crate::text::facts(&report.trace));
    if let Some(section) = &report.steps {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.growth {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.work {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.counters {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.backends {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.experts {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.lanes {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.layers {
        section.text(&mut out, style);
    }
    if let Some(section) = &report.models {
        section.text(&mut out, style);
    }
    out
}

/// A section that has nothing, and why.
fn absent(out: &mut String, style: &TextStyle, title: &str, why: &str) {
    out.push_str(&style.heading(title));
    out.push_str(&format!("  {}\n", printable(why)));
}

/// Sentences under a table.
fn sentences<'a>(out: &mut String, sentences: impl IntoIterator<Item = &'a String>) {
    for sentence in sentences {
        out.push_str(&format!("  {}\n", printable(sentence)));
    }
}

/// `12.3 %` with a sign.
fn signed_share(part: f64) -> String {
    let text = crate::numbers::units::share(part.abs());
    if part < 0.0 { format!("−{text}") } else { format!("+{text}") }
}
