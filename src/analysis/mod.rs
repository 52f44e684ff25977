//! From records to what happened: steps with their graphs, operators and lanes ([`Timeline`]), and what they come to
//! ([`Statistics`]). It knows roles and times, no engine; it reads records by the trace's schema and never fails: what
//! a trace lacks, or has too much of, is counted.

mod advice;
mod assemble;
mod by_kind;
mod catalogue;
mod comparison;
mod completeness;
mod costs;
mod counters;
mod distribution;
mod doubts;
mod durations;
mod estimate;
mod faults;
mod fields;
mod generations;
mod graph;
mod hash;
mod known_operators;
mod lane_time;
mod memory;
mod metrics;
mod nesting;
mod points;
mod quantities;
mod rates;
mod rules;
mod sampled;
mod slowdown;
mod states;
mod statistics;
mod step;
mod step_table;
mod study;
mod thread_totals;
mod threads;
mod timeline;
mod unseen;
mod window;

pub use advice::{Advice, PhaseFacts};
pub use catalogue::{Catalogue, Described, Kind, KindId, ObjectId, TextId, collapse_digits};
pub use comparison::{
    Change, ComparedOperator, CounterChange, Fit, Judged, Judgement, LayerChange, OperatorChange, PhaseChange,
    PhaseSide, SIGNIFICANT, Series, compare,
};
pub use completeness::{Completeness, Lost};
pub(crate) use completeness::{counted, group_digits};
pub use costs::{Cost, Weights};
pub use counters::Count;
pub use distribution::{Distribution, median};
pub use doubts::{Doubt, doubts};
pub use durations::PERCENTILE_ERROR;
pub use estimate::{Estimate, GROUPS, Groups};
pub use faults::{Faults, FetchTotals, Fetched, StepPart, WaitingStep};
pub use fields::{Decoder, Header, graphs_say_backend};
pub use generations::Generations;
pub use graph::{
    CriticalPath, Edge, Fold, Folded, GraphFinder, Node, NodeKind, OperatorGraph, Section, StepFacts, TypicalStep, Via,
    Wanted,
};
pub use memory::{Owner, Part};
pub use metrics::{Metric, MetricOf, MetricValue};
pub use quantities::{Known, Quantities, Sums};
pub use rates::{RateSum, Rates};
pub use rules::Rules;
pub use sampled::{Recorded, Windows};
pub use slowdown::Measured;
pub use states::ThreadState;
pub use statistics::{
    ExpertTotals, IncompleteStep, LaneTotals, OperatorTotals, PhaseTotals, SpanTotals, Statistics, StepRow,
};
pub use step::{
    Experts, Graph, Instead, LaneSpan, Missing, OffCpu, Operator, Phase, Region, StateSpan, Step, TimeSplit,
};
pub use study::{
    Blocks, ContextSource, Drift, ExpertUse, Growth, GrowthFound, GrowthOf, JudgedGrowth, JudgedLayer, LayerSeries,
    LayerUse, Layers, Line, ModelTotals, Moments, ReuseBucket, ReuseOfExperts, Rounds, SequenceTotals, Streams, Study,
    ToldBy, Trend, judge, judge_layers,
};
pub use thread_totals::{LaneThreads, Taken, ThreadTotals};
pub use timeline::{Findings, Timeline, Visitor};
pub use unseen::{Unseen, UnseenSteps};

#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
