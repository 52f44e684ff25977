//! Numbers of what a trace describes.

/// Number of an object. Each address that was seen has one, described or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId(pub(crate) u32);

/// Number of a kind of operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub(crate) u32);

/// Number of an interned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub(crate) u32);

/// Number of a description, from 1; 0: none.
pub(crate) type InlineId = u32;
