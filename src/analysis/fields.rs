//! Records as bytes, read by the trace's schema: which field of which record type is a step's `tokens` or an
//! operator's `lane` is found out once, so that reading one costs a bounds check and a load.

use super::Count;
use super::counters::{self, CountersAt};
use crate::path::Value;
use crate::spec::Role;
use crate::trace::{FieldLayout, FieldType, RecordHeader, RecordKind, RecordType, Schema, Site, text_of};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Elements of one array or list that are decoded; the format's own bound on a record's bytes is near it.
const MAX_ELEMENTS: u32 = 65_536;
/// Arrays in arrays that are decoded.
const MAX_NESTING: u32 = 4;
/// Fields that say what an operator is. Others, except those that place it, are arguments to show.
const DESCRIBING: [&str; 5] = ["op", "name", "dtype", "shape", "inputs"];
/// Fields that say where an operator belongs.
const PLACING: [&str; 8] = ["lane", "node", "covers", "waiting", "tokens", "backend", "ids", "sequence"];

/// What every record starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Index into [`Schema::records`].
    pub record: u16,
    /// The site's number.
    pub site: u16,
    /// The processor at the end of the span.
    pub cpu: u16,
    /// Bit i: field i could not be read.
    pub missing: u16,
    /// The thread's number in the kernel.
    pub tid: u32,
    /// The thread's own count of records.
    pub seq: u32,
    /// ns, CLOCK_MONOTONIC.
    pub start: u64,
    /// ns, CLOCK_MONOTONIC; never before `start`.
    pub end: u64,
}

impl Header {
    /// Reads it from a record's bytes; `None` where they are too few.
    pub fn read(record: &[u8]) -> Option<Self> {
        let RecordHeader { ty, site, cpu, missing, tid, seq, start, duration } = RecordHeader::read(record)?;
        Some(Self { record: ty, site, cpu, missing, tid, seq, start, end: start.saturating_add(duration) })
    }
}

/// Where a number stands in a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberAt {
    bit: u16,
    offset: usize,
    size: u8,
    signed: bool,
}

impl NumberAt {
    pub(super) fn of(layout: &FieldLayout, index: usize) -> Option<Self> {
        let (size, signed) = match &layout.ty {
            FieldType::Int(n) => (*n, true),
            FieldType::Uint(n) => (*n, false),
            FieldType::Bool => (1, false),
            FieldType::Enum(_) => (4, true),
            FieldType::Scaled => (2, false),
            FieldType::Pointer | FieldType::Object(_) | FieldType::Duration | FieldType::Counter => (8, false),
            _ => return None,
        };
        let size = u8::try_from(size).ok()?;
        Some(Self { bit: missing_bit(index), offset: layout.offset as usize, size, signed })
    }

    /// The number, sign-extended to 64 bits; `None` where it could not be read.
    pub(super) fn read(&self, record: &[u8], missing: u16) -> Option<u64> {
        if missing & self.bit != 0 {
            return None;
        }
        let bytes = record.get(self.offset..)?;
        Some(match (self.size, self.signed) {
            (8, _) => u64::from_le_bytes(*bytes.first_chunk()?),
            (4, false) => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            (4, true) => sign_extend(i64::from(i32::from_le_bytes(*bytes.first_chunk()?))),
            (2, false) => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            (2, true) => sign_extend(i64::from(i16::from_le_bytes(*bytes.first_chunk()?))),
            (1, false) => u64::from(*bytes.first()?),
            (1, true) => sign_extend(i64::from(i8::from_le_bytes(*bytes.first_chunk()?))),
            _ => return None,
        })
    }

    /// The number, where it is not negative.
    pub(super) fn read_count(&self, record: &[u8], missing: u16) -> Option<u64> {
        self.read(record, missing).filter(|n| !self.signed || n.cast_signed() >= 0)
    }

    /// The same, where it has 32 bits.
    pub(super) fn read_u32(&self, record: &[u8], missing: u16) -> Option<u32> {
        u32::try_from(self.read_count(record, missing)?).ok()
    }
}

fn sign_extend(n: i64) -> u64 {
    n.cast_unsigned()
}

fn missing_bit(index: usize) -> u16 {
    u32::try_from(index).ok().and_then(|i| 1_u16.checked_shl(i)).unwrap_or(0)
}

/// A field that is an object's address.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectAt {
    /// Index of the object's record type; `u16::MAX` where the schema has none.
    pub(super) object: u16,
    at: NumberAt,
}

impl ObjectAt {
    /// The address; `None` where it could not be read or is null.
    pub(super) fn read(&self, record: &[u8], missing: u16) -> Option<u64> {
        self.at.read(record, missing).filter(|address| *address != 0)
    }
}

/// Where a switch between threads says who left and who came: of many traces most records are such.
#[derive(Debug, Default)]
pub(super) struct SwitchAt {
    pub(super) prev_pid: Option<NumberAt>,
    pub(super) prev_state: Option<NumberAt>,
    pub(super) next_pid: Option<NumberAt>,
    pub(super) next_tid: Option<NumberAt>,
    /// Indices in `layouts`.
    pub(super) prev_comm: Option<usize>,
    pub(super) next_comm: Option<usize>,
}

/// One record type, made ready.
#[derive(Debug)]
pub(super) struct RecordFields {
    /// What it is.
    pub(super) kind: RecordKind,
    /// Another engine's, which was recorded together with the one that is looked at.
    pub(super) of_another: bool,
    /// The probe's role.
    pub(super) role: Option<Role>,
    /// The probe's or object's name.
    pub(super) name: Arc<str>,
    /// Bytes of the fixed part; a list's elements follow.
    fixed_size: usize,
    /// Its fields.
    pub(super) layouts: Vec<FieldLayout>,
    /// Their names.
    pub(super) names: Vec<Arc<str>>,
    pub(super) lane: Option<NumberAt>,
    pub(super) tokens: Option<NumberAt>,
    pub(super) waiting: Option<NumberAt>,
    pub(super) node: Option<ObjectAt>,
    pub(super) covers: Option<ObjectAt>,
    /// Index of `ids` in `layouts`.
    pub(super) ids: Option<usize>,
    /// Index of `backend` in `layouts`.
    pub(super) backend: Option<usize>,
    /// Fields by which the record itself says what the operator is.
    pub(super) describing: Vec<usize>,
    /// All of `describing` are captures of the site, so that the site says all.
    pub(super) described_by_site: bool,
    /// There are fields that no rule uses: they are shown with the event.
    pub(super) arguments: bool,
    /// Counters of the span.
    pub(super) counters: CountersAt,
    /// The object that the record describes: index of its record type, of the field with its address, and whether it
    /// is described from the record's end on.
    pub(super) describes: Option<(u16, usize, bool)>,
    /// Empty in records of other kinds.
    pub(super) switch: SwitchAt,
    /// Fields that are texts.
    texts: Vec<usize>,
    numbers: BTreeMap<String, NumberAt>,
}

impl RecordFields {
    fn new(record: &RecordType, schema: &Schema, columns: &[Arc<str>]) -> Self {
        let find = |name: &str| record.fields.iter().position(|f| f.name == name);
        let number = |name: &str| find(name).and_then(|i| NumberAt::of(&record.fields[i], i));
        let object = |name: &str| {
            let index = find(name)?;
            let object = match &record.fields[index].ty {
                FieldType::Object(of) => object_type(schema, of),
                _ => u16::MAX,
            };
            NumberAt::of(&record.fields[index], index).map(|at| ObjectAt { object, at })
        };
        let describing: Vec<usize> = DESCRIBING.iter().filter_map(|name| find(name)).collect();
        let numbers = record.fields.iter().enumerate();
        Self {
            kind: record.kind,
            of_another: false,
            role: record.role,
            name: record.name.as_str().into(),
            fixed_size: record.size as usize,
            layouts: record.fields.clone(),
            names: record.fields.iter().map(|field| field.name.as_str().into()).collect(),
            lane: number("lane"),
            tokens: number("tokens"),
            waiting: number("waiting"),
            node: object("node"),
            covers: object("covers"),
            ids: find("ids"),
            backend: find("backend"),
            described_by_site: describing.iter().all(|i| matches!(record.fields[*i].ty, FieldType::Match(_))),
            describing,
            arguments: record.fields.iter().any(|f| !is_reserved(&f.name) && !is_counter(&f.ty)),
            counters: CountersAt::of(record, columns),
            describes: schema
                .describes
                .get(&record.name)
                .filter(|_| record.kind != RecordKind::Object)
                .and_then(|said| Some((object_type(schema, &said.object), find(&said.field)?, said.at_end))),
            switch: SwitchAt {
                prev_pid: number("prev_pid"),
                prev_state: number("prev_state"),
                next_pid: number("next_pid"),
                next_tid: number("next_tid"),
                prev_comm: find("prev_comm"),
                next_comm: find("next_comm"),
            },
            texts: (0..record.fields.len()).filter(|i| matches!(record.fields[*i].ty, FieldType::Text(_))).collect(),
            numbers: numbers.filter_map(|(i, f)| Some((f.name.clone(), NumberAt::of(f, i)?))).collect(),
        }
    }

    /// A number of a built-in record, by name.
    pub(super) fn number(&self, name: &str, record: &[u8], missing: u16) -> Option<u64> {
        self.numbers.get(name)?.read(record, missing)
    }

    /// The same, where it is a thread's or process's number.
    pub(super) fn number_u32(&self, name: &str, record: &[u8], missing: u16) -> Option<u32> {
        self.numbers.get(name)?.read_u32(record, missing)
    }
}

fn is_reserved(name: &str) -> bool {
    DESCRIBING.contains(&name) || PLACING.contains(&name)
}

fn is_counter(ty: &FieldType) -> bool {
    matches!(ty, FieldType::Counter | FieldType::Scaled)
}

fn object_type(schema: &Schema, name: &str) -> u16 {
    let position = schema.records.iter().position(|r| r.kind == RecordKind::Object && r.name == name);
    position.and_then(|i| u16::try_from(i).ok()).unwrap_or(u16::MAX)
}

/// Whether graphs of a schema say their backend; else a graph goes by its probe's name, and two names are no two backends.
pub fn graphs_say_backend(schema: &Schema) -> bool {
    let mut graphs = schema.records.iter().filter(|record| record.role == Some(Role::Graph));
    graphs.any(|graph| graph.fields.iter().any(|field| field.name == "backend"))
}

/// A trace's record types, enumerations and sites, made ready to read records by.
#[derive(Debug)]
pub struct Decoder {
    pub(super) records: Vec<RecordFields>,
    enums: BTreeMap<String, BTreeMap<i64, Arc<str>>>,
    sites: Vec<Vec<Arc<str>>>,
    columns: Vec<Arc<str>>,
}

impl Decoder {
    /// For one trace's schema.
    pub fn new(schema: &Schema) -> Self {
        let columns = counters::columns(schema);
        let mut decoder = Self {
            records: schema.records.iter().map(|r| RecordFields::new(r, schema, &columns)).collect(),
            enums: BTreeMap::new(),
            sites: Vec::new(),
            columns,
        };
        for other in &schema.others {
            if let Some(record) = decoder.records.get_mut(usize::from(*other)) {
                record.of_another = true;
            }
        }
        decoder.add_enums(&schema.enums);
        decoder
    }

    /// Makes enumerations known; again when a trace has more of them: a library may be mapped late.
    pub fn add_enums<'e>(&mut self, enums: impl IntoIterator<Item = (&'e String, &'e BTreeMap<i64, String>)>) {
        for (name, constants) in enums {
            let same = |known: &BTreeMap<i64, Arc<str>>| {
                known.iter().map(|(n, c)| (n, &**c)).eq(constants.iter().map(|(n, c)| (n, c.as_str())))
            };
            if !self.enums.get(name).is_some_and(same) {
                let constants = constants.iter().map(|(n, c)| (*n, Arc::from(c.as_str()))).collect();
                self.enums.insert(name.clone(), constants);
            }
        }
    }

    /// Makes sites' captures known; again when a trace has more of them.
    pub fn add_sites(&mut self, sites: &[Site]) {
        for site in sites {
            let id = usize::from(site.id);
            if self.sites.len() <= id {
                self.sites.resize(id + 1, Vec::new());
            }
            self.sites[id] = site.captures.iter().map(|c| Arc::from(c.as_str())).collect();
        }
    }

    /// The names of the trace's counters: a count's column is an index into them.
    pub fn counters(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// A record's counts, a column each; `None` where its type has no counter.
    pub(super) fn counts(&self, header: &Header, record: &[u8]) -> Option<Box<[Count]>> {
        let counters = &self.records.get(usize::from(header.record))?.counters;
        (!counters.is_empty()).then(|| counters.read(header, record, self.columns.len()))
    }

    /// The probe's or object's name.
    pub fn name(&self, record: u16) -> &Arc<str> {
        static NONE: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "?".into());
        self.records.get(usize::from(record)).map_or(&NONE, |r| &r.name)
    }

    /// A field's value by name; `None` where the type has no such field or it could not be read.
    pub fn field(&self, header: &Header, record: &[u8], name: &str) -> Option<Value> {
        let layouts = &self.records.get(usize::from(header.record))?.layouts;
        self.value_at(header, record, layouts.iter().position(|f| f.name == name)?)
    }

    /// Every field that could be read, in order.
    pub fn fields(&self, header: &Header, record: &[u8]) -> Vec<(Arc<str>, Value)> {
        let Some(fields) = self.records.get(usize::from(header.record)) else { return Vec::new() };
        let read = |(i, name): (usize, &Arc<str>)| Some((Arc::clone(name), self.value_at(header, record, i)?));
        fields.names.iter().enumerate().filter_map(read).collect()
    }

    /// How many of a record's fields are texts by the schema and hold something else.
    pub(super) fn not_texts(&self, header: &Header, record: &[u8]) -> u64 {
        let Some(fields) = self.records.get(usize::from(header.record)) else { return 0 };
        let is_rubbish = |index: &&usize| {
            let layout = &fields.layouts[**index];
            let FieldType::Text(n) = layout.ty else { return false };
            let at = layout.offset as usize;
            let bytes = at.checked_add(n as usize).and_then(|end| record.get(at..end));
            header.missing & missing_bit(**index) == 0 && bytes.is_some_and(|bytes| text_of(bytes).is_none())
        };
        fields.texts.iter().filter(is_rubbish).count() as u64
    }

    /// The number of an enumeration's constant, as a value, whichever enumeration has it.
    pub fn constant(&self, name: &str) -> Option<Value> {
        let of = |constants: &BTreeMap<i64, Arc<str>>| constants.iter().find(|(_, c)| &***c == name).map(|(n, _)| *n);
        self.enums.values().find_map(of).map(|number| Value::Constant { number, name: name.into() })
    }

    /// A field's value as a text.
    pub(super) fn text_at<'r>(&self, header: &Header, record: &'r [u8], index: usize) -> Option<Cow<'r, str>> {
        let field = self.records.get(usize::from(header.record))?.layouts.get(index)?;
        let FieldType::Text(n) = field.ty else {
            return self.value_at(header, record, index).map(|value| Cow::Owned(value.to_string()));
        };
        let bytes = record.get(field.offset as usize..)?.get(..n as usize)?;
        text_of(bytes).filter(|_| header.missing & missing_bit(index) == 0).map(Cow::Borrowed)
    }

    pub(super) fn value_at(&self, header: &Header, record: &[u8], index: usize) -> Option<Value> {
        if header.missing & missing_bit(index) != 0 {
            return None;
        }
        let field = self.records.get(usize::from(header.record))?.layouts.get(index)?;
        match &field.ty {
            FieldType::List(of, max) => {
                let at = field.offset as usize;
                let count = u32::from_le_bytes(*record.get(at..)?.first_chunk()?).min(*max);
                let tail = self.records.get(usize::from(header.record))?.fixed_size;
                self.elements(of, count, record.get(tail..)?, header, 0)
            }
            ty => self.value(ty, record.get(field.offset as usize..)?, header, 0),
        }
    }

    fn value(&self, ty: &FieldType, bytes: &[u8], header: &Header, depth: u32) -> Option<Value> {
        match ty {
            FieldType::Int(_)
            | FieldType::Uint(_)
            | FieldType::Bool
            | FieldType::Pointer
            | FieldType::Duration
            | FieldType::Counter
            | FieldType::Scaled => {
                let at = NumberAt::of(&FieldLayout { name: String::new(), offset: 0, ty: ty.clone() }, 0)?;
                Some(integer_value(at.read(bytes, 0)?, at.signed))
            }
            FieldType::Float(4) => float_value(f64::from(f32::from_le_bytes(*bytes.first_chunk()?))),
            FieldType::Float(_) => float_value(f64::from_le_bytes(*bytes.first_chunk()?)),
            FieldType::Enum(name) => {
                let number = i64::from(i32::from_le_bytes(*bytes.first_chunk()?));
                let constant = self.enums.get(name).and_then(|constants| constants.get(&number));
                let name = constant.map_or_else(|| number.to_string().into(), Arc::clone);
                Some(Value::Constant { number, name })
            }
            FieldType::Text(n) => {
                let text = bytes.get(..*n as usize)?;
                text_of(text).map(|text| Value::Text(text.into()))
            }
            FieldType::Hex(n) => {
                let digits: String = bytes.get(..*n as usize)?.iter().map(|b| format!("{b:02x}")).collect();
                Some(Value::Text(digits.into()))
            }
            FieldType::Object(_) => Some(Value::Object(u64::from_le_bytes(*bytes.first_chunk()?))),
            FieldType::Array(of, n) => {
                let mut list = self.elements(of, *n, bytes, header, depth)?;
                if let (FieldType::Pointer | FieldType::Object(_), Value::List(items)) = (of.as_ref(), &mut list) {
                    let padding = |v: &Value| matches!(v, Value::Int(0) | Value::Object(0));
                    items.truncate(items.iter().rposition(|v| !padding(v)).map_or(0, |last| last + 1));
                }
                Some(list)
            }
            FieldType::Match(n) => {
                let captures = self.sites.get(usize::from(header.site))?;
                captures.get((*n as usize).checked_sub(1)?).map(|text| Value::Text(Arc::clone(text)))
            }
            FieldType::List(..) => None,
        }
    }

    fn elements(&self, of: &FieldType, count: u32, bytes: &[u8], header: &Header, depth: u32) -> Option<Value> {
        let size = of.size() as usize;
        if depth >= MAX_NESTING || count > MAX_ELEMENTS || size == 0 {
            return None;
        }
        let element = |i: u32| self.value(of, bytes.get((i as usize).checked_mul(size)?..)?, header, depth + 1);
        (0..count).map(element).collect::<Option<Vec<Value>>>().map(Value::List)
    }
}

fn integer_value(n: u64, signed: bool) -> Value {
    match i64::try_from(n) {
        Ok(n) => Value::Int(n),
        Err(_) if signed => Value::Int(n.cast_signed()),
        #[allow(clippy::cast_precision_loss)]
        Err(_) => Value::Float(n as f64),
    }
}

fn float_value(x: f64) -> Option<Value> {
    x.is_finite().then_some(Value::Float(x))
}
