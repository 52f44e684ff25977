//! Memory made by the test: objects whose members lie anywhere, and memory that must not be believed.

use super::*;
use std::time::Duration;

/// Pieces of memory by address.
#[derive(Default)]
struct Pieces(BTreeMap<u64, Vec<u8>>);

impl Memory for Pieces {
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let Some((start, bytes)) = self.0.range(..=address).next_back() else { return false };
        let at = usize::try_from(address - start).unwrap();
        match bytes.get(at..at + into.len()) {
            Some(found) => {
                into.copy_from_slice(found);
                true
            }
            None => false,
        }
    }
}

impl Pieces {
    fn put(&mut self, address: u64, bytes: &[u8]) {
        self.0.insert(address, bytes.to_vec());
    }
}

const WITHIN: u64 = 96;

fn level(member: &str, hints: &[u64]) -> LearnLevel {
    LearnLevel {
        member: format!("view.{member}"),
        view: "view".into(),
        symbol: format!("offset_of_{member}"),
        within: WITHIN,
        hints: hints.to_vec(),
    }
}

fn lesson(hints: &[u64]) -> Lesson {
    let path = |field, member: &str, expected: &[Expected]| LearnPath {
        field,
        levels: vec![level("node", &[]), level(member, hints)],
        leaf: LearnLeaf::Pointed(32),
        expected: expected.to_vec(),
    };
    let name = path(1, "name", &[Expected::Text, Expected::Distinct]);
    let op = path(2, "op", &[Expected::Text, Expected::InMatch(1)]);
    Lesson { object: "kernel".into(), record: 6, paths: vec![name, op] }
}

/// Objects with a pointer to a node at `node`; the node has pointers to texts at the others.
fn objects(count: u64, node: u64, name: u64, op: u64) -> (Pieces, Vec<Sample>) {
    let mut memory = Pieces::default();
    let mut samples = Vec::new();
    for number in 0..count {
        let (object, of_node, texts) =
            (0x10_0000 + number * 0x1000, 0x50_0000 + number * 0x1000, 0x90_0000 + number * 0x1000);
        let mut bytes = vec![0; 128];
        bytes[..8].copy_from_slice(&0x7f_0000_u64.to_le_bytes()); // the table of virtual functions
        bytes[node as usize..][..8].copy_from_slice(&of_node.to_le_bytes());
        memory.put(object, &bytes);
        let kind = if number % 3 == 0 { "Conv" } else { "Softmax" };
        let mut bytes = vec![0; 128];
        for (at, text) in [(name, format!("block{number}/x")), (op, kind.to_owned())] {
            let place = texts + at;
            bytes[at as usize..][..8].copy_from_slice(&place.to_le_bytes());
            memory.put(place, format!("{text}\0").as_bytes());
        }
        memory.put(of_node, &bytes);
        let captures = vec![format!("engine::{kind}<float>")];
        samples.push(Sample { address: object, captures });
    }
    memory.put(0x7f_0000, &[0x11; 64]);
    (memory, samples)
}

fn found(lesson: &Lesson, memory: &mut Pieces, samples: &[Sample]) -> Result<Vec<(String, u64)>, String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let learned = search(lesson, samples, &BTreeMap::new(), memory, deadline)?;
    Ok(learned.offsets.into_iter().collect())
}

fn offsets(node: u64, name: u64, op: u64) -> Vec<(String, u64)> {
    [("name", name), ("node", node), ("op", op)].map(|(of, at)| (format!("offset_of_{of}"), at)).into()
}

#[test]
fn members_are_found_wherever_they_lie() {
    for (node, name, op) in [(8, 8, 40), (16, 16, 48), (64, 40, 8), (88, 0, 88)] {
        let (mut memory, samples) = objects(24, node, name, op);
        assert_eq!(found(&lesson(&[8, 40]), &mut memory, &samples), Ok(offsets(node, name, op)));
    }
}

#[test]
fn too_few_objects_prove_nothing() {
    let (mut memory, samples) = objects(19, 8, 8, 40);
    assert_eq!(found(&lesson(&[]), &mut memory, &samples).unwrap_err(), "19 distinct objects were seen; 20 are needed");
}

#[test]
fn one_object_that_differs_and_two_places_are_refused() {
    let (mut memory, samples) = objects(24, 8, 8, 40);
    memory.put(0x90_0000 + 23 * 0x1000 + 8, b"\x01\x02\0");
    assert!(found(&lesson(&[]), &mut memory, &samples).unwrap_err().contains("fits at no place"));
    // A second text of each node that is different everywhere.
    let (mut memory, samples) = objects(24, 8, 8, 40);
    for number in 0..24_u64 {
        let place = 0xd0_0000 + number * 0x1000;
        memory.put(place, format!("other{number}\0").as_bytes());
        memory.0.get_mut(&(0x50_0000 + number * 0x1000)).unwrap()[64..72].copy_from_slice(&place.to_le_bytes());
    }
    assert!(found(&lesson(&[]), &mut memory, &samples).unwrap_err().contains("could be at 2 places"));
}

/// Two texts of each node fit; a second pointer leads to structs of which one place alone does.
#[test]
fn a_place_that_is_the_only_one_beyond_another_pointer_is_refused_where_the_first_has_several() {
    let (mut memory, samples) = objects(24, 8, 8, 40);
    let put = |memory: &mut Pieces, at: u64, text: &str| {
        memory.put(at, format!("{text}\0").as_bytes());
        at.to_le_bytes()
    };
    for number in 0..24_u64 {
        let (node, other) = (0x50_0000 + number * 0x1000, 0x51_0000 + 0x10_0000 + number * 0x1000);
        let second = put(&mut memory, 0xd0_0000 + number * 0x1000, &format!("second{number}"));
        memory.0.get_mut(&node).unwrap()[64..72].copy_from_slice(&second);
        let kind = if number % 3 == 0 { "Conv" } else { "Softmax" };
        let words = [
            put(&mut memory, 0xe0_0000 + number * 0x1000, &format!("alien{number}")),
            put(&mut memory, 0xf0_0000 + number * 0x1000, kind),
        ];
        let mut bytes = words.concat();
        bytes.resize(128, 0);
        memory.put(other, &bytes);
        memory.0.get_mut(&samples[number as usize].address).unwrap()[24..32].copy_from_slice(&other.to_le_bytes());
    }
    assert_eq!(found(&lesson(&[]), &mut memory, &samples).unwrap_err(), "view.name could be at 2 places");
    // Where the second text is nowhere, the two pointers lead to different ones.
    for number in 0..24_u64 {
        memory.0.get_mut(&(0x50_0000 + number * 0x1000)).unwrap()[64..72].fill(0);
    }
    assert_eq!(found(&lesson(&[]), &mut memory, &samples).unwrap_err(), "view.name, view.op could be at 2 places");
}

/// What was not searched may have another place: the one that was found is not shown to be the only one.
#[test]
fn too_many_pointers_prove_nothing() {
    let (mut memory, samples) = objects(24, 8, 8, 40);
    let mut lesson = lesson(&[8, 40]);
    for path in &mut lesson.paths {
        path.levels[0].within = 8 * (MOST_PREFIXES as u64 + 100);
    }
    for sample in &samples {
        let of_node = memory.0[&sample.address][8..16].to_vec();
        memory.put(sample.address, &of_node.repeat(MOST_PREFIXES + 100));
    }
    assert_eq!(found(&lesson, &mut memory, &samples).unwrap_err(), "pointers to view lead to too many places");
}

#[test]
fn the_search_ends_in_time_and_in_circles() {
    // Every word points to its own object: nothing fits, and there are many ways.
    let mut memory = Pieces::default();
    let mut samples = Vec::new();
    for number in 0..24_u64 {
        let object = 0x10_0000 + number * 0x1000;
        memory.put(object, &object.to_le_bytes().repeat(16));
        samples.push(Sample { address: object, captures: Vec::new() });
    }
    assert!(found(&lesson(&[]), &mut memory, &samples).is_err());
    let late = search(&lesson(&[]), &samples, &BTreeMap::new(), &mut memory, Instant::now());
    assert_eq!(late.unwrap_err(), "the search took too long");
}

#[test]
fn a_known_offset_is_not_searched_for() {
    let (mut memory, samples) = objects(24, 8, 8, 40);
    let known = BTreeMap::from([("offset_of_node".to_owned(), 16)]);
    let deadline = Instant::now() + Duration::from_secs(20);
    assert!(search(&lesson(&[]), &samples, &known, &mut memory, deadline).is_err());
}

fn shape_lesson(leaf: LearnLeaf, expected: Expected) -> Lesson {
    let path = LearnPath { field: 0, levels: vec![level("shape", &[])], leaf, expected: vec![expected] };
    Lesson { object: "tensor".into(), record: 6, paths: vec![path] }
}

/// Objects with a vector of two numbers at 48 and others beside it: an empty one at 8, and what only begins like one.
fn with_vectors(count: u64) -> (Pieces, Vec<Sample>) {
    let mut memory = Pieces::default();
    let mut samples = Vec::new();
    for number in 0..count {
        let (object, elements) = (0x10_0000 + number * 0x1000, 0x90_0000 + number * 0x1000);
        let words = |memory: &mut Pieces, at: u64, words: &[u64]| {
            memory.put(at, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
        };
        let (begin, end) = (elements, elements + 16);
        words(
            &mut memory,
            object,
            &[0x7f_0000, 0, 0, 0, elements + 0x100, elements + 0x80, begin, end, end + 8, 0, 7, 7],
        );
        words(&mut memory, elements, &[64, 1 + number % 3, u64::MAX, 0]);
        samples.push(Sample { address: object, captures: Vec::new() });
    }
    memory.put(0x7f_0000, &[0x11; 64]);
    (memory, samples)
}

#[test]
fn vectors_are_found_by_their_ends_and_their_numbers() {
    let lesson = shape_lesson(LearnLeaf::Vector(8, true), Expected::Range(1, 1 << 20));
    let (mut memory, samples) = with_vectors(24);
    assert_eq!(found(&lesson, &mut memory, &samples), Ok(vec![("offset_of_shape".to_owned(), 48)]));
    // Of 16-bit numbers there are zeroes among them.
    let halves = shape_lesson(LearnLeaf::Vector(2, true), Expected::Range(1, 1 << 20));
    assert!(found(&halves, &mut memory, &samples).is_err());
    let outside = shape_lesson(LearnLeaf::Vector(8, true), Expected::Range(65, 1 << 20));
    assert!(found(&outside, &mut memory, &samples).is_err());
    // One whose end is before its beginning, one longer than any shape, and one whose elements cannot be read.
    for words in
        [[0x90_0010_u64, 0x90_0000, 0x90_0018], [0x90_0000, 0xa0_0000, 0xa0_0000], [0x66_0000, 0x66_0010, 0x66_0010]]
    {
        let (mut memory, samples) = with_vectors(24);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.0.get_mut(&samples[5].address).unwrap()[48..72].copy_from_slice(&bytes);
        assert!(found(&lesson, &mut memory, &samples).is_err(), "{words:x?}");
    }
}

#[test]
fn arrays_in_place_are_found_where_all_numbers_fit() {
    let mut memory = Pieces::default();
    let mut samples = Vec::new();
    for number in 0..24_u64 {
        let words = [0_u64, 1 << 50, 8, 1 + number, 3, 1, u64::MAX, 0, 0, 0, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.put(0x10_0000 + number * 0x1000, &bytes);
        samples.push(Sample { address: 0x10_0000 + number * 0x1000, captures: Vec::new() });
    }
    let lesson = |count| shape_lesson(LearnLeaf::Array(8, true, count), Expected::Range(1, 1 << 20));
    assert_eq!(found(&lesson(4), &mut memory, &samples), Ok(vec![("offset_of_shape".to_owned(), 16)]));
    // Three of them could begin at two places.
    assert!(found(&lesson(3), &mut memory, &samples).is_err());
}
