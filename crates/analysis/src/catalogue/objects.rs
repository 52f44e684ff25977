//! The catalogue: descriptions of objects, each with the time from which it holds, and the distinct operators by these
//! descriptions. It grows with the number of distinct operators, not with the number of spans.

use super::kind::{Description, Kind, NO_INPUT, collapse_digits};
use super::rules::Rules;
use crate::ids::{InlineId, KindId, ObjectId, TextId};
use crate::raw::{Decoder, DescribedObject, FieldValue, Header, address_of, all_addresses};
use profinfer_probeset::path::{Environment, Value};
use profinfer_probeset::symbol::demangled_or_begun;
use profinfer_schema::FieldMeaning;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Dimensions of a shape in memory.
const MAX_DIMENSIONS: usize = 16;
/// Characters of a name in memory.
const MAX_NAME: usize = 256;
/// Objects one after the other at one address whose descriptions by probes are in memory.
const MAX_JOINED: usize = 16;
/// Distinct operators that are told apart. Extents that change with each step make new ones.
pub(crate) const MAX_KINDS: usize = 1 << 14;
/// Types of operators whose further operators are one each.
const MAX_MERGED: usize = 1 << 10;
/// Distinct descriptions and texts.
const MAX_DESCRIPTIONS: usize = 1 << 16;
/// The name of all descriptions beyond the limit.
const OTHER: &str = "(other)";
/// Ancestors in which a description is searched.
const MAX_FORKS: usize = 8;

/// A description of an object, from a time on.
#[derive(Debug)]
struct Version {
    time: u64,
    description: u32,
    inputs: Box<[u64]>,
    place: Place,
}

/// Fields of an object in a probe's record, from a time on.
#[derive(Debug)]
struct Joined {
    time: u64,
    fields: Box<[FieldValue]>,
}

/// Where an object's data is; 0: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    /// The object whose data it is a view of.
    view: u64,
    data: u64,
    bytes: u64,
}

/// The description of an object at a time.
#[derive(Debug, Clone)]
pub struct Described<'a> {
    /// Its name, if it has one.
    pub name: Option<&'a Arc<str>>,
    /// What made it.
    pub op: Option<&'a Arc<str>>,
    /// Type of its elements.
    pub dtype: Option<&'a Arc<str>>,
    /// Extent in each dimension.
    pub shape: &'a [i64],
    /// The layer of the model.
    pub layer: Option<&'a Arc<str>>,
    /// Addresses of the objects that it is made of.
    pub inputs: &'a [u64],
    /// Address of the object whose data it is a view of.
    pub view: Option<u64>,
    /// Where its data is, if its size is recorded.
    pub data: Option<std::ops::Range<u64>>,
    /// From when this description holds, ns: another one is of another time.
    pub since: u64,
}

/// An object: an address in a process.
#[derive(Debug, Default)]
struct Object {
    versions: Vec<Version>,
    key: ObjectKey,
    /// It was described anew, with another shape or place.
    changed: bool,
}

/// Process, record type and address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ObjectKey {
    pub(crate) process: u32,
    pub(crate) object: u16,
    pub(crate) address: u64,
}

/// The version of all descriptions. What was resolved by descriptions holds for operators that ended after `latest`,
/// until `generation` changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DescriptionsVersion {
    /// How many changes there were.
    pub generation: u64,
    /// The latest time from which on one holds, ns.
    pub latest: u64,
}

impl DescriptionsVersion {
    /// A description changes from a time on.
    pub(crate) fn change(&mut self, from: u64) {
        self.generation += 1;
        self.latest = self.latest.max(from);
    }
}

/// Every description, operator and text of a trace so far.
#[derive(Debug, Default)]
pub struct Catalogue {
    texts: Vec<Arc<str>>,
    text_ids: FxHashMap<Arc<str>, TextId>,
    descriptions: Vec<Description>,
    description_ids: HashMap<Description, u32>,
    objects: Vec<Object>,
    object_ids: FxHashMap<ObjectKey, ObjectId>,
    by_site: FxHashMap<(u16, u16), InlineId>,
    /// Fields of objects in probes' records.
    joined: FxHashMap<ObjectKey, Vec<Joined>>,
    kinds: Vec<Kind>,
    kind_ids: HashMap<Kind, KindId>,
    combined: FxHashMap<(InlineId, InlineId, InlineId, u16), KindId>,
    inferred: FxHashMap<(KindId, Arc<str>), KindId>,
    descriptions_version: DescriptionsVersion,
    merged: u64,
}

impl Catalogue {
    /// Operators that were merged with others of their type, since there are too many to tell apart.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// A distinct operator.
    pub fn kind(&self, id: KindId) -> &Kind {
        &self.kinds[id.0 as usize]
    }

    /// Every distinct operator so far.
    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &Kind)> {
        (0..).map(KindId).zip(&self.kinds)
    }

    /// An interned text.
    pub fn text(&self, id: TextId) -> &Arc<str> {
        &self.texts[id.0 as usize]
    }

    /// The address of an object.
    pub fn address(&self, object: ObjectId) -> u64 {
        self.objects[object.0 as usize].key.address
    }

    /// The object of the same process and type at another address, if there is one.
    pub fn sibling(&self, object: ObjectId, address: u64) -> Option<ObjectId> {
        let key = self.objects.get(object.0 as usize)?.key;
        self.object_ids.get(&ObjectKey { address, ..key }).copied()
    }

    /// The addresses of an object's inputs, as described at a time.
    pub fn inputs(&self, object: ObjectId, time: u64) -> &[u64] {
        self.version(object, time).map_or(&[], |v| &v.inputs)
    }

    /// The description of an object at a time.
    pub fn at(&self, object: ObjectId, time: u64) -> Option<Described<'_>> {
        let version = self.version(object, time)?;
        let description = self.described_as(version.description)?;
        let Place { view, data, bytes } = version.place;
        Some(Described {
            name: description.name.as_ref(),
            op: description.op.as_ref(),
            dtype: description.dtype.as_ref(),
            shape: description.shape.as_deref().unwrap_or_default(),
            layer: description.layer.as_ref(),
            inputs: &version.inputs,
            view: (view != 0).then_some(view),
            data: (data != 0 && bytes != 0).then(|| data..data.saturating_add(bytes)),
            since: version.time,
        })
    }

    /// The object was described with another shape, or at another place, at another time.
    pub fn has_changed(&self, object: ObjectId) -> bool {
        self.objects.get(object.0 as usize).is_some_and(|object| object.changed)
    }

    /// The version of the descriptions.
    pub fn descriptions_version(&self) -> DescriptionsVersion {
        self.descriptions_version
    }

    /// A process inherits its parent's objects: searches that failed may succeed now.
    pub(crate) fn forked(&mut self) {
        self.descriptions_version.change(0);
    }

    /// The text's number.
    pub(crate) fn intern(&mut self, text: &str) -> TextId {
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        let cut: String = text.chars().take(MAX_NAME).collect();
        if let Some(id) = self.text_ids.get(cut.as_str()) {
            return *id;
        }
        let is_full = self.texts.len() >= MAX_DESCRIPTIONS;
        if is_full && let Some(id) = self.text_ids.get(OTHER) {
            return *id;
        }
        let id = TextId(number(self.texts.len()));
        let text: Arc<str> = if is_full { OTHER.into() } else { cut.into() };
        self.texts.push(Arc::clone(&text));
        self.text_ids.insert(text, id);
        id
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        let id = self.intern(text);
        Arc::clone(self.text(id))
    }

    /// The number of the object at an address, described or not.
    pub(crate) fn object(&mut self, key: ObjectKey) -> ObjectId {
        let next = ObjectId(number(self.objects.len()));
        let id = *self.object_ids.entry(key).or_insert(next);
        if id == next {
            self.objects.push(Object { versions: Vec::new(), key, changed: false });
        }
        id
    }

    /// Adds an object record: its description holds from its start on. Versions that ended before `needed` are dropped.
    pub(crate) fn describe(
        &mut self,
        process: u32,
        header: &Header,
        record: &[u8],
        decoder: &Decoder,
        rules: &Rules,
        needed: u64,
    ) {
        let mut fields = decoder.values(header, record);
        let Some(address) = find(&fields, FieldMeaning::Address).and_then(address_of) else { return };
        let key = ObjectKey { process, object: header.record_type, address };
        // Fields of probes' records complete the description; its own fields take precedence.
        let joined = self.joined.get(&key).and_then(|joined| joined.iter().rev().find(|of| of.time <= header.start));
        for field in joined.iter().flat_map(|joined| &joined.fields) {
            if !fields.iter().any(|of| of.name == field.name) {
                fields.push(field.clone());
            }
        }
        let address_in = |meaning: FieldMeaning| find(&fields, meaning).and_then(address_of).unwrap_or(0);
        let inputs = find(&fields, FieldMeaning::Inputs).map(addresses_of).unwrap_or_default();
        let lies_at = Place {
            view: address_in(FieldMeaning::View),
            data: address_in(FieldMeaning::Data),
            bytes: rules.bytes(&Fields { fields: &fields, decoder }).unwrap_or(0),
        };
        let description = self.description(&fields, decoder, rules);
        let id = self.object(key);
        let object = &mut self.objects[id.0 as usize];
        let versions = &mut object.versions;
        let place = versions.partition_point(|v| v.time <= header.start);
        let same = |v: &Version| v.description == description && v.inputs == inputs && v.place == lies_at;
        if place > 0 && same(&versions[place - 1]) {
            return;
        }
        object.changed |= versions.iter().any(|v| v.description != description || v.place != lies_at);
        self.descriptions_version.change(header.start);
        versions.insert(place, Version { time: header.start, description, inputs, place: lies_at });
        let oldest = versions.partition_point(|v| v.time <= needed).saturating_sub(1);
        versions.drain(..oldest);
    }

    /// Adds a probe's record that describes an object: from then on, another object is at that address, with these fields.
    pub(crate) fn join(&mut self, process: u32, header: &Header, record: &[u8], decoder: &Decoder, rules: &Rules) {
        let Some(at) = decoder.records.get(usize::from(header.record_type)) else { return };
        let Some(DescribedObject { object, field, at_end }) = at.describes else { return };
        let Some(address) = decoder.value_at(header, record, field).as_ref().and_then(address_of) else { return };
        if address == 0 {
            return; // nothing was created
        }
        let key = ObjectKey { process, object, address };
        let time = if at_end { header.end } else { header.start };
        let mut fields = decoder.values(header, record);
        fields.retain(|of| *of.name != at.layouts[field].name);
        let description = self.description(&fields, decoder, rules);
        let id = self.object(key);
        let versions = &mut self.objects[id.0 as usize].versions;
        let place = versions.partition_point(|v| v.time <= time);
        self.descriptions_version.change(time);
        versions.insert(place, Version { time, description, inputs: Box::default(), place: Place::default() });
        // Objects may be created at one address again and again.
        if versions.len() > MAX_JOINED {
            versions.remove(0);
        }
        let joined = self.joined.entry(key).or_default();
        let place = joined.partition_point(|of| of.time <= time);
        joined.insert(place, Joined { time, fields: fields.into() });
        if joined.len() > MAX_JOINED {
            joined.remove(0);
        }
    }

    /// The description in the record of an operator's span.
    pub(crate) fn inline(
        &mut self,
        process: u32,
        header: &Header,
        record: &[u8],
        decoder: &Decoder,
        rules: &Rules,
    ) -> InlineId {
        let Some(fields) = decoder.records.get(usize::from(header.record_type)) else { return 0 };
        if fields.describing.is_empty() && fields.class.is_none() {
            return 0;
        }
        let site = (header.record_type, header.site);
        if fields.described_by_site
            && let Some(id) = self.by_site.get(&site)
        {
            return *id;
        }
        let read = |index: &usize| decoder.field_value(header, record, *index);
        let values: Vec<FieldValue> = fields.describing.iter().filter_map(read).collect();
        let mut description = self.read_description(&values, decoder, rules);
        let class = fields.class.and_then(|index| decoder.value_at(header, record, index));
        description.class = class.map(|class| self.shared(&class.to_string())).filter(|class| !class.is_empty());
        if let (Some(object), Some(inputs)) = (fields.input_objects, find(&values, FieldMeaning::Inputs)) {
            // What was described last up to the span's start: the memory may be another's when it ends.
            let described = |address: u64| {
                let id = self.object_ids.get(&ObjectKey { process, object, address })?;
                Some(self.version(*id, header.start)?.description)
            };
            // Each keeps its place in the list.
            let input = |address: u64| if address == 0 { NO_INPUT } else { described(address).unwrap_or(0) };
            description.inputs = all_addresses(inputs).map(input).collect();
        }
        let id = self.description_id(description);
        if fields.described_by_site {
            self.by_site.insert(site, id);
        }
        id
    }

    fn description(&mut self, fields: &[FieldValue], decoder: &Decoder, rules: &Rules) -> InlineId {
        let description = self.read_description(fields, decoder, rules);
        self.description_id(description)
    }

    fn read_description(&mut self, fields: &[FieldValue], decoder: &Decoder, rules: &Rules) -> Description {
        let text = |of: &mut Self, meaning| find(fields, meaning).map(|value| of.shared(&value.to_string()));
        let name = text(self, FieldMeaning::Name).filter(|name| !name.is_empty());
        // A kernel's name is its function's.
        let function = name.as_ref().and_then(|name| demangled_or_begun(name));
        Description {
            is_function: function.is_some(),
            name: function.map(|name| self.shared(&name)).or(name),
            op: text(self, FieldMeaning::Op).filter(|op| !op.is_empty()),
            class: None,
            dtype: text(self, FieldMeaning::Dtype),
            shape: find(fields, FieldMeaning::Shape).map(numbers_of),
            parameters: find(fields, FieldMeaning::Parameters).map(numbers_of),
            layer: rules.layer(&Fields { fields, decoder }).map(|layer| self.shared(&layer)),
            constant: find(fields, FieldMeaning::Constant).and_then(Value::as_int).map(|value| value != 0),
            inputs: Arc::default(),
        }
    }

    fn description_id(&mut self, description: Description) -> InlineId {
        let description = match self.descriptions.len() {
            // What changes with each step goes first, then all but the type.
            MAX_DESCRIPTIONS.. if !self.description_ids.contains_key(&description) => {
                let Description { name, is_function, op, class, dtype, layer, .. } = description;
                let name = name.filter(|_| self.descriptions.len() < 2 * MAX_DESCRIPTIONS);
                Description { name, is_function, op, class, dtype, layer, ..Description::default() }
            }
            _ => description,
        };
        if let Some(id) = self.description_ids.get(&description) {
            return *id;
        }
        self.descriptions.push(description.clone());
        let id = number(self.descriptions.len());
        self.description_ids.insert(description, id);
        id
    }

    /// The description of an object at a time, in its process or in its ancestors; 0 if there is none.
    pub(crate) fn described(&self, object: ObjectId, time: u64, parent: &dyn Fn(u32) -> Option<u32>) -> InlineId {
        let of_ancestors = || self.inherited(self.objects.get(object.0 as usize)?.key, time, parent);
        self.version(object, time).or_else(of_ancestors).map_or(0, |version| version.description)
    }

    /// What holds at a time for an address in a process, or in the ones it was forked from.
    fn inherited(&self, key: ObjectKey, time: u64, parent: &dyn Fn(u32) -> Option<u32>) -> Option<&Version> {
        let mut processes = std::iter::successors(Some(key.process), |process| parent(*process)).take(MAX_FORKS);
        processes.find_map(|process| self.version(*self.object_ids.get(&ObjectKey { process, ..key })?, time))
    }

    /// The description of that number; none is 0.
    pub(crate) fn described_as(&self, id: InlineId) -> Option<&Description> {
        (id as usize).checked_sub(1).and_then(|i| self.descriptions.get(i))
    }

    /// The numbers of the descriptions that an object's inputs have at a time; 0 for an input that has none.
    pub(crate) fn describe_inputs(
        &self,
        object: ObjectId,
        time: u64,
        parent: &dyn Fn(u32) -> Option<u32>,
        into: &mut Vec<InlineId>,
    ) {
        let Some(Object { key, .. }) = self.objects.get(object.0 as usize) else { return };
        let found = |key: ObjectKey| self.inherited(key, time, parent);
        let inputs = found(*key).map_or(&[][..], |version| &version.inputs);
        let input = |address: &u64| found(ObjectKey { address: *address, ..*key });
        into.extend(inputs.iter().map(|address| input(address).map_or(0, |version| version.description)));
    }

    /// The objects that an object is computed from, of those that are described.
    pub(crate) fn input_objects(
        &self,
        object: ObjectId,
        time: u64,
        parent: &dyn Fn(u32) -> Option<u32>,
    ) -> Vec<ObjectId> {
        let Some(Object { key, .. }) = self.objects.get(object.0 as usize) else { return Vec::new() };
        let inputs = self.inherited(*key, time, parent).map_or(&[][..], |version| &version.inputs);
        inputs
            .iter()
            .filter_map(|address| self.object_ids.get(&ObjectKey { address: *address, ..*key }))
            .copied()
            .collect()
    }

    fn version(&self, object: ObjectId, time: u64) -> Option<&Version> {
        self.objects.get(object.0 as usize)?.versions.iter().rev().find(|v| v.time <= time)
    }

    /// The operator with these descriptions: of its object, of its span's record (which takes precedence), and of the
    /// object that it covers.
    pub(crate) fn combine(
        &mut self,
        object: InlineId,
        inline: InlineId,
        covers: InlineId,
        record_type: u16,
        probe: &Arc<str>,
    ) -> KindId {
        let key = (object, inline, covers, record_type);
        if let Some(kind) = self.combined.get(&key) {
            return *kind;
        }
        let object = self.description_of(object);
        let inline = self.description_of(inline);
        let covers = self.description_of(covers).name;
        let first = |of: fn(&Description) -> Option<Arc<str>>| of(&inline).or_else(|| of(&object));
        let op = first(|d| d.op.clone());
        let name = first(|d| d.name.clone());
        let layer = first(|d| d.layer.clone());
        let is_function = if inline.name.is_some() { inline.is_function } else { object.is_function };
        // The digits of a function, or of a type, are no layer's.
        let is_whole = is_function || name.is_none();
        let described = op.is_some() || name.is_some();
        let shape = inline.shape.clone().or_else(|| object.shape.clone());
        let op = op.or_else(|| inline.class.clone()).unwrap_or_else(|| Arc::clone(probe));
        let name = name.unwrap_or_else(|| Arc::clone(&op));
        let kind = Kind {
            pattern: if is_whole { Arc::clone(&name) } else { self.shared(&collapse_digits(&name, layer.as_deref())) },
            dtype: first(|d| d.dtype.clone()),
            layer,
            layer_inferred: false,
            scalar: shape.as_ref().is_some_and(|shape| shape.is_empty()),
            shape: shape.unwrap_or_default(),
            parameters: inline.parameters.or(object.parameters).unwrap_or_default(),
            name,
            op,
            covers,
            described,
            inputs: inline.inputs,
        };
        let id = self.kind_id(kind);
        self.combined.insert(key, id);
        id
    }

    fn kind_id(&mut self, kind: Kind) -> KindId {
        let kind = self.bounded(kind);
        *self.kind_ids.entry(kind).or_insert_with_key(|kind| {
            self.kinds.push(kind.clone());
            KindId(number(self.kinds.len() - 1))
        })
    }

    /// The same operator as one of a layer that its description does not have.
    pub(crate) fn with_layer(&mut self, id: KindId, layer: &Arc<str>) -> KindId {
        let key = (id, Arc::clone(layer));
        if let Some(kind) = self.inferred.get(&key) {
            return *kind;
        }
        if self.inferred.len() >= MAX_KINDS {
            return id;
        }
        let kind = Kind { layer: Some(Arc::clone(layer)), layer_inferred: true, ..self.kind(id).clone() };
        let found = self.kind_id(kind);
        self.inferred.insert(key, found);
        found
    }

    /// The operator itself while there are few, then one that stands for the others of its type.
    fn bounded(&mut self, kind: Kind) -> Kind {
        if self.kinds.len() < MAX_KINDS || self.kind_ids.contains_key(&kind) {
            return kind;
        }
        self.merged += 1;
        let other = self.shared(OTHER);
        let op = if self.kinds.len() < MAX_KINDS + MAX_MERGED { kind.op } else { Arc::clone(&other) };
        Kind {
            name: Arc::clone(&other),
            pattern: other,
            op,
            dtype: None,
            shape: Arc::default(),
            parameters: Arc::default(),
            scalar: false,
            layer: None,
            layer_inferred: false,
            covers: None,
            described: kind.described,
            inputs: Arc::default(),
        }
    }

    fn description_of(&self, id: InlineId) -> Description {
        self.described_as(id).cloned().unwrap_or_default()
    }
}

/// Numbers are 32 bits wide; a trace that has more of anything distinct shares the last one.
fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Fields of one record as an expression sees them: fields first, then constants.
struct Fields<'a> {
    fields: &'a [FieldValue],
    decoder: &'a Decoder,
}

impl Environment for Fields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        let field = self.fields.iter().find(|field| &*field.name == name);
        field.map(|field| field.value.clone()).or_else(|| self.decoder.constant(name))
    }
}

/// The value of the first field with a meaning.
fn find(fields: &[FieldValue], meaning: FieldMeaning) -> Option<&Value> {
    fields.iter().find(|field| field.meaning == Some(meaning)).map(|field| &field.value)
}

fn addresses_of(value: &Value) -> Box<[u64]> {
    all_addresses(value).filter(|address| *address != 0).collect()
}

fn numbers_of(value: &Value) -> Arc<[i64]> {
    match value {
        Value::List(items) => items.iter().take(MAX_DIMENSIONS).filter_map(Value::as_int).collect(),
        one => one.as_int().into_iter().collect(),
    }
}
