//! A recording, read as its user reads it: through `profinfer dump`, `info` and `report`, and put together to the work
//! that the engine did. It takes nothing from the product's own analysis.

use crate::process::{profinfer, run};
use crate::work::{Experts, Graph, Operator, Step, Tensor};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::rc::Rc;

/// A trace, and where it is.
pub(crate) struct Recording {
    folder: Rc<tempfile::TempDir>,
    path: PathBuf,
    /// `--engine NAME`, of one of several engines.
    engine: Vec<String>,
    /// What `record` and its target wrote.
    pub(crate) output: Output,
    records: Vec<Record>,
    /// Where each description of a tensor is in `records`, by address, in the order of time.
    objects: HashMap<String, Vec<usize>>,
}

/// A line of `dump`.
struct Record {
    /// Of the probe, object or event.
    name: String,
    role: String,
    tid: u64,
    start: i64,
    end: i64,
    line: Value,
}

impl Record {
    fn of(line: Value) -> Self {
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let start = line["start_ns"].as_i64().unwrap();
        Self {
            name: ["probe", "object", "event"].into_iter().find_map(text).unwrap(),
            role: text("role").unwrap_or_default(),
            tid: line["tid"].as_u64().unwrap(),
            start,
            end: start + line["duration_ns"].as_i64().unwrap(),
            line,
        }
    }

    fn field(&self, name: &str) -> &Value {
        &self.line["fields"][name]
    }

    /// A node's or input's address.
    fn address(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    fn lane(&self) -> u64 {
        self.field("lane").as_u64().unwrap()
    }

    fn contains(&self, other: &Self) -> bool {
        (self.start..=self.end).contains(&other.start)
    }

    /// The nodes that it computed, in order: a fused operator covers the one before.
    fn nodes(&self) -> impl Iterator<Item = &str> {
        ["covers", "node"].into_iter().map(|field| self.address(field)).filter(|address| !address.is_empty())
    }
}

impl Recording {
    /// Runs `record` with a probeset, further arguments, and the command after `--` (or `-p PID`).
    pub(crate) fn new(probeset: &str, arguments: &[&str], set: impl FnOnce(&mut Command), status: i32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        let mut command = profinfer(&["record", probeset, "-o", path.to_str().unwrap()]);
        set(command.args(arguments));
        let output = run(&mut command, status);
        Self::read(Rc::new(folder), path, Vec::new(), output)
    }

    /// The same recording, seen as one of its engines.
    pub(crate) fn of_engine(&self, name: &str) -> Self {
        let engine = vec!["--engine".to_owned(), name.to_owned()];
        Self::read(Rc::clone(&self.folder), self.path.clone(), engine, self.output.clone())
    }

    fn read(folder: Rc<tempfile::TempDir>, path: PathBuf, engine: Vec<String>, output: Output) -> Self {
        let dump = run(profinfer(&["dump", path.to_str().unwrap()]).args(&engine), 0);
        let lines = String::from_utf8(dump.stdout).unwrap();
        let mut records: Vec<Record> =
            lines.lines().map(|line| Record::of(serde_json::from_str(line).unwrap())).collect();
        records.sort_by_key(|record| record.start);
        let mut objects: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            if let Some(address) = record.line["address"].as_str() {
                objects.entry(address.to_owned()).or_default().push(index);
            }
        }
        Self { folder, path, engine, output, records, objects }
    }

    /// The trace.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// `profinfer report FILE --json …`, which must say that all is there.
    pub(crate) fn report(&self, arguments: &[&str]) -> Value {
        let mut command = profinfer(&["report", self.path.to_str().unwrap(), "--json"]);
        serde_json::from_slice(&run(command.args(arguments).args(&self.engine), 0).stdout).unwrap()
    }

    /// `profinfer graph FILE --step N --format json`.
    pub(crate) fn graph(&self, step: usize) -> Value {
        let path = self.path.to_str().unwrap();
        let mut command = profinfer(&["graph", path, "--format", "json", "--step", &step.to_string()]);
        serde_json::from_slice(&run(&mut command, 0).stdout).unwrap()
    }

    /// `profinfer statistics FILE --json`, of a trace in which all is there.
    pub(crate) fn statistics(&self) -> Value {
        let mut command = profinfer(&["statistics", self.path.to_str().unwrap(), "--json"]);
        serde_json::from_slice(&run(command.args(&self.engine), 0).stdout).unwrap()
    }

    /// What `profinfer COMMAND FILE …` writes, of a trace in which all is there.
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        let mut command = profinfer(&[arguments[0], self.path.to_str().unwrap()]);
        String::from_utf8(run(command.args(&arguments[1..]), 0).stdout).unwrap()
    }

    /// `profinfer info FILE --json`.
    pub(crate) fn info(&self) -> Value {
        let mut command = profinfer(&["info", self.path.to_str().unwrap(), "--json"]);
        serde_json::from_slice(&run(command.args(&self.engine), 0).stdout).unwrap()
    }

    /// Fails unless the recorder counted no loss and the report says so.
    pub(crate) fn assert_complete(&self) {
        let (info, completeness) = (self.info(), &self.report(&[])["completeness"]);
        let lost: Vec<&Value> =
            info["losses"].as_array().unwrap().iter().filter(|l| l["kind"] != "still_open").collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(info["problems"], serde_json::json!([]));
        assert_eq!(completeness["complete"], true, "{completeness}");
        assert_eq!(completeness["missing_records"], 0, "{completeness}");
        assert_eq!(completeness["steps_left_out"], 0, "{completeness}");
        assert!(completeness["verdict"].as_str().unwrap().starts_with("Complete:"), "{completeness}");
        // A report of one of several engines names the others.
        let notes = completeness["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
        let doubts: Vec<&str> = notes
            .filter(|note| self.engine.is_empty() || !note.contains("other engine") && !note.contains("another engine"))
            .filter(|note| !is_of_an_optional_probe(note))
            .collect();
        assert!(doubts.is_empty(), "nothing was doubtful: {doubts:?}");
    }

    /// How many records there are of a probe, object or event.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.records.iter().filter(|record| record.name == name).count()
    }

    /// Every probe, object and event that has records.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.records.iter().map(|record| record.name.as_str()).collect()
    }

    /// The processes that threads with records belong to.
    pub(crate) fn processes(&self, name: &str) -> BTreeSet<u64> {
        let threads: HashMap<u64, u64> =
            self.of_event("thread").map(|thread| (thread.tid, thread.field("pid").as_u64().unwrap())).collect();
        self.records.iter().filter(|record| record.name == name).map(|record| threads[&record.tid]).collect()
    }

    fn of_role<'a>(&'a self, role: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.role == role)
    }

    fn of_event<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.name == name)
    }

    /// Steps that lie in no other one, in the order of time.
    fn steps(&self) -> Vec<&Record> {
        let mut steps: Vec<&Record> = Vec::new();
        for step in self.of_role("step") {
            if steps.last().is_none_or(|outer| outer.end <= step.start) {
                steps.push(step);
            }
        }
        steps
    }

    /// Each step's own duration as recorded, ns.
    pub(crate) fn step_durations(&self) -> Vec<i64> {
        self.steps().iter().map(|step| step.end - step.start).collect()
    }

    /// How long all spans of a probe took together, in ms.
    pub(crate) fn total_ms(&self, probe: &str) -> f64 {
        let spans = self.records.iter().filter(|record| record.name == probe);
        spans.map(|span| span.end - span.start).sum::<i64>() as f64 / 1e6
    }

    /// The work of lane 0, put together from the records.
    pub(crate) fn work(&self) -> Vec<Step> {
        self.steps().into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: &Record) -> Step {
        let within = |record: &&Record| step.contains(record);
        let graphs = self.of_role("graph").filter(within).map(|graph| Graph {
            backend: match graph.line["function"].as_str() {
                // Where backends have no symbols, the function that all of them come through; here there is one.
                Some("ggml_backend_graph_compute_async") => "cpu".to_owned(),
                _ => graph.field("backend").as_str().unwrap().to_lowercase(),
            },
            nodes: graph.field("nodes").as_u64().unwrap(),
            operators: self.shares(graph, 0).flat_map(|share| self.operators(share)).collect(),
        });
        let batches = self.of_role("region").filter(within).filter_map(|region| region.field("tokens").as_u64());
        let call = match step.line["function"].as_str().unwrap() {
            // All calls of this one come through it.
            "llama_context::decode(llama_batch const&)" => "llama_decode",
            function => function,
        };
        Step {
            call: call.to_owned(),
            tokens: step.field("tokens").as_u64().unwrap_or_else(|| batches.sum()),
            graphs: graphs.collect(),
        }
    }

    /// A lane's shares of the operators of a graph, in the order of time.
    fn shares<'a>(&'a self, graph: &'a Record, lane: u64) -> impl Iterator<Item = &'a Record> {
        self.of_role("operator").filter(move |share| graph.contains(share) && share.lane() == lane)
    }

    fn operators(&self, share: &Record) -> Vec<Operator> {
        let operator = |address: &str| {
            let described = self.description(address, share.start);
            let inputs = described.field("inputs").as_array().unwrap().iter().map(|input| input.as_str().unwrap());
            let inputs = inputs.filter(|address| *address != "0x0");
            Operator {
                result: tensor(described),
                inputs: inputs.map(|address| tensor(self.description(address, share.start))).collect(),
            }
        };
        share.nodes().map(operator).collect()
    }

    /// The last description of the object up to that time.
    fn description(&self, address: &str, time: i64) -> &Record {
        let all = self.objects.get(address).map_or(&[][..], Vec::as_slice);
        let last = all.partition_point(|index| self.records[*index].start <= time).checked_sub(1);
        &self.records[all[last.unwrap_or_else(|| panic!("{address} is not described before {time} ns"))]]
    }

    /// Fails unless every lane took part in every operator, in the same order, and nothing lies outside of the graphs.
    pub(crate) fn assert_lanes(&self, lanes: u64) {
        let mut placed = 0;
        for graph in self.of_role("graph") {
            let nodes = |lane| self.shares(graph, lane).flat_map(Record::nodes).collect::<Vec<_>>();
            let first = nodes(0);
            assert!(!first.is_empty());
            for lane in 1..lanes {
                assert_eq!(nodes(lane), first, "lane {lane} of the graph at {} ns", graph.start);
            }
            placed += (0..lanes).map(|lane| self.shares(graph, lane).count()).sum::<usize>();
        }
        assert_eq!(placed, self.of_role("operator").count(), "operators outside of graphs, or on further lanes");
        for share in self.of_role("operator") {
            let waiting = share.field("waiting").as_i64().unwrap_or(0);
            assert!((0..=share.end - share.start).contains(&waiting), "{}", share.line);
        }
    }

    /// The threads that were this lane.
    pub(crate) fn threads_of_lane(&self, lane: u64) -> BTreeSet<u64> {
        self.of_role("operator").filter(|share| share.lane() == lane).map(|share| share.tid).collect()
    }

    /// Fused operators by what they are called, and by operator type the nodes that they are made of.
    pub(crate) fn fused(&self) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        let mut parts: BTreeMap<String, u64> = BTreeMap::new();
        for share in self.of_event("fused").filter(|share| share.lane() == 0) {
            *names.entry(share.field("op").as_str().unwrap().to_owned()).or_default() += 1;
            for part in self.operators(share) {
                *parts.entry(part.result.op).or_default() += 1;
            }
        }
        (names, parts)
    }

    /// Experts by step and node, in the order of time. A long list comes in several records.
    pub(crate) fn experts(&self) -> Vec<Experts> {
        let mut all: Vec<Experts> = Vec::new();
        let mut before = None;
        for (step, span) in self.steps().into_iter().enumerate() {
            for record in self.of_role("experts").filter(|record| span.contains(record)) {
                let per_token = usize::try_from(record.field("per_token").as_u64().unwrap()).unwrap();
                let ids: Vec<i64> =
                    record.field("ids").as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
                let ids = ids.chunks(per_token).map(<[i64]>::to_vec);
                let here = (record.start, record.address("node"));
                if before.replace(here) == Some(here) {
                    all.last_mut().unwrap().ids.extend(ids);
                } else {
                    let node = tensor(self.description(here.1, record.start)).name;
                    all.push(Experts { step, node, ids: ids.collect() });
                }
            }
        }
        all
    }

    /// The sites of a probe: function and alternative taken.
    pub(crate) fn sites(&self, probe: &str) -> BTreeMap<String, u64> {
        let info = self.info();
        let sites = info["sites"].as_array().unwrap().iter();
        let sites = sites.filter(|site| site["probes"].as_array().unwrap().iter().any(|name| name == probe));
        sites
            .map(|site| (site["function"].as_str().unwrap().to_owned(), site["alternative"].as_u64().unwrap()))
            .collect()
    }
}

fn tensor(described: &Record) -> Tensor {
    let text = |name| described.field(name).as_str().unwrap().to_owned();
    let shape: Vec<i64> = described.field("shape").as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    Tensor { op: text("op"), name: text("name"), dtype: text("dtype").to_lowercase(), shape: shape.try_into().unwrap() }
}

/// Whether a note names a probe that not every build has a place for: of another backend, or of a function that was
/// inlined.
fn is_of_an_optional_probe(note: &str) -> bool {
    ["blas", "barrier"].iter().any(|probe| {
        let named = note.strip_prefix("Left out: probe `").and_then(|rest| rest.split('`').next());
        named.is_some_and(|name| name == *probe || name.ends_with(&format!("__{probe}")))
    })
}
