//! Assembly: from records to finished steps.

mod assemble;
mod batch;
mod bucket;
mod captures;
mod cycle;
mod device_shares;
mod driver_jobs;
mod events;
mod faults;
mod findings;
mod inner_steps;
mod lane_time;
mod layers;
mod memory;
mod model;
mod nested_costs;
mod nesting;
mod offload;
mod offload_model;
mod offload_raw;
mod operator_key;
mod other_threads;
mod pending;
mod reclaim;
mod recurring;
mod rereads;
mod same_call;
mod scheduler;
mod step_numbers;
mod thread_state;
mod threads;
mod timeline;
mod unmarked;

pub use batch::{RequestEvent, SequencePart};
pub use faults::{FetchTotals, Fetched};
pub use findings::Findings;
pub use memory::{Owner, Part};
pub use model::{
    Between, Experts, Graph, Instead, LaneSpan, Missing, OffCpu, Operator, Region, StateSpan, Step, TimeSplit,
};
pub use offload_model::{
    CopyDirection, DeviceInfo, Dispatch, DriverJob, FusedPart, JobSince, QueueEvent, Queued, Ran, Submission, WaitsOn,
};
pub(crate) use reclaim::Beside;
pub use reclaim::Reclaim;
pub use thread_state::ThreadState;
pub use timeline::{Timeline, Visitor};
