//! Counters of lanes, operators and steps, metrics, and costs.

use super::*;
use profinfer_schema::Role;
use profinfer_schema::{CounterInfo, FieldLayout, FieldType, RecordType};

/// A schema in which the probes `operator` and `step` count these.
fn counting(counters: &[&str]) -> Records {
    let mut r = Records::default();
    for record in &mut r.schema.records {
        if matches!(record.role, Some(Role::Operator | Role::Step)) {
            counters.iter().for_each(|name| add(record, name, FieldType::Counter));
            add(record, "scaled", FieldType::Scaled);
        }
    }
    for name in counters {
        r.schema
            .counters
            .insert((*name).to_owned(), CounterInfo { event: (*name).to_owned(), ..CounterInfo::default() });
    }
    r
}

fn add(record: &mut RecordType, name: &str, ty: FieldType) {
    let offset = record.size;
    record.size += 8;
    record.fields.push(FieldLayout { name: name.to_owned(), offset, ty });
}

/// The bit of a field in `missing` and in `scaled`.
fn bit(r: &Records, record: &str, field: &str) -> u64 {
    let ty = r.schema.records.iter().find(|t| t.name == record).unwrap();
    1 << ty.fields.iter().position(|f| f.name == field).unwrap()
}

/// The last record has nothing at these fields.
fn miss(r: &mut Records, bits: u64) {
    let missing = u16::try_from(bits).unwrap().to_le_bytes();
    r.records.last_mut().unwrap()[6..8].copy_from_slice(&missing);
}

/// A lane's share of a node, with counts.
fn share(r: &mut Records, (tid, lane): (u32, u64), node: u64, span: (u64, u64), counts: &[(&str, u64)]) {
    let mut fields = vec![("lane", Put::Int(lane)), ("node", Put::Int(node))];
    fields.extend(counts.iter().map(|(name, n)| (*name, Put::Int(*n))));
    r.push("operator", tid, span, &fields);
}

/// One step of two lanes: `up-0` and then `up-1`. The second lane's share of `up-1` is made by the caller.
fn two_lanes(r: &mut Records, last: impl Fn(&mut Records)) {
    thread(r, 1, 0, 100);
    thread(r, 2, 0, 100);
    tensor(r, 1, 1, 0xa, "MUL_MAT", "up-0");
    tensor(r, 1, 1, 0xb, "ADD", "up-1");
    share(r, (1, 0), 0xa, (10, 40), &[("cycles", 300), ("instructions", 600)]);
    share(r, (1, 0), 0xb, (40, 60), &[("cycles", 100), ("instructions", 50)]);
    share(r, (2, 1), 0xa, (10, 40), &[("cycles", 100), ("instructions", 600)]);
    last(r);
    graph(r, 1, (5, 65));
    r.push(
        "step",
        1,
        (0, 100),
        &[("tokens", Put::Int(1)), ("cycles", Put::Int(900)), ("instructions", Put::Int(1000))],
    );
}

pub(super) fn rules(metrics: &str) -> Rules {
    let text = format!(
        "profinfer: 1\nengine: e\nmodules: {{ m: m }}\nprobes: {{ s: {{ at: 'm:s(i32 n)', role: step, fields: {{ tokens: n }} }} }}\n\
         counters: {{ cycles: cycles, instructions: instructions, misses: misses }}\n{metrics}"
    );
    let (probeset, _) = profinfer_probeset::load_text("t.yaml", &text, &profinfer_probeset::Library::SHIPPED).unwrap();
    Rules::new(&probeset.analysis).unwrap()
}

/// The sums of the operators of a type.
fn of_type(collected: &Collected, timeline: &Timeline, op: &str) -> Quantities {
    let mut sums = Quantities::default();
    for (kind, backend, phase, _) in collected.statistics.operators() {
        if &*timeline.catalogue().kind(kind).op == op {
            sums.merge(collected.statistics.quantities(kind, backend, phase).unwrap());
        }
    }
    sums
}

/// A metric over the operators of a type: value, estimate, operators. `Err` says why the trace has none.
fn metric(
    r: &Records,
    found: &(Collected, Timeline),
    name: &str,
    op: &str,
) -> Result<Option<(f64, bool, u64)>, String> {
    let (collected, timeline) = found;
    let metric = timeline.rules().metrics().iter().find(|m| &*m.name == name).unwrap();
    let of = metric.of(&r.schema, timeline.decoder().counters(), timeline.rules().has_costs())?;
    Ok(of.value(&of_type(collected, timeline, op)).map(|v| (v.value, v.estimate, v.count)))
}

const IPC: &str =
    "analysis: { metrics: { ipc: instructions / cycles, rate: 'cycles / time', wall: 'cycles / duration' } }";

#[test]
fn counts_are_summed_over_lanes_and_by_lane() {
    let mut r = counting(&["cycles", "instructions"]);
    two_lanes(&mut r, |r| share(r, (2, 1), 0xb, (40, 60), &[("cycles", 100), ("instructions", 50)]));
    let found = run_with(&r, rules(IPC));
    let (collected, timeline) = &found;
    assert_eq!(timeline.decoder().counters().iter().map(|c| &**c).collect::<Vec<_>>(), ["cycles", "instructions"]);
    let step = &collected.steps[0];
    let shares = step.lanes_of(&step.operators[0]);
    let counts: Vec<_> = shares.iter().map(|s| (s.lane, step.count_of(s, 0), step.count_of(s, 1))).collect();
    assert_eq!(counts, [(0, Count::Exact(300), Count::Exact(600)), (1, Count::Exact(100), Count::Exact(600))]);
    assert_eq!(&*step.own_counts, [Count::Exact(900), Count::Exact(1000)]);
    let sums = of_type(collected, timeline, "MUL_MAT");
    assert_eq!((sums.count(0), sums.count(1)), (Count::Exact(400), Count::Exact(1200)));
    let lane = collected.statistics.lane_quantities(Phase::Decode, 1).unwrap();
    assert_eq!((lane.count(0), lane.count(1)), (Count::Exact(200), Count::Exact(650)));
    assert_eq!(collected.statistics.step_quantities(Phase::Decode).unwrap().count(0), Count::Exact(900));
    // Quotients of sums: the mean of the lanes' own would be (2 + 6) / 2.
    assert_eq!(metric(&r, &found, "ipc", "MUL_MAT"), Ok(Some((3.0, false, 1))));
    // 30 ns on each of two lanes.
    assert_eq!(metric(&r, &found, "rate", "MUL_MAT"), Ok(Some((400.0 / 60e-9, false, 1))));
    assert_eq!(metric(&r, &found, "wall", "MUL_MAT"), Ok(Some((400.0 / 30e-9, false, 1))));
}

#[test]
fn a_count_that_one_lane_lacks_makes_the_sum_absent() {
    let mut r = counting(&["cycles", "instructions"]);
    let cycles = bit(&r, "operator", "cycles");
    two_lanes(&mut r, |r| {
        share(r, (2, 1), 0xb, (40, 60), &[("cycles", 100), ("instructions", 50)]);
        miss(r, cycles);
    });
    let found = run_with(&r, rules(IPC));
    let sums = of_type(&found.0, &found.1, "ADD");
    assert_eq!((sums.count(0), sums.count(1)), (Count::Absent, Count::Exact(100)));
    assert_eq!(metric(&r, &found, "ipc", "ADD"), Ok(None));
    // Of both operators together there is no sum; the quotient is of the one with a count, and marked as such.
    let mut all = sums;
    all.merge(&of_type(&found.0, &found.1, "MUL_MAT"));
    assert_eq!((all.count(0), all.count(1)), (Count::Absent, Count::Exact(1300)));
    let ipc = &found.1.rules().metrics()[0];
    let value = ipc.of(&r.schema, found.1.decoder().counters(), false).unwrap().value(&all).unwrap();
    assert_eq!((value.value, value.count, value.work), (3.0, 1, 60));
    // The lane has one share without it, and the other lane none.
    let lane = |lane| found.0.statistics.lane_quantities(Phase::Decode, lane).unwrap().count(0);
    assert_eq!((lane(0), lane(1)), (Count::Exact(400), Count::Absent));
}

#[test]
fn a_scaled_count_makes_the_sum_an_estimate() {
    let mut r = counting(&["cycles", "instructions"]);
    let scaled = bit(&r, "operator", "cycles");
    two_lanes(&mut r, |r| {
        share(r, (2, 1), 0xb, (40, 60), &[("cycles", 100), ("instructions", 50), ("scaled", scaled)]);
    });
    let found = run_with(&r, rules(IPC));
    let sums = of_type(&found.0, &found.1, "ADD");
    assert_eq!((sums.count(0), sums.count(1)), (Count::Estimate(200), Count::Exact(100)));
    assert_eq!(metric(&r, &found, "ipc", "ADD"), Ok(Some((0.5, true, 1))));
    assert_eq!(metric(&r, &found, "ipc", "MUL_MAT"), Ok(Some((3.0, false, 1))));
}

#[test]
fn core_types_are_separate_and_are_one_in_metrics() {
    let mut again = counting(&["cycles@cpu_core", "cycles@cpu_atom", "instructions"]);
    thread(&mut again, 1, 0, 100);
    thread(&mut again, 2, 0, 100);
    tensor(&mut again, 1, 1, 0xa, "MUL_MAT", "up-0");
    share(&mut again, (1, 0), 0xa, (10, 40), &[("cycles@cpu_core", 200), ("instructions", 600)]);
    share(
        &mut again,
        (2, 1),
        0xa,
        (10, 40),
        &[("cycles@cpu_core", 50), ("cycles@cpu_atom", 150), ("instructions", 200)],
    );
    graph(&mut again, 1, (5, 65));
    step(&mut again, 1, (0, 100), 1);
    let found = run_with(&again, rules(IPC));
    let sums = of_type(&found.0, &found.1, "MUL_MAT");
    assert_eq!((sums.count(0), sums.count(1)), (Count::Exact(250), Count::Exact(150)));
    assert_eq!(metric(&again, &found, "ipc", "MUL_MAT"), Ok(Some((2.0, false, 1))));
    // Where one type has no such counter there is no sum.
    let mut without = again.schema.clone();
    without.counters["cycles@cpu_atom"].absent = Some("cpu_atom has no such event".into());
    without.records.iter_mut().for_each(|record| record.fields.retain(|f| f.name != "cycles@cpu_atom"));
    again.schema = without;
    let found = run_with(&again, rules(IPC));
    let why = "`cycles@cpu_atom` is absent: cpu_atom has no such event".to_owned();
    assert_eq!(metric(&again, &found, "ipc", "MUL_MAT"), Err(why));
}

#[test]
fn a_metric_has_the_reason_for_its_absence() {
    let r = Records::default();
    let found = run_with(&r, rules(IPC));
    let why = "`cycles` and `instructions` were not recorded: use `record --counter cycles --counter instructions`";
    let reason = metric(&r, &found, "ipc", "MUL_MAT").unwrap_err();
    let reversed =
        "`instructions` and `cycles` were not recorded: use `record --counter instructions --counter cycles`";
    assert!(reason == why || reason == reversed, "{reason}");
    let found = run_with(&r, rules("analysis: { metrics: { speed: flops / duration } }"));
    assert_eq!(metric(&r, &found, "speed", "MUL_MAT"), Err("the probeset has no operator costs".into()));
}

#[test]
fn a_span_beyond_its_graph_counts_too_much() {
    for (end, expected) in [(60, Count::Exact(7)), (64, Count::Exact(7)), (67, Count::Estimate(7)), (90, Count::Absent)]
    {
        let mut r = counting(&["cycles"]);
        thread(&mut r, 1, 0, 100);
        tensor(&mut r, 1, 1, 0xa, "MUL_MAT", "up-0");
        share(&mut r, (1, 0), 0xa, (20, end), &[("cycles", 7)]);
        graph(&mut r, 1, (5, 65));
        step(&mut r, 1, (0, 100), 1);
        let (collected, _) = run(&r);
        let step = &collected.steps[0];
        assert_eq!(step.count_of(&step.lanes[0], 0), expected, "a span to {end}, a graph to 65");
    }
}

#[test]
fn what_an_operator_calls_is_not_counted_twice() {
    let mut r = counting(&["cycles"]);
    thread(&mut r, 1, 0, 100);
    tensor(&mut r, 1, 1, 0xa, "MUL_MAT", "outer");
    tensor(&mut r, 1, 1, 0xb, "CPY", "inner");
    tensor(&mut r, 1, 1, 0xc, "CONT", "innermost");
    share(&mut r, (1, 0), 0xc, (25, 28), &[("cycles", 5)]);
    share(&mut r, (1, 0), 0xb, (20, 30), &[("cycles", 30)]);
    share(&mut r, (1, 0), 0xa, (10, 50), &[("cycles", 100)]);
    graph(&mut r, 1, (5, 65));
    step(&mut r, 1, (0, 100), 1);
    let (collected, timeline) = run(&r);
    let counts = ["MUL_MAT", "CPY", "CONT"].map(|op| of_type(&collected, &timeline, op).count(0));
    assert_eq!(counts, [Count::Exact(70), Count::Exact(25), Count::Exact(5)]);
}

const COSTS: &str = "analysis:
  dtypes: { f32: 4, q4: 18.0 / 32 }
  costs:
    MUL_MAT: { flops: '2 * shape[0] * shape[1] * inputs[0].shape[0]', bytes: 'inputs[*].bytes + bytes' }
    MUL_MAT_ID:
      flops: 2 * shape[0] * shape[1]
      bytes: inputs[0].bytes / inputs[0].shape[2] * experts
      experts: 'shape[1] < inputs[0].shape[2] ? shape[1] : inputs[0].shape[2]'
  metrics: { speed: flops / duration, traffic: bytes / duration }
";

fn described(r: &mut Records, address: u64, op: &str, (dtype, shape): (&str, &[i64]), inputs: &[i64]) {
    let fields = [
        ("address", Put::Int(address)),
        ("op", Put::Text(op)),
        ("name", Put::Text(op)),
        ("dtype", Put::Text(dtype)),
        ("shape", Put::List(shape)),
        ("inputs", Put::List(inputs)),
    ];
    r.push("tensor", 1, (1, 1), &fields);
}

#[test]
fn costs_come_of_shapes_and_types_inputs_included() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    described(&mut r, 0x1, "NONE", ("q4", &[64, 8, 1, 1]), &[]);
    described(&mut r, 0x2, "NONE", ("f32", &[64, 2, 1, 1]), &[]);
    described(&mut r, 0xa, "MUL_MAT", ("f32", &[8, 2, 1, 1]), &[1, 2]);
    described(&mut r, 0xb, "ADD", ("f32", &[8, 2, 1, 1]), &[1, 2]);
    described(&mut r, 0xc, "MUL_MAT", ("q9", &[8, 2, 1, 1]), &[1, 3]);
    for (node, start) in [(0xa, 10), (0xb, 20), (0xc, 30)] {
        operator(&mut r, 1, (start, start + 10), 0, node, 0);
    }
    graph(&mut r, 1, (5, 65));
    step(&mut r, 1, (0, 100), 1);
    let found = run_with(&r, rules(COSTS));
    let costs: Vec<Cost> = found.0.steps[0].operators.iter().map(|o| o.cost).collect();
    let costed = Cost { flops: Some(2048.0), bytes: Some(288.0 + 512.0 + 64.0), ..Cost::default() };
    let half = Cost { flops: Some(2048.0), ..Cost::default() };
    assert_eq!(costs, [costed, Cost::default(), half], "of a type without a cost, and of one without a size");
    assert_eq!(metric(&r, &found, "traffic", "MUL_MAT"), Ok(Some((864.0 / 10e-9, false, 1))), "of the one with a cost");
    assert_eq!(metric(&r, &found, "speed", "MUL_MAT"), Ok(Some((4096.0 / 20e-9, false, 2))));
    assert_eq!(metric(&r, &found, "speed", "ADD"), Ok(None));
}

/// A call's inputs are what lay at their addresses when it began: the same memory has another shape later.
#[test]
fn costs_come_of_the_inputs_that_a_record_lists() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    described(&mut r, 0x1, "NONE", ("f32", &[64, 8, 1, 1]), &[]);
    described(&mut r, 0x2, "NONE", ("f32", &[64, 2, 1, 1]), &[]);
    let fields = |inputs: &'static [i64]| {
        [
            ("op", Put::Text("MUL_MAT")),
            ("dtype", Put::Text("f32")),
            ("shape", Put::List(&[8, 2, 1, 1])),
            ("inputs", Put::List(inputs)),
        ]
    };
    r.push("call", 1, (10, 20), &fields(&[1, 2]));
    let again = [("address", Put::Int(0x2)), ("dtype", Put::Text("f32")), ("shape", Put::List(&[64, 4, 1, 1]))];
    r.push("tensor", 1, (25, 25), &again);
    r.push("call", 1, (30, 40), &fields(&[1, 2]));
    step(&mut r, 1, (0, 100), 1);
    let found = run_with(&r, rules(COSTS));
    let bytes: Vec<Option<f64>> = found.0.steps[0].operators.iter().map(|o| o.cost.bytes).collect();
    assert_eq!(bytes, [Some(2048.0 + 512.0 + 64.0), Some(2048.0 + 1024.0 + 64.0)]);
    assert!(found.0.steps[0].operators.iter().all(|o| o.cost.flops == Some(2048.0)));
}

/// Records of calls, from outer to inner: who has a cost, and when.
fn own_costs(calls: &[(&str, (u64, u64))]) -> Vec<(Option<f64>, Option<f64>)> {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for (op, span) in calls {
        r.push("call", 1, *span, &[("op", Put::Text(op)), ("shape", Put::List(&[1, 1, 1, 1]))]);
    }
    step(&mut r, 1, (0, 100), 1);
    let rules = rules(
        "analysis: { costs: { whole: { flops: 8, bytes: 100 }, part: { flops: 3, bytes: 100 }, \
        copy: { flops: 0, bytes: 40 }, free: { flops: 0, bytes: 0 } } }",
    );
    run_with(&r, rules).0.steps[0].operators.iter().map(|o| (o.cost.flops, o.cost.bytes)).collect()
}

/// Time is of the innermost operator, and so are the operations and bytes: no rate is beyond the machine, and sums have
/// nothing twice.
#[test]
fn an_operator_does_not_cost_what_the_operators_that_it_calls_cost() {
    let of = |flops: f64, bytes: f64| (Some(flops), Some(bytes));
    let (outer, free) = ((10, 90), of(0.0, 0.0));
    assert_eq!(own_costs(&[("whole", outer), ("whole", (20, 80))]), [free, of(8.0, 100.0)]);
    assert_eq!(own_costs(&[("part", outer), ("whole", (20, 80))]), [free, of(8.0, 100.0)], "no less than nothing");
    let moved = [("whole", outer), ("copy", (20, 30)), ("copy", (40, 50))];
    assert_eq!(own_costs(&moved), [of(8.0, 20.0), of(0.0, 40.0), of(0.0, 40.0)]);
    let deep = [("whole", outer), ("free", (20, 80)), ("part", (30, 70))];
    assert_eq!(own_costs(&deep), [of(5.0, 0.0), free, of(3.0, 100.0)], "through one that only calls");
    let unknown = [("whole", outer), ("other", (20, 80)), ("part", (30, 70)), ("part", (40, 50))];
    assert_eq!(own_costs(&unknown), [of(5.0, 0.0), (None, None), free, of(3.0, 100.0)]);
    let after = [("whole", (10, 20)), ("whole", (20, 30))];
    assert_eq!(own_costs(&after), [of(8.0, 100.0); 2], "beside each other");
}

#[test]
fn costs_of_experts_are_of_those_used_or_of_the_most_there_can_be() {
    for (recorded, expected) in [(true, (2.0, false)), (false, (4.0, true))] {
        let mut r = Records::default();
        thread(&mut r, 1, 0, 100);
        described(&mut r, 0x1, "NONE", ("f32", &[64, 8, 4, 1]), &[]);
        described(&mut r, 0xa, "MUL_MAT_ID", ("f32", &[8, 6, 1, 1]), &[1]);
        if recorded {
            // More tokens than fit one record.
            r.push("experts", 1, (10, 10), &[("node", Put::Int(0xa)), ("ids", Put::List(&[3, 1, 3]))]);
            r.push("experts", 1, (10, 10), &[("node", Put::Int(0xa)), ("ids", Put::List(&[1, 1, 3]))]);
        }
        operator(&mut r, 1, (10, 20), 0, 0xa, 0);
        graph(&mut r, 1, (5, 65));
        step(&mut r, 1, (0, 100), 1);
        let (collected, _) = run_with(&r, rules(COSTS));
        let cost = collected.steps[0].operators[0].cost;
        assert_eq!((cost.bytes, cost.bytes_bound), (Some(expected.0 * 64.0 * 8.0 * 4.0), expected.1));
        assert_eq!((cost.flops, cost.flops_bound), (Some(96.0), false), "which are not by experts");
    }
}

#[test]
fn an_input_that_changes_its_shape_changes_the_cost() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    described(&mut r, 0x2, "NONE", ("f32", &[4, 1, 1, 1]), &[]);
    described(&mut r, 0xa, "MUL_MAT", ("f32", &[8, 1, 1, 1]), &[1, 2]);
    for i in 0..2_u64 {
        let at = i * 200;
        let shape = [32 + i64::try_from(i).unwrap() * 32, 8, 1, 1];
        let fields = [
            ("address", Put::Int(1)),
            ("op", Put::Text("NONE")),
            ("dtype", Put::Text("f32")),
            ("shape", Put::List(&shape)),
        ];
        r.push("tensor", 1, (at + 6, at + 6), &fields);
        operator(&mut r, 1, (at + 10, at + 20), 0, 0xa, 0);
        graph(&mut r, 1, (at + 5, at + 65));
        step(&mut r, 1, (at, at + 100), 1);
    }
    let (collected, _) = run_with(&r, rules(COSTS));
    let flops: Vec<f64> = collected.steps.iter().map(|s| s.operators[0].cost.flops.unwrap()).collect();
    assert_eq!(flops, [2.0 * 8.0 * 32.0, 2.0 * 8.0 * 64.0], "the operator itself is described alike");
}

const BY_BEGINNING: &str = "analysis: { costs: { \"Pool*\": { flops: 1 }, \"Pool (Max*\": { flops: 2 }, \
    \"Add (ND, F32), Pool (Max, F16)\": { flops: 3 } } }";

#[test]
fn a_cost_is_of_the_type_s_own_name_or_of_the_longest_beginning() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    let types = ["Pool (Mean)", "Pool (Max, F32)", "Pool (Max, F16)", "Add (ND, F32)", "Add (ND, F16)", "Poo"];
    for (at, op) in (10..).step_by(2).zip(types) {
        r.push("call", 1, (at, at + 1), &[("op", Put::Text(op)), ("shape", Put::List(&[1, 1, 1, 1]))]);
    }
    step(&mut r, 1, (0, 100), 1);
    let (collected, timeline) = run_with(&r, rules(BY_BEGINNING));
    let operators = &collected.steps[0].operators;
    let flops: Vec<Option<f64>> = operators.iter().map(|o| o.cost.flops).collect();
    assert_eq!(flops, [Some(1.0), Some(2.0), Some(3.0), Some(3.0), None, None]);
    // Without names they are named by their types, which are no pattern.
    let pattern = |o: &Operator| timeline.catalogue().kind(o.kind).pattern.to_string();
    assert_eq!(operators.iter().map(pattern).collect::<Vec<_>>(), types);
}
