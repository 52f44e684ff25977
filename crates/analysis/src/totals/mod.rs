//! What steps add up to.

mod completeness;
mod device_use;
mod faults;
mod followed;
mod metrics;
mod offloads;
mod quantities;
mod reclaim;
mod request;
mod requests;
mod servers;
mod statistics;
mod thread_totals;

pub use completeness::{Completeness, LEFT_OUT, Lost};
pub use device_use::{DeviceUse, HostTime, HostWork, IdleGap};
pub use faults::{Faults, StepPart, WaitingStep};
pub use followed::{Followed, FollowedNews};
pub use metrics::{MetricOf, MetricValue};
pub use offloads::{
    CopyTotals, DeviceTotals, DispatchTotals, Offloads, QueueTotals, ResultTotals, Ring, RingTotals, WaitTotals,
};
pub use quantities::{Available, Quantities, Sums};
pub use reclaim::{ReclaimTotals, ReclaimingStep, Reclaims};
pub use request::Request;
pub use requests::Requests;
pub use statistics::{ExpertTotals, IncompleteStep, LaneTotals, OperatorTotals, PhaseTotals, SpanTotals, Statistics};
pub use thread_totals::{BetweenTotals, LaneThreads, Named, Taken, ThreadTotals};
