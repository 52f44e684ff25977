//! Types as the debug information has them: layouts, enumerations, and the types of members. Every chain and tree is
//! bounded, because debug information can be forged to go round in circles.

use super::scan::is_record;
use super::sections::Reader;
use super::unit::{Debug, Entry, EntryOffset, Unit};
use crate::{Layout, TargetType};
use gimli::{AttributeValue, Operation};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Typedefs and qualifiers in a row.
pub(super) const MAX_CHAIN: usize = 64;
/// Pointers to arrays of pointers to …
const MAX_NESTING: usize = 16;
/// Base classes and anonymous members inside one another.
const MAX_INHERITANCE: usize = 32;
/// Members of one record, or constants of one enumeration.
const MAX_ENTRIES: usize = 1 << 16;
/// Members and constants that are read for all the names asked at once.
const MAX_READ: usize = 1 << 22;
/// Types whose qualified names are searched for, each at the cost of a walk over its unit.
const MAX_NAMES: usize = 1 << 10;
/// Bytes of a struct.
const MAX_SIZE: u64 = 1 << 32;
/// Elements of an array.
const MAX_ELEMENTS: u64 = 1 << 32;
/// Bytes of an integer or floating-point number.
const MAX_NUMBER: u64 = 16;

/// Reads types; caches the units that it has opened.
#[derive(Debug)]
pub(super) struct Types<'a> {
    debug: &'a Debug<'a>,
    units: RefCell<HashMap<usize, Option<Rc<Unit<'a>>>>>,
    names: RefCell<HashMap<EntryOffset, String>>,
    pub(super) alignments: RefCell<HashMap<EntryOffset, Option<u64>>>,
    /// Entries that may still be read.
    fuel: Cell<usize>,
}

/// An entry, the unit it is in, and the last typedef's name on the way to it.
struct Type<'a> {
    unit: Rc<Unit<'a>>,
    entry: Entry<'a>,
    alias: Option<String>,
}

impl<'a> Types<'a> {
    pub(super) fn new(debug: &'a Debug<'a>) -> Self {
        Self {
            debug,
            units: RefCell::default(),
            names: RefCell::default(),
            alignments: RefCell::default(),
            fuel: Cell::new(MAX_READ),
        }
    }

    /// The layout of the struct, class or union at a place, or that the typedef there leads to; `None` where that is
    /// none, is only declared, or cannot be true.
    pub(super) fn layout(&self, place: EntryOffset) -> Option<Layout> {
        let record = self.strip(place)?;
        if !is_record(record.entry.tag()) || is_declaration(&record.entry) {
            return None;
        }
        let size = number(&record.entry, gimli::DW_AT_byte_size).filter(|size| *size <= MAX_SIZE)?;
        let align = self.alignment(EntryOffset { unit: record.unit.number, offset: record.entry.offset() });
        let mut layout = Layout { size, align, members: BTreeMap::new() };
        self.collect(&record, 0, 0, &mut layout)?;
        Some(layout)
    }

    /// The constants of the enumeration at a place, or that the typedef there leads to; of several names of one
    /// number the first.
    pub(super) fn enumeration(&self, place: EntryOffset) -> Option<BTreeMap<i64, String>> {
        let found = self.strip(place)?;
        if found.entry.tag() != gimli::DW_TAG_enumeration_type || is_declaration(&found.entry) {
            return None;
        }
        let mut constants = BTreeMap::new();
        for child in self.children(&found)? {
            if child.tag() != gimli::DW_TAG_enumerator {
                continue;
            }
            let value = child.attr_value(gimli::DW_AT_const_value).and_then(constant);
            if let (Some(value), Some(name)) = (value, found.unit.name(&child)) {
                constants.entry(value).or_insert(name);
            }
        }
        Some(constants)
    }

    /// Adds the members of a record that begins `base` bytes into the layout. `None` where something lies outside of
    /// the whole, or there is no end of it.
    fn collect(&self, record: &Type<'a>, base: u64, depth: usize, layout: &mut Layout) -> Option<()> {
        if depth > MAX_INHERITANCE {
            return None;
        }
        let children = self.children(record)?;
        let mut bases = Vec::new();
        for child in &children {
            match child.tag() {
                gimli::DW_TAG_inheritance => bases.push(child),
                gimli::DW_TAG_member => self.member(record, child, base, depth, layout)?,
                _ => {}
            }
        }
        // After the record's members, because those hide a base's member of the same name.
        for child in bases {
            let Some(offset) = member_offset(child) else { continue };
            let Some(of) = self.type_of(&record.unit, child) else { continue };
            let at = within(base.checked_add(offset)?, layout)?;
            self.collect(&of, at, depth + 1, layout)?;
        }
        Some(())
    }

    fn member(
        &self,
        record: &Type<'a>,
        member: &Entry<'a>,
        base: u64,
        depth: usize,
        layout: &mut Layout,
    ) -> Option<()> {
        // A static member is declared here and lives elsewhere.
        if is_declaration(member) || is_set(member, gimli::DW_AT_external) {
            return Some(());
        }
        let in_union = record.entry.tag() == gimli::DW_TAG_union_type;
        let Some(offset) = member_offset(member).or(in_union.then_some(0)) else { return Some(()) };
        let at = within(base.checked_add(offset)?, layout)?;
        let Some(name) = record.unit.name(member) else {
            return match self.type_of(&record.unit, member) {
                Some(of) if is_record(of.entry.tag()) => self.collect(&of, at, depth + 1, layout),
                _ => Some(()),
            };
        };
        let place = member.attr_value(gimli::DW_AT_type).and_then(|value| record.unit.place(value));
        let mut ty = self.target_type(place, 0).unwrap_or_else(unknown);
        let mut at = at;
        if let Some(bits) = number(member, gimli::DW_AT_bit_size) {
            // Never a plain integer: reading it as one would give its neighbours too.
            let placed = bit_field(member, &ty, bits);
            (at, ty) = match placed {
                Some((offset, ty)) => (within(base.checked_add(offset)?, layout)?, ty),
                None => (at, TargetType::Other(format!("{ty}:{bits}"))),
            };
        }
        layout.members.entry(name).or_insert((at, ty));
        Some(())
    }

    /// The entries under a type; `None` where there are too many for them to be true.
    fn children(&self, of: &Type<'a>) -> Option<Vec<Entry<'a>>> {
        let children = of.unit.children(of.entry.offset(), MAX_ENTRIES);
        self.fuel.set(self.fuel.get().checked_sub(children.len() + 1)?);
        (children.len() < MAX_ENTRIES).then_some(children)
    }

    /// What a view is compared with; `None` is `void`.
    pub(super) fn target_type(&self, place: Option<EntryOffset>, depth: usize) -> Option<TargetType> {
        let place = place?;
        if depth > MAX_NESTING {
            return Some(unknown());
        }
        let found = self.strip(place)?;
        let entry = &found.entry;
        let size = number(entry, gimli::DW_AT_byte_size);
        Some(match entry.tag() {
            gimli::DW_TAG_base_type => base_type(&found, size.unwrap_or(0)),
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                TargetType::Pointer(self.target_type(self.inner(&found), depth + 1).filter(is_data).map(Box::new))
            }
            gimli::DW_TAG_array_type => self.array(&found, depth),
            gimli::DW_TAG_enumeration_type => {
                let size = size.or_else(|| number(&self.strip(self.inner(&found)?)?.entry, gimli::DW_AT_byte_size));
                TargetType::Enum(self.qualified_name(&found), size.unwrap_or(0))
            }
            gimli::DW_TAG_subroutine_type => TargetType::Other(FUNCTION.to_owned()),
            tag if is_record(tag) => {
                TargetType::Struct(self.qualified_name(&found), size.filter(|size| *size <= MAX_SIZE).unwrap_or(0))
            }
            _ => found.unit.name(entry).map_or_else(unknown, TargetType::Other),
        })
    }

    fn array(&self, array: &Type<'a>, depth: usize) -> TargetType {
        let element = self.target_type(self.inner(array), depth + 1).unwrap_or_else(unknown);
        let dimensions = self.children(array).unwrap_or_default();
        let dimensions = dimensions.iter().filter(|child| child.tag() == gimli::DW_TAG_subrange_type);
        let counts: Vec<Option<u64>> = dimensions.map(count).take(MAX_NESTING).collect();
        if counts.is_empty() {
            return TargetType::Array(Box::new(element), None);
        }
        counts.into_iter().rev().fold(element, |of, count| TargetType::Array(Box::new(of), count))
    }

    /// The type at a place without typedefs and qualifiers; `None` for `const void` and where there is no end of them.
    fn strip(&self, mut place: EntryOffset) -> Option<Type<'a>> {
        let mut alias = None;
        for _ in 0..MAX_CHAIN {
            let unit = self.unit(place.unit)?;
            let entry = unit.entry(place.offset)?;
            let through = matches!(
                entry.tag(),
                gimli::DW_TAG_typedef
                    | gimli::DW_TAG_const_type
                    | gimli::DW_TAG_volatile_type
                    | gimli::DW_TAG_restrict_type
                    | gimli::DW_TAG_atomic_type
                    | gimli::DW_TAG_packed_type
                    | gimli::DW_TAG_immutable_type
                    | gimli::DW_TAG_template_alias
            );
            // A stub with the type unit of the definition.
            if let Some(definition) = entry.attr_value(gimli::DW_AT_signature).and_then(|value| unit.place(value)) {
                place = definition;
                continue;
            }
            if !through {
                return Some(Type { unit, entry, alias });
            }
            alias = unit.name(&entry).or(alias);
            place = unit.place(entry.attr_value(gimli::DW_AT_type)?)?;
        }
        None
    }

    fn type_of(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Option<Type<'a>> {
        self.strip(unit.place(entry.attr_value(gimli::DW_AT_type)?)?)
    }

    fn inner(&self, outer: &Type<'a>) -> Option<EntryOffset> {
        outer.unit.place(outer.entry.attr_value(gimli::DW_AT_type)?)
    }

    pub(super) fn unit(&self, number: usize) -> Option<Rc<Unit<'a>>> {
        let mut units = self.units.borrow_mut();
        units.entry(number).or_insert_with(|| self.debug.unit(number).map(Rc::new)).clone()
    }

    /// `A::B` for a type inside of a namespace or class; the typedef's name for a type that has none itself.
    fn qualified_name(&self, found: &Type<'a>) -> String {
        let place = EntryOffset { unit: found.unit.number, offset: found.entry.offset() };
        if let Some(name) = self.names.borrow().get(&place) {
            return name.clone();
        }
        let named = match found.entry.attr_value(gimli::DW_AT_specification).and_then(|value| found.unit.place(value)) {
            Some(declaration) => self.entry_name(declaration).map(|name| (declaration, name)),
            None => found.unit.name(&found.entry).map(|name| (place, name)),
        };
        let Some((named_at, name)) = named else {
            return found.alias.clone().unwrap_or_else(|| "(anonymous)".to_owned());
        };
        let mut path = match self.unit(named_at.unit) {
            Some(unit) if unit.has_scopes() && self.names.borrow().len() < MAX_NAMES => unit.scopes(named_at.offset),
            _ => Vec::new(),
        };
        path.push(name);
        let name = path.join("::");
        self.names.borrow_mut().insert(place, name.clone());
        name
    }

    pub(super) fn entry_name(&self, place: EntryOffset) -> Option<String> {
        let unit = self.unit(place.unit)?;
        unit.name(&unit.entry(place.offset)?)
    }
}

/// How a function's type is named; no view can point to one.
const FUNCTION: &str = "a function";

fn is_data(ty: &TargetType) -> bool {
    !matches!(ty, TargetType::Other(name) if name == FUNCTION)
}

fn unknown() -> TargetType {
    TargetType::Other("an unknown type".to_owned())
}

fn base_type(found: &Type<'_>, size: u64) -> TargetType {
    let encoding = match found.entry.attr_value(gimli::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) if (1..=MAX_NUMBER).contains(&size) => encoding,
        _ => gimli::DwAte(0),
    };
    match encoding {
        gimli::DW_ATE_boolean => TargetType::Bool,
        gimli::DW_ATE_float => TargetType::Float { size },
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => TargetType::Int { size, signed: true },
        gimli::DW_ATE_unsigned
        | gimli::DW_ATE_unsigned_char
        | gimli::DW_ATE_UTF
        | gimli::DW_ATE_UCS
        | gimli::DW_ATE_ASCII
        | gimli::DW_ATE_address => TargetType::Int { size, signed: false },
        _ => found.unit.name(&found.entry).map_or_else(unknown, TargetType::Other),
    }
}

/// The position, if it is inside the layout; a flexible array begins at its end.
fn within(at: u64, layout: &Layout) -> Option<u64> {
    (at <= layout.size).then_some(at)
}

pub(super) fn is_set(entry: &Entry<'_>, name: gimli::DwAt) -> bool {
    matches!(entry.attr_value(name), Some(AttributeValue::Flag(true)))
}

pub(super) fn is_declaration(entry: &Entry<'_>) -> bool {
    is_set(entry, gimli::DW_AT_declaration)
}

pub(super) fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr(name)?.udata_value()
}

/// Where the integer is that a member of some bits is a part of, and which part; `None` where no one integer of its
/// type has all of them.
fn bit_field(member: &Entry<'_>, of: &TargetType, bits: u64) -> Option<(u64, TargetType)> {
    let (size, signed) = match of {
        TargetType::Int { size, signed } => (*size, *signed),
        TargetType::Enum(_, size) => (*size, false),
        TargetType::Bool => (1, false),
        _ => return None,
    };
    let width = size.checked_mul(8).filter(|width| (8..=64).contains(width))?;
    let (at, shift) = match number(member, gimli::DW_AT_data_bit_offset) {
        Some(first) => (first / width * size, first % width),
        // As DWARF 2 has it: counted from the integer's highest bit.
        None => {
            let above = number(member, gimli::DW_AT_bit_offset).unwrap_or(0);
            (member_offset(member)?, width.checked_sub(above.checked_add(bits)?)?)
        }
    };
    let fits = bits > 0 && shift.checked_add(bits)? <= width;
    let narrow = |number: u64| u32::try_from(number).ok();
    let ty = TargetType::Bits { size, signed, bits: narrow(bits)?, shift: narrow(shift)? };
    fits.then_some((at, ty))
}

/// Bytes from the start of the record to a member or base class; `None` for a virtual base, whose place is determined only
/// at run time.
pub(super) fn member_offset(entry: &Entry<'_>) -> Option<u64> {
    if let Some(bits) = number(entry, gimli::DW_AT_data_bit_offset) {
        return Some(bits / 8);
    }
    let location = entry.attr(gimli::DW_AT_data_member_location)?;
    if let Some(offset) = location.udata_value() {
        return Some(offset);
    }
    // As DWARF 2 has it: a program that adds a constant.
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut operations = location.exprloc_value()?.operations(encoding);
    match (operations.next(), operations.next()) {
        (Ok(Some(Operation::PlusConstant { value })), Ok(None)) => Some(value),
        _ => None,
    }
}

/// Elements of one dimension; `None` where it has no length, or none that can be true.
fn count(dimension: &Entry<'_>) -> Option<u64> {
    let count = number(dimension, gimli::DW_AT_count)
        .or_else(|| number(dimension, gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1)));
    count.filter(|count| *count < MAX_ELEMENTS)
}

/// The number of an enumeration's constant. Compilers write negative ones with a signed form, so that the plain forms
/// are unsigned.
fn constant(value: AttributeValue<Reader<'_>>) -> Option<i64> {
    Some(match value {
        AttributeValue::Data1(value) => i64::from(value),
        AttributeValue::Data2(value) => i64::from(value),
        AttributeValue::Data4(value) => i64::from(value),
        AttributeValue::Data8(value) | AttributeValue::Udata(value) => value.cast_signed(),
        AttributeValue::Sdata(value) => value,
        _ => return None,
    })
}
