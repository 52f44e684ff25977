//! The search for members in memory, by conditions alone. A place is accepted only if it holds for all of enough distinct
//! objects, and if no other place would give other values. Memory may change or be hostile: reads are bounded, and the
//! search ends at its deadline.

use profinfer_compiler::{LearnLeaf, LearnLevel, LearnPath, Lesson};
use profinfer_probeset::Expected;
use std::collections::BTreeMap;
use std::time::Instant;

/// Objects that must agree, and the most that are inspected.
pub(super) const FEWEST: usize = 20;
pub(super) const MOST: usize = 48;
/// Places of pointers that are followed at one level; with more, no place is shown to be the only one.
const MOST_PREFIXES: usize = 4096;
/// Elements of arrays and vectors that are read; a longer vector is none of those that are sought.
const MOST_NUMBERS: usize = 64;
const WORD: u64 = 8;
/// Addresses that a process can have.
const USER_ADDRESSES: std::ops::Range<u64> = 0x1000..1 << 56;

/// The target's memory.
pub(super) trait Memory {
    /// Fills all of `into`; `false` where it cannot be read.
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool;
}

/// An object's address, and the text under the wildcards of the function's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) address: u64,
    pub(super) captures: Vec<String>,
}

/// Offsets by symbol, with a value for evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Learned {
    pub(super) offsets: BTreeMap<String, u64>,
    pub(super) examples: BTreeMap<String, String>,
    pub(super) objects: usize,
}

/// A value of a field, to compare.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Text(Vec<u8>),
    Number(i64),
    Numbers(Vec<i64>),
}

impl Value {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Number(_) => false,
            Self::Numbers(numbers) => numbers.is_empty(),
        }
    }

    /// As evidence shows it.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Numbers(numbers) => format!("{numbers:?}"),
        }
    }
}

/// An offset, and the values of all objects there.
type Place = (u64, Vec<Value>);

/// Offsets of a path's pointers, and where they lead for each object.
struct Prefix {
    offsets: Vec<u64>,
    addresses: Vec<u64>,
}

/// Searches for all fields of a lesson at once. `given` are offsets that have a source.
///
/// # Errors
/// Why nothing was learned.
pub(super) fn search(
    lesson: &Lesson,
    samples: &[Sample],
    given: &BTreeMap<String, u64>,
    memory: &mut dyn Memory,
    deadline: Instant,
) -> Result<Learned, String> {
    let samples = samples.get(..MOST).unwrap_or(samples);
    if samples.len() < FEWEST {
        return Err(too_few(samples.len()));
    }
    let mut learned = Learned { objects: samples.len(), ..Learned::default() };
    let mut groups: Vec<(Vec<&LearnLevel>, Vec<&LearnPath>)> = Vec::new();
    for path in &lesson.paths {
        let Some((_, pointers)) = path.levels.split_last() else { continue };
        let pointers: Vec<&LearnLevel> = pointers.iter().collect();
        match groups.iter_mut().find(|(other, _)| *other == pointers) {
            Some((_, paths)) => paths.push(path),
            None => groups.push((pointers, vec![path])),
        }
    }
    for (pointers, paths) in groups {
        let mut search = Search { samples, given, memory, deadline };
        search.group(&pointers, &paths, &mut learned)?;
    }
    Ok(learned)
}

/// That so many objects prove nothing.
pub(super) fn too_few(objects: usize) -> String {
    let (were, s) = if objects == 1 { ("was", "") } else { ("were", "s") };
    format!("{objects} distinct object{s} {were} seen; {FEWEST} are needed")
}

struct Search<'s> {
    samples: &'s [Sample],
    given: &'s BTreeMap<String, u64>,
    memory: &'s mut dyn Memory,
    deadline: Instant,
}

impl Search<'_> {
    /// Fields that are reached through the same pointers.
    fn group(&mut self, pointers: &[&LearnLevel], paths: &[&LearnPath], learned: &mut Learned) -> Result<(), String> {
        let mut prefixes =
            vec![Prefix { offsets: Vec::new(), addresses: self.samples.iter().map(|s| s.address).collect() }];
        for level in pointers {
            let mut next = Vec::new();
            for prefix in &prefixes {
                for offset in self.offsets(level, learned, WORD) {
                    self.in_time()?;
                    if let Some(addresses) = self.follow(&prefix.addresses, offset) {
                        let offsets = prefix.offsets.iter().copied().chain([offset]).collect();
                        next.push(Prefix { offsets, addresses });
                    }
                    // What was not searched may hold another place.
                    if next.len() > MOST_PREFIXES {
                        return Err(format!("pointers to {} lead to too many places", level.view));
                    }
                }
            }
            prefixes = next;
        }
        // Each with the offset and the values of every path.
        let mut found: Vec<(Vec<u64>, Vec<Place>)> = Vec::new();
        for prefix in &prefixes {
            let mut leaves = Vec::new();
            let mut ambiguous = None;
            for path in paths {
                let Some(level) = path.levels.last() else { continue };
                let mut candidates: Vec<Place> = Vec::new();
                for offset in self.offsets(level, learned, alignment(path.leaf)) {
                    self.in_time()?;
                    if let Some(values) = self.leaf(&prefix.addresses, offset, path) {
                        candidates.push((offset, values));
                    }
                }
                let Some(first) = candidates.first().cloned() else { break };
                if candidates.iter().any(|(_, values)| *values != first.1) {
                    ambiguous = Some(format!("{} could be at {} places", level.member, candidates.len()));
                }
                leaves.push(first);
            }
            if leaves.len() == paths.len() {
                // Other pointers at which one place alone fits do not refute these.
                ambiguous.map_or(Ok(()), Err)?;
                found.push((prefix.offsets.clone(), leaves));
            }
        }
        let values = |leaves: &[Place]| leaves.iter().map(|(_, values)| values.clone()).collect::<Vec<_>>();
        let names =
            || paths.iter().filter_map(|path| Some(path.levels.last()?.member.as_str())).collect::<Vec<_>>().join(", ");
        let Some((offsets, leaves)) = found.first() else {
            return Err(format!("{} fits at no place", names()));
        };
        if found.iter().any(|(_, other)| values(other) != values(leaves)) {
            return Err(format!("{} could be at {} places", names(), found.len()));
        }
        for (level, offset) in pointers.iter().zip(offsets) {
            learned.offsets.insert(level.symbol.clone(), *offset);
        }
        for (path, (offset, values)) in paths.iter().zip(leaves) {
            let Some(level) = path.levels.last() else { continue };
            learned.offsets.insert(level.symbol.clone(), *offset);
            // An empty one shows nothing.
            let example = values.iter().find(|value| !value.is_empty()).map(Value::shown);
            learned.examples.insert(level.member.clone(), example.unwrap_or_default());
        }
        Ok(())
    }

    fn in_time(&self) -> Result<(), String> {
        if Instant::now() < self.deadline { Ok(()) } else { Err("the search took too long".to_owned()) }
    }

    /// The offsets to try: the one that is settled, else the hints, then every aligned place.
    fn offsets(&self, level: &LearnLevel, learned: &Learned, step: u64) -> Vec<u64> {
        if let Some(at) = self.given.get(&level.symbol).or_else(|| learned.offsets.get(&level.symbol)) {
            return vec![*at];
        }
        let mut all: Vec<u64> = level.hints.iter().copied().filter(|at| *at < level.within).collect();
        let mut at = 0;
        while at < level.within {
            if !all.contains(&at) {
                all.push(at);
            }
            at += step;
        }
        all
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Where pointers at an offset lead, if all of them lead somewhere.
    fn follow(&mut self, addresses: &[u64], offset: u64) -> Option<Vec<u64>> {
        let mut next = Vec::with_capacity(addresses.len());
        for address in addresses {
            let to = self.word(address.checked_add(offset)?)?;
            self.word(to).filter(|_| USER_ADDRESSES.contains(&to) && to % WORD == 0)?;
            next.push(to);
        }
        Some(next)
    }

    /// The values at an offset, if they meet the expectations.
    fn leaf(&mut self, addresses: &[u64], offset: u64, path: &LearnPath) -> Option<Vec<Value>> {
        let mut values = Vec::with_capacity(addresses.len());
        for address in addresses {
            let value = self.value(address.checked_add(offset)?, path.leaf)?;
            let fits = path.expected.iter().all(|expected| fits(&value, *expected));
            if !fits {
                return None;
            }
            values.push(value);
        }
        self.together(&values, path).then_some(values)
    }

    fn value(&mut self, address: u64, leaf: LearnLeaf) -> Option<Value> {
        match leaf {
            LearnLeaf::Int(size, signed) => self.number(address, size, signed).map(Value::Number),
            LearnLeaf::Array(size, signed, count) => self.numbers(address, size, signed, count),
            LearnLeaf::Vector(size, signed) => self.vector(address, size, signed),
            LearnLeaf::InPlace(most) => self.text(address, most),
            LearnLeaf::Pointed(most) => {
                let to = self.word(address).filter(|to| USER_ADDRESSES.contains(to))?;
                self.text(to, most)
            }
            LearnLeaf::Str(most) => self.string(address, most),
        }
    }

    fn number(&mut self, address: u64, size: usize, signed: bool) -> Option<i64> {
        let mut bytes = [0; 8];
        if !self.memory.read(address, bytes.get_mut(..size)?) {
            return None;
        }
        if signed && bytes.get(size.checked_sub(1)?)? & 0x80 != 0 {
            bytes.get_mut(size..)?.fill(0xff);
        }
        Some(i64::from_le_bytes(bytes))
    }

    fn numbers(&mut self, address: u64, size: usize, signed: bool, count: usize) -> Option<Value> {
        let all = (0..count.min(MOST_NUMBERS) as u64).map(|index| {
            let at = index.checked_mul(size as u64)?.checked_add(address)?;
            self.number(at, size, signed)
        });
        all.collect::<Option<Vec<i64>>>().map(Value::Numbers)
    }

    /// A C++ vector: its first element's address, the end of its elements, and that of its memory. All C++ libraries have
    /// them in this order.
    fn vector(&mut self, address: u64, size: usize, signed: bool) -> Option<Value> {
        let begin = self.word(address)?;
        let end = self.word(address.checked_add(WORD)?)?;
        let limit = self.word(address.checked_add(2 * WORD)?)?;
        if begin == 0 {
            return (end == 0 && limit == 0).then(|| Value::Numbers(Vec::new()));
        }
        let (bytes, all) = (end.checked_sub(begin)?, limit.checked_sub(begin)?);
        let is_vector = USER_ADDRESSES.contains(&begin)
            && bytes <= all
            && begin % size as u64 == 0
            && bytes % size as u64 == 0
            && all % size as u64 == 0;
        let count = usize::try_from(bytes).ok()? / size;
        if !is_vector || count > MOST_NUMBERS {
            return None;
        }
        self.numbers(begin, size, signed, count)
    }

    /// A C++ string of either of libstdc++'s layouts.
    fn string(&mut self, address: u64, most: usize) -> Option<Value> {
        let to = self.word(address).filter(|to| USER_ADDRESSES.contains(to))?;
        let length = self.word(address.checked_add(WORD)?)?;
        let short = to == address + 2 * WORD;
        let length = usize::try_from(length).ok().filter(|length| *length <= if short { 15 } else { 1 << 20 })?;
        let mut end = [1];
        (self.memory.read(to.checked_add(length as u64)?, &mut end) && end == [0]).then_some(())?;
        match self.text(to, most.min(length + 1))? {
            Value::Text(text) if text.len() == length.min(most) => Some(Value::Text(text)),
            _ => None,
        }
    }

    fn text(&mut self, address: u64, most: usize) -> Option<Value> {
        let mut text = Vec::new();
        while text.len() < most {
            let mut bytes = [0; 8];
            let left = (most - text.len()).min(8);
            // A text may end right before memory that cannot be read.
            let read = self.memory.read(address.checked_add(text.len() as u64)?, bytes.get_mut(..left)?);
            let chunk = match read {
                true => bytes.get(..left)?,
                false => {
                    let mut one = [0];
                    let at = address.checked_add(text.len() as u64)?;
                    if !self.memory.read(at, &mut one) {
                        return None;
                    }
                    bytes[0] = one[0];
                    bytes.get(..1)?
                }
            };
            match chunk.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(chunk.get(..end)?);
                    return Some(Value::Text(text));
                }
                None => text.extend_from_slice(chunk),
            }
        }
        Some(Value::Text(text))
    }

    /// What must be true of all values together.
    fn together(&self, values: &[Value], path: &LearnPath) -> bool {
        let mut different: Vec<&Value> = values.iter().collect();
        different.sort_unstable();
        different.dedup();
        let empty = values.iter().filter(|value| value.is_empty()).count();
        let informative = different.len() > 1 && 2 * empty <= values.len();
        informative
            && path.expected.iter().all(|expected| match expected {
                Expected::Distinct => different.len() == values.len(),
                Expected::InMatch(number) => self.in_match(values, *number),
                _ => true,
            })
    }

    /// Whether most texts are part of the functions' names that objects came with.
    fn in_match(&self, values: &[Value], number: u32) -> bool {
        let index = usize::try_from(number).unwrap_or_default().wrapping_sub(1);
        let both = values.iter().zip(self.samples);
        let is_in = |(value, sample): &(&Value, &Sample)| {
            let (Value::Text(text), Some(capture)) = (value, sample.captures.get(index)) else { return false };
            text.len() > 1 && std::str::from_utf8(text).is_ok_and(|text| capture.contains(text))
        };
        2 * both.filter(is_in).count() >= values.len()
    }
}

fn alignment(leaf: LearnLeaf) -> u64 {
    match leaf {
        LearnLeaf::Int(size, _) | LearnLeaf::Array(size, ..) => size as u64,
        LearnLeaf::InPlace(_) => 4,
        LearnLeaf::Pointed(_) | LearnLeaf::Str(_) | LearnLeaf::Vector(..) => WORD,
    }
}

/// Whether one value can be.
fn fits(value: &Value, expected: Expected) -> bool {
    let all = |holds: &dyn Fn(&i64) -> bool| match value {
        Value::Number(number) => holds(number),
        Value::Numbers(numbers) => numbers.iter().all(holds),
        Value::Text(_) => false,
    };
    match expected {
        Expected::Text => match value {
            Value::Text(text) => std::str::from_utf8(text).is_ok_and(|text| !text.contains(char::is_control)),
            Value::Number(_) | Value::Numbers(_) => false,
        },
        Expected::Positive => all(&|number| (1..=1 << 40).contains(number)),
        Expected::Range(from, to) => all(&|number| (from..=to).contains(number)),
        Expected::Distinct | Expected::InMatch(_) => true,
        // Conditions that the search cannot judge prove nothing.
        _ => false,
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
