//! What a trace says, without what differs from run to run.

use profinfer_trace::{Item, TraceReader, Value};

use profinfer_schema::RecordKind;
use std::collections::{BTreeMap, HashMap};

/// A trace without what differs from run to run: times, cpus, numbers of threads, addresses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Essence {
    counts: BTreeMap<String, u64>,
    /// What each thread recorded, in its order; the threads in no order.
    threads: Vec<Vec<String>>,
}

impl Essence {
    /// Of a trace of which nothing may be lost.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let names = names(bytes);
        let mut counts = BTreeMap::new();
        let mut threads: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
        let mut reader = TraceReader::new(bytes).expect("a trace");
        while let Some(item) = reader.next() {
            let Item::Record(record) = item else { continue };
            let (kind, header) = (record.kind(), record.header());
            // The machine decides when threads take turns.
            if matches!(kind.kind, RecordKind::Switch | RecordKind::Wakeup) {
                continue;
            }
            *counts.entry(kind.name.clone()).or_default() += 1;
            let of_process = matches!(kind.kind, RecordKind::Thread);
            let fields = record.fields().filter(|(name, _)| !of_process || *name == "comm");
            let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={}", shown(&value, &names))).collect();
            let function = record.site().map(|site| site.function.as_str()).unwrap_or_default();
            let line = format!("{} {function} {:x} {}", kind.name, header.missing, fields.join(" "));
            threads.entry(header.tid).or_default().push((header.seq, line));
        }
        let meta = reader.into_meta();
        assert_eq!((meta.losses, meta.problems.0), (vec![], vec![]), "nothing is lost");
        assert_eq!(meta.end.unwrap().exit_code, Some(0));
        let mut threads: Vec<Vec<String>> = threads
            .into_values()
            .map(|mut lines| {
                lines.sort();
                let numbers: Vec<u32> = lines.iter().map(|(seq, _)| *seq).collect();
                assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>(), "a thread counts its records");
                lines.into_iter().map(|(_, line)| line).collect()
            })
            .collect();
        threads.sort();
        Self { counts, threads }
    }

    /// What each thread recorded, in its order.
    pub(crate) fn threads(&self) -> &[Vec<String>] {
        &self.threads
    }

    /// How many records of that name there are.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

/// The tensors' names by address.
fn names(bytes: &[u8]) -> HashMap<u64, String> {
    let mut names = HashMap::from([(0, "none".to_owned())]);
    TraceReader::new(bytes).expect("a trace").for_each_record(|record| {
        if let (RecordKind::Object, Some(address)) = (record.kind().kind, record.field(0).as_address()) {
            names.insert(address, record.field_named("name").to_string());
        }
        true
    });
    names
}

fn shown(value: &Value<'_>, names: &HashMap<u64, String>) -> String {
    match (value, value.as_address()) {
        (_, Some(address)) => names.get(&address).cloned().unwrap_or_else(|| "unknown".into()),
        (Value::List(values), _) => values.iter().map(|value| shown(value, names)).collect::<Vec<_>>().join(","),
        _ => value.to_string(),
    }
}

/// States that threads of the target had when they left a processor.
pub(crate) fn left_in(bytes: &[u8]) -> Vec<i64> {
    let mut states = Vec::new();
    TraceReader::new(bytes).expect("a trace").for_each_record(|record| {
        let of_toy = || record.field_named("prev_comm").as_str().is_some_and(|name| name.starts_with("toy"));
        if record.kind().kind == RecordKind::Switch && of_toy() {
            states.extend(record.field_named("prev_state").as_i64());
        }
        true
    });
    states
}
