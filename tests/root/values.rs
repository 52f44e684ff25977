//! What C++ keeps in memory, recorded from a program whose values are known: with both of libstdc++'s strings, and with
//! libc++'s where there is one; from debug information, and from a lock file where the program has none.

use crate::invocation::succeeds;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/values.yaml");
/// How often the program does everything.
const ROUNDS: usize = 3;
const LONG: &str = "dachshund with a rather long name, more than in place";

/// Compilers with what makes each kind of strings, and how a probeset calls them.
const KINDS: [(&str, &str, &str); 3] = [
    ("g++", "-D_GLIBCXX_USE_CXX11_ABI=1", "libstdc++"),
    ("g++", "-D_GLIBCXX_USE_CXX11_ABI=0", "libstdc++-cow"),
    ("clang++", "-stdlib=libc++", "libc++"),
];

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
        // 4: it is reported as incomplete, for what is rubbish in it.
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
    // An element past the end is missing, and not what stands behind the vector.
    let past: Vec<&Value> = fields(events, "past").iter().map(|fields| &fields["element"]).take(3).collect();
    assert_eq!(past, [&Value::Null, &json!(103), &Value::Null]);
    // A distance may lead backwards; one that leads further than its bound leads nowhere.
    let distances: Vec<&Value> = fields(events, "distances");
    assert_eq!(distances.len(), ROUNDS);
    for read in distances {
        assert_eq!(read, &json!({ "behind": 7, "ahead": 9, "none": null, "far": null }));
    }
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
    for (compiler, flag, _) in KINDS {
        let zoo = Zoo::new(compiler, &[flag]);
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
    for (compiler, flag, kind) in KINDS {
        let zoo = Zoo::new(compiler, &[flag]);
        zoo.strip();
        std::fs::write(zoo.path("zoo.yaml"), BY_HAND.replace("KIND", kind)).unwrap();
        let events = zoo.record("zoo.yaml", "stripped/values", &[]);
        let words: Vec<&Value> = fields(&events, "value").iter().map(|fields| &fields["word"]).collect();
        assert_eq!(words, ["by value"; ROUNDS]);
    }
}

/// A library that is given a string of its own.
const SAYS: &str = "#include <string>
extern \"C\" __attribute__((noinline, visibility(\"default\"))) int NAME_say(const std::string& word)
{
    asm volatile(\"\" : : \"r\"(&word) : \"memory\");
    return static_cast<int>(word.size());
}
extern \"C\" __attribute__((visibility(\"default\"))) int NAME_run() { return NAME_say(\"NAME says a text that has no room in place\"); }
";

/// Two libraries in one program, each with the strings of another C++ library: the probeset says it of each.
#[test]
#[ignore = "needs root"]
fn libraries_with_strings_of_two_kinds_are_read_in_one_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut probeset = "profinfer: 1\nengine: zoo\nmodules:\n  main: talk\n".to_owned();
    let mut probes = "probes:\n  step: { at: 'main:zoo_step(i32 n)', role: step, fields: { tokens: n } }\n".to_owned();
    for (name, (compiler, flag, kind)) in ["new", "old", "other"].into_iter().zip(KINDS) {
        std::fs::write(path(&format!("{name}.cpp")), SAYS.replace("NAME", name)).unwrap();
        let mut build = Command::new(compiler);
        build.args([
            "-O1",
            "-shared",
            "-fPIC",
            flag,
            "-o",
            &path(&format!("lib{name}.so")),
            &path(&format!("{name}.cpp")),
        ]);
        succeeds(&mut build);
        probeset += &format!("  {name}: {{ files: lib{name}.so, strings: {kind} }}\n");
        probes += &format!(
            "  {name}: {{ at: '{name}:{name}_say(std::string(64)& word)', role: region, fields: {{ word: word }} }}\n"
        );
    }
    let main = "int new_run(void); int old_run(void); int other_run(void);
__attribute__((noinline)) int zoo_step(int n) { __asm__ volatile(\"\"); return n; }
int main(void) { int all = 0; for (int i = 0; i < 3; i++) all += zoo_step(1) + new_run() + old_run() + other_run(); return all == 0; }
";
    std::fs::write(path("talk.c"), main).unwrap();
    let mut build = Command::new("cc");
    build.args([
        "-O1",
        "-rdynamic",
        "-o",
        &path("talk"),
        &path("talk.c"),
        "-L",
        &path(""),
        "-lnew",
        "-lold",
        "-lother",
    ]);
    succeeds(build.arg(format!("-Wl,-rpath,{}", path(""))));
    std::fs::write(path("zoo.yaml"), probeset + &probes).unwrap();
    let profinfer = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments);
        command
    };
    succeeds(&mut profinfer(&["record", &path("zoo.yaml"), "-o", &path("run.pfi"), "--", &path("talk")]));
    let text = String::from_utf8(succeeds(&mut profinfer(&["dump", &path("run.pfi")])).stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for name in ["new", "old", "other"] {
        let words: Vec<&Value> = fields(&events, name).iter().map(|fields| &fields["word"]).collect();
        assert_eq!(words, [&format!("{name} says a text that has no room in place"); 3], "{name}");
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
    let (code, reported) = check(&BY_HAND.replace(", strings: KIND", ""), "stripped/values");
    assert_eq!(code, Some(0), "the rest can be recorded: {reported}");
    assert!(reported.contains("the layout of std::string is not available on this target"), "{reported}");
    assert!(reported.contains("value.word left out"), "{reported}");
    // Where the debug information says otherwise, the probeset is wrong.
    let (code, reported) = check(&BY_HAND.replace("KIND", "libc++"), "values");
    assert_eq!(code, Some(1), "{reported}");
    assert!(reported.contains("are libstdc++ in the target; the probeset declares libc++"), "{reported}");
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
    // The last of three runs is after the address was given back.
    let runs = fields(&events, "run");
    assert_eq!(runs.len(), 9);
    for (number, run) in runs.iter().enumerate() {
        assert_eq!(&run["node"], addresses[number / 3]);
    }
    let forgotten: Vec<&Value> = fields(&events, "forget").iter().map(|fields| &fields["described"]).collect();
    assert_eq!(forgotten, addresses);
    // Each was looked at anew after it was made, and after it was given back, although its bytes are the same.
    let looked_at = events.iter().filter(|event| event["object"] == "kernel").count();
    assert_eq!(looked_at, 6);

    // The report has each of them twice; what ran at an address that was given back is none of them.
    let report = zoo.profinfer(&["report", "--json", "run.pfi"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let operators = report["operators"].as_array().unwrap();
    let mut calls: Vec<(&str, u64)> =
        operators.iter().map(|row| (row["op"].as_str().unwrap(), row["count"].as_u64().unwrap())).collect();
    calls.sort_unstable();
    assert_eq!(calls, [("0", 2), ("1", 2), ("2", 2), ("run", 3)], "{operators:?}");
    // `run` is the probe: nothing else is known of it.
    let is_named = |row: &&Value| row["name"].as_str().unwrap().starts_with("kernel ");
    assert_eq!(operators.iter().filter(is_named).count(), 3, "{operators:?}");
}

#[test]
#[ignore = "needs root"]
fn what_is_rubbish_is_counted_and_reported() {
    let zoo = Zoo::new("g++", &[]);
    zoo.record(PROBESET, "./values", &[]);
    let report = zoo.profinfer(&["report", "--all", "run.pfi"]).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("`wrong` with an implausible value"), "{report}");
    assert!(report.contains("`distances` with an implausible value"), "{report}");
    assert!(report.contains("with bytes that are not text"), "{report}");
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
        let (code, reported) = check(&text, &["--target", "values"]);
        assert_eq!(code, Some(0), "{right}: {reported}");
        succeeds(&mut zoo.profinfer(&["lock", "zoo.yaml", "--target", "values", "-o", "zoo.lock"]));
        for wrong in wrong {
            let text = of_one_member(member, wrong);
            let mut ways = vec![&["--target", "values"][..]];
            // A lock file has the class's name alone, which does not tell a class within from an enumeration.
            if (member, *wrong) != ("plates", "std::vector<i64>") {
                ways.push(&["--target", "stripped/values", "--lock", "zoo.lock"]);
            }
            for arguments in ways {
                let (code, reported) = check(&text, arguments);
                assert_eq!(code, Some(1), "{wrong}: {reported}");
                let is = format!("`zoo::Dog.{member}` is");
                for part in ["error[T008]", &is, &format!("the probeset expects {wrong}")] {
                    assert!(reported.contains(part), "{wrong}: {part}: {reported}");
                }
            }
        }
    }
}

/// An address of an element could be computed with any size, and would lead nowhere.
#[test]
#[ignore = "needs root"]
fn addresses_of_elements_of_an_unknown_size_are_absent() {
    const SOURCE: &str = "
        struct item { long kind; long more; } items[4] = {{1}, {2}, {3}, {4}};
        struct plan { struct item *items; } plan = { items };
        __attribute__((noinline)) void run(struct plan *of) { __asm__ volatile(\"\" : : \"r\"(of)); }
        int main(void) { for (int i = 0; i < 3; i++) run(&plan); return 0; }
    ";
    const PROBESET: &str = "profinfer: 1
engine: sized
modules: { toy: sized }
types:
  plan: { items: item* @ 0 }
  item:
    kind: i64
    layouts: { when: { bytes: no such text }, at: { kind: 0 }, size: 16 }
objects: { item: { of: item, fields: { kind: kind } } }
probes:
  run:
    at: toy:run(plan* plan)
    role: step
    fields:
      tokens: 1 as i32
      third: '[plan->items[2] as item* as object item]'
      fourth: '[plan->items[3] as item* as u64]'
";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("sized.c"), SOURCE).unwrap();
    std::fs::write(path("sized.yaml"), PROBESET).unwrap();
    succeeds(Command::new("gcc").args(["-O1", "-s", "-rdynamic", "-o"]).arg(path("sized")).arg(path("sized.c")));
    let mut record = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    record.args(["record", "sized.yaml", "-o", "run.pfi", "--", "./sized"]).current_dir(folder.path());
    let told = String::from_utf8(succeeds(&mut record).stderr).unwrap();
    assert!(told.contains("run.fourth") && told.contains("run.third"), "{told}");
    let mut dump = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = succeeds(dump.args(["dump", "run.pfi"]).current_dir(folder.path()));
    let events: Vec<Value> = crate::invocation::lines(&output.stdout);
    let runs = fields(&events, "run");
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| run["third"].is_null() && run["fourth"].is_null() && run["tokens"] == 1), "{runs:?}");
}
