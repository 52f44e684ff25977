//! From a probeset to programs, record layouts and relocations ([`plan`]), and from those and a target to sites and
//! values ([`place`]). Pure: a target is seen through [`crate::target::Target`] only.

mod model;

pub use model::*;
