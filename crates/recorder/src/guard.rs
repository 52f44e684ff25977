//! Expectations during a recording: a member whose offset no debug information vouches for is checked in every record.
//! One that breaks its expectation is disabled: its fields are absent from there on, the record that broke it included.
//! It deals with bytes of records, not with files or programs.

use profinfer_compiler::Guard;
use profinfer_probeset::Expected;
use profinfer_schema::{FieldType, Loss, LossKind, Schema};
use profinfer_trace::RecordHeader;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a record's header before the bits of missing fields.
const MISSING: usize = 6;
/// Addresses that a process can have.
const USER_ADDRESSES: std::ops::Range<u64> = 0x1000..1 << 56;
/// Elements of a dimension, at most.
const MOST_ELEMENTS: i64 = 1 << 40;

/// One field with its conditions.
#[derive(Debug)]
struct Rule {
    guard: Guard,
    offset: usize,
    ty: FieldType,
    /// Its offset is not from debug information.
    active: bool,
    /// This or another field with the same member broke a condition: a member has one offset in all records.
    refuted: bool,
    /// Records that broke a condition, and the first such condition.
    broken: u64,
    why: &'static str,
}

/// The expectations of a recording. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Guards(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By record type.
    rules: Vec<Vec<Rule>>,
    names: Vec<String>,
    /// Numbers of constants, by enumeration.
    constants: HashMap<String, BTreeSet<i64>>,
}

impl Guards {
    pub(super) fn new(guards: Vec<Guard>, schema: &Schema) -> Self {
        let mut rules: Vec<Vec<Rule>> = schema.records.iter().map(|_| Vec::new()).collect();
        for guard in guards {
            let field = schema.records.get(guard.record).and_then(|record| record.fields.get(guard.field));
            let (Some(field), Some(of_record)) = (field, rules.get_mut(guard.record)) else { continue };
            let (offset, ty) = (field.offset as usize, field.ty.clone());
            of_record.push(Rule { guard, offset, ty, active: false, refuted: false, broken: 0, why: "" });
        }
        let names = schema.records.iter().map(|record| record.name.clone()).collect();
        Self(Arc::new(Mutex::new(State { rules, names, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the fields that depend on these offsets, from now on.
    pub(super) fn activate(&self, unproven: &BTreeSet<&str>) {
        for rule in self.state().rules.iter_mut().flatten() {
            rule.active |= rule.guard.symbols.iter().any(|symbol| unproven.contains(symbol.as_str()));
        }
    }

    /// The offsets that a field which broke its expectation depends on: which of them is wrong, nothing tells.
    pub(super) fn refuted(&self) -> BTreeSet<String> {
        let state = self.state();
        let broken = state.rules.iter().flatten().filter(|rule| rule.broken > 0);
        broken.flat_map(|rule| rule.guard.symbols.clone()).collect()
    }

    pub(super) fn set_enums(&self, schema: &Schema) {
        let constants = schema.enums.iter().map(|(name, of)| (name.clone(), of.keys().copied().collect()));
        self.state().constants = constants.collect();
    }

    /// Checks a record; gives it without the fields that cannot be what they are taken for.
    pub(super) fn checked(&self, record: &[u8]) -> Option<Vec<u8>> {
        let header = RecordHeader::read(record)?;
        let mut state = self.state();
        let State { rules: of_all, constants, .. } = &mut *state;
        let rules = of_all.get_mut(usize::from(header.ty)).filter(|rules| !rules.is_empty())?;
        let (mut missing, mut newly) = (header.missing, Vec::new());
        for rule in rules.iter_mut().filter(|rule| rule.active) {
            let bit = 1_u16.checked_shl(u32::try_from(rule.guard.field).unwrap_or(u32::MAX)).unwrap_or_default();
            if missing & bit != 0 {
                continue;
            }
            let found = rule.guard.expected.iter().find_map(|expected| {
                let value = Value { bytes: record.get(rule.offset..)?, ty: &rule.ty };
                (!value.fits(*expected, constants)).then(|| word(*expected))
            });
            if let Some(why) = found {
                if rule.broken == 0 {
                    rule.why = why;
                    newly.push(rule.guard.member.clone());
                }
                rule.broken += 1;
            }
            if rule.refuted || rule.broken > 0 {
                missing |= bit;
            }
        }
        if !newly.is_empty() {
            of_all.iter_mut().flatten().for_each(|rule| rule.refuted |= newly.contains(&rule.guard.member));
        }
        (missing != header.missing).then(|| {
            let mut changed = record.to_vec();
            if let Some(bits) = changed.get_mut(MISSING..MISSING + 2) {
                bits.copy_from_slice(&missing.to_le_bytes());
            }
            changed
        })
    }

    /// The records that broke an expectation, as losses, and a sentence for each member.
    pub(super) fn broken(&self) -> (Vec<Loss>, Vec<String>) {
        let state = self.state();
        let mut losses: BTreeMap<&str, u64> = BTreeMap::new();
        let mut sentences: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
        for (rule, name) in
            state.rules.iter().zip(&state.names).flat_map(|(rules, name)| rules.iter().map(move |r| (r, name)))
        {
            if rule.broken > 0 {
                *losses.entry(name).or_default() += rule.broken;
                let (count, _) = sentences.entry(&rule.guard.member).or_insert((0, rule.why));
                *count += rule.broken;
            }
        }
        let loss =
            |(record, count): (&str, u64)| Loss { record: record.to_owned(), kind: LossKind::Implausible, count };
        let sentence = |(member, (count, why)): (&str, (u64, &str))| {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!("{member} is not where it was expected: `{why}` did not hold {times}; it is absent from then on")
        };
        (losses.into_iter().map(loss).collect(), sentences.into_iter().map(sentence).collect())
    }
}

fn word(expected: Expected) -> &'static str {
    match expected {
        Expected::Text => "text",
        Expected::Positive => "positive",
        Expected::Constant => "constant",
        Expected::Object => "object",
        Expected::First => "first",
        Expected::InMatch(_) | Expected::Distinct => "learning",
        Expected::Range(..) => "range",
    }
}

/// A field of a record.
struct Value<'r> {
    bytes: &'r [u8],
    ty: &'r FieldType,
}

impl Value<'_> {
    fn fits(&self, expected: Expected, constants: &HashMap<String, BTreeSet<i64>>) -> bool {
        match expected {
            Expected::Text => self.text().is_none_or(prints),
            Expected::Positive => self.numbers().iter().all(|number| (1..=MOST_ELEMENTS).contains(number)),
            Expected::Range(from, to) => self.numbers().iter().all(|number| (from..=to).contains(number)),
            Expected::Object => self.numbers().iter().all(|number| is_pointer(number.cast_unsigned())),
            Expected::First => {
                let numbers = self.numbers();
                numbers.first() != Some(&0) || numbers.iter().all(|number| *number == 0)
            }
            Expected::Constant => {
                let of = match self.ty {
                    FieldType::Enum(name) => constants.get(name).filter(|of| !of.is_empty()),
                    _ => None,
                };
                of.is_none_or(|of| self.numbers().iter().all(|number| of.contains(number)))
            }
            // Of many objects together.
            Expected::InMatch(_) | Expected::Distinct => true,
        }
    }

    /// Its text up to the first NUL, if it is one.
    fn text(&self) -> Option<&[u8]> {
        let FieldType::Text(length) = self.ty else { return None };
        let bytes = self.bytes.get(..*length as usize)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.get(..end)
    }

    fn numbers(&self) -> Vec<i64> {
        let (of, count, from) = match self.ty {
            FieldType::Array(of, count) => (&**of, *count as usize, 0),
            FieldType::List(of, most) => {
                let count = self.bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
                (&**of, count.min(*most) as usize, 8)
            }
            ty => (ty, 1, 0),
        };
        let (size, signed) = match of {
            FieldType::Int(size) => (*size as usize, true),
            FieldType::Uint(size) => (*size as usize, false),
            FieldType::Enum(_) => (4, true),
            FieldType::Bool => (1, false),
            _ => (8, true),
        };
        let number = |index: usize| {
            let bytes = self.bytes.get(from + index * size..)?.get(..size)?;
            let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
            let mut word = [if negative { 0xff } else { 0 }; 8];
            word.get_mut(..size)?.copy_from_slice(bytes);
            Some(i64::from_le_bytes(word))
        };
        (0..count).map_while(number).collect()
    }
}

/// Whether a text is one for people. Its last character may be cut.
fn prints(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.contains(char::is_control)
}

fn is_pointer(address: u64) -> bool {
    address == 0 || USER_ADDRESSES.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{FieldLayout, RecordKind, RecordType};

    fn schema() -> Schema {
        let field = |name: &str, offset, ty| FieldLayout { name: name.into(), offset, ty };
        let record = RecordType {
            name: "tensor".into(),
            kind: RecordKind::Object,
            role: None,
            size: 96,
            fields: vec![
                field("op", 32, FieldType::Enum("op".into())),
                field("name", 40, FieldType::Text(16)),
                field("inputs", 56, FieldType::Array(Box::new(FieldType::Pointer), 3)),
            ],
        };
        let constants = BTreeMap::from([(0, "NONE".to_owned()), (7, "ADD".to_owned())]);
        Schema {
            records: vec![record],
            enums: [("op".to_owned(), constants)].into_iter().collect(),
            ..Schema::default()
        }
    }

    fn guards(expected: &[(usize, Expected)]) -> Guards {
        let guard = |(field, expected): &(usize, Expected)| Guard {
            record: 0,
            field: *field,
            member: format!("tensor.{field}"),
            symbols: vec!["offset".into()],
            expected: vec![*expected],
        };
        let schema = schema();
        let guards = Guards::new(expected.iter().map(guard).collect(), &schema);
        guards.set_enums(&schema);
        guards.activate(&BTreeSet::from(["offset"]));
        guards
    }

    fn record(op: i32, name: &[u8], inputs: [u64; 3]) -> Vec<u8> {
        let mut record = vec![0; 96];
        record[32..36].copy_from_slice(&op.to_le_bytes());
        record[40..40 + name.len()].copy_from_slice(name);
        for (index, input) in inputs.iter().enumerate() {
            record[56 + 8 * index..64 + 8 * index].copy_from_slice(&input.to_le_bytes());
        }
        record
    }

    fn missing(guards: &Guards, record: &[u8]) -> u16 {
        guards.checked(record).map_or(0, |changed| u16::from_le_bytes([changed[6], changed[7]]))
    }

    #[test]
    fn a_field_that_cannot_be_is_absent_from_then_on() {
        let guards = guards(&[(0, Expected::Constant), (1, Expected::Text), (2, Expected::First)]);
        let good = record(7, b"blk.0", [0x7000_0000, 0x7000_0100, 0]);
        assert_eq!(missing(&guards, &good), 0);
        assert_eq!(guards.broken().0, []);
        assert_eq!(guards.refuted(), BTreeSet::new());
        // An element before the first, as where a member was added before it.
        assert_eq!(missing(&guards, &record(7, b"blk.0", [0, 0x7000_0000, 0])), 0b100);
        assert_eq!(missing(&guards, &good), 0b100, "and in the next one");
        assert_eq!(missing(&guards, &record(9, b"blk\x01", [0; 3])), 0b111);
        assert_eq!(guards.refuted(), BTreeSet::from(["offset".to_owned()]));
        let (losses, sentences) = guards.broken();
        assert_eq!(losses, [Loss { record: "tensor".into(), kind: LossKind::Implausible, count: 3 }]);
        assert_eq!(
            sentences[2],
            "tensor.2 is not where it was expected: `first` did not hold once; it is absent from then on"
        );
    }

    /// A value that fits by chance is as wrong as one that does not.
    #[test]
    fn a_member_is_absent_from_all_records_and_its_first_broken_condition_is_named() {
        let mut schema = schema();
        let other = RecordType { name: "weight".into(), ..schema.records[0].clone() };
        schema.records.push(other);
        let guard = |record| Guard {
            record,
            field: 1,
            member: "tensor.name".into(),
            symbols: vec!["offset".into()],
            expected: vec![Expected::Text],
        };
        let of_op = Guard { field: 0, expected: vec![Expected::Positive, Expected::Range(0, 9)], ..guard(0) };
        let of_op = Guard { member: "tensor.op".into(), ..of_op };
        let guards = Guards::new(vec![guard(0), guard(1), of_op], &schema);
        guards.activate(&BTreeSet::from(["offset"]));
        let of_other = |op| {
            let mut record = record(op, b"blk.0", [0; 3]);
            record[0] = 1;
            record
        };
        assert_eq!(missing(&guards, &of_other(7)), 0);
        assert_eq!(missing(&guards, &record(0, b"blk\x01", [0; 3])), 0b11);
        assert_eq!(missing(&guards, &of_other(7)), 0b10);
        assert_eq!(missing(&guards, &record(10, b"blk.0", [0; 3])), 0b11);
        let (losses, sentences) = guards.broken();
        assert_eq!(losses, [Loss { record: "tensor".into(), kind: LossKind::Implausible, count: 3 }]);
        assert!(sentences[1].starts_with("tensor.op ") && sentences[1].contains("`positive` did not hold 2 times"));
    }

    #[test]
    fn what_debug_information_vouches_for_is_not_checked() {
        let schema = schema();
        let guard = Guard {
            record: 0,
            field: 1,
            member: "tensor.name".into(),
            symbols: vec!["offset".into()],
            expected: vec![Expected::Text],
        };
        let guards = Guards::new(vec![guard], &schema);
        assert_eq!(missing(&guards, &record(7, b"\x01\x02", [0; 3])), 0);
    }

    #[test]
    fn a_text_may_be_cut_within_a_character_and_a_record_anywhere() {
        let guards = guards(&[(1, Expected::Text), (2, Expected::Object)]);
        assert_eq!(missing(&guards, &record(0, "0123456789abcdeä".as_bytes().get(..16).unwrap(), [0; 3])), 0);
        for length in 0..96 {
            let _ = guards.checked(&record(0, b"name", [1, 2, 3])[..length]);
        }
        assert_eq!(missing(&guards, &record(0, b"name", [0xffff_ffff_ffff_ffff, 0, 0])) & 0b100, 0b100);
    }
}
