//! Reports: what the analysis found, put into tables ([`Report`], [`StepReport`]), as JSON through serde or as text.
//! Nothing here prints, reads a file, or knows an engine.

mod build;
mod faults;
mod frequency;
mod html;
mod metrics;
mod model;
mod roofline;
mod sampling;
mod step;
mod table;
mod text;
mod threads;
mod timeline;
mod units;

pub use build::{Options, build};
pub use faults::{FaultPhaseRow, FaultRow, FaultsReport, FetchFigures, WaitingStepRow};
pub use html::{Drawing, MOST_SPANS, Page, Parts, SpanCollector, write_page};
pub use metrics::{CountValue, CounterReport, MetricCell, MetricReport, MetricsReport, PhaseMetrics};
pub use model::{By, EstimateRow, ExpertLayerRow, LaneRow, OperatorRow, PhaseReport, RegionRow, Report, TraceFacts};
pub use roofline::{limits_line, limits_table};
pub use sampling::{RateChange, SamplingReport, WithoutWaiting};
pub use step::{StepFinder, StepReport};
pub use text::{Look, report_text, step_text};
pub use threads::{
    CpuRow, InterferenceRow, LaneThreadsRow, OperatorTimeRow, Oversubscribed, TakenFromLane, TakenFromOperator,
    ThreadsReport,
};
pub use timeline::{Format, TimelineWriter};

#[cfg(test)]
mod tests;
