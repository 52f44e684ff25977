//! From a probeset to programs, record layouts and relocations ([`plan`]), and from those and a target to sites and
//! values ([`place()`]). Pure: a target is seen through [`crate::target::Target`] only.

mod abi;
mod again;
mod constants;
mod counters;
mod definitions;
mod explain;
mod fitting;
mod inlined;
mod layouts;
mod lock;
mod model;
mod module;
mod part;
mod place;
mod programs;
mod record_layout;
mod relocate;
mod results;
mod room;
mod site;
mod tier;

pub use abi::{ArgumentIn, argument_in};
pub use again::Placing;
pub use constants::relocations_of;
pub use counters::{Asked, counters_asked};
pub use explain::{Meeting, PathStep, explain_at, explain_in_object, explain_met, meetings};
pub use lock::{lock, place_with, survey_with};
pub use model::*;
#[cfg(feature = "record")]
pub(crate) use module::glob_matches;
pub use part::has_engine;
pub use place::{place, survey};
pub use programs::{plan, room};
pub use record_layout::{SCALED, WAITING};
pub use room::Room;
pub use site::{CostTable, Kind as InstructionKind};
pub use tier::Tier;
