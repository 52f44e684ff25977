//! The trace file: the only thing that recording and analysis share. `docs/trace-format.md` specifies it. Nothing in
//! here depends on BPF, targets or the file system beyond `Read` and `Write`; one thread may read ahead.
//!
//! ```text
//! ring record ─ TraceWriter ─ block ─ column ─▶ frames ─▶ file
//! file ─▶ frames ─ column ─ block ─ pieces ─ TraceReader ─▶ RecordView
//! ```

mod ahead;
mod block;
mod column;
mod format;
mod frames;
mod intern;
mod layout;
mod meta;
mod part;
mod pieces;
mod reader;
mod record;
mod samples;

#[cfg(test)]
mod tests;
mod value;
mod window;
mod writer;

pub use meta::Meta;
pub use profinfer_schema::*;
pub use reader::{Item, TraceReader};
pub use record::{RecordHeader, RecordView, text_of};

pub use value::Value;
pub use window::{Cut, Part, Segment, Segments, cut};
pub use writer::{PushError, TraceWriter};
