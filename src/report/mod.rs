//! Reports: what the analysis found, put into tables ([`Report`], [`StepReport`]), as JSON through serde or as text.
//! Nothing here prints, reads a file, or knows an engine.

mod build;
mod diff;
mod events;
mod export;
mod faults;
mod flows;
mod frequency;
mod graph;
mod html;
mod markup;
mod metrics;
mod model;
mod roofline;
mod sampling;
pub mod statistics;
mod step;
mod table;
mod text;
mod threads;
mod timeline;
mod units;
mod verdict;

pub use build::{Options, build};
pub use diff::{
    ChangeRow, CounterRow, DiffReport, DiffSide, LayerDiff, OperatorDiff, PartDiff, PhaseDiff, PhaseOfSide,
    TraceOfSide, Unlike, diff, diff_html, diff_text,
};
pub use events::{DoubtSum, Events};
pub use export::{Column, ColumnKind, ExportFormat, Exporter, TABLES, Table};
pub use faults::{FaultPhaseRow, FaultRow, FaultsReport, FetchFigures, WaitingStepRow};
pub use graph::{
    BandwidthView, Colour, CriticalView, EdgeView, FoldView, GraphDifference, GraphReport, LeftOut, NodeCost, NodeView,
    Picture, SectionView, Side, StepView, difference_text, dot, graph_text, graphml, svg,
};
pub use html::{Drawing, MOST_SPANS, Page, Parts, SpanCollector, write_page};
pub use metrics::{CountValue, CounterReport, MetricCell, MetricReport, MetricsReport, PhaseMetrics};
pub use model::{By, EstimateRow, ExpertLayerRow, LaneRow, OperatorRow, PhaseReport, RegionRow, Report, TraceFacts};
pub use roofline::{limits_line, limits_table};
pub use sampling::{RateChange, SamplingReport, WithoutWaiting};
pub use statistics::{Section, StatisticsReport, build_statistics, statistics_text};
pub use step::{StepFinder, StepReport};
pub use text::{Look, report_text, step_text};
pub use threads::{
    CpuRow, InterferenceRow, LaneThreadsRow, OperatorTimeRow, Oversubscribed, TakenFromLane, TakenFromOperator,
    ThreadsReport,
};
pub use timeline::{Format, TimelineWriter};
pub use verdict::{
    Advice, Bound, Confidence, LayerVerdict, OperatorVerdict, PhaseVerdict, Rates, StatedShare, TimeParts, Verdict,
};

#[cfg(test)]
mod tests;
