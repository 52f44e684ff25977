//! From a probeset to programs, record layouts and relocations ([`plan`]), and from those and a target to sites and
//! values ([`place()`]). Pure: a target is seen through [`profinfer_binary::Target`] only.

pub mod codegen;

mod abi;
mod accessor;
mod builds;
mod by_value;
mod companions;
mod constants;
mod counters;
mod explain;
mod fitting;
mod guards;
mod inlined;
mod layouts;
mod lessons;
mod library_types;
mod lock;
mod member_source;
mod merge;
mod model;
mod module;
mod object_block;
mod part;
mod place;
mod placement_cache;
mod placing;
mod programs;
mod record_layout;
mod relocate;
mod results;
mod scopes;
mod seen;
mod site;
mod stack_budget;
mod tier;
mod unit_layouts;

pub use abi::{ArgumentIn, argument_in};
pub use constants::relocations_of;
pub use counters::{Asked, counters_asked};
pub use explain::{Meeting, PathStep, explain_at, explain_in_object, explain_met, meetings};
pub use guards::{Guard, guards};
pub use lessons::{LearnLeaf, LearnLevel, LearnPath, Lesson, lessons};
pub use lock::lock;
pub use model::*;
#[cfg(target_os = "linux")]
pub use module::glob_matches;
pub use part::has_engine;
pub use placement_cache::PlacementCache;
pub use placing::{PlacementOptions, place};
pub use programs::{plan, stack_budget};
pub use record_layout::{SCALED, WAITING};
pub use site::{CostTable, Kind as InstructionKind, load_disassembler};
pub use stack_budget::StackBudget;
pub use tier::Tier;
