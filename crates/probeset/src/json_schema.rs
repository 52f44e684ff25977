//! The language as a JSON Schema, for editors: out of the same tables as the reader. A schema sees the shape of a file
//! only; `check` verifies references and types.

use super::language::{self, Form, Keys, Names, Need};
use super::{limits, names};
use serde_json::{Map, Value, json};

/// The dialect: the one that editors' YAML plug-ins know best.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";
/// A whole number, as the language writes it.
const NUMBER: &str = "^-?(0x[0-9a-fA-F]+|[0-9]+)$";
/// A type: a name, what makes another type of it, and an offset.
const TYPE: &str = r"^\s*[A-Za-z_][\w:<>,()\[\]*&\s.-]*(@\s*(0x[0-9a-fA-F]+|[0-9]+|[A-Za-z_]\w*\s*[+-]\s*[0-9]+)\s*(:\s*[0-9]+\s*)?(\sfrom\s.*)?)?$";
/// What a view holds: a slice over its members.
const ELEMENTS: &str = r"^[\s\S]*\[\.\.[\s\S]*\]\s*$";
/// `module:function…`, or one of the places that start with a word.
const ATTACH_POINT: &str =
    r"^\s*((tracepoint|software|probe|usdt|virtual)\s+[A-Za-z]|[A-Za-z_]\w*\s*:\s*[\w*?~{<\x22])[\s\S]*$";
/// What `describes` takes.
const DESCRIBES: &str = r"^\s*object\s+[A-Za-z_]\w*\s*\([\s\S]*\)\s*$";
/// The name of a file with a description.
const GLOB: &str = r"^(?=.*[^*?.])[^/\\]+$";

/// The schema of one file of a probeset.
pub fn json_schema() -> Value {
    let mut schema = keys(&language::FILE);
    schema["$schema"] = json!(DIALECT);
    schema["title"] = json!("profinfer probeset");
    schema["description"] = json!("Describes an inference engine: attach points and the values to record.");
    schema["definitions"] = definitions();
    // A file that is only included has neither; one that has probes is a probeset and names its engine.
    schema["dependencies"] = json!({
        "probes": ["engine"],
        "engine": { "anyOf": [{ "required": ["probes"] }, { "required": ["include"] }] },
    });
    schema
}

/// What several keys have in common.
fn definitions() -> Value {
    let identifier = |kind: &str| {
        json!({
            "type": "string",
            "pattern": kind,
            "maxLength": limits::NAME_BYTES,
        })
    };
    let mut word = identifier("^[A-Za-z_][A-Za-z0-9_]*$");
    word["not"] = json!({ "pattern": format!("^{}", names::RUNTIME_PREFIX) });
    let mut name = word.clone();
    name["not"] = json!({ "anyOf": [word["not"], { "enum": names::C_WORDS }] });
    let qualified = identifier("^[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*$");
    json!({
        "word": word,
        "name": name,
        "qualified": qualified,
        "number": { "anyOf": [{ "type": "integer" }, { "type": "string", "pattern": NUMBER }] },
        // YAML has types: an expression `1` is a number there, `true` a truth value.
        "text": { "type": ["string", "number", "boolean"] },
        "expression": { "type": ["string", "number", "boolean"], "examples": ["n_tokens", "params->ith == 0"] },
        "type": { "type": "string", "pattern": TYPE, "examples": ["i32", "i64[4]", "char[64]", "cstr(64)", "void*"] },
        "elements": { "type": "string", "pattern": ELEMENTS, "examples": ["data[..count]"] },
        "attach_point": {
            "type": "string",
            "pattern": ATTACH_POINT,
            "examples": ["module:function(void* ctx, i32 n) -> i32", "tracepoint sched:sched_switch"],
        },
        "describes": { "type": "string", "pattern": DESCRIBES },
        "glob": { "type": "string", "pattern": GLOB, "maxLength": limits::GLOB_BYTES },
    })
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{definition}") })
}

/// A map with fixed keys.
fn keys(keys: &Keys) -> Value {
    let properties: Map<String, Value> = keys
        .keys
        .iter()
        .map(|key| {
            // Next to a reference, draft 7 ignores other keywords.
            let schema = match form(&key.form) {
                Value::Object(map) if map.contains_key("$ref") => json!({ "allOf": [map] }),
                other => other,
            };
            let mut schema = schema;
            schema["description"] = json!(key.about);
            (key.name.to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> =
        keys.keys.iter().filter(|key| matches!(key.need, Need::Always(_))).map(|key| key.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// What stands at a key.
fn form(form_: &Form) -> Value {
    match form_ {
        Form::Version => json!({ "enum": [1, "1"] }),
        Form::Prose => {
            let mut schema = json!({ "type": ["string", "number", "boolean"] });
            schema["maxLength"] = json!(limits::SUMMARY_BYTES);
            schema
        }
        Form::Size => reference("number"),
        Form::Path => json!({ "type": "string", "minLength": 1, "maxLength": limits::PATH_BYTES }),
        Form::Glob => reference("glob"),
        Form::Name => reference("name"),
        Form::Qualified => reference("qualified"),
        Form::Flag => json!({ "enum": [true, false, "true", "false"] }),
        // `size: 336` among the members is the size of the view, `elements: data[..count]` what it holds.
        Form::Member => json!({ "anyOf": [reference("type"), reference("number"), reference("elements")] }),
        Form::AttachPoint => reference("attach_point"),
        Form::Expression => reference("expression"),
        Form::Describes => reference("describes"),
        Form::Event | Form::Word => reference("text"),
        Form::OneOf(words) => {
            let (words, about): (Vec<&str>, Vec<&str>) = words().into_iter().unzip();
            json!({ "enum": words, "enumDescriptions": about })
        }
        Form::Several(one, most) => {
            let one = form(one);
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "maxItems": most }] })
        }
        Form::Map(map) => keys(map),
        Form::Either(one, other) => json!({ "anyOf": [form(one), form(other)] }),
        Form::Table { names, most, each } => table(*names, *most, form(each)),
    }
}

fn table(names: Names, most: usize, each: Value) -> Value {
    let names = match names {
        Names::Identifier => reference("name"),
        Names::Word => reference("word"),
        Names::Qualified => reference("qualified"),
        Names::NumberOr(words) => json!({ "anyOf": [{ "pattern": NUMBER }, { "enum": words }] }),
        Names::Any => json!({ "minLength": 1 }),
    };
    json!({ "type": "object", "propertyNames": names, "maxProperties": most, "additionalProperties": each })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every map with fixed keys, by its title.
    fn all() -> Vec<&'static Keys> {
        fn collect(form: &'static Form, into: &mut Vec<&'static Keys>) {
            match form {
                Form::Map(keys) => walk(keys, into),
                Form::Several(one, _) | Form::Table { each: one, .. } => collect(one, into),
                Form::Either(one, other) => {
                    collect(one, into);
                    collect(other, into);
                }
                _ => {}
            }
        }
        fn walk(keys: &'static Keys, into: &mut Vec<&'static Keys>) {
            into.push(keys);
            keys.keys.iter().for_each(|key| collect(&key.form, into));
        }
        let mut all = Vec::new();
        walk(&language::FILE, &mut all);
        all
    }

    #[test]
    fn every_key_is_explained_and_given_once() {
        let all = all();
        assert!(all.len() >= 8, "{}", all.len());
        for keys in all {
            for (index, key) in keys.keys.iter().enumerate() {
                assert!(key.about.ends_with('.'), "{} of {}", key.name, keys.what);
                assert!(!keys.keys[..index].iter().any(|other| other.name == key.name), "{}", key.name);
                assert!(matches!(key.need, Need::Optional) || !key.hint().is_empty(), "{}", key.name);
            }
        }
    }

    #[test]
    fn the_schema_has_the_keys_of_the_tables() {
        let schema = json_schema();
        let probe = &schema["properties"]["probes"]["additionalProperties"];
        let candidates: Vec<&String> = probe["properties"].as_object().expect("a map").keys().collect();
        let mut names = language::PROBE.names();
        names.sort_unstable();
        assert_eq!(candidates, names);
        assert_eq!(probe["required"], json!(["at", "role"]));
        assert_eq!(probe["additionalProperties"], json!(false));
        let roles = probe["properties"]["role"]["enum"].as_array().expect("a list").len();
        assert_eq!(roles, super::super::vocabulary::role_words().len());
    }
}
