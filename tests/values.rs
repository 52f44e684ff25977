//! What C++ keeps in memory, recorded from a program whose values are known: with both of libstdc++'s strings, and with
//! libc++'s where there is one; from debug information, and from a lock file where the program has none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod invocation;

use invocation::succeeds;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/values.yaml");
/// How often the program does everything.
const ROUNDS: usize = 3;
const LONG: &str = "dachshund with a rather long name, more than in place";

struct Zoo(TempDir);

impl Zoo {
    fn new(compiler: &str, flags: &[&str]) -> Self {
        let zoo = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/values.cpp");
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-O1", "-g", "-Wl,--build-id=sha1", "-Wno-invalid-offsetof", "-o"]);
        succeeds(command.arg(zoo.path("values")).args(flags).arg(source));
        zoo
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A copy without symbols and debug information, in a folder of its own.
    fn strip(&self) {
        std::fs::create_dir(self.path("stripped")).unwrap();
        let (to, from) = (self.path("stripped/values"), self.path("values"));
        succeeds(Command::new("strip").args(["--strip-debug", "-o"]).args([to, from]));
    }

    fn profinfer(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    fn record(&self, probeset: &str, program: &str, options: &[&str]) -> Vec<Value> {
        let mut record = self.profinfer(&["record", probeset, "-o", "run.pfi"]);
        let output = record.args(options).args(["--", program, &ROUNDS.to_string()]).output().unwrap();
        // 4: it is said to be incomplete, for what is rubbish in it.
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
        let dump = succeeds(&mut self.profinfer(&["dump", "run.pfi"]));
        let text = String::from_utf8(dump.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn fields<'e>(events: &'e [Value], probe: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["probe"] == probe).map(|event| &event["fields"]).collect()
}

/// Every value of the program, as tests/targets/values.cpp has them.
fn assert_values(events: &[Value]) {
    let dog = |name: &str, number: i64, second: i64, foods: i64, shared: i64| {
        json!({
            "name": name, "tag": 0xab_cdef_0000_i64 + number, "breed": LONG, "meals": number, "second": second,
            "foods": foods, "shared": shared, "lunch": 333, "dinner": 444, "whole": -5, "either": 77, "bits": 5300,
            "minus": -7, "loud": 1, "bowl": 1002, "favourite": 555,
        })
    };
    let dogs = [dog("Rex", 3, 101, 20, 40), dog("a name that has ", 12, 101, 20, 40), dog("", 0, -1, -1, -1)];
    let recorded = fields(events, "dog");
    assert_eq!(recorded.len(), 3 * ROUNDS);
    for round in recorded.chunks(3) {
        for (recorded, dog) in round.iter().zip(&dogs) {
            assert_eq!(*recorded, dog);
        }
    }
    let meals: Vec<&Value> = fields(events, "meals").iter().map(|fields| &fields["all"]).take(3).collect();
    assert_eq!(meals, [&json!([100, 101, 102]), &json!([100, 101, 102, 103, 104, 105, 106, 107]), &json!([])]);
    assert!(fields(events, "meals").iter().all(|fields| fields["plates"] == 2 && fields["kind"] == 1));
    let tricks: Vec<&Value> = fields(events, "trick").iter().map(|fields| &fields["last"]).take(2).collect();
    assert_eq!(tricks, ["trick 2", "trick 11"]);
    let reference = json!({ "legs": 4, "count": 3, "third": 102, "word": "Rex", "result": 10 });
    assert_eq!(fields(events, "reference")[0], &reference);
    assert_eq!(fields(events, "value")[0], &json!({ "word": "by value", "grams": 333 }));
    let table = json!({ "number": 4711, "length": 5, "text": "hello", "absent": 0, "has": 1 });
    assert_eq!(fields(events, "table")[0], &table);
    // What cannot be what its type says is missing, not shown.
    assert_eq!(fields(events, "wrong")[0]["count"], Value::Null);
    assert_eq!(fields(events, "wrong")[0]["word"], Value::Null);
    assert_eq!(fields(events, "texts")[0], &json!({ "good": "good", "bad": null }));
    // The innermost call returns first; it has no food.
    let measured = |depth: i64, grams: Value| {
        let all = [depth, 10 * depth, depth];
        json!({ "before": 0, "after": 10 * depth, "all": all, "sum": 2 * depth, "grams": grams })
    };
    let mut measures = fields(events, "measure");
    assert_eq!(measures.len(), 3 * ROUNDS);
    measures.truncate(3);
    let expected = [measured(1, Value::Null), measured(2, json!(200)), measured(3, json!(300))];
    assert!(measures.into_iter().eq(&expected), "{:?}", fields(events, "measure"));
}

#[test]
#[ignore = "needs root"]
fn strings_of_both_kinds_vectors_pointers_and_bits_are_read() {
    for abi in ["-D_GLIBCXX_USE_CXX11_ABI=1", "-D_GLIBCXX_USE_CXX11_ABI=0"] {
        let zoo = Zoo::new("g++", &[abi]);
        assert_values(&zoo.record(PROBESET, "./values", &[]));
    }
}

#[test]
#[ignore = "needs root"]
fn the_other_librarys_strings_are_read() {
    let zoo = Zoo::new("clang++", &["-stdlib=libc++"]);
    assert_values(&zoo.record(PROBESET, "./values", &[]));
}

#[test]
#[ignore = "needs root"]
fn without_debug_information_a_lock_file_says_the_same() {
    for abi in ["-D_GLIBCXX_USE_CXX11_ABI=1", "-D_GLIBCXX_USE_CXX11_ABI=0"] {
        let zoo = Zoo::new("g++", &[abi]);
        zoo.strip();
        succeeds(&mut zoo.profinfer(&["lock", PROBESET, "--target", "values", "-o", "zoo.lock"]));
        assert_values(&zoo.record(PROBESET, "stripped/values", &["--lock", "zoo.lock"]));
    }
}

/// A probeset for programs without debug information: strings where the function is given them.
const BY_HAND: &str = "profinfer: 1\nengine: zoo\nmodules:\n  zoo: { files: values*, strings: KIND }\nprobes:\n  step:\n    at: zoo:zoo_step(i32 n) -> i32\n    role: step\n    fields: { tokens: n }\n  value:\n    at: 'zoo:zoo_value(std::string(32) word, std::shared_ptr<void> food) -> i32'\n    role: region\n    fields: { word: word }\n";

#[test]
#[ignore = "needs root"]
fn the_probeset_says_how_strings_are_laid_out_where_nothing_else_does() {
    for (abi, kind) in [("1", "libstdc++"), ("0", "libstdc++-cow")] {
        let zoo = Zoo::new("g++", &[&format!("-D_GLIBCXX_USE_CXX11_ABI={abi}")]);
        zoo.strip();
        std::fs::write(zoo.path("zoo.yaml"), BY_HAND.replace("KIND", kind)).unwrap();
        let events = zoo.record("zoo.yaml", "stripped/values", &[]);
        let words: Vec<&Value> = fields(&events, "value").iter().map(|fields| &fields["word"]).collect();
        assert_eq!(words, ["by value"; ROUNDS]);
    }
}

#[test]
fn how_strings_are_laid_out_is_never_guessed() {
    let zoo = Zoo::new("g++", &[]);
    zoo.strip();
    let check = |text: &str, target: &str| {
        std::fs::write(zoo.path("zoo.yaml"), text).unwrap();
        let output = zoo.profinfer(&["check", "zoo.yaml", "--target", target]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = check(&BY_HAND.replace(", strings: KIND", ""), "stripped/values");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("how std::string is laid out is not known on this target"), "{said}");
    // Where the debug information says otherwise, the probeset is wrong.
    let (code, said) = check(&BY_HAND.replace("KIND", "libc++"), "values");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("are libstdc++ in the target; the probeset says libc++"), "{said}");
}

#[test]
#[ignore = "needs root"]
fn what_a_probe_knows_of_an_object_holds_until_it_is_made_anew() {
    let zoo = Zoo::new("g++", &[]);
    let events = zoo.record(PROBESET, "./values", &["--steps", "2..3"]);
    // Objects are made after the last step that was asked for, and described all the same.
    let made = fields(&events, "make");
    assert!(made.len() <= 3, "{made:?}");

    let events = zoo.record(PROBESET, "./values", &[]);
    let made = fields(&events, "make");
    let names: Vec<&Value> = made.iter().map(|fields| &fields["name"]).collect();
    assert_eq!(names, ["kernel 0", "kernel 1", "kernel 2"]);
    let addresses: Vec<&Value> = made.iter().map(|fields| &fields["described"]).collect();
    let runs = fields(&events, "run");
    assert_eq!(runs.len(), 6);
    for (number, run) in runs.iter().enumerate() {
        assert_eq!(&run["node"], addresses[number / 2]);
    }
    // Each was looked at anew after it was made, although its bytes are the same.
    let looked_at = events.iter().filter(|event| event["object"] == "kernel").count();
    assert_eq!(looked_at, 3);
}

#[test]
#[ignore = "needs root"]
fn what_is_rubbish_is_counted_and_said() {
    let zoo = Zoo::new("g++", &[]);
    zoo.record(PROBESET, "./values", &[]);
    let report = zoo.profinfer(&["report", "run.pfi"]).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("`wrong` with something that cannot be what the probeset takes it for"), "{report}");
    assert!(report.contains("that cannot be one, by the bytes that were read"), "{report}");
}

/// A probeset that reads one member of a dog, which is of such a type.
fn of_one_member(member: &str, ty: &str) -> String {
    let read = if ty.starts_with("std::vector") { ".size" } else { "" };
    format!(
        "profinfer: 1\nengine: zoo\nmodules: {{ zoo: values* }}\ntypes:\n  zoo::Dog:\n    {member}: {ty}\n  zoo::Food: {{ grams: i32 }}\n\
         probes:\n  dog:\n    at: zoo:zoo_dog(zoo::Dog* dog) -> i32\n    role: step\n    fields: {{ tokens: return, read: dog->{member}{read} }}\n"
    )
}

#[test]
fn what_a_class_of_the_library_holds_is_compared_with_the_target() {
    let zoo = Zoo::new("g++", &[]);
    zoo.strip();
    let cases = [
        (
            "meals",
            "std::vector<i32>",
            &["std::vector<i64>", "std::vector<u32>", "std::vector<f32>", "std::vector<i32*>"][..],
        ),
        ("foods", "std::vector<zoo::Food*>", &["std::vector<zoo::Dog*>", "std::vector<zoo::Food>"]),
        ("shared_foods", "std::vector<std::shared_ptr<zoo::Food>>", &["std::vector<std::shared_ptr<zoo::Dog>>"]),
        ("tricks", "std::vector<std::string(8)>", &["std::vector<i64>", "std::vector<cstr(8)>"]),
        ("kinds", "std::vector<i32>", &["std::vector<f32>"]),
        ("plates", "std::vector<zoo::Food>", &["std::vector<zoo::Dog>", "std::vector<i64>"]),
        ("lunch", "std::shared_ptr<zoo::Food>", &["std::shared_ptr<zoo::Dog>", "std::unique_ptr<zoo::Food>"]),
        ("dinner", "std::unique_ptr<zoo::Food>", &["std::unique_ptr<zoo::Dog>"]),
    ];
    let check = |text: &str, arguments: &[&str]| {
        std::fs::write(zoo.path("zoo.yaml"), text).unwrap();
        let output = zoo.profinfer(&["check", "zoo.yaml"]).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (member, right, wrong) in cases {
        let text = of_one_member(member, right);
        let (code, said) = check(&text, &["--target", "values"]);
        assert_eq!(code, Some(0), "{right}: {said}");
        succeeds(&mut zoo.profinfer(&["lock", "zoo.yaml", "--target", "values", "-o", "zoo.lock"]));
        for wrong in wrong {
            let text = of_one_member(member, wrong);
            let mut ways = vec![&["--target", "values"][..]];
            // A lock file has the class's name alone, which does not tell a class within from an enumeration.
            if (member, *wrong) != ("plates", "std::vector<i64>") {
                ways.push(&["--target", "stripped/values", "--lock", "zoo.lock"]);
            }
            for arguments in ways {
                let (code, said) = check(&text, arguments);
                assert_eq!(code, Some(1), "{wrong}: {said}");
                let is = format!("`zoo::Dog.{member}` is");
                for part in ["error[T008]", &is, &format!("the probeset expects {wrong}")] {
                    assert!(said.contains(part), "{wrong}: {part}: {said}");
                }
            }
        }
    }
}
