//! What operators are: descriptions of objects, each with the time from which it holds, and the distinct operators
//! that come of them. Grows with the number of distinct operators, not with the number of spans.

use super::fields::{Decoder, Header};
use super::hash::FastMap;
use super::known_operators::Descriptions;
use super::rules::Rules;
use crate::path::{Environment, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Dimensions of a shape that are kept.
const MAX_DIMENSIONS: usize = 16;
/// Inputs of an operator that are kept.
const MAX_INPUTS: usize = 256;
/// Characters of a name that are kept.
const MAX_NAME: usize = 256;
/// Objects that were one after the other at one address, of which is kept what probes said.
const MAX_JOINED: usize = 16;
/// Forks that a description is looked for through.
const MAX_FORKS: usize = 8;

/// A distinct operator: all that descriptions say of it. Operators of different graphs, steps and addresses that are
/// described alike are one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Its name; its type, where it has no name.
    pub name: Arc<str>,
    /// The name without its numbers: see [`collapse_digits`].
    pub pattern: Arc<str>,
    /// Its type; the probe's name, where nothing says it.
    pub op: Arc<str>,
    /// Type of its elements.
    pub dtype: Option<Arc<str>>,
    /// Extent in each dimension, as the engine orders them.
    pub shape: Arc<[i64]>,
    /// The layer of the model, by the probeset's `layer` expression.
    pub layer: Option<Arc<str>>,
    /// The operator that was computed along with it (a fused one): its name.
    pub covers: Option<Arc<str>>,
    /// Something described it: its object or its own record.
    pub described: bool,
}

/// What one record says of an operator; what it leaves open another may say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Description {
    pub(super) name: Option<Arc<str>>,
    pub(super) op: Option<Arc<str>>,
    pub(super) dtype: Option<Arc<str>>,
    pub(super) shape: Option<Arc<[i64]>>,
    pub(super) layer: Option<Arc<str>>,
}

/// A description of an object, from a time on.
#[derive(Debug)]
struct Version {
    time: u64,
    description: u32,
    inputs: Box<[u64]>,
    place: Place,
}

/// What a probe said of an object, from a time on.
#[derive(Debug)]
struct Joined {
    time: u64,
    fields: Box<[(Arc<str>, Value)]>,
}

/// Where an object's data lies; 0 is what is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    /// The object whose data it looks at.
    view: u64,
    data: u64,
    bytes: u64,
}

/// What is known of an object at a time.
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
    /// Address of the object whose data it looks at, or is written into.
    pub view: Option<u64>,
    /// Where its data lies, as far as its size is known.
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
pub(super) struct ObjectKey {
    pub(super) process: u32,
    pub(super) object: u16,
    pub(super) address: u64,
}

/// Number of an object. Each address that was seen has one, described or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId(pub(super) u32);

/// Number of a [`Kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(pub(super) u32);

/// Number of an interned text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub(super) u32);

/// What a span's own record says of its operator: number of a description, from 1; 0 where it says nothing.
pub(super) type InlineId = u32;

/// Every description, operator and text of a trace so far.
#[derive(Debug, Default)]
pub struct Catalogue {
    texts: Vec<Arc<str>>,
    text_ids: FastMap<Arc<str>, TextId>,
    descriptions: Vec<Description>,
    description_ids: HashMap<Description, u32>,
    objects: Vec<Object>,
    object_ids: FastMap<ObjectKey, ObjectId>,
    by_site: FastMap<(u16, u16), InlineId>,
    /// What probes said of objects beside what the objects' own descriptions say.
    joined: FastMap<ObjectKey, Vec<Joined>>,
    kinds: Vec<Kind>,
    kind_ids: HashMap<Kind, KindId>,
    combined: FastMap<(InlineId, InlineId, InlineId, u16), KindId>,
    as_described: Descriptions,
}

impl Catalogue {
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

    /// What is known of an object at a time.
    pub fn at(&self, object: ObjectId, time: u64) -> Option<Described<'_>> {
        let version = self.version(object, time)?;
        let said = self.described_as(version.description)?;
        let Place { view, data, bytes } = version.place;
        Some(Described {
            name: said.name.as_ref(),
            op: said.op.as_ref(),
            dtype: said.dtype.as_ref(),
            shape: said.shape.as_deref().unwrap_or_default(),
            layer: said.layer.as_ref(),
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

    /// Descriptions as they stand.
    pub(super) fn as_described(&self) -> Descriptions {
        self.as_described
    }

    /// A process has another's objects from now on: what was looked for in vain may be found there.
    pub(super) fn forked(&mut self) {
        self.as_described.change(0);
    }

    /// The text's number.
    pub(super) fn intern(&mut self, text: &str) -> TextId {
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        let cut: String = text.chars().take(MAX_NAME).collect();
        if let Some(id) = self.text_ids.get(cut.as_str()) {
            return *id;
        }
        let id = TextId(number(self.texts.len()));
        let text: Arc<str> = cut.into();
        self.texts.push(Arc::clone(&text));
        self.text_ids.insert(text, id);
        id
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        let id = self.intern(text);
        Arc::clone(self.text(id))
    }

    /// The number of the object at an address, described or not.
    pub(super) fn object(&mut self, key: ObjectKey) -> ObjectId {
        let next = ObjectId(number(self.objects.len()));
        let id = *self.object_ids.entry(key).or_insert(next);
        if id == next {
            self.objects.push(Object { versions: Vec::new(), key, changed: false });
        }
        id
    }

    /// Takes an object record: from its start on, the object is as it says. Versions that ended before `needed` are
    /// forgotten.
    pub(super) fn describe(
        &mut self,
        process: u32,
        header: &Header,
        record: &[u8],
        (decoder, rules): (&Decoder, &Rules),
        needed: u64,
    ) {
        let mut fields = decoder.fields(header, record);
        let Some(address) = fields.iter().find(|(n, _)| &**n == "address").and_then(|(_, v)| address_of(v)) else {
            return;
        };
        let key = ObjectKey { process, object: header.record, address };
        // What is known of it by others as well; its own description has the last word.
        let others = self.joined.get(&key).and_then(|said| said.iter().rev().find(|said| said.time <= header.start));
        for (name, value) in others.iter().flat_map(|said| &said.fields) {
            if !fields.iter().any(|(own, _)| own == name) {
                fields.push((Arc::clone(name), value.clone()));
            }
        }
        let find = |name: &str| fields.iter().find(|(n, _)| &**n == name).map(|(_, v)| v);
        let inputs = find("inputs").map(addresses_of).unwrap_or_default();
        let lies_at = Place {
            view: find("view").and_then(address_of).unwrap_or(0),
            data: find("data").and_then(address_of).unwrap_or(0),
            bytes: rules.bytes(&Fields { fields: &fields, decoder }).unwrap_or(0),
        };
        let description = self.description(&fields, (decoder, rules));
        let id = self.object(key);
        let object = &mut self.objects[id.0 as usize];
        let versions = &mut object.versions;
        let place = versions.partition_point(|v| v.time <= header.start);
        let same = |v: &Version| v.description == description && v.inputs == inputs && v.place == lies_at;
        if place > 0 && same(&versions[place - 1]) {
            return;
        }
        object.changed |= versions.iter().any(|v| v.description != description || v.place != lies_at);
        self.as_described.change(header.start);
        versions.insert(place, Version { time: header.start, description, inputs, place: lies_at });
        let oldest = versions.partition_point(|v| v.time <= needed).saturating_sub(1);
        versions.drain(..oldest);
    }

    /// Takes a probe's record that describes an object: from then on, the object at that address is another one, of which
    /// this is known, until it is described anew.
    pub(super) fn join(&mut self, process: u32, header: &Header, record: &[u8], (decoder, rules): (&Decoder, &Rules)) {
        let Some(at) = decoder.records.get(usize::from(header.record)) else { return };
        let Some((object, field, at_end)) = at.describes else { return };
        let Some(address) = decoder.value_at(header, record, field).as_ref().and_then(address_of) else { return };
        if address == 0 {
            return; // nothing was made
        }
        let key = ObjectKey { process, object, address };
        let time = if at_end { header.end } else { header.start };
        let mut fields = decoder.fields(header, record);
        fields.retain(|(name, _)| **name != at.layouts[field].name);
        let description = self.description(&fields, (decoder, rules));
        let id = self.object(key);
        let versions = &mut self.objects[id.0 as usize].versions;
        let place = versions.partition_point(|v| v.time <= time);
        self.as_described.change(time);
        versions.insert(place, Version { time, description, inputs: Box::default(), place: Place::default() });
        // What is made anew again and again at one address is not remembered for ever.
        if versions.len() > MAX_JOINED {
            versions.remove(0);
        }
        let said = self.joined.entry(key).or_default();
        let place = said.partition_point(|said| said.time <= time);
        said.insert(place, Joined { time, fields: fields.into() });
        if said.len() > MAX_JOINED {
            said.remove(0);
        }
    }

    /// What the record of an operator's span itself says of it.
    pub(super) fn inline(&mut self, header: &Header, record: &[u8], (decoder, rules): (&Decoder, &Rules)) -> InlineId {
        let Some(fields) = decoder.records.get(usize::from(header.record)) else { return 0 };
        if fields.describing.is_empty() {
            return 0;
        }
        let site = (header.record, header.site);
        if fields.described_by_site
            && let Some(id) = self.by_site.get(&site)
        {
            return *id;
        }
        let read = |i: &usize| Some((Arc::clone(fields.names.get(*i)?), decoder.value_at(header, record, *i)?));
        let values: Vec<(Arc<str>, Value)> = fields.describing.iter().filter_map(read).collect();
        let id = self.description(&values, (decoder, rules));
        if fields.described_by_site {
            self.by_site.insert(site, id);
        }
        id
    }

    fn description(&mut self, fields: &[(Arc<str>, Value)], (decoder, rules): (&Decoder, &Rules)) -> InlineId {
        let find = |name: &str| fields.iter().find(|(n, _)| &**n == name).map(|(_, v)| v);
        let mut text = |name: &str| find(name).map(|value| self.shared(&value.to_string()));
        let description = Description {
            name: text("name").filter(|name| !name.is_empty()),
            op: text("op").filter(|op| !op.is_empty()),
            dtype: text("dtype"),
            shape: find("shape").map(shape_of),
            layer: rules.layer(&Fields { fields, decoder }).map(|layer| self.shared(&layer)),
        };
        if let Some(id) = self.description_ids.get(&description) {
            return *id;
        }
        self.descriptions.push(description.clone());
        let id = number(self.descriptions.len());
        self.description_ids.insert(description, id);
        id
    }

    /// The number of the description that holds for an object at a time, looked for in its process and then in the
    /// ones it was forked from; 0 where there is none.
    pub(super) fn described(&self, object: ObjectId, time: u64, parent: &dyn Fn(u32) -> Option<u32>) -> InlineId {
        let of_ancestors = || self.inherited(self.objects.get(object.0 as usize)?.key, time, parent);
        self.version(object, time).or_else(of_ancestors).map_or(0, |version| version.description)
    }

    /// What holds at a time for an address in a process, or in the ones it was forked from.
    fn inherited(&self, key: ObjectKey, time: u64, parent: &dyn Fn(u32) -> Option<u32>) -> Option<&Version> {
        let mut processes = std::iter::successors(Some(key.process), |process| parent(*process)).take(MAX_FORKS);
        processes.find_map(|process| self.version(*self.object_ids.get(&ObjectKey { process, ..key })?, time))
    }

    /// The description of that number; none is 0.
    pub(super) fn described_as(&self, id: InlineId) -> Option<&Description> {
        (id as usize).checked_sub(1).and_then(|i| self.descriptions.get(i))
    }

    /// The numbers of the descriptions that an object's inputs have at a time; 0 for an input that has none.
    pub(super) fn describe_inputs(
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

    fn version(&self, object: ObjectId, time: u64) -> Option<&Version> {
        self.objects.get(object.0 as usize)?.versions.iter().rev().find(|v| v.time <= time)
    }

    /// The operator of which an object, its span's own record, and what it covers say this. The span's own record
    /// has the last word.
    pub(super) fn combine(
        &mut self,
        object: InlineId,
        inline: InlineId,
        covers: InlineId,
        (record, probe): (u16, &Arc<str>),
    ) -> KindId {
        let key = (object, inline, covers, record);
        if let Some(kind) = self.combined.get(&key) {
            return *kind;
        }
        let object = self.description_of(object);
        let inline = self.description_of(inline);
        let covers = self.description_of(covers).name;
        let said = |of: fn(&Description) -> Option<Arc<str>>| of(&inline).or_else(|| of(&object));
        let op = said(|d| d.op.clone());
        let name = said(|d| d.name.clone());
        let layer = said(|d| d.layer.clone());
        let described = op.is_some() || name.is_some();
        let op = op.unwrap_or_else(|| Arc::clone(probe));
        let name = name.unwrap_or_else(|| Arc::clone(&op));
        let kind = Kind {
            pattern: self.shared(&collapse_digits(&name, layer.as_deref())),
            dtype: said(|d| d.dtype.clone()),
            layer,
            shape: inline.shape.or(object.shape).unwrap_or_default(),
            name,
            op,
            covers,
            described,
        };
        let id = *self.kind_ids.entry(kind).or_insert_with_key(|kind| {
            self.kinds.push(kind.clone());
            KindId(number(self.kinds.len() - 1))
        });
        self.combined.insert(key, id);
        id
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
    fields: &'a [(Arc<str>, Value)],
    decoder: &'a Decoder,
}

impl Environment for Fields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        let field = self.fields.iter().find(|(n, _)| &**n == name);
        field.map(|(_, value)| value.clone()).or_else(|| self.decoder.constant(name))
    }
}

/// The address that a field holds.
pub(super) fn address_of(value: &Value) -> Option<u64> {
    match value {
        Value::Object(address) => Some(*address),
        Value::Int(n) => Some(n.cast_unsigned()),
        _ => None,
    }
}

fn addresses_of(value: &Value) -> Box<[u64]> {
    match value {
        Value::List(items) => items.iter().take(MAX_INPUTS).filter_map(address_of).filter(|a| *a != 0).collect(),
        one => address_of(one).into_iter().filter(|a| *a != 0).collect(),
    }
}

fn shape_of(value: &Value) -> Arc<[i64]> {
    match value {
        Value::List(items) => items.iter().take(MAX_DIMENSIONS).filter_map(Value::as_int).collect(),
        one => one.as_int().into_iter().collect(),
    }
}

/// A name that the same operator of every layer has: each run of digits that is the layer's number becomes `*`; where
/// none is, or there is no layer, every run of digits does.
pub fn collapse_digits(name: &str, layer: Option<&str>) -> String {
    let of_layer = |run: &str| layer.is_some_and(|layer| layer == run);
    let collapsed = collapse_runs(name, of_layer);
    collapsed.unwrap_or_else(|| collapse_runs(name, |_| true).unwrap_or_else(|| name.to_owned()))
}

/// `None` where no run was replaced.
fn collapse_runs(name: &str, replaced: impl Fn(&str) -> bool) -> Option<String> {
    let mut pattern = String::with_capacity(name.len());
    let mut any = false;
    let mut rest = name;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (run, after) = from.split_at(end);
        pattern.push_str(before);
        let replace = replaced(run);
        pattern.push_str(if replace { "*" } else { run });
        any |= replace;
        rest = after;
    }
    pattern.push_str(rest);
    any.then_some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_collapse() {
        assert_eq!(collapse_digits("blk.12.ffn_up-3", None), "blk.*.ffn_up-*");
        assert_eq!(collapse_digits("/model/layers.10/Add_1", None), "/model/layers.*/Add_*");
        assert_eq!(collapse_digits("norm", None), "norm");
        assert_eq!(collapse_digits("", None), "");
    }

    #[test]
    fn only_the_layers_own_digits_collapse_where_they_are_there() {
        assert_eq!(collapse_digits("ffn_2-12", Some("12")), "ffn_2-*");
        assert_eq!(collapse_digits("h.2.fc2", Some("2")), "h.*.fc*");
        assert_eq!(collapse_digits("node_31", Some("7")), "node_*");
    }
}
