//! Alignments of types, which debug information has only where the code says one: otherwise they follow from members. A
//! part of [`super::types`].

use super::scan::is_record;
use super::types::{MAX_CHAIN, Types, is_declaration, is_set, member_offset, number};
use super::unit::{Entry, EntryOffset};

/// Records inside one another.
const MAX_DEPTH: usize = 16;
/// Members of all records inside one.
const MAX_MEMBERS: usize = 1 << 12;

impl<'a> Types<'a> {
    /// The alignment of the type at a place, in bytes; `None` where that is not certain.
    pub(super) fn alignment(&self, place: EntryOffset) -> Option<u64> {
        self.aligned(place, 0, &mut MAX_MEMBERS.clone())
    }

    fn aligned(&self, mut place: EntryOffset, depth: usize, fuel: &mut usize) -> Option<u64> {
        if let Some(known) = self.alignments.borrow().get(&place) {
            return *known;
        }
        let first = place;
        // An alignment may be written at a typedef.
        for _ in 0..MAX_CHAIN {
            let unit = self.unit(place.unit)?;
            let entry = unit.entry(place.offset)?;
            if let Some(written) = number(&entry, gimli::DW_AT_alignment) {
                return Some(written).filter(|align| align.is_power_of_two());
            }
            let next = match entry.attr_value(gimli::DW_AT_signature).and_then(|value| unit.place(value)) {
                Some(definition) => definition,
                None if is_name(entry.tag()) => unit.place(entry.attr_value(gimli::DW_AT_type)?)?,
                None => {
                    let found = self.aligned_by_kind(place, &entry, depth, fuel);
                    // What is too deep here may be found from elsewhere.
                    if depth == 0 || found.is_some() {
                        self.alignments.borrow_mut().insert(first, found);
                    }
                    return found;
                }
            };
            place = next;
        }
        None
    }

    fn aligned_by_kind(&self, place: EntryOffset, entry: &Entry<'a>, depth: usize, fuel: &mut usize) -> Option<u64> {
        let size = number(entry, gimli::DW_AT_byte_size);
        match entry.tag() {
            gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => size.filter(|size| size.is_power_of_two()),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type
            | gimli::DW_TAG_ptr_to_member_type => Some(8),
            // The processor's vectors are aligned as a whole.
            gimli::DW_TAG_array_type if is_set(entry, gimli::DW_AT_GNU_vector) => None,
            gimli::DW_TAG_array_type => {
                let of = self.unit(place.unit)?.place(entry.attr_value(gimli::DW_AT_type)?)?;
                self.aligned(of, depth, fuel)
            }
            tag if is_record(tag) && depth < MAX_DEPTH && !is_declaration(entry) => {
                self.aligned_by_members(place, size?, depth, fuel)
            }
            _ => None,
        }
    }

    /// Of a record: the largest of its members and base classes.
    fn aligned_by_members(&self, place: EntryOffset, size: u64, depth: usize, fuel: &mut usize) -> Option<u64> {
        let unit = self.unit(place.unit)?;
        let children = unit.children(place.offset, *fuel);
        *fuel = fuel.checked_sub(children.len() + 1)?;
        let mut most = 1;
        for child in &children {
            let is_member = matches!(child.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance);
            if !is_member || is_declaration(child) || is_set(child, gimli::DW_AT_external) {
                continue;
            }
            let mut of = || self.aligned(unit.place(child.attr_value(gimli::DW_AT_type)?)?, depth + 1, fuel);
            let align = match number(child, gimli::DW_AT_alignment) {
                Some(written) => written,
                None => of()?,
            };
            // Bits lie anywhere; what is packed is not aligned as its type is.
            let is_bits = number(child, gimli::DW_AT_bit_size).is_some();
            if !is_bits && member_offset(child).is_some_and(|offset| !offset.is_multiple_of(align)) {
                return None;
            }
            most = most.max(align);
        }
        Some(most).filter(|most| most.is_power_of_two() && size.is_multiple_of(*most))
    }
}

fn is_name(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_template_alias
    )
}
