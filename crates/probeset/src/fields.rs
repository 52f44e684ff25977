//! The fields of a probe or an object: name and expression of each.

use super::model::Field;
use super::problems::shown;
use super::values::Context;
use super::yaml::Node;
use super::{limits, names, reader};
use indexmap::IndexMap;
use profinfer_diagnostics::Code;

/// Named values, at most `most`.
pub(super) fn fields(node: &Node, owner: &str, most: usize, cx: &mut Context<'_>) -> Option<IndexMap<String, Field>> {
    let map = reader::map(node, &format!("`fields` of {owner}"), limits::ENTRIES, cx.problems)?;
    if let Some(entry) = map.entries.values().nth(most) {
        let message = format!("{owner} has {} fields; the maximum is {most}", map.entries.len());
        cx.problems.error_hint(Code::OutOfRange, &entry.key.span, message, "remove fields that no report needs");
    }
    let mut fields = IndexMap::new();
    for entry in map.entries.values() {
        let name = cx.problems.keep(names::variable(&entry.key, "a field"));
        let value = cx.field(&entry.value, &format!("field `{}`", shown(&entry.key.text)));
        if let (Some(name), Some((value, at_return))) = (name, value) {
            fields.insert(entry.key.text.clone(), Field { name, value, at_return });
        }
    }
    Some(fields)
}
