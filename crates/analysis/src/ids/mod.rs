//! Numbers that everything else refers by.

mod by_kind;
mod id;
mod phase;

pub(crate) use by_kind::ByKind;
pub(crate) use id::InlineId;
pub use id::{KindId, ObjectId, TextId};
pub use phase::Phase;
