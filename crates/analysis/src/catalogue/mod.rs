//! What was described: objects, distinct operators, and what they cost by the probeset.

mod advice;
mod cost_cache;
mod costs;
mod functions;
mod kind;
mod kind_cache;
mod metric;
mod objects;
mod rules;

pub use advice::{Advice, PhaseFacts};
pub(crate) use cost_cache::CostCache;
pub(crate) use costs::Costs;
pub use costs::{Cost, Weights};
pub use functions::FunctionClasses;
pub use kind::{Kind, collapse_digits};
pub(crate) use kind_cache::{KindCache, Origin};
pub use metric::Metric;
pub use objects::{Catalogue, Described, DescriptionsVersion};
pub(crate) use objects::{MAX_KINDS, ObjectKey};
pub use rules::Rules;
pub(crate) use rules::StepFields;
