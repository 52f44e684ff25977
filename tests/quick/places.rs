//! Probes at overrides of virtual methods and at static probes: on small programs that count their calls themselves,
//! stripped, linked in each way. What records needs root (or CAP_BPF and CAP_PERFMON); all need gcc and g++.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Ways of linking that put what the types say elsewhere, or in another form.
const FORMS: [&[&str]; 9] = [
    &["-O2", "-fPIE", "-pie"],
    &["-O1", "-no-pie"],
    &["-O2", "-static-libstdc++", "-static-libgcc"],
    &["-O2", "-static"],
    &["-O2", "-Wl,-z,pack-relative-relocs"],
    &["-O0", "-rdynamic"],
    // Unoptimised, so that the base has a table, with the function that stands for pure virtual ones: another file's,
    // called by way of the program's own code; or the program's, without a name.
    &["-O0", "-no-pie"],
    &["-O0", "-static-libstdc++", "-static-libgcc", "-Wl,-u,__cxa_pure_virtual"],
    &["-O0", "-static", "-Wl,-u,__cxa_pure_virtual"],
];

fn compile(folder: &Path, source: &str, options: &[&str]) -> PathBuf {
    let (name, compiler) = match source.rsplit_once('.').unwrap() {
        (name, "cpp") => (name, "g++"),
        (name, _) => (name, "gcc"),
    };
    let program = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-s", "-Wno-attribute-alias", "-Wl,--build-id=sha1"]).args(options).arg("-o").arg(&program);
    run(command.arg(format!("{ROOT}/tests/targets/{source}")));
    program
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn profinfer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_profinfer"))
}

fn probeset(name: &str) -> PathBuf {
    PathBuf::from(format!("{ROOT}/tests/targets/{name}.yaml"))
}

fn check(probeset: &Path, program: &Path, arguments: &[&str]) -> Value {
    let mut command = profinfer();
    command.arg("check").arg(probeset).args(["--json", "--target"]).arg(program).args(arguments);
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// What the target printed, and what was recorded: probe and fields.
fn record(probeset: &Path, program: &Path, arguments: &[&str]) -> (String, Vec<(String, Value)>) {
    let trace = program.with_extension("pfi");
    let mut command = profinfer();
    command.arg("record").arg(probeset).arg("-o").arg(&trace).args(arguments).arg("--").arg(program).arg("5");
    let reported = String::from_utf8(run(&mut command).stdout).unwrap();
    let dump = String::from_utf8(run(profinfer().arg("dump").arg(&trace)).stdout).unwrap();
    let lines = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events = lines.filter_map(|line| Some((line["probe"].as_str()?.to_owned(), line["fields"].clone())));
    (reported, events.collect())
}

/// By class: the layers' numbers; as the program makes them.
fn layers() -> BTreeMap<&'static str, Vec<i64>> {
    BTreeMap::from([
        // A class that inherits the function has it of the one that wrote it.
        ("eng::Add", vec![10, 13, 14, 15]),
        ("eng::Mul", vec![11, 12]),
        ("eng::Deeper", vec![16]),
        ("eng::Both", vec![17, 18]),
        ("eng::Shared", vec![19]),
        ("eng::Diamond", vec![20, 21]),
        ("eng::(anonymous namespace)::Hidden", vec![22]),
        // Of two classes that have one function, and nothing else in common, none is named.
        ("", vec![23, 24]),
        ("eng::Typed<int>", vec![25, 26]),
        ("eng::Typed<float>", vec![27]),
    ])
}

#[test]
fn each_override_is_found_once_however_the_program_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    for form in FORMS {
        let program = compile(folder.path(), "virtuals.cpp", form);
        let checked = check(&probeset("virtuals"), &program, &[]);
        let sites = checked["sites"].as_array().unwrap().iter().filter(|site| site["probes"][0] == "layer");
        let mut classes: Vec<&str> = sites.map(|site| site["captures"][0].as_str().unwrap_or_default()).collect();
        classes.sort_unstable();
        let expected: Vec<&str> = layers().keys().copied().collect();
        assert_eq!(classes, expected, "{form:?}");
    }
}

#[test]
fn what_is_not_there_is_reported_with_what_is() {
    let folder = tempfile::tempdir().unwrap();
    // Unoptimised, so that the base, which nobody makes, has its table.
    let program = compile(folder.path(), "virtuals.cpp", &["-O0"]);
    let text = std::fs::read_to_string(probeset("virtuals")).unwrap();
    for (from, to, expected) in [
        ("eng::Layer[3]", "eng::Layr[3]", "no class `eng::Layr` with run-time type information in virtuals"),
        ("eng::Layer[3]", "eng::Layer[4]", "`eng::Layer` has no slot 4: its virtual table has 4"),
    ] {
        let spec = folder.path().join("wrong.yaml");
        std::fs::write(&spec, text.replace(from, to)).unwrap();
        let checked = check(&spec, &program, &[]);
        assert_eq!(checked["missing"][0]["why"], expected);
    }
}

#[test]
#[ignore = "needs root"]
fn calls_of_overrides_are_the_program_s_own() {
    let folder = tempfile::tempdir().unwrap();
    for form in FORMS {
        let program = compile(folder.path(), "virtuals.cpp", form);
        let (_, events) = record(&probeset("virtuals"), &program, &[]);
        let steps = events.iter().filter(|(probe, _)| probe == "step").count();
        assert_eq!(steps, 5, "{form:?}");
        let mut found: BTreeMap<(String, i64), Vec<i64>> = BTreeMap::new();
        for (_, fields) in events.iter().filter(|(probe, _)| probe == "layer") {
            let class = fields["op"].as_str().unwrap_or_default().to_owned();
            let key = (class, fields["name"].as_i64().unwrap());
            found.entry(key).or_default().push(fields["number"].as_i64().unwrap());
        }
        let expected: BTreeMap<(String, i64), Vec<i64>> = layers()
            .into_iter()
            .flat_map(|(class, ids)| ids.into_iter().map(move |id| ((class.to_owned(), id), vec![1, 2, 3, 4, 5])))
            .collect();
        assert_eq!(found, expected, "{form:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn an_override_and_its_base_s_on_the_same_object_are_one_operator() {
    let folder = tempfile::tempdir().unwrap();
    for level in ["-O0", "-O2"] {
        let program = compile(folder.path(), "refined.cpp", &[level, "-rdynamic"]);
        let (printed, mut events) = record(&probeset("refined"), &program, &[]);
        events.retain(|(probe, _)| probe == "layer");
        let number = |fields: &Value, name: &str| fields[name].as_i64().unwrap();
        // What a class has that is returned in memory is read, too.
        let recorded: Vec<String> =
            events.iter().map(|(_, fields)| format!("{} {}", number(fields, "name"), number(fields, "code"))).collect();
        assert_eq!(recorded, printed.lines().collect::<Vec<_>>(), "{level}");
        assert!(events.iter().all(|(_, of)| number(of, "seen") == number(of, "code") + 1000), "{events:?}");
        assert_eq!(recorded.len(), 25);
    }
}

#[test]
fn a_lock_file_holds_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    for (source, name) in [("virtuals.cpp", "virtuals"), ("static_probes.c", "static_probes")] {
        let program = compile(folder.path(), source, &["-O2"]);
        let lock = folder.path().join("made.lock");
        run(profinfer().arg("lock").arg(probeset(name)).arg("--target").arg(&program).arg("-o").arg(&lock));
        let locked: Value = serde_json::from_str(&std::fs::read_to_string(&lock).unwrap()).unwrap();
        let file = &locked["files"][0];
        let count = match name {
            "virtuals" => {
                let slots = file["virtuals"].as_array().unwrap();
                slots.iter().map(|slot| slot["functions"].as_array().unwrap().len()).sum::<usize>()
            }
            _ => {
                let probes = file["static"].as_array().unwrap();
                probes.iter().map(|probe| probe["sites"].as_array().unwrap().len()).sum::<usize>()
            }
        };
        let plain = check(&probeset(name), &program, &[]);
        assert_eq!(plain["sites"].as_array().unwrap().len(), count, "{name}");
        let with_lock = check(&probeset(name), &program, &["--lock", lock.to_str().unwrap()]);
        assert_eq!(plain["sites"], with_lock["sites"], "{name}");
    }
}

#[test]
#[ignore = "needs root"]
fn static_probes_are_read_in_every_form_and_their_semaphores_raised() {
    let folder = tempfile::tempdir().unwrap();
    for level in ["-O0", "-O1", "-O2"] {
        let program = compile(folder.path(), "static_probes.c", &[level]);
        assert!(String::from_utf8(run(Command::new(&program).arg("5")).stdout).unwrap().ends_with("guarded 0\n"));
        let (reported, events) = record(&probeset("static_probes"), &program, &[]);
        let of = |name: &str| events.iter().filter(|(probe, _)| probe == name).map(|(_, f)| f).collect::<Vec<_>>();
        let (items, guarded, steps) = (of("item"), of("guarded"), of("step"));
        let values: i64 = items.iter().map(|fields| fields["value"].as_i64().unwrap()).sum();
        assert_eq!(reported, format!("items {} values {values} guarded {}\n", items.len(), guarded.len()), "{level}");
        for fields in items {
            // Odd ones are at the one place, even ones at the other.
            let constant = if fields["number"].as_i64().unwrap() % 2 == 1 { 7 } else { 5 };
            assert_eq!(fields["constant"], constant, "{level}");
        }
        let numbers: Vec<i64> = guarded.iter().map(|fields| fields["number"].as_i64().unwrap()).collect();
        assert_eq!(numbers, [-1, -2, -3, -4, -5], "{level}");
        let totals: Vec<(i64, i64)> =
            steps.iter().map(|f| (f["tokens"].as_i64().unwrap(), f["total"].as_i64().unwrap())).collect();
        assert_eq!(totals, [(1, 1), (2, 2), (3, 4), (4, 7), (5, 11)], "{level}");
    }
}

#[test]
fn an_argument_that_cannot_be_read_is_refused_where_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "static_probes.c", &["-O2"]);
    let spec = folder.path().join("fourth.yaml");
    let text = std::fs::read_to_string(probeset("static_probes")).unwrap();
    let text =
        text.replace("i32 constant)", "i32 constant, i64 fourth)").replace("constant: constant", "fourth: fourth");
    std::fs::write(&spec, text).unwrap();
    let checked = check(&spec, &program, &[]);
    // One place has it not at all, the other one in a variable.
    let missing = checked["missing"][0].clone();
    assert_eq!(missing["probe"], "item");
    assert!(missing["why"].as_str().unwrap().starts_with("argument 4 of the static probe `item`"), "{missing}");
}

#[test]
#[ignore = "needs root"]
fn two_probes_at_one_place_both_record_and_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "virtuals.cpp", &["-O2"]);
    let spec = folder.path().join("two.yaml");
    let second = "  again:\n    at: virtual program:eng::Add[3](this, i32 number) -> memory\n    role: region\n";
    std::fs::write(&spec, std::fs::read_to_string(probeset("virtuals")).unwrap() + second).unwrap();
    let checked = check(&spec, &program, &[]);
    let reported = checked["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "T018");
    let reported = reported.expect("it is reported")["message"].as_str().unwrap().to_owned();
    let (probes, mut places) = reported.split_once(": ").map(|(a, b)| (a, b.split(", ").collect::<Vec<_>>())).unwrap();
    places.sort_unstable();
    assert_eq!(probes, "`layer` and `again` are at the same place");
    assert_eq!(places, ["`eng::Add::[3]`", "`eng::Deeper::[3]`"]);
    let (_, events) = record(&spec, &program, &[]);
    let count = |name: &str| events.iter().filter(|(probe, _)| probe == name).count();
    let all: usize = layers().values().map(Vec::len).sum();
    assert_eq!((count("layer"), count("again")), (5 * all, 5 * 5), "each as if it were alone");
}

/// A program of so many classes, each with a function of its own in slot 2. (Destructors would be most of the compiler's
/// work.)
fn many(folder: &Path, classes: usize) -> PathBuf {
    use std::fmt::Write;
    let mut source = String::from(
        "#include <cstdio>\nstruct Base { virtual void none() {} virtual void nil() {} virtual long run(long n) = 0; };\n\
         struct Engine { virtual void none() {} virtual void nil() {} virtual long step(long n); };\n",
    );
    for class in 0..classes {
        writeln!(
            source,
            "struct C{class} : Base {{ long run(long n) override {{ return n * {class} + 1; }} }} c{class};"
        )
        .unwrap();
    }
    source.push_str("static Base *all[] = {\n");
    for class in 0..classes {
        writeln!(source, "&c{class},").unwrap();
    }
    source.push_str(
        "};\nlong Engine::step(long n) { long sum = 0; for (auto b : all) sum += b->run(n); return sum; }\n\
         int main() { Engine *volatile e = new Engine; for (int i = 0; i < 3; i++) printf(\"%ld\\n\", e->step(i)); }\n",
    );
    let file = folder.join("many.cpp");
    std::fs::write(&file, source).unwrap();
    let program = folder.join("many");
    run(Command::new("g++").args(["-O0", "-s", "-o"]).arg(&program).arg(&file));
    program
}

const MANY: &str = "profinfer: 1\nengine: many\nmodules: { program: many }\nprobes:\n  step:\n    \
    at: virtual program:Engine[2](this, i64 n)\n    role: step\n    fields: { tokens: n }\n  run:\n    \
    at: virtual program:Base[2](this, i64 n)\n    role: operator\n    fields: { op: \"match[1]\" }\n";

/// How long attaching takes: `scripts/test` runs this with nothing beside it.
mod timed {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn seven_hundred_overrides_attach_at_once_and_none_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let program = many(folder.path(), 700);
        let spec = folder.path().join("many.yaml");
        std::fs::write(&spec, MANY).unwrap();
        let (_, events) = record(&spec, &program, &["--ring-size", "64M"]);
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (_, fields) in events.iter().filter(|(probe, _)| probe == "run") {
            *seen.entry(fields["op"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert_eq!(seen.len(), 700);
        assert!(seen.values().all(|calls| *calls == 3));
        // A machine that stands still for a second does not do so each time.
        let trace = program.with_extension("pfi");
        let mut times = vec![milliseconds_to_attach(&trace)];
        while times.iter().all(|ms| *ms >= 1000.0) && times.len() < 8 {
            record(&spec, &program, &["--ring-size", "64M"]);
            times.push(milliseconds_to_attach(&trace));
        }
        assert!(times.iter().any(|ms| *ms < 1000.0), "{times:?}");
    }

    /// How long it took to load the programs of 700 sites and more and to attach them, as the recorder noted.
    fn milliseconds_to_attach(trace: &Path) -> f64 {
        let reported: Value =
            serde_json::from_slice(&run(profinfer().args(["info", "--json"]).arg(trace)).stdout).unwrap();
        let times = reported["notices"].as_array().unwrap().iter().filter_map(|notice| {
            let (sites, rest) = notice["text"].as_str()?.strip_prefix("attached ")?.split_once(" sites in ")?;
            let ms: f64 = rest.split_once(" ms")?.0.parse().ok()?;
            (sites.parse::<usize>().ok()? > 700).then_some(ms)
        });
        let times: Vec<f64> = times.collect();
        assert_eq!(times.len(), 1, "all at once: {}", reported["notices"]);
        times[0]
    }
}

#[test]
fn more_places_than_may_be_probed_are_refused_with_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let program = many(folder.path(), 2100);
    let spec = folder.path().join("many.yaml");
    std::fs::write(&spec, MANY).unwrap();
    let checked = check(&spec, &program, &[]);
    let reported = checked["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "T006");
    let message = reported.expect("it is refused")["message"].as_str().unwrap();
    assert_eq!(message, "slot 2 of `Base` is 2100 places; a probe is at 2048 at most");
}

/// The same, for arm64: no system of that kind is needed, as nothing is run.
fn compile_arm64(folder: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.cpp")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let mut command = Command::new("clang++");
    command.args(["--target=aarch64-linux-gnu", "-fuse-ld=lld", "-nostdlib", "-Wl,-s,--build-id=sha1"]);
    run(command.args(options).arg("-o").arg(&program).arg(&file));
    program
}

/// Overrides and static probes, as `static_probes.c` writes them.
const ARM64: &str = r#"
struct Layer { virtual ~Layer(); virtual int run(int n) = 0; };
struct Add : Layer { int run(int n) override; };
struct Mul : Layer { int run(int n) override; };
struct Third : Mul { int run(int n) override; };
Layer::~Layer() {}
int Add::run(int n) { return n + 1; }
int Mul::run(int n) { return n * 3; }
int Third::run(int n) { return n * 5; }
void operator delete(void *, unsigned long) {}
unsigned short toy_step_semaphore __attribute__((section(".probes"), used));
extern "C" __attribute__((noinline)) void begin() {
	__asm__ volatile("990: nop\n"
		".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n"
		".8byte toy_step_semaphore\n.asciz \"toy\"\n.asciz \"step\"\n"
		".asciz \"-4@[x0, 8] 8@x1 -4@[sp, 12] 4@w2 8@[x4, x5, lsl 3]\"\n994: .balign 4\n.popsection\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.popsection\n");
}
Layer *made[] = { new Add, new Mul, new Third };
void *operator new(unsigned long size) { static char room[256], *next = room; return next += size; }
extern "C" int _start() { begin(); int n = 0; for (Layer *it : made) n = it->run(n); return n; }
"#;

const ARM64_SPEC: &str = "profinfer: 1\nengine: toy\nmodules: { program: toy }\nprobes:\n  step:\n    at: usdt program:toy:step(i32 in_memory, u64 in_register, i32 on_stack, u32 in_half, i64 indexed) until step\n    role: step\n    fields: { tokens: on_stack, a: in_memory, b: in_register, c: in_half, d: indexed }\n  layer:\n    at: virtual program:Layer[2](this, i32 n)\n    role: operator\n    fields: { op: \"match[1]\", n: n }\n";

#[test]
fn arm64_programs_have_their_overrides_and_static_probes_found() {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("arm64.yaml");
    std::fs::write(&spec, ARM64_SPEC).unwrap();
    let library = "/usr/aarch64-linux-gnu/lib/libstdc++.so.6";
    // Packed relocations; plain ones; a program at a fixed place, with copies of the C++ library's tables.
    let forms: [&[&str]; 4] = [
        &["-O1", "-fPIC", "-shared", "-Wl,-z,undefs"],
        &["-O1", "-fPIC", "-shared", "-Wl,-z,undefs", "-Wl,--pack-dyn-relocs=relr"],
        &["-O2", "-fPIE", "-pie", "-Wl,--allow-shlib-undefined", library],
        &["-O1", "-fno-pic", "-no-pie", "-Wl,--allow-shlib-undefined", library],
    ];
    for form in forms {
        let program = compile_arm64(folder.path(), "toy", ARM64, form);
        let checked = check(&spec, &program, &[]);
        let sites = checked["sites"].as_array().unwrap_or_else(|| panic!("{form:?}: {checked}"));
        let of = |probe: &str| sites.iter().filter(|site| site["probes"][0] == probe).collect::<Vec<_>>();
        let mut classes: Vec<&str> = of("layer").iter().map(|site| site["captures"][0].as_str().unwrap()).collect();
        classes.sort_unstable();
        assert_eq!(classes, ["Add", "Mul", "Third"], "{form:?}");
        assert_eq!(of("step").len(), 1, "{form:?}: {checked}");
        // Bytes to the site: what a program would have to be given for it. Registers as DWARF numbers them, the stack's is 31.
        let placed = arm64_site(&spec, &program);
        assert!(placed.semaphore.is_some(), "{form:?}");
        let place = |argument: usize| placed.values[&format!("place_of_step__0__argument_{argument}")];
        let register = |place: u64| place >> 8 & 0xff;
        let (bytes, signed) = (|place: u64| 1 << (place >> 26 & 3), |place: u64| place >> 28 & 1 == 1);
        let reported: Vec<(u64, u64, u64, bool)> = (0..5)
            .map(|argument| {
                let place = place(argument);
                (register(place), place >> 32, bytes(place), signed(place))
            })
            .collect();
        let expected = [(0, 8, 4, true), (1, 0, 8, false), (31, 12, 4, true), (2, 0, 4, false), (4, 0, 8, false)];
        assert_eq!(reported, expected, "{form:?}");
        assert_eq!((place(4) >> 16 & 0xff, place(4) >> 24 & 3), (5, 3), "the index, and what it is shifted by");
        // The program that is generated reads each by its place, and an override's argument from the second register.
        let output = run(profinfer().arg("gen").arg(&spec).args(["--arch", "aarch64", "--target"]).arg(&program));
        let text = String::from_utf8(output.stdout).unwrap();
        for wanted in [
            "place_of_layer__0__argument_1 = 257;",
            "PF_ARGUMENT(__s32, place_of_step__0__argument_2)",
            "PF_ARGUMENT(__u32, place_of_step__0__argument_3)",
        ] {
            assert!(text.contains(wanted), "{form:?}: no `{wanted}`");
        }
    }
    let object = folder.path().join("arm64.o");
    run(profinfer().arg("build").arg(&spec).args(["--arch", "aarch64", "-o"]).arg(&object));
    assert!(object.metadata().unwrap().len() > 0, "and clang takes it");
}

/// The site of the static probe.
fn arm64_site(spec: &Path, program: &Path) -> profinfer_compiler::PlacedSite {
    use profinfer_compiler::{PlacementOptions, Selection, place, plan};
    use profinfer_probeset::{Library, load};
    let (probeset, _) = load(spec, &Library::SHIPPED).unwrap();
    let (plan, _) = plan(&probeset, &Selection::default(), profinfer_binary::Arch::Aarch64).unwrap();
    let target = profinfer_binary::open(program.to_str().unwrap()).unwrap();
    let sites = place(&plan, &probeset, target.as_ref(), PlacementOptions::default()).0.sites;
    sites.into_iter().find(|placed| placed.site.probes == ["step"]).unwrap()
}

/// A library of so many functions that are called alike.
#[test]
fn a_pattern_of_a_hundred_thousand_functions_is_refused_with_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("crowd.s");
    let text = ".altmacro\n.macro function n\n.globl crowd_\\n\n.type crowd_\\n,@function\ncrowd_\\n: ret\n.endm\n.text\n\
                .globl begin\n.type begin,@function\nbegin: ret\n.set i,0\n.rept 100000\nfunction %i\n.set i,i+1\n.endr\n";
    std::fs::write(&source, text).unwrap();
    let library = folder.path().join("libcrowd.so");
    run(Command::new("gcc").args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source));
    let spec = folder.path().join("crowd.yaml");
    let text = "profinfer: 1\nengine: crowd\nmodules: { crowd: libcrowd.so }\nprobes:\n  step:\n    at: crowd:begin(i32 n)\n    \
                role: step\n    fields: { tokens: n }\n  run:\n    at: crowd:crowd_*(i32 n)\n    role: region\n";
    std::fs::write(&spec, text).unwrap();
    let checked = check(&spec, &library, &[]);
    let reported = checked["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "T006");
    let message = reported.expect("it is refused")["message"].as_str().unwrap();
    assert_eq!(message, "`crowd_*` is 100000 places; a probe is at 16384 at most");
}

/// Symbols that would be something else where they are printed as they are: lines, sequences for a terminal, ends of a
/// text or of a comment, YAML, formats, templates.
const HOSTILE: [&str; 14] = [
    "run_line\nFORGED step",
    "run_return\rFORGED",
    "run_\u{1b}[31mFORGED",
    "run_\u{9b}31mFORGED",
    "run_\u{202e}FORGED",
    "run_quote\"; FORGED",
    "run_'#FORGED",
    "run_key: [FORGED",
    "run_*/ FORGED /*",
    "run_`${FORGED}",
    "run_%s%nFORGED",
    "run_{{FORGED}}",
    "run_\\\\FORGED",
    "_ZN3net9run\u{1b}\"\nabc4stepEv",
];

/// A library with those functions, and one with a plain name.
fn hostile(folder: &Path) -> PathBuf {
    let mut text = ".text\n.globl begin\n.type begin,@function\nbegin: ret\n".to_owned();
    for symbol in HOSTILE {
        let quoted = format!("\"{}\"", symbol.replace('\\', "\\\\").replace('"', "\\\""));
        text += &format!(".globl {quoted}\n.type {quoted},@function\n{quoted}: ret\n");
    }
    let source = folder.join("hostile.s");
    std::fs::write(&source, text).unwrap();
    // Its own name is a text for YAML, too.
    let library = folder.join("lib'evil: [x.so");
    run(Command::new("gcc").args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source));
    library
}

/// What a command writes to both, where nothing steers a terminal and no text of a symbol stands where a line begins.
fn harmless(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).env("NO_COLOR", "1").output().unwrap();
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    for text in &texts {
        let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(steers), "{command:?}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("FORGED")), "{command:?}: {text}");
    }
    let [out, err] = texts;
    (output.status.code(), out, err)
}

#[test]
fn symbols_are_texts_and_nothing_else_wherever_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let library = hostile(folder.path());
    let spec = folder.path().join("hostile.yaml");
    let run_probe = "  run:\n    at: evil:run_*(i32 n)\n    role: region\n    fields: { what: \"match[1]\" }\n";
    let other = "  run_mangled:\n    at: evil:_ZN*(i32 n)\n    role: region\n";
    let step = "  step:\n    at: evil:begin(i32 n)\n    role: step\n    fields: { tokens: n }\n";
    let head = "profinfer: 1\nengine: evil\nmodules: { evil: \"lib*.so\" }\nprobes:\n";
    std::fs::write(&spec, format!("{head}{step}{run_probe}{other}")).unwrap();
    // With a name that another tool's language has.
    let plain = folder.path().join("libplain.so");
    std::fs::copy(&library, &plain).unwrap();
    let on = |target: &Path, subcommand: &str, more: &[&str]| {
        let mut command = profinfer();
        command.arg(subcommand).arg(&spec).args(more).arg("--target").arg(target);
        harmless(&mut command)
    };
    // All are found, and shown.
    let (code, shown, _) = on(&library, "check", &[]);
    assert_eq!(code, Some(0), "{shown}");
    let row = |line: &&str| line.starts_with("run") && line.contains("region");
    assert_eq!(shown.lines().filter(row).count(), HOSTILE.len(), "{shown}");
    assert!(shown.contains("run_line\u{fffd}FORGED step") && shown.contains("run_key: [FORGED"), "{shown}");
    let checked = check(&spec, &library, &[]);
    assert_eq!(checked["sites"].as_array().unwrap().len(), HOSTILE.len() + 1);
    // In C none is needed: a record has its site's number.
    let (code, c, _) = on(&library, "gen", &[]);
    assert_eq!(code, Some(0));
    assert!(!c.contains("FORGED") && !c.contains("abc4step"), "{c}");
    // bpftrace has no way to say them.
    let (code, script, problems) = on(&plain, "gen", &["--format", "bpftrace"]);
    assert_eq!(code, Some(0), "{problems}");
    assert!(script.contains("\"begin\"") && !script.contains("FORGED"), "{script}");
    let left_out = "is not part of the script: its name has characters that a script cannot have";
    let reported = problems.lines().filter(|line| line.starts_with("warning[G001]: `run") && line.ends_with(left_out));
    assert_eq!(reported.count(), HOSTILE.len(), "{problems}");
    std::fs::write(&spec, format!("{head}{}", run_probe.replace("region", "step"))).unwrap();
    for target in [&plain, &library] {
        let (code, _, problems) = on(target, "gen", &["--format", "bpftrace"]);
        assert_eq!(code, Some(1));
        assert!(problems.contains("error[G001]"), "{problems}");
    }
    // A draft is YAML, and one that the program itself takes.
    let draft = folder.path().join("draft.yaml");
    for patterns in [&[][..], &["run_*", "begin", "*step*"]] {
        let mut command = profinfer();
        let (code, _, problems) =
            harmless(command.args(["scaffold", "--force"]).arg(&library).args(patterns).arg("-o").arg(&draft));
        assert_eq!(code, Some(0), "{problems}");
        let text = std::fs::read_to_string(&draft).unwrap();
        assert!(text.contains(":begin\n") && !text.contains("\n    FORGED"), "{text}");
        let checked = check(&draft, &library, &[]);
        assert_eq!(checked["missing"], serde_json::json!([]), "{text}");
        assert!(!checked["sites"].as_array().unwrap().is_empty(), "{text}");
    }
}

/// A function that all nodes pass takes the place of those of single operators; of a file without it, these are recorded.
#[test]
fn a_probe_is_left_out_of_files_that_another_one_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let probeset = folder.path().join("nodes.yaml");
    let text = "profinfer: 1\nengine: nodes\nmodules: { engine: nodes }\nprobes:\n  \
                  step: { at: \"engine:step\", role: step }\n  \
                  node: { at: \"engine:node()\", role: operator, optional: true, fields: { op: \"match[0]\" } }\n  \
                  one: { at: \"engine:op_*()\", role: operator, unless: [node], optional: true, fields: { op: \"match[1]\" } }\n";
    std::fs::write(&probeset, text).unwrap();
    let function = |name: &str| format!("__attribute__((noinline)) int {name}(int n) {{ return n * 7 + 1; }}\n");
    for (names, placed) in [(&["op_add", "op_mul", "node"][..], ["node"].as_slice()), (&["op_add", "op_mul"], &["one"])]
    {
        let all: String = names.iter().chain(&["step"]).map(|name| function(name)).collect();
        let calls: Vec<String> = names.iter().map(|name| format!("{name}(n)")).collect();
        let main = format!("int main(int n, char **v) {{ return step(n) + {}; }}\n", calls.join(" + "));
        let source = folder.path().join("nodes.c");
        std::fs::write(&source, all + &main).unwrap();
        let program = folder.path().join("nodes");
        run(Command::new("gcc").args(["-O1", "-fno-ipa-icf", "-o"]).arg(&program).arg(&source));
        let found = check(&probeset, &program, &[]);
        let sites = found["sites"].as_array().unwrap();
        let probes: std::collections::BTreeSet<&str> =
            sites.iter().filter_map(|site| site["probes"][0].as_str()).filter(|probe| *probe != "step").collect();
        assert_eq!(probes, placed.iter().copied().collect(), "{found}");
        let missing: Vec<&str> =
            found["missing"].as_array().unwrap().iter().filter_map(|of| of["probe"].as_str()).collect();
        assert_eq!(missing, [if placed == ["node"] { "one" } else { "node" }], "{found}");
    }
}
