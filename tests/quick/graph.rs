//! `profinfer graph` on a stored recording of a real engine: what it says is what `report` says of the same step, its
//! formats are read by the programs that they are for, and its pictures are well formed.

use crate::toy::{MEMORY, ODD, Run, Trace};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().unwrap()
}

fn profinfer(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&profinfer(arguments)).unwrap()
}

/// A recording of a real engine.
fn stored() -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/v1/llama.pfi");
    path.to_str().unwrap().to_owned()
}

fn graph(arguments: &[&str]) -> Value {
    let stored = stored();
    json(&[&["graph", &stored, "--format", "json"], arguments].concat())
}

fn rows<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().unwrap().iter()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

/// Nodes by identifier.
fn nodes(graph: &Value) -> BTreeMap<&str, &Value> {
    rows(graph, "nodes").map(|node| (text(node, "id"), node)).collect()
}

#[test]
fn its_operators_are_those_of_the_step_report() {
    for step in ["2", "9"] {
        let graph = graph(&["--step", step]);
        let report = json(&["report", &stored(), "--json", "--step", step]);
        let operators: Vec<&Value> = rows(&graph, "nodes").filter(|node| node["kind"] == "operator").collect();
        let reported: Vec<&Value> = rows(&report["step"], "operators").collect();
        assert_eq!(operators.len(), reported.len());
        for (node, operator) in operators.iter().zip(reported) {
            for key in ["name", "op", "dtype", "shape", "covers"] {
                assert_eq!(node[key], operator[key], "{key}");
            }
            let number = |value: &Value| value.as_f64().unwrap();
            for (key, of) in [("elapsed_ns", "duration_ns"), ("work_ns", "work_ns"), ("waiting_ns", "waiting_ns")] {
                assert!((number(&node["cost"][key]) - number(&operator[of])).abs() < 0.5, "{key}");
            }
        }
        assert_eq!(graph["step"]["duration_ns"].as_f64(), report["step"]["duration_ns"].as_f64());
    }
}

/// What one operator reads, by name and kind.
fn reads(graph: &Value, name: &str, op: &str) -> BTreeSet<String> {
    let nodes = nodes(graph);
    let is_it = |node: &&Value| text(node, "name") == name && text(node, "op") == op;
    let id = text(rows(graph, "nodes").find(is_it).unwrap_or_else(|| panic!("no {op} {name}")), "id");
    let of = rows(graph, "edges").filter(|edge| text(edge, "to") == id);
    of.map(|edge| {
        let from = nodes[text(edge, "from")];
        format!("{} {} {}", text(from, "kind"), text(from, "name"), text(edge, "via"))
    })
    .collect()
}

#[test]
fn a_real_step_has_the_edges_that_its_model_has() {
    let graph = graph(&["--step", "9"]);
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let embedding = ["weight token_embd.weight direct", "input inp_tokens direct"];
    assert_eq!(reads(&graph, "embd", "GET_ROWS"), set(&embedding));
    let fused = ["operator embd view", "weight blk.0.attn_norm.weight direct"];
    assert_eq!(reads(&graph, "attn_norm-0", "rms_norm_mul"), set(&fused), "what the first part reads");
    assert_eq!(reads(&graph, "Qcur-0", "ROPE"), set(&["operator Qcur-0 view", "input inp_pos direct"]), "by a view");
    let attention = rows(&graph, "nodes").find(|node| node["op"] == "FLASH_ATTN_EXT").unwrap();
    assert_eq!((text(attention, "layer"), attention["layer_by_place"].as_bool()), ("0", Some(true)));
    let expected = [
        "operator Qcur-0 view",
        "operator cache_k_l0 (view) memory",
        "operator cache_v_l0 (view) memory",
        "cache cache_k_l0 view",
        "cache cache_v_l0 view",
        "input attn_inp_kq_mask direct",
    ];
    assert_eq!(reads(&graph, text(attention, "name"), "FLASH_ATTN_EXT"), set(&expected), "through the cache");
    for node in rows(&graph, "nodes") {
        let name = text(node, "name");
        let expected = match text(node, "kind") {
            "operator" => continue,
            "weight" => name.ends_with(".weight"),
            "cache" => name.starts_with("cache_"),
            "input" => name.contains("inp") || name == "out_ids",
            other => panic!("{other} {name}"),
        };
        assert!(expected, "{name} is no {}", text(node, "kind"));
    }
}

#[test]
fn the_critical_path_is_the_longest_way() {
    let graph = graph(&["--step", "9"]);
    let nodes = nodes(&graph);
    let elapsed = |id: &str| nodes[id]["cost"]["elapsed_ns"].as_f64().unwrap_or(0.0);
    let mut longest: BTreeMap<&str, f64> = BTreeMap::new();
    for node in rows(&graph, "nodes").filter(|node| node["kind"] == "operator") {
        let id = text(node, "id");
        let before = rows(&graph, "edges").filter(|edge| text(edge, "to") == id);
        let before = before.filter_map(|edge| longest.get(text(edge, "from"))).fold(0.0_f64, |a, b| a.max(*b));
        longest.insert(id, before + elapsed(id));
    }
    let most = longest.values().fold(0.0_f64, |a, b| a.max(*b));
    let path = &graph["critical_path"];
    assert!((path["elapsed_ns"].as_f64().unwrap() - most).abs() < 1.0);
    let ids: Vec<&str> = rows(path, "nodes").map(|id| id.as_str().unwrap()).collect();
    let edges: BTreeSet<(&str, &str)> = rows(&graph, "edges").map(|e| (text(e, "from"), text(e, "to"))).collect();
    assert!(ids.windows(2).all(|pair| edges.contains(&(pair[0], pair[1]))), "each reads the one before");
    assert!((ids.iter().map(|id| elapsed(id)).sum::<f64>() - most).abs() < 1.0);
    let share = path["share"].as_f64().unwrap();
    assert!((share - most / graph["step"]["duration_ns"].as_f64().unwrap()).abs() < 1e-9 && share < 1.0);
}

#[test]
fn folding_keeps_every_operator_once() {
    let graph = graph(&[]);
    assert_eq!(graph["step"]["phase"], "decode", "a step that shows what decoding is like");
    for fold in ["folded", "unfolded"] {
        let ids = rows(&graph[fold], "sections").flat_map(|section| rows(section, "nodes").collect::<Vec<_>>());
        let mut ids: Vec<&str> = ids.flat_map(|ids| ids.as_array().unwrap()).map(|id| id.as_str().unwrap()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), count), (count, rows(&graph, "nodes").filter(|n| n["kind"] == "operator").count()));
    }
    let titles: Vec<&str> = rows(&graph["folded"], "sections").map(|section| text(section, "title")).collect();
    assert_eq!(titles, ["", "layers 0–2 ×3", "layer 3", ""], "the last layer picks out what is wanted of it");
}

#[test]
fn a_mean_is_of_all_steps_that_are_alike() {
    let graph = graph(&["--steps", "1..", "--phase", "decode"]);
    let steps = graph["step"]["steps"].as_u64().unwrap();
    let singles: Vec<Value> = (3..=9).map(|n| self::graph(&["--step", &n.to_string()])).collect();
    assert_eq!(steps, singles.len() as u64);
    let of = |graph: &Value| graph["nodes"][5]["cost"]["work_ns"].as_f64().unwrap();
    let mean = singles.iter().map(of).sum::<f64>() / singles.len() as f64;
    assert!((of(&graph) - mean).abs() < 0.5);
}

#[test]
fn a_mean_is_of_one_phase_and_one_number_of_tokens() {
    let all = graph(&["--steps", "1.."]);
    let decode = graph(&["--steps", "1..", "--phase", "decode"]);
    // Two more take in a prompt.
    let facts = |graph: &Value| {
        let step = &graph["step"];
        (
            text(step, "phase").to_owned(),
            step["tokens"].as_u64(),
            step["steps"].as_u64(),
            step["steps_left_out"].as_u64(),
        )
    };
    assert_eq!(facts(&all), ("decode".to_owned(), Some(1), Some(7), Some(2)));
    assert_eq!(facts(&decode), ("decode".to_owned(), Some(1), Some(7), Some(0)));
    assert_eq!((&all["nodes"], &all["step"]["duration_ns"]), (&decode["nodes"], &decode["step"]["duration_ns"]));
    let reported = profinfer(&["graph", &stored(), "--steps", "1.."]);
    let lines: Vec<&str> = reported.lines().take(2).collect();
    assert!(
        lines[0].starts_with("The mean of 7 steps that are alike, from step 3 on: decode, 1 token each, "),
        "{reported}"
    );
    let reason = "of another phase or number of tokens, with other operators, or not recorded whole";
    assert_eq!(lines[1], format!("2 more steps are left out: {reason}"));
    let svg = profinfer(&["graph", &stored(), "--steps", "1..", "--format", "svg"]);
    assert!(svg.contains("2 more steps are left out"), "the picture says it, too");
}

#[test]
fn prompts_of_different_lengths_are_not_put_together() {
    let trace = Trace::new(Run { steps: 2, more_steps: &[16, 8, 16, 3], ..MEMORY });
    let of = |arguments: &[&str]| {
        json(&[&["graph", trace.file(), "--format", "json", "--steps", "1.."], arguments].concat())
    };
    let prefill = of(&["--phase", "prefill"]);
    let step = &prefill["step"];
    assert_eq!(
        (step["tokens"].as_u64(), step["steps"].as_u64(), step["steps_left_out"].as_u64()),
        (Some(16), Some(2), Some(2))
    );
    assert_eq!(prefill["nodes"][0]["shape"][1], 16);
    // As many steps decode, and they take longer.
    let any = of(&[]);
    let step = &any["step"];
    assert_eq!(
        (text(step, "phase"), step["steps"].as_u64(), step["steps_left_out"].as_u64()),
        ("decode", Some(2), Some(4))
    );
}

fn statistics_of_layers(trace: &Trace) -> Vec<Value> {
    let statistics = json(&["statistics", trace.file(), "--json", "--only", "layers"]);
    rows(&statistics["layers"], "layers").cloned().collect()
}

#[test]
fn the_odd_layer_is_the_same_one_everywhere() {
    let trace = Trace::new(ODD);
    let layers = statistics_of_layers(&trace);
    let odd: Vec<&Value> = layers.iter().filter(|row| row["odd"] == true).collect();
    let [odd] = odd[..] else { panic!("{layers:#?}") };
    assert_eq!((text(odd, "layer"), text(odd, "phase")), ("2", "decode"));
    // 200 µs more than the 892 of two products and two small operators.
    assert!((odd["off"].as_f64().unwrap() - 200.0 / 892.0).abs() < 1e-3, "{odd}");
    assert_eq!(odd["work_off"], 0.0, "it has no more to do");
    assert_eq!((text(&odd["because"], "name"), text(&odd["because"], "op")), ("down-*", "MUL_MAT"));
    assert!((odd["because"]["more_ns"].as_f64().unwrap() - 200_000.0).abs() < 1.0, "{odd}");
    assert!(layers.iter().all(|row| row["odd"] == true || row["because"].is_null()));

    let graph = json(&["graph", trace.file(), "--format", "json", "--step", "5"]);
    let sections: Vec<&Value> = rows(&graph["folded"], "sections").collect();
    let [section] = sections[..] else { panic!("{sections:#?}") };
    assert_eq!((text(section, "title"), text(section, "odd_layer")), ("layers 0–3 ×4", "2"));
    assert_eq!(section["odd_layers"], serde_json::json!(["2"]));
    let unfolded = rows(&graph["unfolded"], "sections").map(|section| section["odd_layer"].as_str());
    assert_eq!(unfolded.collect::<Vec<_>>(), [None, None, Some("2"), None]);
    let svg = profinfer(&["graph", trace.file(), "--format", "svg", "--step", "5"]);
    assert!(svg.contains("; odd: layer 2, 1.09 ms</text>"), "{svg}");
    let reported = profinfer(&["graph", trace.file(), "--steps", "1.."]);
    assert!(reported.contains("layers 0–3 ×4: ") && reported.contains("; odd: layer 2"), "{reported}");
}

/// One step may have been preempted; standard input is read once.
#[test]
fn the_default_is_the_mean_of_equal_decode_steps() {
    let trace = stored();
    let of = |steps: &[&str]| json(&[&["graph", &trace, "--format", "json"], steps].concat());
    let mean = of(&["--steps", "1..", "--phase", "decode"]);
    assert!(mean["step"]["steps"].as_u64().unwrap() > 1, "{}", mean["step"]);
    let default = of(&[]);
    assert_eq!((&default["nodes"], &default["step"]["steps"]), (&mean["nodes"], &mean["step"]["steps"]));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["graph", "-", "--format", "json"]).stdin(std::fs::File::open(&trace).unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["nodes"], mean["nodes"]);
}

/// Over three steps nobody knows whether it is chance, wherever it is asked.
#[test]
fn no_layer_is_odd_by_chance_alone() {
    for run in [Run { steps: 3, ..ODD }, MEMORY] {
        let trace = Trace::new(run);
        assert!(statistics_of_layers(&trace).iter().all(|row| row["odd"] == false));
        let graph = json(&["graph", trace.file(), "--format", "json", "--steps", "1.."]);
        for fold in ["folded", "unfolded"] {
            assert!(rows(&graph[fold], "sections").all(|section| section["odd_layer"].is_null()), "{graph:#}");
        }
    }
}

#[test]
fn a_node_has_its_share_counts_metrics_and_bandwidth() {
    let trace = Trace::new(Run { counted: true, ..MEMORY });
    let of = |steps: &[&str]| json(&[&["graph", trace.file(), "--format", "json"], steps].concat());
    let (one, mean) = (of(&["--step", "3"]), of(&["--steps", "1..5"]));
    assert_eq!(
        (text(&one["bandwidth"], "metric"), text(&one["bandwidth"], "expression")),
        ("traffic", "bytes / duration")
    );
    let operators: Vec<&Value> = rows(&one, "nodes").filter(|node| node["kind"] == "operator").collect();
    let product = &operators[0]["cost"];
    assert_eq!(text(operators[0], "name"), "up-0");
    // Two lanes of 221 µs each, of two lanes of a step; each counts three cycles a nanosecond.
    let duration = one["step"]["duration_ns"].as_f64().unwrap();
    assert!((product["share"].as_f64().unwrap() - 221_000.0 / duration).abs() < 1e-9, "{product}");
    let count = |cost: &Value| cost["counts"][0]["value"].as_u64();
    assert_eq!((text(&product["counts"][0], "counter"), count(product)), ("cycles", Some(2 * 3 * 221_000)));
    assert_eq!(count(&mean["nodes"][0]["cost"]), Some(5 * 2 * 3 * 221_000), "counts are sums over the steps");
    let bytes = f64::from(4 * (1024 * 1024 + 2 * 1024));
    for cost in [product, &mean["nodes"][0]["cost"]] {
        let traffic = rows(cost, "metrics").find(|cell| cell["metric"] == "traffic").unwrap();
        assert!((traffic["value"].as_f64().unwrap() / (bytes / 221e-6) - 1.0).abs() < 1e-6, "{traffic}");
    }
    let shares: f64 = operators.iter().map(|node| node["cost"]["share"].as_f64().unwrap()).sum();
    assert!((shares - (duration - 1000.0) / duration).abs() < 1e-9, "all of a step but what lies around its graph");
    let reported = profinfer(&["graph", trace.file(), "--step", "3"]);
    assert!(reported.contains("traffic") && reported.contains("19.0 GB/s"), "{reported}");
}

/// The class that a card is coloured by, of each of its nodes.
fn classes(trace: &Trace, colour: &str) -> BTreeMap<String, String> {
    let graph = json(&["graph", trace.file(), "--format", "json", "--step", "3"]);
    let nodes = nodes(&graph);
    let svg = profinfer(&["graph", trace.file(), "--step", "3", "--format", "svg", "--color", colour, "--unfold"]);
    let mut classes = BTreeMap::new();
    for card in svg.split("<g class=\"card ").skip(1) {
        let class = card.split(['"', ' ']).next().unwrap();
        assert!(svg.contains(&format!(".pf-graph .{class}{{--c:")), "{class} has a colour");
        let ids = card.split("data-nodes=\"").nth(1).unwrap().split('"').next().unwrap();
        classes.extend(ids.split(' ').map(|id| (text(nodes[id], "name").to_owned(), class.to_owned())));
    }
    assert_eq!(classes.len(), 16, "{classes:?}");
    classes
}

#[test]
fn colours_are_times_bandwidths_and_backends() {
    let trace = Trace::new(Run { two_backends: true, odd: Some((3, 221_000)), ..MEMORY });
    let time = classes(&trace, "time");
    let of = |classes: &BTreeMap<String, String>, names: &[&str]| {
        names.iter().map(|name| classes[*name].clone()).collect::<Vec<_>>()
    };
    // The longest is at the scale's end, one of half its time in the middle, a short one at its beginning.
    assert_eq!(of(&time, &["down-3", "up-0", "up_add-0"]), ["t7", "t4", "t0"]);
    let bandwidth = classes(&trace, "bandwidth");
    assert_eq!(of(&bandwidth, &["down-3", "up-0", "up_add-0"]), ["w4", "w7", "w0"], "the longest is half as fast");
    let backend = classes(&trace, "backend");
    assert_eq!(of(&backend, &["up-0", "down_add-1", "up-2", "down_add-3"]), ["b0", "b0", "b1", "b1"]);
    let svg = profinfer(&["graph", trace.file(), "--format", "svg", "--color", "backend"]);
    assert!(svg.contains("colour: backend") && svg.contains(">CPU<") && svg.contains(">Other<"), "{svg}");
    let folded = json(&["graph", trace.file(), "--format", "json"]);
    let titles: Vec<&str> = rows(&folded["folded"], "sections").map(|section| text(section, "title")).collect();
    assert_eq!(titles, ["layers 0–1 ×2", "layers 2–3 ×2"], "layers of different backends are not alike");
}

/// A page has a picture by backend where there are several to tell apart.
#[test]
fn a_page_colours_by_backend_where_there_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    for two_backends in [false, true] {
        let trace = Trace::new(Run { two_backends, ..MEMORY });
        profinfer(&["html", trace.file(), "-o", page.to_str().unwrap()]);
        let html = std::fs::read_to_string(&page).unwrap();
        assert_eq!(html.contains("data-name=\"by backend\""), two_backends);
    }
}

#[test]
fn graphs_of_two_traces_are_compared() {
    let (a, b) = (Trace::new(MEMORY), Trace::new(Run { two_backends: true, product_ns: 442_000, ..MEMORY }));
    let against = |arguments: &[&str]| {
        profinfer(
            &[&["graph", a.file(), "--step", "3", "--against", b.file(), "--against-step", "4"], arguments].concat(),
        )
    };
    let difference: Value = serde_json::from_str(&against(&["--format", "json"])).unwrap();
    assert_eq!((&difference["a"]["number"], &difference["b"]["number"]), (&3.into(), &4.into()));
    assert_eq!(
        (&difference["operators_a"], &difference["operators_b"], &difference["same"]),
        (&16.into(), &16.into(), &8.into())
    );
    let find = |name: &str, what: &str| {
        let is_it = |row: &&Value| row["name"] == name && row["what"] == what;
        rows(&difference, "rows").find(is_it).unwrap_or_else(|| panic!("no {what} {name}: {difference:#}"))
    };
    let moved = find("up-*", "changed");
    assert_eq!(
        (&moved["changed"], &moved["layers"]),
        (&serde_json::json!(["backend"]), &serde_json::json!(["2", "3"]))
    );
    assert_eq!((text(&moved["a"], "backend"), text(&moved["b"], "backend")), ("CPU", "Other"));
    let same = find("up-*", "same");
    assert_eq!((&same["layers"], &same["count"]), (&serde_json::json!(["0", "1"]), &2.into()));
    assert_eq!(same["b"]["elapsed_ns"].as_f64(), same["a"]["elapsed_ns"].as_f64().map(|ns| 2.0 * ns));
    let reported = against(&[]);
    assert!(reported.contains("Changed") && reported.contains("backend"), "{reported}");
    let itself =
        json(&["graph", a.file(), "--step", "3", "--against", a.file(), "--against-step", "3", "--format", "json"]);
    assert!(rows(&itself, "rows").all(|row| row["what"] == "same") && itself["same"] == 16);
}

#[test]
fn prefill_differs_from_decode_in_its_shapes() {
    let difference = graph(&["--step", "2", "--against-step", "9"]);
    assert_eq!(difference["format"], "profinfer-graph-difference");
    assert_eq!((&difference["a"]["phase"], &difference["b"]["phase"]), (&"prefill".into(), &"decode".into()));
    let find = |name: &str, op: &str| {
        let is_it = |row: &&Value| row["name"] == name && row["a"]["op"] == op;
        rows(&difference, "rows").find(is_it).unwrap_or_else(|| panic!("no {op} {name}"))
    };
    let row = find("attn_out-*", "MUL_MAT");
    assert_eq!((text(row, "what"), &row["changed"]), ("changed", &serde_json::json!(["shape"])));
    assert_eq!((row["count"].as_u64(), row["a"]["shape"][1].as_i64() > Some(1)), (Some(4), true));
    assert_eq!(row["b"]["shape"][1], 1);
    assert!(rows(&difference, "rows").all(|row| row["what"] != "new" && row["what"] != "gone"));
    let same = graph(&["--step", "9", "--against-step", "9"]);
    assert_eq!((&same["same"], &same["operators_a"]), (&same["operators_b"], &same["operators_b"]));
    let table = profinfer(&["graph", &stored(), "--phase", "prefill", "--against-phase", "decode"]);
    assert!(table.contains("Changed") && table.contains("MUL_MAT"), "{table}");
}

#[test]
fn a_missing_graph_is_reported() {
    for (arguments, reported) in [
        (&["--step", "99"][..], "the trace has no step 99"),
        (&["--steps", "50..60"], "none of these steps is whole"),
        (&["-o", "graph.bmp"], "graph.bmp has no extension of a supported format"),
        (&["--format", "dot", "--step", "2", "--against-step", "3"], "is text or JSON"),
    ] {
        let stored = stored();
        let output = run(&[&["graph", &stored], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && error.contains(reported), "{arguments:?}: {error}");
    }
}

/// A program that must be there.
fn program(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn graphviz_reads_dot() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph.dot");
    for colour in ["time", "bandwidth", "backend"] {
        profinfer(&["graph", &stored(), "--step", "9", "--color", colour, "-o", file.to_str().unwrap()]);
        let drawn: Value = serde_json::from_str(&program("dot", &["-Tjson", file.to_str().unwrap()])).unwrap();
        let graph = graph(&["--step", "9"]);
        let named = rows(&drawn, "objects").filter(|object| object.get("nodes").is_none());
        let operators = rows(&graph["folded"], "sections").map(|section| rows(section, "nodes").count()).sum::<usize>();
        let boxes = named.filter(|object| text(object, "name").starts_with('o'));
        assert_eq!(boxes.count(), operators, "equal layers are drawn once");
    }
    profinfer(&["graph", &stored(), "--step", "9", "--unfold", "-o", file.to_str().unwrap(), "--force"]);
    let drawn: Value = serde_json::from_str(&program("dot", &["-Tjson", file.to_str().unwrap()])).unwrap();
    let graph = graph(&["--step", "9"]);
    let named = rows(&drawn, "objects").filter(|object| object.get("nodes").is_none());
    assert_eq!(named.count(), rows(&graph, "nodes").count());
    assert_eq!(rows(&drawn, "edges").count(), rows(&graph, "edges").count());
}

const READ_GRAPHML: &str = "
import sys, xml.etree.ElementTree as tree
ns = '{http://graphml.graphdrawing.org/xmlns}'
root = tree.parse(sys.argv[1]).getroot()
keys = {key.get('id') for key in root.iter(ns + 'key')}
nodes = {node.get('id') for node in root.iter(ns + 'node')}
edges = [(edge.get('source'), edge.get('target')) for edge in root.iter(ns + 'edge')]
assert all(data.get('key') in keys for data in root.iter(ns + 'data'))
assert all(a in nodes and b in nodes for a, b in edges)
print(len(nodes), len(edges))
";

const READ_SVG: &str = "
import sys, xml.etree.ElementTree as tree
ns = '{http://www.w3.org/2000/svg}'
root = tree.parse(sys.argv[1]).getroot()
cards = [group for group in root.iter(ns + 'g') if 'card' in group.get('class', '')]
assert root.get('viewBox') and not any('href' in name for e in root.iter() for name in e.attrib)
print(len(cards), sum(len(card.get('data-nodes').split()) for card in cards))
";

#[test]
fn other_programs_read_graphml_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(&["--step", "9"]);
    let operators = rows(&graph, "nodes").filter(|node| node["kind"] == "operator").count();
    let write = |name: &str, more: &[&str]| {
        let (file, stored) = (folder.path().join(name), stored());
        profinfer(&[&["graph", &stored, "--step", "9", "-o", file.to_str().unwrap()], more].concat());
        file.to_str().unwrap().to_owned()
    };
    let read = program("python3", &["-c", READ_GRAPHML, &write("graph.graphml", &[])]);
    assert_eq!(read.trim(), format!("{} {}", rows(&graph, "nodes").count(), rows(&graph, "edges").count()));
    let cards = |fold: &str| -> usize { rows(&graph[fold], "sections").map(|s| rows(s, "nodes").count()).sum() };
    for (more, fold) in [(&["--fold"][..], "folded"), (&["--unfold", "--color", "bandwidth"], "unfolded")] {
        let read = program("python3", &["-c", READ_SVG, &write("graph.svg", more)]);
        assert_eq!(read.trim(), format!("{} {operators}", cards(fold)), "each operator is on one card");
    }
}
