//! What a distinct operator is, and what one record contributes to it.

use crate::ids::InlineId;
use std::sync::Arc;

/// In a list of inputs: the operator was not given this one. One without a description is 0.
pub(crate) const NO_INPUT: InlineId = InlineId::MAX;

/// A distinct operator, by its description. Operators of different graphs, steps and addresses with equal descriptions
/// are one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Its name; its type, where it has no name.
    pub name: Arc<str>,
    /// The name without its numbers, unless it is a C++ function's: see [`collapse_digits`].
    pub pattern: Arc<str>,
    /// Its type; the probe's name if it has none.
    pub op: Arc<str>,
    /// Type of its elements.
    pub dtype: Option<Arc<str>>,
    /// Extent in each dimension, as the engine orders them.
    pub shape: Arc<[i64]>,
    /// Further numbers for costs.
    pub(crate) parameters: Arc<[i64]>,
    /// The layer of the model, by the probeset's `layer` expression.
    pub layer: Option<Arc<str>>,
    /// Its name has no layer; the operators before and after it in the graph are of this one.
    pub layer_inferred: bool,
    /// The operator that was computed along with it (a fused one): its name.
    pub covers: Option<Arc<str>>,
    /// Its object or its record has a description.
    pub described: bool,
    /// Its description has a shape, of no extents: one number.
    pub(crate) scalar: bool,
    /// What its inputs were described as, where its record lists them.
    pub(crate) inputs: Arc<[InlineId]>,
}

impl Kind {
    /// Whether the other is the same operator of a graph, be it for another number of tokens. Without names, shapes tell.
    pub(crate) fn is_same_operator(&self, other: &Self) -> bool {
        (&self.name, &self.op) == (&other.name, &other.op) && (self.name != self.op || self.shape == other.shape)
    }
}

/// The description of an operator in one record; others may complete it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Description {
    pub(crate) name: Option<Arc<str>>,
    /// The name is a C++ function's: its numbers are no layers.
    pub(crate) is_function: bool,
    pub(crate) op: Option<Arc<str>>,
    /// What stands for the type of an operator that has none: its function or class.
    pub(crate) class: Option<Arc<str>>,
    pub(crate) dtype: Option<Arc<str>>,
    pub(crate) shape: Option<Arc<[i64]>>,
    pub(crate) parameters: Option<Arc<[i64]>>,
    pub(crate) layer: Option<Arc<str>>,
    /// Of an object: whether its data is the same in every step, if it says so.
    pub(crate) constant: Option<bool>,
    /// Of a record that lists its inputs: what they are described as.
    pub(crate) inputs: Arc<[InlineId]>,
}

/// A name that the same operator of every layer has: the first run of digits that is the layer's number becomes `*`, and
/// others that stand behind the same word (`layers.3/…/layers.3`); digits that belong to another word (`layers.1/fc1`) are a
/// part of the name. Where no run is the layer's number, or there is no layer, every run becomes `*`.
pub fn collapse_digits(name: &str, layer: Option<&str>) -> String {
    let mut of_layer = None;
    let collapsed = collapse_runs(name, |word, run| {
        layer.is_some_and(|layer| layer == run) && *of_layer.get_or_insert_with(|| word.to_owned()) == word
    });
    collapsed.unwrap_or_else(|| collapse_runs(name, |_, _| true).unwrap_or_else(|| name.to_owned()))
}

/// Replaces runs of digits, by the word before each; `None` where none was replaced.
fn collapse_runs(name: &str, mut replaced: impl FnMut(&str, &str) -> bool) -> Option<String> {
    let mut pattern = String::with_capacity(name.len());
    let mut any = false;
    let mut rest = name;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (run, after) = from.split_at(end);
        let word = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        let word = word.rfind(|c: char| !c.is_alphanumeric()).and_then(|at| before.get(at + 1..)).unwrap_or(before);
        pattern.push_str(before);
        let replace = replaced(word, run);
        pattern.push_str(if replace { "*" } else { run });
        any |= replace;
        rest = after;
    }
    pattern.push_str(rest);
    any.then_some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_collapse() {
        assert_eq!(collapse_digits("blk.12.ffn_up-3", None), "blk.*.ffn_up-*");
        assert_eq!(collapse_digits("/model/layers.10/Add_1", None), "/model/layers.*/Add_*");
        assert_eq!(collapse_digits("norm", None), "norm");
        assert_eq!(collapse_digits("", None), "");
    }

    #[test]
    fn only_the_layers_own_digits_collapse_where_they_are_there() {
        assert_eq!(collapse_digits("ffn_2-12", Some("12")), "ffn_2-*");
        assert_eq!(collapse_digits("h.2.fc2", Some("2")), "h.*.fc2");
        assert_eq!(collapse_digits("/layers.1/mlp/fc1/MatMul_1", Some("1")), "/layers.*/mlp/fc1/MatMul_1");
        assert_eq!(collapse_digits("layer_3/attn/layer_3_q", Some("3")), "layer_*/attn/layer_*_q");
        assert_eq!(collapse_digits("node_31", Some("7")), "node_*");
    }
}
