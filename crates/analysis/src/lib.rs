//! Records to steps with their graphs, operators and lanes ([`Timeline`]), and steps to totals ([`Statistics`]).
//! It depends on roles and times, on no engine. Records are read by the trace's schema; analysis never fails: what is
//! missing from a trace, or beyond a bound, is counted.
//!
//! Layers, each using only those before it: `ids`, `numbers`, `sampling`, `raw` (records), `catalogue` (objects,
//! operators, costs), `step` (assembly), `profile` (timer samples), `totals`, `graph`, `study`, `comparison`.

mod catalogue;
mod comparison;
mod graph;
mod ids;
mod numbers;
mod profile;
mod raw;
mod sampling;
mod step;
mod study;
mod totals;

pub use catalogue::{
    Advice, Catalogue, Cost, Described, DescriptionsVersion, FunctionClasses, Kind, Metric, PhaseFacts, Rules, Weights,
    collapse_digits,
};
pub use comparison::{
    Cause, CauseChange, Change, Compared, ComparedOperator, Comparison, CounterChange, EqualIn, Fit, Judged, Judgement,
    KernelShares, LayerChange, OddLayer, OperatorChange, PhaseChange, PhaseSide, SIGNIFICANT, Series, SharesByPhase,
    compare,
};
pub use graph::{
    CriticalPath, DeviceTime, Edge, Fold, Folded, GraphFinder, Node, NodeKind, OperatorGraph, Section, StepFacts, Via,
    Wanted,
};
pub use ids::{KindId, ObjectId, Phase, TextId};
pub use numbers::{Distribution, PERCENTILE_ERROR, counted, group_digits, median};
pub use profile::{Assigned, Profile, StackId, Within};
pub use profinfer_probeset::FunctionClass;
pub use raw::{Count, Decoder, Doubt, Header, Operands, doubts, graphs_have_backend};
pub use sampling::{
    Divided, Estimate, GROUPS, Generations, Groups, Measured, RateSum, Rates, Recorded, StepRow, Unseen, UnseenSteps,
    WaitingWindows, Windows,
};
pub use step::{
    Between, CopyDirection, DeviceInfo, Dispatch, DriverJob, Experts, FetchTotals, Fetched, Findings, FusedPart, Graph,
    Instead, JobSince, LaneSpan, Missing, OffCpu, Operator, Owner, Part, QueueEvent, Queued, Ran, Reclaim, Region,
    RequestEvent, SequencePart, StateSpan, Step, Submission, ThreadState, TimeSplit, Timeline, Visitor, WaitsOn,
};
pub use study::{
    Blocks, ContextSource, Drift, ExpertUse, Growth, GrowthFound, GrowthOf, InstanceSource, JudgedGrowth, JudgedLayer,
    LayerSeries, LayerUse, Layers, Line, ModelTotals, Moments, ReuseBucket, ReuseOfExperts, Rounds, SequenceTotals,
    Streams, Study, Trend, judge, judge_layers,
};
pub use totals::{
    Available, BetweenTotals, Completeness, CopyTotals, DeviceTotals, DeviceUse, DispatchTotals, ExpertTotals, Faults,
    Followed, FollowedNews, HostTime, HostWork, IdleGap, IncompleteStep, LEFT_OUT, LaneThreads, LaneTotals, Lost,
    MetricOf, MetricValue, Named, Offloads, OperatorTotals, PhaseTotals, Quantities, QueueTotals, ReclaimTotals,
    ReclaimingStep, Reclaims, Request, Requests, ResultTotals, Ring, RingTotals, SpanTotals, Statistics, StepPart,
    Sums, Taken, ThreadTotals, WaitTotals, WaitingStep,
};

#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
