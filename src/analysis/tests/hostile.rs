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
        let (kept, timeline) = run(&Records { records, ..Records::default() });
        let mut total = 0;
        for step in &kept.steps {
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
        prop_assert_eq!(total as u64, timeline.findings().operator_spans);
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
