//! Live figures of a recording: a [`Model`] takes the records of a trace as they come, in memory that does not grow with
//! time, and gives a [`Snapshot`] whenever one is wanted; [`prometheus()`] and [`otlp_metrics`] write snapshots as metrics,
//! [`Screen`] for a terminal, [`PAGE`] shows them in a browser. Nothing here reads a clock, a file or a socket, or prints.
//!
//! ```text
//! trace ─ TraceReader ─▶ Record ─ Model ─▶ Snapshot ─▶ Prometheus, OTLP, screen, page
//! ```

mod condition;
mod figures;
mod histogram;
mod metrics;
mod model;
mod moments;
mod operators;
mod otlp;
mod page;
mod prometheus;
mod recent;
mod rules;
mod screen;
mod seconds;
mod snapshot;
#[cfg(test)]
mod tests;

pub use condition::Condition;
pub use histogram::{Histogram, REQUEST_DURATION, STEP_DURATION, TIME_PER_OUTPUT_TOKEN, TIME_TO_FIRST_TOKEN};
pub use metrics::PushLosses;
pub use model::{Ended, Model};
pub use moments::Happened;
pub use otlp::{OtlpRequest, Signal, UnixClock, otlp_metrics, otlp_spans};
pub use page::PAGE;
pub use prometheus::prometheus;
pub use rules::SharedRules;
pub use screen::{Screen, Sort};
pub use snapshot::{
    Container, Fetches, FlightFigures, LossRow, OperatorFigures, OperatorShare, OverheadSpent, PhaseFigures, Pressures,
    RequestFigures, Requests, Snapshot, State, Window,
};
