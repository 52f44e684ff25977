//! The language inside a probeset's strings: types, attach points, paths and expressions. One pest grammar
//! (`grammar/probeset.pest`) and one type checker, with two back ends: C for the kernel, a value for the analysis.
//! It is independent of YAML, targets or traces.

mod ast;
mod bounds;
mod budget;
pub mod c;
mod check;
mod checked;
mod classes;
mod computed;
mod grammar;
mod interval;
mod name_pattern;
mod numbers;
mod parse;
mod syntax_error;
mod value;

pub use ast::*;
pub use bounds::MAX_ELEMENTS;
pub use budget::Budget;
pub use check::{Definitions, Scope, check, check_within};
pub use checked::{Base, Checked, ClassPart, Count, Held, InMap, Key, Memory, Node, Part, Term};
pub use classes::check_elements;
pub use name_pattern::{ByTexts, NamePattern};
pub use numbers::fixed_size;
pub use parse::{parse_attach, parse_expr, parse_field, parse_type};
pub use value::{Environment, Formula, Value};
