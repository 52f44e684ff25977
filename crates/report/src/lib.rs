//! Reports: what the analysis found, put into tables ([`Report`], [`StepReport`]), as JSON through serde or as text.
//! Nothing here prints, reads a file, or depends on an engine.

mod build;
mod diff;
mod events;
mod export;
mod flows;
mod functions;
mod graph;
mod html;
mod markup;
mod model;
mod numbers;
mod pending;
mod report;
pub mod statistics;
mod text;
mod timeline;
mod verdict;

pub use build::{Options, build};
pub use diff::{
    BecauseRow, CauseDiff, ChangeRow, ComparedRow, CounterRow, DiffReport, DiffSide, LayerDiff, OperatorDiff, PartDiff,
    PhaseDiff, PhaseOfSide, TraceOfSide, Unlike, diff, diff_html, diff_text,
};
pub use events::{DoubtSum, Events};
pub use export::{Column, ColumnKind, ExportFormat, Exporter, TABLES, Table};
pub use functions::{
    Flame, Function, FunctionRow, FunctionsReport, PlaceRow, SampledWork, SamplesFacts, Selection, SymbolName,
    Symbolizer, callstacks, flame_of_samples, flame_of_spans, folded, functions, functions_text, pprof, speedscope,
};
pub use graph::{
    BandwidthView, Colour, CriticalView, EdgeView, FoldView, GraphDifference, GraphReport, LeftOut, NodeCost, NodeView,
    Picture, SectionView, Side, StepView, difference_text, dot, graph_text, graphml, svg,
};
pub use html::{Drawing, MOST_SPANS, Page, Parts, SpanCollector, write_page};
pub use model::device_use::{DeviceUseReport, GapRow, HostRow};
pub use model::faults::{FaultPhaseRow, FaultRow, FaultsReport, FetchFigures, WaitingStepRow};
pub use model::kept::{KeptChange, KeptReport};
pub use model::metrics::{CountValue, CounterReport, MetricCell, MetricReport, MetricsReport, PhaseMetrics};
pub use model::offload::{CopyRow, DeviceBackendRow, DeviceRow, DispatchRow, OffloadReport, QueueRow, WaitRow};
pub use model::reclaim::{ReclaimFigures, ReclaimOperatorRow, ReclaimPhaseRow, ReclaimReport, ReclaimStepRow};
pub use model::rows::{EstimateRow, ExpertLayerRow, LaneRow, OperatorRow, PhaseReport, RegionRow, TraceFacts};
pub use model::sampling::{RateChange, SamplingReport, WaitingCoverage, WithoutWaiting, overhead_part};
pub use model::step::{StepFinder, StepReport};
pub use model::threads::{
    CpuRow, InterferenceRow, LaneThreadsRow, OperatorTimeRow, Oversubscribed, TakenFromLane, TakenFromOperator,
    ThreadsReport,
};
pub use numbers::table::Table as TextTable;
pub use numbers::units::{bytes, date_time, rate, share, time_f64};
pub use report::{By, Report};
pub use statistics::{Section, StatisticsReport, build_statistics, statistics_text};
pub use text::{TextStyle, first_screen_text, limits_line, limits_table, report_text, step_text};
pub use timeline::{Format, RequestsShown, TimelineWriter};
pub use verdict::{
    Advice, Bound, ClassShare, Confidence, DeviceBound, DeviceParts, DeviceVerdict, LayerVerdict, OperatorVerdict,
    PhaseVerdict, Rates, SampledClasses, StatedShare, TimeParts, Verdict,
};

#[cfg(test)]
mod tests;
