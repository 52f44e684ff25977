//! From a probeset to programs, record layouts and relocations ([`plan`]), and from those and a target to sites and
//! values ([`place()`]). Pure: a target is seen through [`crate::target::Target`] only.

mod abi;
mod counters;
mod definitions;
mod inlined;
mod lock;
mod model;
mod module;
mod part;
mod place;
mod programs;
mod record_layout;
mod relocate;
mod site;
mod tier;

pub use counters::{Asked, counters_asked};
pub use lock::{lock, place_with, survey_with};
pub use model::*;
pub use part::has_engine;
pub use place::{place, survey};
pub use programs::{plan, relocations_of};
pub use record_layout::{SCALED, WAITING};
pub use site::{CostTable, Kind as InstructionKind};
pub use tier::Tier;
