//! The fields of a record type by their meaning, resolved once by the trace's schema: reading one is a bounds check and
//! a load.

use super::counters::CountersAt;
use super::header::NumberAt;
use profinfer_schema::{FieldLayout, FieldMeaning, FieldType, RecordKind, RecordType, Role, Schema};
use std::sync::Arc;

/// A field that is an object's address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectAt {
    /// Index of the object's record type; `u16::MAX` where the schema has none.
    pub(crate) object: u16,
    at: NumberAt,
}

impl ObjectAt {
    /// The address; `None` where it could not be read or is null.
    pub(crate) fn read(&self, record: &[u8], missing: u16) -> Option<u64> {
        self.at.read(record, missing).filter(|address| *address != 0)
    }
}

/// The object that a record describes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescribedObject {
    /// Index of the object's record type.
    pub(crate) object: u16,
    /// Index of the field with its address.
    pub(crate) field: usize,
    /// The description holds from the record's end on; else from its start.
    pub(crate) at_end: bool,
}

/// One record type.
#[derive(Debug)]
pub(crate) struct RecordFields {
    /// What it is.
    pub(crate) kind: RecordKind,
    /// Another engine's, in the same recording.
    pub(crate) of_another: bool,
    /// The probe's role.
    pub(crate) role: Option<Role>,
    /// The probe's or object's name.
    pub(crate) name: Arc<str>,
    /// Bytes of the fixed part; a list's elements follow.
    pub(super) fixed_size: usize,
    /// Its fields.
    pub(crate) layouts: Vec<FieldLayout>,
    /// Their names.
    pub(crate) names: Vec<Arc<str>>,
    /// Their meanings.
    pub(crate) meanings: Vec<Option<FieldMeaning>>,
    pub(crate) node: Option<ObjectAt>,
    pub(crate) covers: Option<ObjectAt>,
    pub(crate) previous: Option<ObjectAt>,
    pub(crate) source: Option<ObjectAt>,
    pub(crate) graph_last: Option<ObjectAt>,
    /// Fields that describe the operator.
    pub(crate) describing: Vec<usize>,
    /// The field that tells an operator's function or class: a capture of the site without a reserved meaning.
    pub(crate) class: Option<usize>,
    /// Index of the record type of the objects that the field `inputs` lists.
    pub(crate) input_objects: Option<u16>,
    /// All of `describing` are captures of the site: the site determines them.
    pub(crate) described_by_site: bool,
    /// There are fields without a reserved meaning: they are shown as arguments.
    pub(crate) arguments: bool,
    /// Counters of the span.
    pub(crate) counters: CountersAt,
    pub(crate) describes: Option<DescribedObject>,
    /// Fields that are texts.
    pub(super) texts: Vec<usize>,
    /// Index of the field of each meaning.
    indices: [Option<usize>; MEANINGS],
    /// Where the number of each meaning is.
    numbers: [Option<NumberAt>; MEANINGS],
}

const MEANINGS: usize = FieldMeaning::ALL.len();

impl RecordFields {
    pub(super) fn new(record: &RecordType, schema: &Schema, columns: &[Arc<str>]) -> Self {
        let find = |name: &str| record.fields.iter().position(|f| f.name == name);
        let indices = FieldMeaning::ALL.map(|meaning| find(meaning.name()));
        let number = |index: usize| NumberAt::of(&record.fields[index], index);
        let object = |meaning: FieldMeaning| {
            let index = indices[meaning as usize]?;
            let object = match &record.fields[index].ty {
                FieldType::Object(of) => object_type(schema, of),
                _ => u16::MAX,
            };
            number(index).map(|at| ObjectAt { object, at })
        };
        let meanings: Vec<Option<FieldMeaning>> = record.fields.iter().map(|f| FieldMeaning::of(&f.name)).collect();
        let described = FieldMeaning::ALL.into_iter().filter(|meaning| meaning.is_description());
        let describing: Vec<usize> = described.filter_map(|meaning| indices[meaning as usize]).collect();
        let is_class = |(field, meaning): (&FieldLayout, &Option<FieldMeaning>)| {
            record.role == Some(Role::Operator) && meaning.is_none() && matches!(field.ty, FieldType::Match(_))
        };
        let is_reserved = |meaning: FieldMeaning| meaning.is_description() || meaning.is_placement();
        let is_argument = |(field, meaning): (&FieldLayout, &Option<FieldMeaning>)| {
            !meaning.is_some_and(is_reserved) && !is_counter(&field.ty)
        };
        Self {
            kind: record.kind,
            of_another: false,
            role: record.role,
            name: record.name.as_str().into(),
            fixed_size: record.size as usize,
            layouts: record.fields.clone(),
            names: record.fields.iter().map(|field| field.name.as_str().into()).collect(),
            node: object(FieldMeaning::Node),
            input_objects: indices[FieldMeaning::Inputs as usize].and_then(|index| match &record.fields[index].ty {
                FieldType::Array(of, _) | FieldType::List(of, _) => match of.as_ref() {
                    FieldType::Object(of) => Some(object_type(schema, of)),
                    _ => None,
                },
                _ => None,
            }),
            covers: object(FieldMeaning::Covers),
            previous: object(FieldMeaning::Previous),
            source: object(FieldMeaning::Source),
            graph_last: object(FieldMeaning::GraphLast),
            described_by_site: describing.iter().all(|i| matches!(record.fields[*i].ty, FieldType::Match(_))),
            describing,
            class: record.fields.iter().zip(&meanings).position(is_class),
            arguments: record.fields.iter().zip(&meanings).any(is_argument),
            counters: CountersAt::of(record, columns),
            describes: schema.describes.get(&record.name).filter(|_| record.kind != RecordKind::Object).and_then(
                |of| {
                    let (object, field) = (object_type(schema, &of.object), find(&of.field)?);
                    Some(DescribedObject { object, field, at_end: of.at_end })
                },
            ),
            texts: (0..record.fields.len()).filter(|i| matches!(record.fields[*i].ty, FieldType::Text(_))).collect(),
            meanings,
            indices,
            numbers: indices.map(|index| number(index?)),
        }
    }

    /// Index of the field with a meaning.
    pub(crate) fn index(&self, meaning: FieldMeaning) -> Option<usize> {
        self.indices[meaning as usize]
    }

    /// Whether the record type has a field with a meaning.
    pub(crate) fn has(&self, meaning: FieldMeaning) -> bool {
        self.index(meaning).is_some()
    }

    /// A number by its meaning, sign-extended; `None` if the record type has no such field or it was not read.
    pub(crate) fn number(&self, meaning: FieldMeaning, record: &[u8], missing: u16) -> Option<u64> {
        self.numbers[meaning as usize]?.read(record, missing)
    }

    /// The same, if it is not negative.
    pub(crate) fn count(&self, meaning: FieldMeaning, record: &[u8], missing: u16) -> Option<u64> {
        self.numbers[meaning as usize]?.read_count(record, missing)
    }

    /// The same, if it fits 32 bits.
    pub(crate) fn number_u32(&self, meaning: FieldMeaning, record: &[u8], missing: u16) -> Option<u32> {
        self.numbers[meaning as usize]?.read_u32(record, missing)
    }
}

fn is_counter(ty: &FieldType) -> bool {
    matches!(ty, FieldType::Counter | FieldType::Scaled)
}

fn object_type(schema: &Schema, name: &str) -> u16 {
    let position = schema.records.iter().position(|r| r.kind == RecordKind::Object && r.name == name);
    position.and_then(|i| u16::try_from(i).ok()).unwrap_or(u16::MAX)
}

/// Whether graphs of a schema have a backend. Otherwise they are named by their probe, which is no backend.
pub fn graphs_have_backend(schema: &Schema) -> bool {
    let mut graphs = schema.records.iter().filter(|record| record.role == Some(Role::Graph));
    graphs.any(|graph| graph.fields.iter().any(|field| FieldMeaning::of(&field.name) == Some(FieldMeaning::Backend)))
}
