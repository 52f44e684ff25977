//! Traces that no engine made.

use super::*;
use proptest::prelude::*;

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, Just(u64::MAX), any::<u64>()]
}

fn any_record() -> impl Strategy<Value = Vec<u8>> {
    let types = u16::try_from(testing::schema().records.len()).unwrap() + 1;
    let header =
        (0..types, prop_oneof![0..3_u16, Just(0xffff)], any::<u8>(), 1..5_u32, prop_oneof![0..40_u32, any::<u32>()]);
    (header, any_time(), any_time(), proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..140)).prop_map(
        |((ty, site, missing, tid, seq), start, duration, tail)| {
            let mut bytes = Vec::new();
            bytes.extend(ty.to_le_bytes());
            bytes.extend(site.to_le_bytes());
            bytes.extend([0, 0, missing & 3, 0]);
            bytes.extend(tid.to_le_bytes());
            bytes.extend(seq.to_le_bytes());
            bytes.extend(start.to_le_bytes());
            bytes.extend(duration.to_le_bytes());
            bytes.extend(tail);
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_records_make_steps_and_no_operator_is_lost(records in proptest::collection::vec(any_record(), 0..150)) {
        let share = Records::default().schema.records.iter().position(|record| record.name == "share");
        let is_share = |record: &&Vec<u8>| record.get(..2).map(|ty| usize::from(ty[0]) | usize::from(ty[1]) << 8) == share;
        let shares = records.iter().filter(is_share).count() as u64;
        let (collected, timeline) = run(&Records { records, ..Records::default() });
        let mut total = 0;
        for step in &collected.steps {
            total += step.lanes.len();
            for two in step.states.windows(2).filter(|two| two[0].tid == two[1].tid) {
                prop_assert!(two[0].end <= two[1].start, "a thread does one thing at a time");
            }
            prop_assert!(step.states.iter().all(|s| step.start <= s.start && s.start < s.end && s.end <= step.end));
            for operator in &step.operators {
                prop_assert!(operator.start <= operator.end);
                prop_assert!(!step.lanes_of(operator).is_empty());
            }
        }
        let spans = timeline.findings().operator_spans;
        prop_assert!((spans..=spans + shares).contains(&(total as u64)), "{total} of {spans} and {shares}");
    }
}

#[test]
fn cut_records_are_counted() {
    let mut r = Records::default();
    r.records.push(vec![0; 5]);
    r.records.push(vec![0xee; 40]);
    let (_, timeline) = run(&r);
    assert_eq!(timeline.findings().malformed, 2);
}

/// An engine whose shapes change with each step, as those of keys and values do: memory must not grow with the steps.
#[test]
fn operators_beyond_those_told_apart_are_one_of_their_type() {
    let mut r = Records::default();
    thread(&mut r, 7, 0, 7);
    let steps = 20_000_u64;
    for n in 0..steps {
        let start = 100 + n * 10;
        let rows = n.cast_signed();
        let fields = [
            ("address", Put::Int(0x1000)),
            ("op", Put::Text("PRODUCT")),
            ("name", Put::Text("keys")),
            ("dtype", Put::Text("f32")),
            ("shape", Put::List(&[8, rows, 1, 1])),
        ];
        r.push("tensor", 7, (start, start), &fields);
        operator(&mut r, 7, (start + 1, start + 5), 0, 0x1000, 0);
        step(&mut r, 7, (start, start + 6), 1);
    }
    let (collected, timeline) = run(&r);
    let kinds: Vec<&Kind> = timeline.catalogue().kinds().map(|(_, kind)| kind).collect();
    assert!((16_384..16_400).contains(&kinds.len()), "{}", kinds.len());
    assert_eq!(timeline.findings().merged, steps - 16_384);
    let other = kinds.last().unwrap();
    assert_eq!((&*other.op, &*other.name, other.shape.len()), ("PRODUCT", "(other)", 0));
    let spans: usize = collected.steps.iter().map(|step| step.operators.len()).sum();
    assert_eq!(spans as u64, steps);
    let work: u64 = collected.steps.iter().flat_map(|step| &step.operators).map(|operator| operator.work).sum();
    assert_eq!(work, 4 * steps);
}
