//! Records as lines for a person who writes a probeset: what each probe saw, with what is doubtful about it, and a sum of
//! the doubts.

use profinfer_analysis::{Doubt, doubts};
use profinfer_schema::{RecordKind, Schema};

use profinfer_trace::{RecordView, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// Objects whose names are stored for the lines that refer to them.
const MOST_NAMES: usize = 100_000;

/// The summary of one doubt about one field.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DoubtSum {
    /// The probe, or `object NAME`.
    pub probe: String,
    /// The field.
    pub field: String,
    /// Of how many records.
    pub count: u64,
    /// Of how many there were.
    pub of: u64,
    /// The first such value.
    pub example: String,
    /// What is wrong with it.
    pub what: &'static str,
    /// What to inspect.
    pub look_at: &'static str,
}

/// Takes records, gives lines.
#[derive(Debug)]
pub struct Events {
    /// When the recording started: ns, CLOCK_MONOTONIC.
    start: u64,
    /// Lines of each kind of record; doubtful records have as many again.
    most: u64,
    records: BTreeMap<usize, Seen>,
    names: HashMap<(String, u64), String>,
    described: BTreeSet<String>,
    found: BTreeMap<(String, usize, Doubt), DoubtSum>,
}

/// What was seen of one kind of record.
#[derive(Debug, Default)]
struct Seen {
    name: String,
    records: u64,
    shown: u64,
    doubtful_shown: u64,
}

impl Events {
    /// Of a recording that started then; `most` lines a kind of record.
    pub fn new(start: u64, most: u64) -> Self {
        Self {
            start,
            most,
            records: BTreeMap::new(),
            names: HashMap::new(),
            described: BTreeSet::new(),
            found: BTreeMap::new(),
        }
    }

    /// The line of a record, where it is one of a probe or an object and there are not enough of its kind yet.
    pub fn line(&mut self, record: RecordView<'_>) -> Option<String> {
        let doubts = self.take(record)?;
        Some(self.text(record, &owner(record), &doubts))
    }

    /// The same as a JSON object; `doubts` has what is wrong, by field.
    pub fn json(&mut self, record: RecordView<'_>) -> Option<serde_json::Value> {
        let doubts = self.take(record)?;
        let (kind, header) = (record.kind(), record.header());
        let fields: serde_json::Map<String, serde_json::Value> = record
            .fields()
            .map(|(name, value)| (name.to_owned(), serde_json::to_value(&value).unwrap_or_default()))
            .collect();
        let doubt = |(index, doubt): &(usize, Doubt)| (kind.fields[*index].name.clone(), doubt.message().into());
        let doubts: serde_json::Map<String, serde_json::Value> = doubts.iter().map(doubt).collect();
        let owner = if kind.kind == RecordKind::Object { "object" } else { "probe" };
        let mut line = serde_json::json!({
            "kind": kind.kind,
            "tid": header.tid,
            "start_ns": header.start.saturating_sub(self.start),
            "duration_ns": header.duration,
            "fields": fields,
            "doubts": doubts,
        });
        line[owner] = kind.name.as_str().into();
        if let Some(site) = record.site() {
            line["function"] = site.function.as_str().into();
        }
        Some(line)
    }

    /// Counts a record; returns its doubtful fields if the record is to be shown.
    fn take(&mut self, record: RecordView<'_>) -> Option<Vec<(usize, Doubt)>> {
        let kind = record.kind();
        if !matches!(kind.kind, RecordKind::Span | RecordKind::Mark | RecordKind::Object) {
            return None;
        }
        let owner = owner(record);
        self.remember(record);
        let doubts = doubts(record);
        let seen = self.records.entry(record.type_index()).or_default();
        seen.name.clone_from(&owner);
        seen.records += 1;
        let shown = seen.shown < self.most;
        let doubtful = !doubts.is_empty() && !shown && seen.doubtful_shown < self.most;
        seen.shown += u64::from(shown);
        seen.doubtful_shown += u64::from(doubtful);
        for (index, doubt) in &doubts {
            let sum = self.found.entry((owner.clone(), *index, *doubt)).or_insert_with(|| DoubtSum {
                probe: owner.clone(),
                field: kind.fields[*index].name.clone(),
                count: 0,
                of: 0,
                example: clipped(&record.field(*index)),
                what: doubt.message(),
                look_at: doubt.hint(),
            });
            sum.count += 1;
        }
        (shown || doubtful).then_some(doubts)
    }

    /// Keeps an object's name for the lines that refer to it.
    fn remember(&mut self, record: RecordView<'_>) {
        let kind = record.kind();
        if kind.kind != RecordKind::Object {
            return;
        }
        self.described.insert(kind.name.clone());
        if let (Some(address), Value::Text(name)) = (record.field(0).as_address(), record.field_named("name"))
            && self.names.len() < MOST_NAMES
        {
            self.names.insert((kind.name.clone(), address), name.escape_debug().to_string());
        }
    }

    fn text(&self, record: RecordView<'_>, owner: &str, doubts: &[(usize, Doubt)]) -> String {
        let header = record.header();
        let at = header.start.saturating_sub(self.start) as f64 / 1e9;
        let mut line = format!("{at:>12.6} s  {:>7}  {owner}", header.tid);
        if header.duration > 0 {
            let _ = write!(line, "  {}", Value::Duration(header.duration));
        }
        for (index, (name, value)) in record.fields().enumerate() {
            let _ = write!(line, "  {name}={}", self.shown(&value));
            if let Some((_, doubt)) = doubts.iter().find(|(doubted, _)| *doubted == index) {
                let _ = write!(line, " (! {})", doubt.message());
            }
        }
        line
    }

    /// A value; an object by its name, where it was described with one.
    fn shown(&self, value: &Value<'_>) -> String {
        match value {
            Value::Object { address: 0, .. } => "null".to_owned(),
            Value::Object { name, address } => match self.names.get(&((*name).to_owned(), *address)) {
                Some(text) => format!("{address:#x} \"{text}\""),
                None => format!("{address:#x}"),
            },
            other => clipped(other),
        }
    }

    /// The end of the page: what was left out, and doubtful values. `explain` is the command that shows more.
    pub fn end(&mut self, schema: &Schema, explain: &str) -> String {
        let mut text = String::new();
        for seen in self.records.values().filter(|seen| seen.records > seen.shown + seen.doubtful_shown) {
            let _ = writeln!(text, "… and {} more of {}", seen.records - seen.shown - seen.doubtful_shown, seen.name);
        }
        let silent = self.silent(schema);
        if !silent.is_empty() {
            let _ = writeln!(text, "\nNo records of {}: was it called in these steps?", silent.join(", "));
        }
        let sums = self.sums();
        if sums.is_empty() {
            text.push_str("\nNo value looks wrong.\n");
            return text;
        }
        let _ = writeln!(text, "\nThese values look wrong:");
        for sum in &sums {
            let _ = writeln!(
                text,
                "  {}.{} {}: {} of {}, such as {}\n    {}\n    {explain} {}.{}",
                sum.probe,
                sum.field,
                sum.what,
                sum.count,
                sum.of,
                sum.example,
                sum.look_at,
                sum.probe.replace(' ', ":"),
                sum.field
            );
        }
        text
    }

    /// The end as a JSON object.
    pub fn end_json(&self, schema: &Schema) -> serde_json::Value {
        let records: BTreeMap<&str, u64> =
            self.records.values().map(|seen| (seen.name.as_str(), seen.records)).collect();
        serde_json::json!({ "records": records, "silent": self.silent(schema), "doubtful": self.sums() })
    }

    /// The probes and objects that there was no record of.
    pub fn silent<'s>(&self, schema: &'s Schema) -> Vec<&'s str> {
        let kinds = [RecordKind::Span, RecordKind::Mark, RecordKind::Object];
        let silent = schema
            .records
            .iter()
            .enumerate()
            .filter(|(index, record)| kinds.contains(&record.kind) && !self.records.contains_key(index));
        silent.map(|(_, record)| record.name.as_str()).collect()
    }

    /// The doubts so far, the most frequent first.
    pub fn sums(&self) -> Vec<DoubtSum> {
        let records: BTreeMap<&str, u64> =
            self.records.values().map(|seen| (seen.name.as_str(), seen.records)).collect();
        let of = |sum: &DoubtSum| records.get(sum.probe.as_str()).copied().unwrap_or(sum.count);
        let mut sums: Vec<DoubtSum> = self.found.values().map(|sum| DoubtSum { of: of(sum), ..sum.clone() }).collect();
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.count));
        sums
    }
}

fn owner(record: RecordView<'_>) -> String {
    let kind = record.kind();
    if kind.kind == RecordKind::Object { format!("object {}", kind.name) } else { kind.name.clone() }
}

/// A value on one line, quoted where it is text, cut where it is long. What a target holds must not steer a terminal.
fn clipped(value: &Value<'_>) -> String {
    const MOST: usize = 120;
    let text = match value {
        Value::Text(text) => format!("\"{}\"", text.escape_debug()),
        other => other.to_string().escape_debug().to_string(),
    };
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
