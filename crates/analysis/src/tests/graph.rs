//! What reads what, in traces with a predetermined graph.

use super::*;
use profinfer_schema::{FieldLayout, FieldType};

/// The usual schema, with objects that name the data they are views of, and where it lies.
fn records() -> Records {
    let mut records = Records::default();
    let tensor = records.schema.records.iter_mut().find(|r| r.name == "tensor").unwrap();
    for (name, ty) in [("view", FieldType::Pointer), ("data", FieldType::Pointer), ("bytes", FieldType::Uint(8))] {
        tensor.fields.push(FieldLayout { name: name.into(), offset: tensor.size, ty });
        tensor.size += 8;
    }
    records
}

/// An object, for [`object`].
#[derive(Default, Clone, Copy)]
struct Tensor<'a> {
    op: &'a str,
    name: &'a str,
    inputs: &'a [i64],
    view: u64,
    data: (u64, u64),
}

fn object(r: &mut Records, time: u64, address: u64, of: Tensor<'_>) {
    let fields = [
        ("address", Put::Int(address)),
        ("op", Put::Text(of.op)),
        ("name", Put::Text(of.name)),
        ("dtype", Put::Text("f32")),
        ("shape", Put::List(&[8, 1, 1, 1])),
        ("inputs", Put::List(of.inputs)),
        ("view", Put::Int(of.view)),
        ("data", Put::Int(of.data.0)),
        ("bytes", Put::Int(of.data.1)),
    ];
    r.push("tensor", 1, (time, time), &fields);
}

fn leaf(r: &mut Records, address: u64, name: &str, data: (u64, u64)) {
    object(r, 5, address, Tensor { op: "NONE", name, data, ..Tensor::default() });
}

/// An operator of 10 ns, described at its start.
fn computes(r: &mut Records, time: u64, address: u64, of: Tensor<'_>) {
    object(r, time, address, of);
    operator(r, 1, (time, time + 10), 0, address, 0);
}

fn ends(r: &mut Records, tokens: u64) -> &mut Records {
    graph(r, 1, (4, 900));
    step(r, 1, (0, 1000), tokens);
    r
}

struct Both(Collected, GraphFinder);

impl Visitor for Both {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.0.step(step, catalogue, decoder);
        self.1.step(step, catalogue, decoder);
    }
}

fn found(records: &Records, wanted: Wanted, rules: Rules) -> Option<OperatorGraph> {
    let mut timeline = Timeline::new(&records.schema, rules, 100);
    timeline.add_sites(&[site(0, &["norm_mul"])]);
    let mut both = Both(Collected::default(), GraphFinder::new(wanted));
    for record in &records.records {
        timeline.record(record, &mut both);
    }
    timeline.finish(&mut both);
    both.1.finish(timeline.catalogue())
}

fn of_first(records: &Records) -> OperatorGraph {
    found(records, Wanted::Step(1), Rules::default()).expect("the step is there")
}

/// `from -> to (via)` of every edge.
fn edges(graph: &OperatorGraph) -> Vec<String> {
    let name = |node: usize| graph.nodes[node].name.to_string();
    let edge = |edge: &Edge| format!("{} -> {} ({})", name(edge.from), name(edge.to), edge.via.as_str());
    graph.edges.iter().map(edge).collect()
}

fn kinds(graph: &OperatorGraph) -> Vec<(String, &'static str)> {
    graph.nodes.iter().map(|node| (node.name.to_string(), node.kind.as_str())).collect()
}

#[test]
fn an_operator_reads_what_its_inputs_are() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    leaf(&mut r, 0x9_0000, "w", (0x100, 32));
    computes(&mut r, 10, 0xa000, Tensor { op: "A", name: "a", inputs: &[0x9_0000], ..Tensor::default() });
    // A view of a view of `a`, which nobody computes.
    object(&mut r, 19, 0xb000, Tensor { op: "VIEW", name: "v", inputs: &[0xa000], view: 0xa000, ..Tensor::default() });
    object(&mut r, 19, 0xc000, Tensor { op: "VIEW", name: "vv", inputs: &[0xb000], view: 0xa000, ..Tensor::default() });
    computes(&mut r, 20, 0xd000, Tensor { op: "B", name: "b", inputs: &[0xc000, 0xa000], ..Tensor::default() });
    let graph = of_first(ends(&mut r, 1));
    assert_eq!(edges(&graph), ["w -> a (direct)", "a -> b (direct)"]);
    assert_eq!(graph.edges[1].inputs, [0, 1], "as both of its inputs");
    assert_eq!(graph.operators(), 2);
    let path = CriticalPath::of(&graph);
    assert_eq!((path.nodes, path.elapsed, path.share), (vec![0, 1], 20.0, 0.02));
}

#[test]
fn a_view_alone_is_looked_through() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    computes(&mut r, 10, 0xa000, Tensor { op: "A", name: "a", ..Tensor::default() });
    // One that does not name what it is a view of stands for its inputs.
    object(&mut r, 19, 0xb000, Tensor { op: "RESHAPE", name: "v", inputs: &[0xa000], ..Tensor::default() });
    computes(&mut r, 20, 0xd000, Tensor { op: "B", name: "b", inputs: &[0xb000], ..Tensor::default() });
    assert_eq!(edges(&of_first(ends(&mut r, 1))), ["a -> b (view)"]);
}

#[test]
fn what_is_changed_in_place_is_read_as_it_was_left() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    computes(&mut r, 10, 0xa000, Tensor { op: "A", name: "a", data: (0x100, 32), ..Tensor::default() });
    let scaled = Tensor { op: "SCALE", name: "s", inputs: &[0xa000], view: 0xa000, data: (0x100, 32) };
    computes(&mut r, 20, 0xb000, scaled);
    // It names `a`, and reads what `s` made of it.
    computes(&mut r, 30, 0xc000, Tensor { op: "B", name: "b", inputs: &[0xa000], ..Tensor::default() });
    // The half that nothing changed since.
    let half = Tensor { op: "HALF", name: "h", inputs: &[0xa000], view: 0xa000, data: (0x110, 16) };
    computes(&mut r, 40, 0xd000, half);
    let first = Tensor { op: "VIEW", name: "v", inputs: &[0xa000], view: 0xa000, data: (0x100, 16) };
    object(&mut r, 49, 0xe000, first);
    computes(&mut r, 50, 0xf000, Tensor { op: "C", name: "c", inputs: &[0xe000], ..Tensor::default() });
    let graph = of_first(ends(&mut r, 1));
    assert_eq!(edges(&graph), ["a -> s (direct)", "s -> b (memory)", "s -> h (memory)", "s -> c (memory)"]);
    assert_eq!(graph.nodes.iter().map(|node| node.in_place).collect::<Vec<_>>(), [false, true, false, true, false]);
}

#[test]
fn a_fused_operator_reads_what_its_first_part_reads() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    leaf(&mut r, 0x9_0000, "w", (0x100, 32));
    computes(&mut r, 10, 0xa000, Tensor { op: "A", name: "a", ..Tensor::default() });
    object(&mut r, 20, 0xb000, Tensor { op: "NORM", name: "n", inputs: &[0xa000], ..Tensor::default() });
    object(&mut r, 20, 0xc000, Tensor { op: "MUL", name: "m", inputs: &[0xb000, 0x9_0000], ..Tensor::default() });
    let fields = [("lane", Put::Int(0)), ("node", Put::Int(0xc000)), ("covers", Put::Int(0xb000))];
    r.push_at_site("fused", 0, 1, (20, 30), &fields);
    let graph = of_first(ends(&mut r, 1));
    assert_eq!(edges(&graph), ["a -> m (view)", "w -> m (direct)"]);
    assert_eq!((graph.edges[0].inputs.as_slice(), graph.edges[1].inputs.as_slice()), (&[0][..], &[1][..]));
    assert_eq!((&*graph.nodes[1].op, graph.nodes[1].covers.as_deref()), ("norm_mul", Some("n")));
}

/// A cache whose rows an operator writes and another reads, by another object that names the same memory.
#[test]
fn a_cache_leads_from_who_writes_it_to_who_reads_it() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    leaf(&mut r, 0x1000, "cache", (0x1000, 0x100));
    leaf(&mut r, 0x2000, "alias", (0x1000, 0x100));
    leaf(&mut r, 0x3000, "other cache", (0x2000, 0x100));
    computes(&mut r, 10, 0xa_a000, Tensor { op: "A", name: "k", ..Tensor::default() });
    let write =
        Tensor { op: "SET_ROWS", name: "set", inputs: &[0xa_a000, 0x1000], view: 0x1000, data: (0x1000, 0x100) };
    computes(&mut r, 20, 0xb_b000, write);
    let view = |data| Tensor { op: "VIEW", name: "v", inputs: &[0x1000], view: 0x1000, data };
    object(&mut r, 29, 0xc_c000, view((0x1000, 0x80)));
    computes(&mut r, 30, 0xd_d000, Tensor { op: "ATTN", name: "by view", inputs: &[0xc_c000], ..Tensor::default() });
    computes(&mut r, 40, 0xe_e000, Tensor { op: "ATTN", name: "by alias", inputs: &[0x2000], ..Tensor::default() });
    computes(&mut r, 50, 0xf_f000, Tensor { op: "ATTN", name: "none", inputs: &[0x3000], ..Tensor::default() });
    let graph = of_first(ends(&mut r, 1));
    assert_eq!(
        edges(&graph),
        [
            "k -> set (direct)",
            "cache -> set (direct)",
            "set -> by view (memory)",
            "cache -> by view (view)",
            "set -> by alias (memory)",
            "alias -> by alias (direct)",
            "other cache -> none (direct)",
        ]
    );
    let kinds = kinds(&graph);
    assert_eq!(kinds[5..7], [("cache".into(), "cache"), ("alias".into(), "cache")]);
    assert_eq!(kinds[7], ("other cache".into(), "weight"), "nothing writes it");
}

#[test]
fn data_is_told_apart_by_what_happens_to_it() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    leaf(&mut r, 0x9_0000, "w", (0x100, 32));
    leaf(&mut r, 0x8_0000, "tokens", (0x200, 32));
    // It never changes, but is made along with the results.
    leaf(&mut r, 0xa400, "ids", (0x300, 32));
    let inputs = &[0x9_0000, 0x8_0000, 0xa400, 0x7_7000];
    computes(&mut r, 10, 0xa000, Tensor { op: "A", name: "a", inputs, ..Tensor::default() });
    ends(&mut r, 4);
    // The next step has fewer tokens.
    object(&mut r, 1005, 0x8_0000, Tensor { op: "NONE", name: "tokens", data: (0x200, 8), ..Tensor::default() });
    step(&mut r, 1, (1000, 1100), 1);
    let expected =
        [("a", "operator"), ("w", "weight"), ("tokens", "input"), ("ids", "input"), ("not described", "unknown")];
    assert_eq!(kinds(&of_first(&r)), expected.map(|(name, kind)| (name.to_owned(), kind)));
}

/// One address is a result in one graph and something else in the next.
#[test]
fn an_address_that_is_used_again_is_another_object() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    computes(&mut r, 10, 0xa_a000, Tensor { op: "A", name: "a", ..Tensor::default() });
    object(&mut r, 25, 0xa_a000, Tensor { op: "NONE", name: "input", ..Tensor::default() });
    computes(&mut r, 30, 0xb_b000, Tensor { op: "B", name: "b", inputs: &[0xa_a000], ..Tensor::default() });
    let graph = of_first(ends(&mut r, 1));
    assert_eq!(edges(&graph), ["input -> b (direct)"]);
    assert_eq!(graph.nodes[2].kind, NodeKind::Input);
}

/// Layers `a-0`, `b-0`, `a-1`, …, each of which reads the one before; the last has one operator more.
fn layers(r: &mut Records, at: u64, count: u64) {
    thread(r, 1, at, 100);
    let mut before = 0;
    for layer in 0..count {
        let time = at + 10 + layer * 30;
        let mut add = |offset: u64, address: u64, name: String, inputs: &[i64]| {
            let (op, start) = (if offset == 20 { "C" } else { "A" }, time + offset);
            object(r, start, address, Tensor { op, name: &name, inputs, ..Tensor::default() });
            operator(r, 1, (start, start + 10), 0, address, 0);
        };
        let (a, b) = (0xa_0000 + layer * 0x100, 0xb_0000 + layer * 0x100);
        add(0, a, format!("a-{layer}"), &[before]);
        add(10, b, format!("b-{layer}"), &[a.cast_signed()]);
        if layer + 1 == count {
            add(20, 0xc_0000, format!("c-{layer}"), &[b.cast_signed()]);
        }
        before = b.cast_signed();
    }
    graph(r, 1, (at + 5, at + 900));
    step(r, 1, (at, at + 1000), 1);
}

fn by_layer() -> Rules {
    let source = std::sync::Arc::new(profinfer_diagnostics::Source { name: String::new(), text: String::new() });
    let layer =
        profinfer_probeset::path::parse_expr(r#"name ~ "-(\d+)$""#, &profinfer_diagnostics::Span::new(&source, 0..0))
            .unwrap();
    Rules::new(&profinfer_probeset::Analysis { layer: Some(layer), ..profinfer_probeset::Analysis::default() }).unwrap()
}

#[test]
fn layers_that_are_alike_fold() {
    let mut r = records();
    layers(&mut r, 0, 4);
    let graph = found(&r, Wanted::Step(1), by_layer()).unwrap();
    let fold = Fold::folded(&graph);
    let titles: Vec<String> = fold.sections.iter().map(|section| section.layers.join(" ")).collect();
    assert_eq!(titles, ["0 1 2", "3"], "the last layer has an operator more");
    assert_eq!(fold.nodes[0].members, [0, 2, 4]);
    assert_eq!(fold.sections[0].work, [20.0, 20.0, 20.0]);
    let unfolded = Fold::unfolded(&graph);
    assert_eq!((unfolded.sections.len(), unfolded.nodes.len()), (4, graph.operators()));
    assert!(unfolded.nodes.iter().all(|node| node.members.len() == 1));
}

#[test]
fn a_mean_is_of_steps_with_the_same_operators() {
    let mut r = records();
    for (start, count) in [(0, 3), (1000, 3), (2000, 2), (3000, 3)] {
        layers(&mut r, start, count);
    }
    let graph = found(&r, Wanted::Mean { phase: None, steps: 1..=u64::MAX }, by_layer()).unwrap();
    assert_eq!((graph.step.steps, graph.step.left_out, graph.step.number), (3, 1, 1));
    assert_eq!((graph.operators(), graph.mean(graph.nodes[0].elapsed)), (7, 10.0));
    assert!(found(&r, Wanted::Step(9), by_layer()).is_none());
}

#[test]
fn hostile_objects_end_the_search() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    // Views and inputs in circles.
    for address in 0..64_u64 {
        let next = 0x1000 + (address + 1) % 64 * 0x10;
        let inputs = &[next.cast_signed(), 0x1000, next.cast_signed()];
        let of = Tensor { op: "V", name: "v", inputs, view: next, data: (u64::MAX - 4, u64::from(u32::MAX)) };
        object(&mut r, 6, 0x1000 + address * 0x10, of);
    }
    let itself = Tensor { op: "A", name: "a", inputs: &[0xa000, 0x1000], view: 0xa000, data: (8, 8) };
    computes(&mut r, 10, 0xa000, itself);
    computes(&mut r, 20, 0x1000, Tensor { op: "B", name: "b", inputs: &[0x1000, 0xa000], view: 0x1010, ..itself });
    let graph = of_first(ends(&mut r, 1));
    assert!(graph.edges.iter().all(|edge| edge.from < edge.to || graph.nodes[edge.from].kind != NodeKind::Operator));
    assert!(CriticalPath::of(&graph).elapsed <= 20.0);
}

/// An operator without a layer in its name is of its neighbours' layer, where both are of one; and is marked so.
#[test]
fn layers_are_inferred_between_two_of_the_same() {
    let mut r = records();
    thread(&mut r, 1, 0, 100);
    let names = ["embd", "norm-0", "node_3", "node_4", "out-0", "node_6", "norm-1", "node_8", "out-1", "result"];
    for (at, name) in (1_u64..).zip(names) {
        computes(&mut r, at * 20, at, Tensor { op: "MUL", name, ..Tensor::default() });
    }
    ends(&mut r, 1);
    let (collected, timeline) = run_with(&r, by_layer());
    let of = |operator: &Operator| {
        let kind = timeline.catalogue().kind(operator.kind);
        format!(
            "{} {}{}",
            kind.name,
            kind.layer.as_deref().unwrap_or("-"),
            if kind.layer_inferred { " inferred" } else { "" }
        )
    };
    let found: Vec<String> = collected.steps[0].operators.iter().map(of).collect();
    let expected = [
        "embd -",
        "norm-0 0",
        "node_3 0 inferred",
        "node_4 0 inferred",
        "out-0 0",
        "node_6 -",
        "norm-1 1",
        "node_8 1 inferred",
        "out-1 1",
        "result -",
    ];
    assert_eq!(found, expected);
}

/// The usual schema, with calls that say which addresses they read and wrote.
fn records_of_addresses() -> Records {
    let mut records = Records::default();
    let tensor = records.schema.records.iter_mut().find(|r| r.name == "tensor").unwrap();
    tensor.fields.push(FieldLayout { name: "constant".into(), offset: tensor.size, ty: FieldType::Uint(8) });
    tensor.size += 8;
    let call = records.schema.records.iter_mut().find(|r| r.name == "call").unwrap();
    call.fields.push(FieldLayout {
        name: "writes".into(),
        offset: call.size,
        ty: FieldType::Array(Box::new(FieldType::Uint(8)), 2),
    });
    call.size += 16;
    thread(&mut records, 1, 0, 100);
    thread(&mut records, 2, 0, 100);
    records
}

fn call(r: &mut Records, tid: u32, span: (u64, u64), op: &str, reads: &[i64], writes: &[i64]) {
    r.push("call", tid, span, &[("op", Put::Text(op)), ("inputs", Put::List(reads)), ("writes", Put::List(writes))]);
}

#[test]
fn who_reads_an_address_reads_what_was_written_there_last() {
    let mut r = records_of_addresses();
    for (address, constant) in [(0x10, 1), (0x20, 0)] {
        let fields = [("address", Put::Int(address)), ("name", Put::Text("d")), ("constant", Put::Int(constant))];
        r.push("tensor", 1, (1, 1), &fields);
    }
    call(&mut r, 1, (10, 20), "a", &[0x20, 0x10], &[0x30]);
    call(&mut r, 1, (20, 30), "b", &[0x30], &[0x40, 0x50]);
    // The memory of `a`'s result is used again.
    call(&mut r, 1, (30, 40), "c", &[0x40, 0, 0x99], &[0x30]);
    call(&mut r, 1, (40, 50), "d", &[0x30, 0x50, 0x30], &[0x60]);
    // Beside it, and done after it.
    call(&mut r, 2, (35, 60), "e", &[0x50], &[0x30]);
    call(&mut r, 1, (60, 70), "f", &[0x30], &[0x70]);
    let graph = of_first(ends(&mut r, 1));
    let named = |of: &Edge| format!("{} -> {} {:?}", graph.nodes[of.from].name, graph.nodes[of.to].name, of.inputs);
    let found: Vec<String> = graph.edges.iter().map(named).collect();
    let expected =
        ["d -> a [0]", "d -> a [1]", "a -> b [0]", "b -> c [0]", "c.inputs[2] -> c [2]", "b -> e [0]", "c -> d [0, 2]"];
    assert_eq!(found[..7], expected);
    assert_eq!(found[7..], ["b -> d [1]", "e -> f [0]"]);
    let leaves: Vec<_> = kinds(&graph).split_off(6).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(leaves, ["input", "weight", "data"]);
}

#[test]
fn an_operator_within_another_reads_no_older_result_at_its_address() {
    let mut r = records_of_addresses();
    call(&mut r, 1, (10, 20), "a", &[0x1], &[0x30]);
    call(&mut r, 1, (20, 30), "b", &[0x30], &[0x40]);
    // It writes where `a`'s result was, by `within`, which reads that; and `slice` reads something that it made.
    call(&mut r, 1, (45, 50), "within", &[0x30], &[0x30]);
    call(&mut r, 1, (50, 55), "after", &[0x30], &[0x90]);
    call(&mut r, 1, (55, 58), "slice", &[0x48], &[0x91]);
    call(&mut r, 1, (40, 60), "c", &[0x40], &[0x30]);
    call(&mut r, 1, (60, 70), "d", &[0x30], &[0x50]);
    let graph = of_first(ends(&mut r, 1));
    let named = |of: &Edge| format!("{} -> {}", graph.nodes[of.from].name, graph.nodes[of.to].name);
    let found: Vec<String> = graph.edges.iter().map(named).collect();
    let expected = ["a.inputs[0] -> a", "a -> b", "b -> c", "within -> after", "slice.inputs[0] -> slice", "c -> d"];
    assert_eq!(found, expected);
    assert_eq!(kinds(&graph)[7..], [("a.inputs[0]".into(), "data"), ("slice.inputs[0]".into(), "unknown")]);
}

#[test]
fn what_an_operator_without_results_may_have_made_is_unknown() {
    let mut r = records_of_addresses();
    r.push("tensor", 1, (1, 1), &[("address", Put::Int(0x20)), ("name", Put::Text("w")), ("constant", Put::Int(1))]);
    r.push("call", 1, (10, 20), &[("op", Put::Text("a")), ("inputs", Put::List(&[0x10])), ("writes", Put::Missing)]);
    call(&mut r, 1, (20, 30), "b", &[0x30, 0x20], &[0x40]);
    let graph = of_first(ends(&mut r, 1));
    let leaves: Vec<_> = kinds(&graph).split_off(2).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(leaves, ["unknown", "weight"]);
}

#[test]
fn what_moves_between_steps_is_an_input() {
    let mut r = records_of_addresses();
    // The third input is where the second operator's result of another step was.
    for (at, moving) in [(0, 0x20), (1000, 0x21)] {
        call(&mut r, 1, (at + 10, at + 20), "a", &[0x10, moving, 0x40], &[0x30]);
        call(&mut r, 1, (at + 20, at + 30), "b", &[0x30], &[0x40]);
        graph(&mut r, 1, (at + 4, at + 900));
        step(&mut r, 1, (at, at + 999), 1);
    }
    let graph = found(&r, Wanted::Mean { phase: None, steps: 1..=u64::MAX }, Rules::default()).unwrap();
    assert_eq!((graph.step.steps, graph.operators()), (2, 2));
    let leaves: Vec<_> = kinds(&graph).split_off(2).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(leaves, ["data", "input", "input"]);
}
