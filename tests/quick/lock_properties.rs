//! Whatever the bytes of a lock file are, reading it ends without a panic, and what is accepted does no harm where
//! probes are placed by it.

use profinfer_binary::{Arch, FakeTarget, Lock};
use profinfer_compiler::{PlacementOptions, ProbePlan, Selection, place as place_plan, plan};
use profinfer_diagnostics::{Diagnostics, render};
use profinfer_probeset::{Library, Probeset, load_text};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::Config;
use serde_json::Value;
use std::sync::LazyLock;

/// What the fuzzer starts from: locks of two programs as `profinfer lock` wrote them, but for the build-ids, which are
/// those of the fake target.
const TOY: &str = include_str!("../../fuzz/seeds/lock/toy.lock");
const INLINED: &str = include_str!("../../fuzz/seeds/lock/inlined.lock");

type Planned = (Probeset, ProbePlan);

static TOY_PLAN: LazyLock<Planned> = LazyLock::new(|| planned(include_str!("../targets/toy.yaml")));
static INLINED_PLAN: LazyLock<Planned> = LazyLock::new(|| planned(include_str!("../targets/inlined.yaml")));

fn planned(text: &str) -> Planned {
    let (probeset, _) = load_text("probeset.yaml", text, &Library::SHIPPED).expect("a probeset");
    let (plan, _) = plan(&probeset, &Selection::default(), Arch::X86_64).expect("a plan");
    (probeset, plan)
}

/// A stripped program full of `push %rbx`: a probe can be anywhere.
fn stripped(name: &str) -> FakeTarget {
    FakeTarget::new(Arch::X86_64).file(name).function("all", 0, &[0x53; 0x4000])
}

/// Places by a lock; how many sites there are, and what is reported.
fn place(planned: &Planned, program: &str, lock: &Lock) -> (usize, Diagnostics) {
    let (placement, problems) = place_plan(
        &planned.1,
        &planned.0,
        &stripped(program),
        PlacementOptions { lock: Some(lock), ..PlacementOptions::default() },
    );
    let shown = Diagnostics(problems.0.iter().take(5).cloned().collect());
    assert_eq!(render(&shown, false).is_empty(), shown.0.is_empty());
    (placement.sites.len(), problems)
}

fn read(text: &[u8]) {
    match Lock::parse("any.lock", text) {
        Err(problem) => {
            assert!(!problem.message.is_empty() && problem.message.len() < 4096, "{problem:?}");
            assert!(!render(&problem.into(), false).is_empty());
        }
        Ok(lock) => {
            assert_eq!(Lock::parse("any.lock", lock.to_text().as_bytes()).as_ref(), Ok(&lock));
            place(&TOY_PLAN, "toy", &lock);
            place(&INLINED_PLAN, "inlined", &lock);
        }
    }
}

/// What a value of a lock may be made to be.
fn any_value() -> impl Strategy<Value = Value> {
    let words = ["x86_64", "aarch64", "0x0+0 a", "0xffffffffffffffff+18446744073709551615 toy_step", "0 i64", ""];
    let types = ["18446744073709551615 u8", "0 struct toy_tensor:1099511627776[1099511627776]", "8 f64*****[]*"];
    prop_oneof![
        prop_oneof![any::<u64>(), 0_u64..20_000, Just(u64::MAX), Just(1 << 40)].prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select([&words[..], &types[..]].concat()).prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        prop::collection::vec(any::<u64>().prop_map(Value::from), 0..3).prop_map(Value::from),
        Just(Value::Null),
    ]
}

/// Every value within, the whole first.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Puts a value in the place of the `number`-th; the number of those that come after it.
fn replace(value: &mut Value, mut number: usize, by: &Value) -> Option<usize> {
    if number == 0 {
        *value = by.clone();
        return None;
    }
    number -= 1;
    let inner: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Array(values) => Box::new(values.iter_mut()),
        Value::Object(members) => Box::new(members.values_mut()),
        _ => return Some(number),
    };
    for value in inner {
        number = replace(value, number, by)?;
    }
    Some(number)
}

#[test]
fn the_seeds_are_locks_that_probes_are_placed_by() {
    let lock = |text: &str| Lock::parse("seed.lock", text.as_bytes()).unwrap();
    let (sites, problems) = place(&TOY_PLAN, "toy", &lock(TOY));
    assert!(sites >= 2, "{problems:?}");
    place(&INLINED_PLAN, "inlined", &lock(INLINED));
}

proptest! {
    #![proptest_config(Config { cases: 300, ..Config::default() })]

    #[test]
    fn any_bytes_are_a_lock_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn a_damaged_lock_is_a_lock_or_an_error(
        inlined in any::<bool>(),
        at in 0..100_000_usize,
        by in prop::collection::vec(any::<u8>(), 0..8),
        length in prop::option::of(0..100_000_usize),
    ) {
        let mut text = if inlined { INLINED } else { TOY }.as_bytes().to_vec();
        let at = at % text.len();
        let end = (at + by.len()).min(text.len());
        text.splice(at..end, by);
        text.truncate(length.map_or(text.len(), |length| length % text.len()));
        read(&text);
    }

    #[test]
    fn a_lock_that_says_anything_does_no_harm(
        inlined in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..5),
    ) {
        let mut lock: Value = serde_json::from_str(if inlined { INLINED } else { TOY }).unwrap();
        for (index, by) in changes {
            let values = count(&lock);
            // Not the whole: that would only be refused.
            let left = replace(&mut lock, 1 + index.index(values.max(2) - 1), &by);
            prop_assert!(left.is_none());
            prop_assert_eq!(lock.is_object(), true);
        }
        read(lock.to_string().as_bytes());
    }
}
