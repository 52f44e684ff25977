//! The parser that pest derives.

#![allow(missing_docs, unreachable_pub)]

#[derive(Debug, pest_derive::Parser)]
#[grammar = "grammar/probeset.pest"]
pub struct Grammar;
