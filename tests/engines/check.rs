//! What `check` says of real engines, and of probesets that do not fit them.

use crate::engine::Engine;
use crate::process::{profinfer, run, stderr};
use object::{Object, ObjectSegment, ObjectSymbol};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn check(probeset: &str, engine: Engine, status: i32) -> Value {
    let target = engine.target();
    let output = run(&mut profinfer(&["check", probeset, "--json", "--target", target.to_str().unwrap()]), status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

/// Probes of the server.
const REQUESTS: [(&str, &str); 4] = [
    ("request_arrived", "server_queue::get_new_id"),
    ("request_started", "server_context_impl::launch_slot_with_task"),
    ("request_token", "server_context_impl::process_token"),
    ("request_ended", "server_slot::release"),
];

/// The functions that must have been found, each once.
fn functions(engine: Engine) -> BTreeMap<&'static str, &'static str> {
    let operator = match engine {
        Engine::Symbols | Engine::Inlined => "ggml_compute_forward",
        _ => "ggml_cpu_extra_compute_forward",
    };
    let mut functions = BTreeMap::from([
        ("graph", "ggml_backend_cpu_graph_compute"),
        ("operator", operator),
        ("experts", operator),
        ("fused", "ggml_compute_forward_rms_norm_mul_fused"),
        ("barrier", "ggml_barrier"),
        ("copy_between", "ggml_backend_tensor_copy"),
        ("decode", "llama_context::decode(llama_batch const&)"),
        ("process", "llama_process"),
        ("encode", "llama_encode"),
        ("context_freed", "llama_free"),
        ("ubatch", "llama_context::process_ubatch"),
        ("sequences", "llama_context::process_ubatch"),
        ("batch_sequences", "llama_context::process_ubatch"),
        ("batch_positions", "llama_context::process_ubatch"),
        ("batch_outputs", "llama_context::process_ubatch"),
    ]);
    // The wheel's server and library are one file.
    if engine == Engine::Wheel {
        functions.extend(REQUESTS);
    }
    functions
}

#[test]
#[ignore = "needs root"]
fn every_probe_has_its_site_in_each_engine() {
    for engine in [Engine::Wheel, Engine::Shared, Engine::Symbols, Engine::Inlined] {
        let reported = check("llama", engine, 0);
        let missing = reported["missing"].as_array().unwrap().iter().map(|missing| missing["probe"].as_str().unwrap());
        // Built without BLAS. Copies of the barrier begin with loops: one that is seen at some calls only would split
        // operators wrongly.
        // None has a backend for GPUs.
        let devices = [
            "dispatch",
            "dispatch_twice",
            "dispatch_of_tensor",
            "dispatch_node",
            "dispatch_end",
            "dispatch_one",
            "dispatch_product",
            "dispatch_product_of_rows",
            "dispatch_two",
            "dispatch_three",
            "dispatch_four",
            "dispatch_copy",
            "dispatch_operator",
            "dispatch_function",
            "copy_to_device",
            "copy_from_device",
            "copy_between_devices",
        ];
        // Theirs are steps of `decode`; all have names.
        let mut expected = [&["blas", "eval", "fused_norm"][..], &devices].concat();
        expected.extend((engine == Engine::Inlined).then_some("barrier"));
        expected.extend(REQUESTS.iter().filter(|_| engine != Engine::Wheel).map(|(probe, _)| *probe));
        assert_eq!(missing.collect::<BTreeSet<_>>(), expected.iter().copied().collect(), "{engine:?}");
        assert_problems(engine, &reported);
        let mut found = BTreeMap::new();
        for site in reported["sites"].as_array().unwrap() {
            assert!(!site["instruction"].as_str().unwrap().is_empty());
            if site["inlined_into"].is_null() {
                assert_is_in_file(site);
            } else {
                assert_eq!((engine, &site["inlined_into"]), (Engine::Inlined, &"ggml_graph_compute_thread".into()));
            }
            for probe in site["probes"].as_array().unwrap() {
                let again = found.insert(probe.as_str().unwrap(), site["function"].as_str().unwrap());
                assert_eq!(again, None, "{engine:?}: two sites of {probe}");
            }
        }
        let mut functions = functions(engine);
        functions.retain(|probe, _| !expected.contains(probe));
        assert_eq!(found, functions, "{engine:?}");
    }
}

/// gcc enters the dispatcher's inlined copy at several places, so that it is not probed. Nothing else is reported.
fn assert_problems(engine: Engine, reported: &Value) {
    let problems = reported["problems"].as_array().unwrap();
    let Engine::Shared = engine else { return assert_eq!(problems, &[] as &[Value]) };
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((&problem["code"], &problem["severity"]), (&"T017".into(), &"note".into()));
    let start = "`ggml_compute_forward` was inlined into `ggml_graph_compute_thread`";
    assert!(problem["message"].as_str().unwrap().starts_with(start), "{problem}");
}

/// The site's file has a function of that name at that place. C++ has more to say than the name.
fn assert_is_in_file(site: &Value) {
    let name = site["function"].as_str().unwrap().rsplit("::").next().unwrap().split('(').next().unwrap();
    let bytes = std::fs::read(site["file"].as_str().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let offset = site["file_offset"].as_u64().unwrap() - site["function_offset"].as_u64().unwrap();
    let segment = file.segments().find(|segment| {
        let (start, size) = segment.file_range();
        (start..start + size).contains(&offset)
    });
    let segment = segment.unwrap();
    let address = segment.address() + (offset - segment.file_range().0);
    let at =
        |symbol: &object::Symbol<'_, '_>| symbol.address() == address && symbol.name().is_ok_and(|n| n.contains(name));
    assert!(file.symbols().chain(file.dynamic_symbols()).any(|symbol| at(&symbol)), "{site}");
}

#[test]
#[ignore = "needs root"]
fn layouts_come_from_debug_information_or_from_hand() {
    for engine in [Engine::Wheel, Engine::Shared, Engine::Symbols] {
        let reported = check("llama", engine, 0);
        for path in reported["paths"].as_array().unwrap() {
            let members = path["layout"].as_array().unwrap().iter().map(|member| member["what"].as_str().unwrap());
            // The wheel's debug information has tensors, enumerations and the server's tasks only.
            let described = ["ggml_tensor.", "server_task."];
            let by_hand =
                |member: &str| member.contains('.') && !described.iter().any(|start| member.starts_with(start));
            let has = |name: &str| members.clone().any(|member| member.strip_prefix("llama_ubatch.") == Some(name));
            let expected: Value = match members.clone().count() {
                0 => Value::Null,
                _ if engine == Engine::Wheel && has("pos") => "accessor llm_graph_input_pos::set_input".into(),
                _ if engine == Engine::Wheel && (has("seq_id") || has("output")) => "accessor beside pos".into(),
                _ if engine == Engine::Wheel && members.clone().any(by_hand) => {
                    match members.clone().find(|member| by_hand(member)) {
                        Some("ggml_cgraph.n_nodes") => "accessor ggml_graph_n_nodes".into(),
                        Some("ggml_cgraph.uid" | "ggml_compute_params.ith") => "by a check".into(),
                        _ => "by hand".into(),
                    }
                }
                _ => "DWARF".into(),
            };
            assert_eq!(path["from"], expected, "{engine:?}: {path}");
        }
        let table = run(&mut profinfer(&["check", "llama", "--target", engine.target().to_str().unwrap()]), 0);
        let table = String::from_utf8(table.stdout).unwrap();
        let row = |start: &[&str]| {
            let is_it = |line: &&str| line.split_whitespace().take(start.len()).eq(start.iter().copied());
            table.lines().find(is_it).unwrap_or_else(|| panic!("no {start:?}: {table}")).trim_end().to_owned()
        };
        assert!(row(&["object", "tensor", "shape"]).ends_with("DWARF"), "{table}");
        let from = if engine == Engine::Wheel { "by hand" } else { "DWARF" };
        assert!(row(&["decode", "tokens"]).ends_with(from), "{table}");
    }
}

/// The shipped probeset with a change in `ggml.yaml`; gives what `check` says then.
fn check_changed(changes: &[(&str, &str)], engine: Engine, status: i32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("probesets");
    std::fs::copy(shipped.join("llama.yaml"), folder.path().join("llama.yaml")).unwrap();
    let mut text = std::fs::read_to_string(shipped.join("ggml.yaml")).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "the shipped probeset has `{from}`");
        text = text.replace(from, to);
    }
    std::fs::write(folder.path().join("ggml.yaml"), text).unwrap();
    check(folder.path().join("llama.yaml").to_str().unwrap(), engine, status)
}

/// The problem of that code.
fn problem<'a>(reported: &'a Value, code: &str) -> &'a Value {
    let problems = reported["problems"].as_array().unwrap();
    problems.iter().find(|problem| problem["code"] == code).unwrap_or_else(|| panic!("no {code} in {problems:#?}"))
}

#[test]
#[ignore = "needs root"]
fn a_member_of_another_type_is_refused() {
    for engine in [Engine::Wheel, Engine::Shared] {
        let reported = check_changed(&[("ne: i64[4]", "ne: i32[4]")], engine, 1);
        let problem = problem(&reported, "T008");
        let message = problem["message"].as_str().unwrap();
        assert!(message.contains("i32[4]") && message.contains("i64[4]"), "both types: {message}");
        assert!(problem["place"]["file"].as_str().unwrap().ends_with("ggml.yaml"), "{problem}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_member_that_is_not_there_is_named() {
    for engine in [Engine::Wheel, Engine::Shared] {
        let reported = check_changed(
            &[
                ("    name: char[64]", "    nam: char[64]"),
                ("      name: name", "      name: nam"),
                ("      name: text\n", ""),
            ],
            engine,
            1,
        );
        let problem = problem(&reported, "T007");
        assert!(problem["message"].as_str().unwrap().contains("`nam`"), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("`name`"), "{problem}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_layout_that_nothing_knows_is_asked_for() {
    let layout = "    layouts: { unless: { bytes: \"cpu = %7.3f / %7.3f ms\" }, at: { ith: 0, nth: 4 } }\n";
    let changes = [("    size: 40\n", ""), (layout, "")];
    let reported = check_changed(&changes, Engine::Wheel, 0);
    let file = Engine::Wheel.target();
    let bytes = std::fs::read(&file).unwrap();
    let build_id = object::File::parse(&*bytes).unwrap().build_id().unwrap().unwrap().to_vec();
    let build_id: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let problem = problem(&reported, "T009");
    let text = problem.to_string();
    assert!(problem["message"].as_str().unwrap().contains("ith"), "the member: {text}");
    assert!(text.contains(file.file_name().unwrap().to_str().unwrap()), "the module: {text}");
    assert!(text.contains(&build_id), "its build-id {build_id}: {text}");
    assert!(problem["hint"].as_str().unwrap().contains('@'), "what to write: {text}");
}
