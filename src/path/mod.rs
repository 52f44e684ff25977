//! The language inside a probeset's strings: types, attach points, paths and expressions. One pest grammar
//! (`grammar/probeset.pest`) and one type checker, with two back ends: C for the kernel, a value for the analysis.
//! It knows nothing of YAML, targets or traces.

mod ast;
pub mod c;
mod check;
mod interval;
mod parse;
mod value;

pub use ast::*;
pub use check::{Base, Checked, Definitions, MAX_ELEMENTS, Memory, Node, Part, Scope, Term, check, fixed_size};
pub use parse::{parse_attach, parse_expr, parse_type};
pub use value::{Environment, Formula, Value};
