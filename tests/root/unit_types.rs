//! Two units of a program have different types of one name: a member is read as the probed function has it, or not at all.

use crate::invocation::{lines, succeeds};
use std::path::Path;
use std::process::Command;

const PROBESET: &str = "profinfer: 1
engine: unit_types
modules: { unit_types: unit_types }
types: { context: { tokens: i32 } }
probes:
  step: { at: 'unit_types:first_step(context* of) -> i32', role: step, fields: { tokens: of->tokens, expected: return } }
  call: { at: 'unit_types:second_call(context* of) -> i32', role: region, fields: { tokens: of->tokens, expected: return } }
";

#[test]
#[ignore = "needs root"]
fn a_member_is_where_the_unit_of_the_probed_function_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("unit_types.yaml"), PROBESET).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/unit_types.c");
    for (options, reversed) in [(&[][..], false), (&[], true), (&["-flto"], false), (&["-fdebug-types-section"], true)]
    {
        for (name, define) in [("first.o", "-DFIRST"), ("second.o", "-DSECOND")] {
            let mut compile = Command::new("cc");
            succeeds(compile.args(["-O1", "-g", define, "-c", "-o"]).args([&path(name), &source]).args(options));
        }
        let mut objects = ["first.o", "second.o"].map(path);
        if reversed {
            objects.reverse();
        }
        let mut link = Command::new("cc");
        succeeds(
            link.args(["-O1", "-g", "-Wl,--build-id=sha1", "-o"]).arg(path("unit_types")).args(objects).args(options),
        );
        let record = |options: &[&str]| {
            let profinfer = || {
                let mut profinfer = Command::new(env!("CARGO_BIN_EXE_profinfer"));
                profinfer.current_dir(&folder).env("PROFINFER_CACHE", path("cache"));
                profinfer
            };
            let mut record = profinfer();
            record.args(["record", "unit_types.yaml", "-o", "run.pfi", "--force"]).args(options);
            let told = String::from_utf8(succeeds(record.args(["--", "./unit_types"])).stderr).unwrap();
            let dump = lines(&succeeds(profinfer().args(["dump", "run.pfi"])).stdout);
            let fields = dump.iter().filter(|event| event["kind"] == "span").map(|event| {
                let of = |name: &str| event["fields"][name].as_i64();
                (of("tokens"), of("expected").unwrap())
            });
            (told, fields.collect::<Vec<_>>())
        };
        for left_out in ["call", "step"] {
            let (told, fields) = record(&["--no-probe", left_out]);
            let is_right = |(found, expected): &(Option<i64>, i64)| *found == Some(*expected);
            assert!(fields.len() == 10 && fields.iter().all(is_right), "{options:?}, {reversed}: {fields:?}");
            assert!(!told.contains("T009"), "{told}");
        }
        let (told, fields) = record(&[]);
        assert!(fields.len() == 20 && fields.iter().all(|(found, _)| found.is_none()), "{options:?}: {fields:?}");
        let warnings = told.matches("`tokens` in context is not the same in all probed functions").count();
        assert!(
            warnings > 0 && told.contains("`first_step` it is i32 @ 16, in that of `second_call` i32 @ 0"),
            "{told}"
        );
    }
}
