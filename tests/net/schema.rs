//! The schema that `profinfer schema` prints, in the hands of a validator that is not ours: probesets that the program
//! takes are valid, and those that it refuses for their structure are not.

use crate::fragment;
use crate::packages::python_with;
use profinfer_diagnostics::{Code, Diagnostics, Severity};
use profinfer_probeset::{self as spec, Library};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `tests/schema/validate.py` runs in.
const VALIDATOR: [&str; 3] = ["jsonschema", "jsonschema==4.25.1", "PyYAML==6.0.3"];

/// Problems of structure, which a schema can see.
const OF_STRUCTURE: [Code; 4] = [Code::UnknownKey, Code::MissingKey, Code::UnknownVersion, Code::WrongShape];

/// Files whose problem of such a code lies in how it is written, which a validator does not get to see.
const NOT_SEEN: [&str; 1] = ["shape-escapes.yaml"];

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What a validator says of each text, by name.
fn validate(texts: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let schema = folder.path().join("schema.json");
    let printed = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["schema", "-o"]).arg(&schema).status().unwrap();
    assert!(printed.success());
    let mut command = Command::new(python_with(&VALIDATOR));
    command.arg(in_repository("tests/schema/validate.py")).arg(&schema);
    let mut names = BTreeMap::new();
    for (index, (name, text)) in texts.iter().enumerate() {
        let path = folder.path().join(format!("{index}.yaml"));
        std::fs::write(&path, text).unwrap();
        names.insert(path.display().to_string(), name.clone());
        command.arg(path);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: BTreeMap<String, Vec<String>> = serde_json::from_slice(&output.stdout).unwrap();
    found.into_iter().map(|(path, problems)| (names[&path].clone(), problems)).collect()
}

/// The `.yaml` files of a folder, by name.
fn files(folder: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(in_repository(folder)).unwrap().map(|entry| entry.unwrap().path());
    let yaml = entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    yaml.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect()
}

/// The YAML examples of the language's page.
fn examples() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(in_repository("docs/probesets.md")).unwrap();
    let blocks = page.split("\n```yaml\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    blocks.enumerate().map(|(index, block)| (format!("example {index}"), fragment::complete(block))).collect()
}

fn problems(text: &str) -> Diagnostics {
    spec::load_text("probeset.yaml", text, &Library::SHIPPED).map_or_else(|problems| problems, |(_, problems)| problems)
}

#[test]
#[ignore = "needs root"]
fn what_the_program_takes_is_valid() {
    let mut texts = files("probesets");
    texts.extend(examples());
    for folder in ["tests/targets", "tests/engines"] {
        texts.extend(files(folder));
    }
    for (name, text) in files("tests/diagnostics") {
        let text = if text.starts_with("# whole") { text } else { fragment::complete(&text) };
        if !problems(&text).has_errors() {
            texts.insert(name, text);
        }
    }
    assert!(texts.len() > 20);
    for (name, problems) in validate(&texts) {
        assert!(problems.is_empty(), "{name}: {problems:#?}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_is_wrong_in_structure_is_not_valid() {
    let of_structure = |text: &String| {
        let problems = problems(text);
        problems.0.iter().any(|problem| problem.severity == Severity::Error && OF_STRUCTURE.contains(&problem.code))
    };
    let texts: BTreeMap<String, String> = files("tests/diagnostics")
        .into_iter()
        .filter(|(name, _)| !NOT_SEEN.contains(&name.as_str()))
        .map(|(name, text)| (name, if text.starts_with("# whole") { text } else { fragment::complete(&text) }))
        .filter(|(_, text)| of_structure(text))
        .collect();
    assert!(texts.len() >= 7, "{:?}", texts.keys());
    for (name, problems) in validate(&texts) {
        assert!(!problems.is_empty(), "{name} is wrong, and the schema does not say so");
    }
    // Each problem of a file with several is seen.
    let wrong = "profinfer: 2\nengine: x\nsummry: x\nprobes:\n  a: { at: 'm:f', rol: step, optional: maybe }\n  b: { at: 'm:f', role: stp }\n  \"c d\": { at: 7, role: step }\n";
    let found = validate(&BTreeMap::from([("wrong".to_owned(), wrong.to_owned())]));
    let reported = found["wrong"].join("\n");
    for part in ["profinfer: ", "summry", "rol", "'role' is a required property", "optional: ", "'stp'", "c d", "at: "]
    {
        assert!(reported.contains(part), "`{part}` in {reported}");
    }
}
