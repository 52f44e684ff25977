//! What a record is: its header, its fields by the schema, its counters.

mod counters;
mod decoder;
mod doubts;
mod fields;
mod header;
mod operands;

pub use counters::Count;
pub use decoder::Decoder;
pub(crate) use decoder::FieldValue;
pub use doubts::{Doubt, doubts};
pub use fields::graphs_have_backend;
pub(crate) use fields::{DescribedObject, ObjectAt};
pub use header::Header;
pub use operands::Operands;
pub(crate) use operands::{address_of, all_addresses};
