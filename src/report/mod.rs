//! Reports: what the analysis found, put into tables ([`Report`], [`StepReport`]), as JSON through serde or as text.
//! Nothing here prints, reads a file, or knows an engine.

mod build;
mod model;
mod sampling;
mod step;
mod table;
mod text;
mod timeline;
mod units;

pub use build::{Options, build};
pub use model::{By, EstimateRow, ExpertLayerRow, LaneRow, OperatorRow, PhaseReport, RegionRow, Report, TraceFacts};
pub use sampling::{RateChange, SamplingReport};
pub use step::{StepFinder, StepReport};
pub use text::{Look, report_text, step_text};
pub use timeline::{Format, TimelineWriter};

#[cfg(test)]
mod tests;
