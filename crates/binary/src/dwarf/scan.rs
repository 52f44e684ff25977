//! One pass over the units that finds where named types are defined. Functions, which most of the debug information
//! is about, are stepped over; only the namespaces and classes that a wanted name begins with are entered.

use super::sections::{Reader, Sections};
use super::unit::{Debug, EntryOffset, Unit};
use gimli::{AttributeValue, DwTag, EntriesRaw, UnitOffset};
use rayon::prelude::*;
use regex::bytes::{Regex, RegexBuilder};
use std::collections::HashSet;

/// Nested scopes: more than any program has.
const MAX_DEPTH: usize = 64;
/// Units that are read at once before checking whether everything was found.
const WAVE: usize = 32;

/// The kind of a name to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    /// A struct, class or union.
    Type,
    /// An enumeration.
    Enum,
}

/// A name to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted<'w> {
    pub(super) kind: NameKind,
    /// `["A", "B"]` for `A::B`.
    pub(super) path: Vec<&'w str>,
}

impl<'w> Wanted<'w> {
    pub(super) fn new(kind: NameKind, name: &'w str) -> Self {
        Self { kind, path: split_path(name) }
    }
}

/// Splits at `::` outside of template arguments.
fn split_path(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'<' | b'(' => depth += 1,
            b'>' | b')' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => {
                parts.push(&name[start..at]);
                at += 1;
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&name[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Which of the names stand anywhere in the debug information: the others need no pass over it.
pub(super) fn mentioned(files: &[Sections<'_>], wanted: &[Wanted<'_>]) -> Vec<bool> {
    let stands = |name: &str| -> bool {
        let Some(regex) = terminated(name) else { return true };
        files.iter().flat_map(Sections::texts).any(|text| regex.is_match(text))
    };
    wanted.par_iter().map(|wanted| wanted.path.last().is_some_and(|name| stands(name))).collect()
}

fn terminated(name: &str) -> Option<Regex> {
    RegexBuilder::new(&format!("{}\\x00", regex::escape(name))).unicode(false).build().ok()
}

/// Looks for definitions, unit by unit in the order of the file, and hands each (or a typedef that may lead to one) to
/// `take`, which returns whether it is accepted. Ends when everything was found. The outcome does not depend on how the
/// units are spread over threads.
pub(super) fn scan<'a>(debug: &'a Debug<'a>, wanted: &[Wanted<'_>], mut take: impl FnMut(usize, EntryOffset) -> bool) {
    let mut open: HashSet<usize> = (0..wanted.len()).collect();
    let numbers: Vec<usize> = (0..debug.headers.len()).collect();
    for wave in numbers.chunks(WAVE) {
        if open.is_empty() {
            return;
        }
        let active: Vec<usize> = (0..wanted.len()).filter(|index| open.contains(index)).collect();
        let found: Vec<Vec<(usize, EntryOffset)>> =
            wave.par_iter().map(|number| scan_unit(debug, *number, wanted, &active)).collect();
        for (index, found) in found.into_iter().flatten() {
            if open.contains(&index) && take(index, found) {
                open.remove(&index);
            }
        }
    }
}

/// Where a unit defines those of the names that are active.
pub(super) fn scan_unit<'a>(
    debug: &'a Debug<'a>,
    number: usize,
    wanted: &[Wanted<'_>],
    active: &[usize],
) -> Vec<(usize, EntryOffset)> {
    let mut found = Vec::new();
    let Some(unit) = debug.unit(number) else { return found };
    let Ok(mut entries) = unit.header.entries_raw(&unit.abbreviations, None) else { return found };
    let mut scan = Scan { unit: &unit, wanted, declared: Vec::new(), found: Vec::new() };
    let scope: Vec<Match> = active.iter().map(|index| (*index, 0)).collect();
    // Malformed information ends the unit; what was found before is good.
    let _ = scan.root(&mut entries, &scope);
    found.extend(scan.found.into_iter().map(|(index, offset)| (index, EntryOffset { unit: number, offset })));
    found
}

struct Scan<'s, 'a> {
    unit: &'s Unit<'a>,
    wanted: &'s [Wanted<'s>],
    /// Declarations within scopes of types that are defined outside: wanted types, and classes around them.
    declared: Vec<(UnitOffset, Match)>,
    found: Vec<(usize, UnitOffset)>,
}

/// What is read of every entry.
#[derive(Debug, Default)]
struct Head<'a> {
    name: Option<&'a [u8]>,
    declaration: bool,
    inline: bool,
    sibling: Option<UnitOffset>,
    specification: Option<UnitOffset>,
}

/// A wanted name's index, and how many of its parts were matched.
type Match = (usize, usize);

/// Wanted names that start with the scope's name.
type Scope = [Match];

impl<'s, 'a> Scan<'s, 'a> {
    fn root(&mut self, entries: &mut EntriesRaw<'s, Reader<'a>>, scope: &Scope) -> gimli::Result<()> {
        let Some(root) = entries.read_abbreviation()? else { return Ok(()) };
        entries.skip_attributes(root.attributes())?;
        if root.has_children() { self.siblings(entries, scope, 0) } else { Ok(()) }
    }

    /// Reads entries up to the end of their list.
    fn siblings(&mut self, entries: &mut EntriesRaw<'s, Reader<'a>>, scope: &Scope, depth: usize) -> gimli::Result<()> {
        while !entries.is_empty() {
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(()) };
            let tag = abbreviation.tag();
            let interesting = is_scope(tag) || tag == gimli::DW_TAG_typedef || tag == gimli::DW_TAG_enumeration_type;
            if !interesting && !abbreviation.has_children() {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let head = self.head(entries, abbreviation.attributes(), interesting)?;
            let inner = if interesting { self.consider(tag, offset, &head, scope) } else { Vec::new() };
            if !abbreviation.has_children() {
                continue;
            }
            if inner.is_empty() || depth >= MAX_DEPTH {
                self.step_over(entries, head.sibling)?;
            } else {
                self.siblings(entries, &inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn head(
        &self,
        entries: &mut EntriesRaw<'s, Reader<'a>>,
        attributes: &[gimli::AttributeSpecification],
        interesting: bool,
    ) -> gimli::Result<Head<'a>> {
        let mut head = Head::default();
        for attribute in attributes {
            let read = match attribute.name() {
                gimli::DW_AT_sibling => true,
                gimli::DW_AT_name
                | gimli::DW_AT_declaration
                | gimli::DW_AT_export_symbols
                | gimli::DW_AT_specification => interesting,
                _ => false,
            };
            if !read {
                entries.skip_attributes(std::slice::from_ref(attribute))?;
                continue;
            }
            let value = entries.read_attribute(*attribute)?.value();
            match (attribute.name(), value) {
                (gimli::DW_AT_sibling, AttributeValue::UnitRef(offset)) => head.sibling = Some(offset),
                (gimli::DW_AT_specification, AttributeValue::UnitRef(offset)) => head.specification = Some(offset),
                (gimli::DW_AT_declaration, AttributeValue::Flag(flag)) => head.declaration = flag,
                (gimli::DW_AT_export_symbols, AttributeValue::Flag(flag)) => head.inline = flag,
                (gimli::DW_AT_name, value) => head.name = self.unit.text(value),
                _ => {}
            }
        }
        Ok(head)
    }

    /// Records which wanted name an entry is, and returns the names that continue inside it.
    fn consider(&mut self, tag: DwTag, offset: UnitOffset, head: &Head<'a>, scope: &Scope) -> Vec<Match> {
        // A definition outside of the scope that it belongs to: its name was matched at its declaration.
        if let Some(declaration) = head.specification {
            let names = self.declared.iter().filter(|(at, _)| *at == declaration).map(|(_, name)| *name).collect();
            return self.matched(tag, offset, head, names);
        }
        // Names in an unnamed or inline namespace are also used as if they stood outside of it.
        let transparent = tag == gimli::DW_TAG_namespace && (head.inline || head.name.is_none());
        let mut inner = if transparent { scope.to_vec() } else { Vec::new() };
        if let Some(name) = head.name {
            let part = |(index, matched): &Match| self.wanted[*index].path.get(*matched).copied().map(str::as_bytes);
            let longer = scope.iter().filter(|name_so_far| part(name_so_far) == Some(name));
            let longer = longer.map(|(index, matched)| (*index, matched + 1)).collect();
            inner.extend(self.matched(tag, offset, head, longer));
        }
        inner
    }

    /// Takes the names that end with this entry for found, and gives those that go on.
    fn matched(&mut self, tag: DwTag, offset: UnitOffset, head: &Head<'a>, names: Vec<Match>) -> Vec<Match> {
        let mut inner = Vec::new();
        for (index, matched) in names {
            let whole = matched == self.wanted[index].path.len();
            if head.declaration && tag != gimli::DW_TAG_namespace {
                self.declared.push((offset, (index, matched)));
            }
            if !whole && is_scope(tag) {
                inner.push((index, matched));
            } else if whole && !head.declaration && defines(tag, self.wanted[index].kind) {
                self.found.push((index, offset));
            }
        }
        inner
    }

    fn step_over(&self, entries: &mut EntriesRaw<'s, Reader<'a>>, sibling: Option<UnitOffset>) -> gimli::Result<()> {
        // Only forwards: a forged sibling must not send us round in a circle.
        if let Some(sibling) = sibling.filter(|sibling| *sibling > entries.next_offset()) {
            *entries = self.unit.header.entries_raw(&self.unit.abbreviations, Some(sibling))?;
            return Ok(());
        }
        let mut depth = 1_usize;
        while depth > 0 && !entries.is_empty() {
            match entries.read_abbreviation()? {
                Some(abbreviation) => {
                    entries.skip_attributes(abbreviation.attributes())?;
                    depth += usize::from(abbreviation.has_children());
                }
                None => depth -= 1,
            }
        }
        Ok(())
    }
}

pub(super) fn is_scope(tag: DwTag) -> bool {
    tag == gimli::DW_TAG_namespace || is_record(tag)
}

pub(super) fn is_record(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
    )
}

fn defines(tag: DwTag, kind: NameKind) -> bool {
    let by_kind = match kind {
        NameKind::Type => is_record(tag),
        NameKind::Enum => tag == gimli::DW_TAG_enumeration_type,
    };
    by_kind || tag == gimli::DW_TAG_typedef
}

#[cfg(test)]
mod tests {
    use super::split_path;

    #[test]
    fn a_qualified_name_is_split_outside_of_its_template_arguments() {
        assert_eq!(split_path("tensor"), ["tensor"]);
        assert_eq!(split_path("A::B<C::D>::E"), ["A", "B<C::D>", "E"]);
        assert_eq!(split_path("::A::B"), ["A", "B"]);
        assert_eq!(split_path(""), Vec::<&str>::new());
        assert_eq!(split_path(":::"), [":"]);
    }
}
