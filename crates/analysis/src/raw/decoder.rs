//! Values of records, by the trace's schema, enumerations and sites.

use super::counters;
use super::counters::Count;
use super::fields::RecordFields;
use super::header::{Header, NumberAt, missing_bit};
use profinfer_probeset::path::Value;
use profinfer_schema::{FieldLayout, FieldMeaning, FieldType, Role, Schema, Site};
use profinfer_trace::text_of;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Elements of one array or list that are decoded; near the format's bound on a record's bytes.
const MAX_ELEMENTS: u32 = 65_536;
/// Arrays in arrays that are decoded.
const MAX_NESTING: u32 = 4;
/// A field that was read.
#[derive(Debug, Clone)]
pub(crate) struct FieldValue {
    pub(crate) name: Arc<str>,
    pub(crate) meaning: Option<FieldMeaning>,
    pub(crate) value: Value,
}

/// A trace's record types, enumerations and sites, made ready to read records by.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) records: Vec<RecordFields>,
    enums: BTreeMap<String, BTreeMap<i64, Arc<str>>>,
    sites: Vec<Vec<Arc<str>>>,
    /// The module and file offset of each site.
    places: Vec<Option<(usize, u64)>>,
    columns: Vec<Arc<str>>,
    /// Graphs or regions have counts of tokens.
    tokens_within: bool,
}

impl Decoder {
    /// For one trace's schema.
    pub fn new(schema: &Schema) -> Self {
        let columns = counters::columns(schema);
        let mut decoder = Self {
            records: schema.records.iter().map(|r| RecordFields::new(r, schema, &columns)).collect(),
            enums: BTreeMap::new(),
            sites: Vec::new(),
            places: Vec::new(),
            columns,
            tokens_within: false,
        };
        for other in &schema.others {
            if let Some(record) = decoder.records.get_mut(usize::from(*other)) {
                record.of_another = true;
            }
        }
        let is_within = |record: &&RecordFields| matches!(record.role, Some(Role::Graph | Role::Region));
        let mut within = decoder.records.iter().filter(|record| !record.of_another).filter(is_within);
        decoder.tokens_within = within.any(counts_tokens);
        decoder.add_enums(&schema.enums);
        decoder
    }

    /// Steps of this record type have a count of tokens: their own, or of what is within them.
    pub(crate) fn has_tokens(&self, step: u16) -> bool {
        self.tokens_within || self.records.get(usize::from(step)).is_some_and(counts_tokens)
    }

    /// Adds enumerations; a library that is mapped late adds more.
    pub fn add_enums<'e>(&mut self, enums: impl IntoIterator<Item = (&'e String, &'e BTreeMap<i64, String>)>) {
        for (name, constants) in enums {
            let same = |present: &BTreeMap<i64, Arc<str>>| {
                present.iter().map(|(n, c)| (n, &**c)).eq(constants.iter().map(|(n, c)| (n, c.as_str())))
            };
            if !self.enums.get(name).is_some_and(same) {
                let constants = constants.iter().map(|(n, c)| (*n, Arc::from(c.as_str()))).collect();
                self.enums.insert(name.clone(), constants);
            }
        }
    }

    /// Adds the captures of sites; a trace may add more later.
    pub fn add_sites(&mut self, sites: &[Site]) {
        for site in sites {
            let id = usize::from(site.id);
            if self.sites.len() <= id {
                self.sites.resize(id + 1, Vec::new());
                self.places.resize(id + 1, None);
            }
            self.places[id] = Some((site.module, site.file_offset));
            let names = std::iter::once(&site.function).chain(&site.captures);
            self.sites[id] = names.map(|name| Arc::from(name.as_str())).collect();
        }
    }

    /// Whether the trace has records of a role.
    pub(crate) fn has(&self, role: Role) -> bool {
        self.records.iter().any(|record| record.role == Some(role))
    }

    /// The role of a probe's records.
    pub(crate) fn role(&self, probe: &str) -> Option<Role> {
        self.records.iter().find(|record| *record.name == *probe)?.role
    }

    /// Whether two sites are at one instruction.
    pub(crate) fn is_one_place(&self, site: u16, other: u16) -> bool {
        let place = |site: u16| self.places.get(usize::from(site)).copied().flatten();
        place(site).is_some_and(|of| place(other) == Some(of))
    }

    /// The names of the trace's counters: a count's column is an index into them.
    pub fn counters(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// A record's counts, a column each; `None` where its type has no counter.
    pub(crate) fn counts(&self, header: &Header, record: &[u8]) -> Option<Box<[Count]>> {
        let counters = &self.records.get(usize::from(header.record_type))?.counters;
        (!counters.is_empty()).then(|| counters.read(header, record, self.columns.len()))
    }

    /// The probe's or object's name.
    pub fn name(&self, record: u16) -> &Arc<str> {
        static NONE: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "?".into());
        self.records.get(usize::from(record)).map_or(&NONE, |r| &r.name)
    }

    /// A field's value by name; `None` where the type has no such field or it could not be read.
    pub fn field(&self, header: &Header, record: &[u8], name: &str) -> Option<Value> {
        let layouts = &self.records.get(usize::from(header.record_type))?.layouts;
        self.value_at(header, record, layouts.iter().position(|f| f.name == name)?)
    }

    /// The value of the field with a meaning; `None` where the type has no such field or it could not be read.
    pub(crate) fn value_of(&self, header: &Header, record: &[u8], meaning: FieldMeaning) -> Option<Value> {
        self.value_at(header, record, self.records.get(usize::from(header.record_type))?.index(meaning)?)
    }

    /// The model of a record within its process, where the record has it.
    pub(crate) fn instance(&self, header: &Header, record: &[u8]) -> Option<i64> {
        match self.value_of(header, record, FieldMeaning::Instance)? {
            Value::Object(address) => Some(address.cast_signed()),
            value => value.as_int(),
        }
    }

    /// Every field that could be read, in order, with its meaning.
    pub(crate) fn values(&self, header: &Header, record: &[u8]) -> Vec<FieldValue> {
        let Some(fields) = self.records.get(usize::from(header.record_type)) else { return Vec::new() };
        (0..fields.names.len()).filter_map(|index| self.field_value(header, record, index)).collect()
    }

    /// A field with its meaning, if it could be read.
    pub(crate) fn field_value(&self, header: &Header, record: &[u8], index: usize) -> Option<FieldValue> {
        let fields = self.records.get(usize::from(header.record_type))?;
        let (name, meaning) = (Arc::clone(fields.names.get(index)?), *fields.meanings.get(index)?);
        Some(FieldValue { name, meaning, value: self.value_at(header, record, index)? })
    }

    /// Every field that could be read, in order.
    pub fn fields(&self, header: &Header, record: &[u8]) -> Vec<(Arc<str>, Value)> {
        let Some(fields) = self.records.get(usize::from(header.record_type)) else { return Vec::new() };
        let read = |(i, name): (usize, &Arc<str>)| Some((Arc::clone(name), self.value_at(header, record, i)?));
        fields.names.iter().enumerate().filter_map(read).collect()
    }

    /// How many of a record's fields are texts by the schema and hold something else.
    pub(crate) fn not_texts(&self, header: &Header, record: &[u8]) -> u64 {
        let Some(fields) = self.records.get(usize::from(header.record_type)) else { return 0 };
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
    pub(crate) fn text_at<'r>(&self, header: &Header, record: &'r [u8], index: usize) -> Option<Cow<'r, str>> {
        let field = self.records.get(usize::from(header.record_type))?.layouts.get(index)?;
        let FieldType::Text(n) = field.ty else {
            return self.value_at(header, record, index).map(|value| Cow::Owned(value.to_string()));
        };
        let bytes = record.get(field.offset as usize..)?.get(..n as usize)?;
        text_of(bytes).filter(|_| header.missing & missing_bit(index) == 0).map(Cow::Borrowed)
    }

    pub(crate) fn value_at(&self, header: &Header, record: &[u8], index: usize) -> Option<Value> {
        if header.missing & missing_bit(index) != 0 {
            return None;
        }
        let field = self.records.get(usize::from(header.record_type))?.layouts.get(index)?;
        match &field.ty {
            FieldType::List(of, max) => {
                let at = field.offset as usize;
                let count = u32::from_le_bytes(*record.get(at..)?.first_chunk()?).min(*max);
                let tail = self.records.get(usize::from(header.record_type))?.fixed_size;
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
                captures.get(*n as usize).map(|text| Value::Text(Arc::clone(text)))
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

fn counts_tokens(record: &RecordFields) -> bool {
    record.meanings.contains(&Some(FieldMeaning::Tokens))
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
