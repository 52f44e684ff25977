//! The trace file: the only thing that recording and analysis share. `docs/trace-format.md` specifies it. Nothing in
//! here knows of BPF, targets or the file system beyond `Read` and `Write`.

mod schema;

pub use schema::*;
