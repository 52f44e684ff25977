//! Reports as text for a terminal.

mod device_use;
mod faults;
mod first_screen;
mod header;
mod metrics;
mod offload;
mod reclaim;
mod report;
mod requests;
mod roofline;
mod step;
mod style;
mod threads;
mod verdict;

pub use first_screen::first_screen_text;
pub(crate) use header::{completeness, estimated, facts};
pub(crate) use metrics::{Columns, table as metrics_table};
pub use report::report_text;
pub(crate) use report::{estimate, waiting};
pub use roofline::{limits_line, limits_table};
pub use step::step_text;
pub use style::TextStyle;
pub(crate) use style::few;
