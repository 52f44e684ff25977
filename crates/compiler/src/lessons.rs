//! What can be learned of a target's memory: the members of objects that a probeset gives no place, but conditions.

use super::model::{ObjectPlan, ProbePlan, RelocationKind};
use profinfer_probeset::path::{Base, Checked, Memory, Node, Term, Type};
use profinfer_probeset::{Expected, Probeset};

/// Offsets at which a member is tried beside those that the probeset has.
const SHIFTS: [i64; 4] = [8, -8, 16, -16];

/// The fields of one object whose place can be searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// The object.
    pub object: String,
    /// Its record type.
    pub record: usize,
    /// The fields.
    pub paths: Vec<LearnPath>,
}

/// The way from an object to one of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnPath {
    /// The field.
    pub field: usize,
    /// Members from the object on, each but the last a pointer.
    pub levels: Vec<LearnLevel>,
    /// What is there.
    pub leaf: LearnLeaf,
    /// What must be true of it.
    pub expected: Vec<Expected>,
}

/// One member on the way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LearnLevel {
    /// `view.member`.
    pub member: String,
    /// The view.
    pub view: String,
    /// The constant with its offset.
    pub symbol: String,
    /// Bytes of the view that are searched; 0: the member has another source.
    pub within: u64,
    /// Offsets that are tried first.
    pub hints: Vec<u64>,
}

/// What a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnLeaf {
    /// A pointer to text of at most so many bytes.
    Pointed(usize),
    /// A C++ string of which so many bytes are read.
    Str(usize),
    /// Text in place.
    InPlace(usize),
    /// An integer of so many bytes.
    Int(usize, bool),
    /// So many integers in place: bytes of each, whether they are signed, their number.
    Array(usize, bool, usize),
    /// A C++ vector of integers: bytes of each, whether they are signed.
    Vector(usize, bool),
}

/// What can be learned for a plan.
pub fn lessons(plan: &ProbePlan, probeset: &Probeset) -> Vec<Lesson> {
    let lesson = |object: &ObjectPlan| {
        let paths: Vec<LearnPath> = object
            .fields
            .iter()
            .filter_map(|field| path(plan, probeset, &field.value, field.index))
            .filter(|path| path.levels.iter().any(|level| level.within > 0))
            .collect();
        (!paths.is_empty()).then(|| Lesson { object: object.name.clone(), record: object.record, paths })
    };
    plan.objects.iter().filter_map(lesson).collect()
}

/// Whether a constant may be filled in while the recording runs.
pub(crate) fn is_learnable(plan: &ProbePlan, probeset: &Probeset, what: &RelocationKind) -> bool {
    let within = |view: &str| probeset.types.get(view).is_some_and(|view| view.within.is_some());
    match what {
        RelocationKind::Offset { view, .. } => within(view),
        RelocationKind::BlockStart { object } | RelocationKind::BlockLength { object } => {
            plan.objects.iter().any(|of| of.name == *object && within(&of.view))
        }
        RelocationKind::Absent { record } => plan.objects.iter().any(|of| {
            let reads = |checked: &Checked| {
                let mut found = false;
                checked.visit(&mut |part| {
                    let terms = part.place().map(|(memory, _)| memory.terms.as_slice()).unwrap_or_default();
                    found |= terms.iter().any(|term| matches!(term, Term::Member { view, .. } if within(view)));
                });
                found
            };
            of.record == *record && of.fields.iter().any(|field| reads(&field.value))
        }),
        _ => false,
    }
}

fn path(plan: &ProbePlan, probeset: &Probeset, value: &Checked, field: usize) -> Option<LearnPath> {
    let (place, leaf) = leaf(value)?;
    let mut levels = Vec::new();
    levels_of(plan, probeset, place, &mut levels)?;
    // A field that reads something else, too, is not there when this is found.
    let is_on_the_way = |view: &str, member: &str| {
        let mut on_the_way = levels.iter().map(|level| level.member.strip_prefix(view)?.strip_prefix('.'));
        on_the_way.any(|of| of == Some(member))
    };
    if !members_of(value).into_iter().all(|(view, member)| is_on_the_way(view, member)) {
        return None;
    }
    let last: &LearnLevel = levels.last()?;
    let member = last.member.rsplit('.').next()?;
    let expected = probeset.types.get(&last.view)?.expect.get(member)?;
    let expected: Vec<Expected> = expected.iter().map(|expected| expected.value).collect();
    (!expected.is_empty()).then_some(LearnPath { field, levels, leaf, expected })
}

/// The members that an expression reads.
fn members_of(value: &Checked) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut parts = vec![value];
    while let Some(part) = parts.pop() {
        let terms = part.place().map(|(memory, _)| memory.terms.as_slice()).unwrap_or_default();
        found.extend(terms.iter().filter_map(|term| match term {
            Term::Member { view, member } => Some((view.as_str(), member.as_str())),
            Term::Element { .. } => None,
        }));
        parts.extend(part.children());
    }
    found
}

/// The vector of integers whose elements an expression has.
fn vector_of(value: &Checked) -> Option<(&Memory, LearnLeaf)> {
    let mut parts = vec![value];
    while let Some(part) = parts.pop() {
        if let Node::VectorElement { vector, of: Type::Int { size, signed }, .. } = &part.node {
            return Some((vector, LearnLeaf::Vector(*size as usize, *signed)));
        }
        parts.extend(part.children());
    }
    None
}

/// What a field is, and the place that it is at.
fn leaf(value: &Checked) -> Option<(&Memory, LearnLeaf)> {
    if let Some(found) = vector_of(value) {
        return Some(found);
    }
    let Node::Memory(memory) = &value.node else { return None };
    let leaf = match &value.ty {
        Type::CStr(bytes) => LearnLeaf::Pointed(usize::try_from(*bytes).ok()?),
        Type::StdString(bytes) => LearnLeaf::Str(usize::try_from(*bytes).ok()?),
        Type::Chars(bytes) => LearnLeaf::InPlace(usize::try_from(*bytes).ok()?),
        Type::Int { size, signed } => LearnLeaf::Int(*size as usize, *signed),
        Type::Enum(_) => LearnLeaf::Int(4, true),
        Type::Array(of, count) => {
            let Type::Int { size, signed } = **of else { return None };
            LearnLeaf::Array(size as usize, signed, usize::try_from(*count).ok()?)
        }
        _ => return None,
    };
    Some((memory, leaf))
}

fn levels_of(plan: &ProbePlan, probeset: &Probeset, place: &Memory, into: &mut Vec<LearnLevel>) -> Option<()> {
    let Memory { base, terms } = place;
    match base {
        Base::Object => {}
        Base::Pointer(pointer) => {
            let Node::Memory(place) = &pointer.node else { return None };
            levels_of(plan, probeset, place, into)?;
        }
        Base::Argument(_) => return None,
    }
    let [Term::Member { view, member }] = terms.as_slice() else { return None };
    let kind = RelocationKind::Offset { view: view.clone(), member: member.clone() };
    let symbol = plan.symbol(&kind)?.to_owned();
    let declared = probeset.types.get(view)?;
    let written = declared.members.get(member)?;
    let given = declared.layouts.iter().filter_map(|layout| layout.at.get(member).copied());
    let written: Vec<u64> = written.offset.into_iter().chain(given).collect();
    let shifted = written.iter().flat_map(|at| SHIFTS.iter().filter_map(|shift| at.checked_add_signed(*shift)));
    let hints = written.iter().copied().chain(shifted).collect();
    into.push(LearnLevel {
        member: format!("{view}.{member}"),
        view: view.clone(),
        symbol,
        within: declared.within.unwrap_or(0),
        hints,
    });
    Some(())
}
