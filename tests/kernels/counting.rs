//! Counters on an emulated processor that has some: what profinfer says of operators whose instructions are known, while
//! threads share a cpu with a busy one and are moved to and fro. And a machine that has none.

use super::essence::Essence;
use super::layout::{self, Tools};
use super::machine::{self, Arch, Extra, Kernel, Machine, MachineOutput, Step};
use super::{every_kernel, lines, wanted};
use profinfer_schema::RecordKind;

use profinfer_trace::TraceReader;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

const PROBESET: &str = "tests/targets/known_counts.yaml";
/// An old kernel and the newest.
const SERIES: [&str; 2] = ["5.10", "6.18"];
const ROUNDS: usize = 2;
const LANES: usize = 3;
/// More than the processor has, which are seven.
const MANY: [&str; 9] = ["r08", "r11", "r23", "r24", "instructions", "cycles", "r08:u", "r11:u", "r24:u"];

fn options(counters: &[&str]) -> Vec<String> {
    counters.iter().flat_map(|counter| ["--counter".to_owned(), (*counter).to_owned()]).collect()
}

pub(crate) fn lay_out(tools: &Tools, root: &Path) {
    tools.compile(&root.join("bin/known_counts"), &[], &["known_counts.c"]);
    for (name, counters) in [("known_counts", &[][..]), ("many_counts", &MANY)] {
        let options = options(counters);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        tools.build(PROBESET, &options, root, &format!("{name}.bpf.o"));
    }
}

/// On a machine without counters: what is asked for beside what there is.
pub(crate) fn steps_without(kernel: &Kernel) -> Vec<Step> {
    let object = format!("--object {}/toy.bpf.o", kernel.objects());
    let record = format!("profinfer record {} {object} --counter cycles", super::PROBESET);
    vec![("uncounted".to_owned(), format!("{record} -o /run/uncounted.pfi -- /bin/toy 20 6 2"))]
}

fn steps(kernel: &Kernel) -> Vec<Step> {
    let many = options(&MANY).join(" ");
    let record = |name: &str, options: &str, object: &str| {
        let object = format!("--object {}/{object}.bpf.o", kernel.objects());
        let command = format!("profinfer record {PROBESET} {object} {options} --sample off -o /run/{name}.pfi");
        (name.to_owned(), format!("{command} -- /bin/known_counts {ROUNDS} {LANES}"))
    };
    vec![
        record("counted", "--exact", "known_counts"),
        record("shared", &many, "many_counts"),
        record("refused", &format!("--exact {many}"), "many_counts"),
    ]
}

fn counting_machines() -> &'static [MachineOutput] {
    static OUTPUTS: OnceLock<Vec<MachineOutput>> = OnceLock::new();
    OUTPUTS.get_or_init(|| {
        let folder = layout::lay_out(Arch::Arm64);
        let kernels: Vec<&Kernel> = wanted(Arch::Arm64).filter(|kernel| SERIES.contains(&kernel.series)).collect();
        for kernel in &kernels {
            std::fs::write(folder.path().join("steps").join(kernel.series), lines(&steps(kernel))).unwrap();
        }
        let machine = |series| Machine { arch: Arch::Arm64, series, steps: series, extra: Extra::Counting };
        machine::boot_all(&kernels.iter().map(|kernel| machine(kernel.series)).collect::<Vec<_>>(), folder.path())
    })
}

/// What the program prints of one operator.
#[derive(Debug)]
struct Expected {
    instructions: f64,
    /// Counts of the cpus, read at both ends.
    naive: f64,
    /// What the kernel has counted for the thread. An emulated processor's counter may go on with instructions of the
    /// other one: then this has them, too.
    own: f64,
}

/// By lane and operator, in the order of their calls.
fn expected(reported: &MachineOutput, step: &str) -> BTreeMap<(String, String), Vec<Expected>> {
    let mut expected: BTreeMap<_, Vec<Expected>> = BTreeMap::new();
    for line in reported.text(&format!("{step}.stdout")).lines() {
        let [lane, operator, instructions, naive, own] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let [instructions, naive, own] = [instructions, naive, own].map(|number| number.parse().unwrap());
        expected.entry((lane.to_owned(), operator.to_owned())).or_default().push(Expected { instructions, naive, own });
    }
    assert_eq!(
        expected.values().map(Vec::len).sum::<usize>(),
        2 * ROUNDS * LANES,
        "{}",
        reported.text(&format!("{step}.stderr"))
    );
    expected
}

/// A span's count, and whether it is an estimate.
#[derive(Debug)]
struct Counted {
    count: Option<f64>,
    scaled: bool,
}

/// Of one counter: as [`expected`] has it.
fn counted(trace: &[u8], counter: &str) -> BTreeMap<(String, String), Vec<Counted>> {
    let mut counted: BTreeMap<_, Vec<(u64, Counted)>> = BTreeMap::new();
    TraceReader::new(trace).expect("a trace").for_each_record(|record| {
        let kind = record.kind();
        if let (RecordKind::Span, "operator") = (kind.kind, kind.name.as_str()) {
            let operator = record.site().expect("a site").captures[0].clone();
            let index = kind.fields.iter().position(|field| field.name == counter).expect("the counter's field");
            let mask = record.field_named("scaled").as_i64().unwrap_or(0);
            let count = record.field_named(counter).as_i64().map(|count| count as f64);
            let one = Counted { count, scaled: mask >> index & 1 == 1 };
            let key = (record.field_named("lane").to_string(), operator);
            counted.entry(key).or_default().push((record.header().start, one));
        }
        true
    });
    let in_order = |mut spans: Vec<(u64, Counted)>| {
        spans.sort_by_key(|(time, _)| *time);
        spans.into_iter().map(|(_, one)| one).collect()
    };
    counted.into_iter().map(|(key, spans)| (key, in_order(spans))).collect()
}

fn error(counted: f64, expected: f64) -> f64 {
    (counted / expected - 1.0).abs()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[test]
#[ignore = "needs root"]
fn instructions_are_the_spans_own_while_threads_are_preempted_and_moved() {
    for reported in counting_machines() {
        let (expected, counted) =
            (expected(reported, "counted"), counted(reported.trace("counted", 0), "instructions"));
        let (mut naive, mut errors) = (Vec::new(), Vec::new());
        for (operator, calls) in &expected {
            assert_eq!(counted[operator].len(), calls.len(), "Linux {}, {operator:?}", reported.series);
            for (call, span) in calls.iter().zip(&counted[operator]) {
                naive.push(error(call.naive, call.instructions));
                let count = span.count.unwrap_or(f64::NAN);
                eprintln!("Linux {}, {operator:?}: {call:?}, counted {count}", reported.series);
                assert!(error(count, call.own) < 0.01, "Linux {}: {operator:?} {call:?} {span:?}", reported.series);
                errors.push(error(count, call.instructions));
                assert!(!span.scaled, "{span:?}");
            }
        }
        assert!(median(errors.clone()) < 0.01, "Linux {}: {errors:?}", reported.series);
        // Counters that are read at both ends of the same spans, on whichever cpu that is.
        assert!(median(naive.clone()) > 0.5, "Linux {}: it was too easy: {naive:?}", reported.series);
    }
}

#[test]
#[ignore = "needs root"]
fn more_counters_than_there_are_take_turns_or_are_refused() {
    for reported in counting_machines() {
        let warned = reported.text("shared.stderr");
        assert!(warned.contains("warning[C003]"), "Linux {}: {warned}", reported.series);
        let expected = expected(reported, "shared");
        let (mut scaled, mut errors) = (0, Vec::new());
        for counter in MANY {
            let counted = counted(reported.trace("shared", 0), counter);
            for (operator, spans) in counted {
                for (span, call) in spans.iter().zip(&expected[&operator]) {
                    scaled += usize::from(span.scaled);
                    if let ("r08:u", Some(count)) = (counter, span.count) {
                        // Marked, it is an estimate, and not far off; else it is right, but for what an emulated
                        // processor's counter has of the other one: no counter is left that would have that, too.
                        let (error, most) = (error(count, call.instructions), if span.scaled { 0.5 } else { 0.05 });
                        assert!(error < most, "Linux {}: {call:?} {span:?}", reported.series);
                        errors.extend((!span.scaled).then_some(error));
                    }
                }
            }
        }
        assert!(scaled > 0, "Linux {}: nothing was scaled", reported.series);
        assert!(errors.is_empty() || median(errors.clone()) < 0.01, "Linux {}: {errors:?}", reported.series);
        let refused = reported.text("refused.stderr");
        assert!(refused.contains("error[C003]"), "Linux {}: {refused}", reported.series);
        assert_eq!(reported.text("refused.stdout"), "", "it is refused before the target runs");
        assert_ne!(reported.text("refused.status").trim(), "0");
    }
}

#[test]
#[ignore = "needs root"]
fn without_counters_the_rest_is_recorded_on_x86_64() {
    for (kernel, reported) in every_kernel(Arch::Amd64) {
        let series = kernel.series;
        let problems = reported.text("uncounted.stderr");
        assert_eq!(problems.matches("C002").count(), 1, "Linux {series}: {problems}");
        let trace = reported.trace("uncounted", 0);
        assert_eq!(Essence::of(trace), Essence::of(reported.trace("linked", 0)), "Linux {series}");
        let mut reader = TraceReader::new(trace).expect("a trace");
        while reader.next().is_some() {}
        let counters = reader.into_meta().schema.counters;
        assert!(counters["cycles"].absent.is_some(), "Linux {series}: {counters:?}");
    }
}
