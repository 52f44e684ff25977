//! A trace of two engines: the stored recording of a real one, with all of its records there a second time as another
//! engine's, on threads of its own. What is shown of either must be what is shown of the recording by itself: where the
//! schema has whose each name is, and in older traces, where names begin with the engine's key.

use crate::invocation::{json, profinfer, succeeds};
use profinfer_schema::{
    BUILTIN, End, EngineId, EngineName, FieldType, NO_SITE, Names, OriginPart, RecordType, Role, Site,
};

use profinfer_trace::{Item, TraceReader, TraceWriter};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Threads of the second engine have numbers so much larger, and do everything so much later, ns.
const THREADS: u32 = 1 << 20;
const LATER: u64 = 1_000;
/// Numbers of its sites begin here: those of the first are fewer.
const SITES: u16 = 1000;
const KEYS: [&str; 2] = ["one", "two"];

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/v1/llama.pfi")
}

/// How a trace has whose a name is.
#[derive(Clone, Copy)]
enum Written {
    /// The schema has it for each identifier, and nothing of an identifier counts.
    Names,
    /// In a prefix.
    Prefix,
}

impl Written {
    fn identifier(self, key: &str, name: &str) -> String {
        match self {
            Self::Names => format!("{name}_of__{key}"),
            Self::Prefix => format!("{key}__{name}"),
        }
    }

    fn ty(self, ty: &FieldType, key: &str) -> FieldType {
        match ty {
            FieldType::Enum(name) => FieldType::Enum(self.identifier(key, name)),
            FieldType::Object(name) => FieldType::Object(self.identifier(key, name)),
            FieldType::Array(of, count) => FieldType::Array(Box::new(self.ty(of, key)), *count),
            FieldType::List(of, count) => FieldType::List(Box::new(self.ty(of, key)), *count),
            other => other.clone(),
        }
    }

    /// The schema's names of these, of both engines.
    fn names<'n>(self, names: impl Iterator<Item = &'n str> + Clone) -> Names {
        let of = |(number, key): (usize, &'static str)| {
            let engine = EngineId(number as u16);
            let name = move |name: &str| (self.identifier(key, name), EngineName { engine, name: name.to_owned() });
            names.clone().map(name).collect::<Vec<_>>()
        };
        match self {
            Self::Names => KEYS.into_iter().enumerate().flat_map(of).collect(),
            Self::Prefix => Names::default(),
        }
    }
}

fn every_site() -> Vec<Site> {
    let mut reader = TraceReader::new(File::open(stored()).unwrap()).unwrap();
    while reader.next().is_some() {}
    reader.into_meta().sites
}

/// Writes the trace; gives how many records are the kernel's or of threads, and how many each engine's own.
fn write(path: &Path, as_: Written) -> (u64, u64) {
    write_records(path, as_, |_| true)
}

/// Writes the trace with these records of the second engine.
fn write_records(path: &Path, as_: Written, of_second: impl Fn(&RecordType) -> bool) -> (u64, u64) {
    let mut reader = TraceReader::new(File::open(stored()).unwrap()).unwrap();
    let (mut origin, single) = (reader.meta().origin.clone(), reader.meta().schema.clone());
    let part = |key: &str| OriginPart {
        key: key.to_owned(),
        probeset: key.to_owned(),
        engine: format!("Engine {key}"),
        file: origin.sources[0].0.clone(),
    };
    origin.parts = KEYS.map(part).to_vec();
    let of_kernel =
        |number: usize| number < BUILTIN || single.records[number].role.is_some_and(|r| r.is_of_the_kernel());
    let mut schema = single.clone();
    let mut second = HashMap::new();
    for (number, record) in single.records.iter().enumerate().filter(|(number, _)| !of_kernel(*number)) {
        for key in KEYS {
            let mut record = record.clone();
            record.name = as_.identifier(key, &record.name);
            record.fields.iter_mut().for_each(|field| field.ty = as_.ty(&field.ty, key));
            if key == KEYS[0] {
                schema.records[number] = record;
            } else {
                second.insert(number, schema.records.len() as u16);
                schema.records.push(record);
            }
        }
    }
    let both = single.enums.iter().flat_map(|(name, of)| KEYS.map(|key| (as_.identifier(key, name), of.clone())));
    schema.enums = both.collect();
    let probes: BTreeSet<String> = every_site().into_iter().flat_map(|site| site.probes).collect();
    let of_engines = single.records.iter().enumerate().filter(|(number, _)| !of_kernel(*number));
    let records = of_engines.map(|(_, record)| record.name.as_str());
    let names = records.chain(single.enums.keys().map(String::as_str)).chain(probes.iter().map(String::as_str));
    schema.names = as_.names(names);
    let mut writer = TraceWriter::new(File::create(path).unwrap(), &origin, &schema).unwrap();
    let (mut shared, mut own) = (0, 0);
    let mut seq: HashMap<u32, u32> = HashMap::new();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => {
                let mut bytes = record.bytes().to_vec();
                writer.push(&bytes).unwrap();
                let number = record.type_index();
                // The scheduler's events are not there twice, nor is what else is no thread's own.
                if of_kernel(number) && number != 0 {
                    shared += 1;
                    continue;
                }
                if !of_second(&single.records[number]) {
                    continue;
                }
                if let Some(other) = second.get(&number) {
                    bytes[..2].copy_from_slice(&other.to_le_bytes());
                    let site = u16::from_le_bytes([bytes[2], bytes[3]]);
                    if site != NO_SITE {
                        bytes[2..4].copy_from_slice(&(site + SITES).to_le_bytes());
                    }
                    own += 1;
                } else {
                    shared += 2;
                }
                let header = record.header();
                let tid = header.tid + THREADS;
                bytes[8..12].copy_from_slice(&tid.to_le_bytes());
                if header.seq > 0 {
                    let seq = seq.entry(tid).or_default();
                    *seq += 1;
                    bytes[12..16].copy_from_slice(&seq.to_le_bytes());
                }
                bytes[16..24].copy_from_slice(&(header.start + LATER).to_le_bytes());
                writer.push(&bytes).unwrap();
            }
            Item::Sites { modules, sites } => {
                // Each engine has sites of its own at the same places, and the second one's files are listed again.
                let of = |(key, first, files): (&str, u16, usize)| -> Vec<Site> {
                    let of_engine = |site: &Site| {
                        let probes = site.probes.iter().map(|probe| as_.identifier(key, probe)).collect();
                        Site { id: site.id + first, module: site.module + files, probes, ..site.clone() }
                    };
                    sites.iter().map(of_engine).collect()
                };
                let sites = [(KEYS[0], 0, 0), (KEYS[1], SITES, modules.len())].map(of).concat();
                writer.add_sites(&[modules, modules].concat(), &sites).unwrap();
            }
            Item::Losses(losses) => writer.losses(losses).unwrap(),
            Item::Samples(_) => {}
            Item::Notice(notice) => writer.notice(notice).unwrap(),
            Item::End(_) => {}
        }
    }
    let end: End = reader.meta().end.clone().unwrap();
    writer.finish(&end).unwrap();
    (shared, own)
}

#[test]
fn an_engine_s_counts_are_its_own_and_the_rest_is_reported() {
    let alone = json(&["report", stored().to_str().unwrap(), "--json"]);
    for as_ in [Written::Names, Written::Prefix] {
        let folder = tempfile::tempdir().unwrap();
        let joint = folder.path().join("joint.pfi");
        let (shared, own) = write(&joint, as_);
        let joint = joint.to_str().unwrap();
        for key in KEYS {
            let report = json(&["report", joint, "--engine", key, "--json"]);
            let completeness = &report["completeness"];
            assert_eq!(completeness["steps"], alone["completeness"]["steps"], "{key}");
            assert_eq!(completeness["records"], shared + own, "{key}");
            assert_eq!(completeness["complete"], true, "{key}: {completeness}");
            let notes: Vec<&str> =
                completeness["notes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
            let further =
                notes.iter().find(|note| note.contains("of other engines")).unwrap_or_else(|| panic!("{notes:?}"));
            let digits: String = further.chars().filter(char::is_ascii_digit).collect();
            assert_eq!(digits, own.to_string(), "{further}");
            let info = json(&["info", joint, "--engine", key, "--json"]);
            let records = info["records"].as_object().unwrap();
            assert!(records.keys().all(|name| !name.contains("__")), "{records:?}");
            let counted: u64 = records.values().map(|count| count["records"].as_u64().unwrap()).sum();
            assert_eq!(counted, shared + own, "{key}");
        }
    }
    let reported = serde_json::to_string(&alone["completeness"]["notes"]).unwrap();
    assert!(!reported.contains("other engines"), "{reported}");
}

/// Both engines are built on one library, whose operators are recorded as those of each. The second ran no step.
#[test]
fn operators_of_an_engine_are_not_another_s_that_ran_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let joint = folder.path().join("joint.pfi");
    let engines = || {
        let reported = profinfer(&["report", joint.to_str().unwrap()]).output().unwrap().stdout;
        let reported = String::from_utf8(reported).unwrap();
        KEYS.map(|key| reported.contains(&format!("Engine {key}")))
    };
    write(&joint, Written::Names);
    assert_eq!(engines(), [true, true]);
    write_records(&joint, Written::Names, |record| record.role != Some(Role::Step));
    assert_eq!(engines(), [true, false]);
}

/// Slices of the tracks of a timeline in Chrome's format: category, name and times, by the name of their track.
fn slices(file: &Path) -> HashMap<String, BTreeSet<String>> {
    let events: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut names: HashMap<(u64, u64), String> = HashMap::new();
    let mut slices: HashMap<String, BTreeSet<String>> = HashMap::new();
    let place = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap_or_default());
    for event in events.as_array().unwrap() {
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "thread_name" => {
                names.insert(place(event), event["args"]["name"].as_str().unwrap().to_owned());
            }
            "X" => {
                let slice = format!("{} {} {}", event["cat"], event["name"], event["dur"]);
                slices.entry(names[&place(event)].clone()).or_default().insert(slice);
            }
            _ => {}
        }
    }
    slices
}

#[test]
fn one_timeline_has_all_engines_each_in_a_group_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let joint = folder.path().join("joint.pfi");
    write(&joint, Written::Names);
    let alone = folder.path().join("alone.json");
    let stored = stored();
    let timeline = |trace: &Path, arguments: &[&str]| {
        succeeds(&mut profinfer(&[&["timeline", trace.to_str().unwrap(), "--steps", "1..4"], arguments].concat()))
    };
    timeline(&stored, &["--format", "chrome", "-o", alone.to_str().unwrap()]);
    let output = timeline(&joint, &["--format", "chrome"]);
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(reported.contains("joint.json: 8 steps"), "one file, with the steps of both: {reported}");
    let (alone, together) = (slices(&alone), slices(&folder.path().join("joint.json")));
    for key in KEYS {
        let own = |category: &str, slices: &HashMap<String, BTreeSet<String>>, prefix: &str| {
            let tracks = slices.iter().filter_map(|(name, of)| Some((name.strip_prefix(prefix)?, of)));
            let wanted = |slice: &&String| slice.starts_with(&format!("\"{category}\""));
            let slices = tracks.filter(|(name, _)| !name.contains("thread"));
            slices
                .flat_map(|(name, of)| of.iter().filter(wanted).map(|s| format!("{name}: {s}")).collect::<Vec<_>>())
                .collect()
        };
        for category in ["step", "graph", "operator"] {
            let expected: BTreeSet<String> = own(category, &alone, "");
            let found: BTreeSet<String> = own(category, &together, &format!("Engine {key}: "));
            assert!(!expected.is_empty());
            assert_eq!(names_of(&found), names_of(&expected), "{key}: {category}");
        }
    }
    // By itself an engine's timeline is what it would be if it were the only one.
    timeline(&joint, &["--format", "chrome", "--engine", "two"]);
    let own = slices(&folder.path().join("joint.two.json"));
    assert!(own.contains_key("steps") && own.keys().all(|name| !name.starts_with("Engine")), "{:?}", own.keys());
}

/// Without the times, which the two need not have to the last digit.
fn names_of(slices: &BTreeSet<String>) -> BTreeSet<&str> {
    slices.iter().filter_map(|slice| slice.rsplit_once(' ')).map(|(name, _)| name).collect()
}
