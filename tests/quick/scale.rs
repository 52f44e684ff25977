//! How large a page becomes, and how much memory a report takes, as traces get longer.

use crate::long;
use crate::written;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::End;

use profinfer_trace::TraceWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Operators of a step, each on two lanes.
const OPERATORS: u64 = 500;

/// A trace of so many spans, and as few distinct operators as a model has. Written step by step: it need not be in memory.
fn write(path: &Path, spans: u64) {
    let mut r = Records::default();
    let file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let mut writer = TraceWriter::new(file, &written::origin(written::PROBESET), &r.schema).unwrap();
    for tid in [1, 2] {
        r.push("thread", tid, (0, 0), &[("pid", Put::Int(100))]);
    }
    for operator in 0..OPERATORS {
        let name = format!("operator_{}-{}", operator % 20, operator / 20);
        written::describe(&mut r, 1, 16 * (1 + operator), ("MUL_MAT", &name), &[64, 1, 1, 1], &[]);
    }
    for step in 0..spans.div_ceil(2 * OPERATORS) {
        let start = 10_000_000 * (1 + step);
        for operator in 0..OPERATORS {
            let (at, lasts) = (start + 100 + operator * 10_000, 5000 + (step * 31 + operator * 17) % 3000);
            for (lane, tid) in [(0, 1), (1, 2)] {
                let node = Put::Int(16 * (1 + operator));
                let fields = [("lane", Put::Int(lane)), ("node", node), ("waiting", Put::Int(70 + operator % 50))];
                r.push("operator", tid, (at, at + lasts), &fields);
            }
        }
        r.push("graph", 1, (start + 50, start + 9_000_000), &[("backend", Put::Text("cpu"))]);
        r.push("step", 1, (start, start + 9_500_000), &[("tokens", Put::Int(if step == 0 { 9 } else { 1 }))]);
        r.records.drain(..).for_each(|record| writer.push(&record).unwrap());
    }
    let end = End { time: u64::MAX / 2, reason: "the target ended".into(), ..End::default() };
    writer.finish(&end).unwrap();
}

fn trace(folder: &tempfile::TempDir, spans: u64) -> PathBuf {
    let path = folder.path().join(format!("{spans}.pfi"));
    write(&path, spans);
    path
}

/// The most memory that `profinfer` had at a time, bytes, as the kernel counted it.
fn peak_of(arguments: &[&std::ffi::OsStr]) -> u64 {
    let program = "import resource, subprocess, sys\n\
                   subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n\
                   print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)";
    let mut python = Command::new("python3");
    let output = python.args(["-c", program, env!("CARGO_BIN_EXE_profinfer")]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "takes a minute"]
fn a_page_of_a_million_spans_has_no_more_than_20_mb() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (trace(&folder, 1_000_000), folder.path().join("run.html"));
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("html").arg(&trace).arg("-o").arg(&page).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let size = std::fs::metadata(&page).unwrap().len();
    assert!((100_000..20_000_000).contains(&size), "{size} bytes");
}

#[test]
#[ignore = "takes a minute"]
fn the_memory_of_a_report_does_not_grow_with_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let [short, long] =
        [300_000, 1_200_000].map(|spans| peak_of(&["report".as_ref(), trace(&folder, spans).as_os_str()]));
    // More than the interpreter that started it, whose memory the kernel counts with it.
    assert!(short > 15_000_000 && long * 4 <= short * 5, "{short} and {long} bytes");
}

/// Steps of two records each, beyond the number that is kept one by one, and 1.7 times as many.
#[test]
#[ignore = "takes a minute"]
fn memory_does_not_grow_with_the_number_of_steps() {
    let folder = tempfile::tempdir().unwrap();
    let traces = [210_000, 360_000].map(|records| {
        let path = folder.path().join(format!("{records}.pfi"));
        assert!(long::write(&path, long::Shape::Bare, records) > 100_000);
        path
    });
    let page = folder.path().join("page.html");
    for command in [&["report"][..], &["statistics"], &["html", "-o", page.to_str().unwrap()]] {
        let [short, long] = traces.each_ref().map(|trace| {
            let arguments = command.iter().map(std::ffi::OsStr::new).chain([trace.as_os_str()]);
            peak_of(&arguments.collect::<Vec<_>>())
        });
        // A step of 64 bytes, several times over, is 15 MB more. What is let pass is the page's chart of steps, which has
        // 52,500 here and 90,000 there.
        assert!(short > 15_000_000 && long < short + 10_000_000, "{command:?}: {short} and {long} bytes");
        assert!(long < 200_000_000, "{command:?}: {long} bytes");
    }
}

#[test]
#[ignore = "takes a minute"]
fn percentiles_of_a_long_trace_say_that_they_are_estimates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.pfi");
    let steps = long::write(&path, long::Shape::Bare, 204_000);
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let sentence = "p50, p90 and p99 of more than 100,000 times are estimates (± 0.1 %).";
    assert!(run(&["report", "--all"]).contains(sentence));
    let report: serde_json::Value = serde_json::from_str(&run(&["report", "--json"])).unwrap();
    let decode = &report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "decode").unwrap()["step"];
    assert_eq!(decode["percentile_error"], 0.001);
    let mut exact: Vec<u64> = (0..steps).filter(|step| !step.is_multiple_of(1000)).map(long::duration).collect();
    exact.sort_unstable();
    assert_eq!(
        (decode["count"].as_u64(), decode["max_ns"].as_u64()),
        (Some(exact.len() as u64), exact.last().copied())
    );
    for (name, part) in [("p50_ns", 50), ("p90_ns", 90), ("p99_ns", 99)] {
        let (exact, reported) = (exact[(part * exact.len()).div_ceil(100) - 1] as f64, decode[name].as_f64().unwrap());
        assert!((reported - exact).abs() <= 0.001 * exact, "{name}: {reported} and {exact}");
    }
    // The prompts are few: theirs are exact.
    let prefill =
        &report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "prefill").unwrap()["step"];
    assert!(prefill.get("percentile_error").is_none(), "{prefill}");
}
