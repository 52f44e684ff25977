//! Live figures of a real server while clients use it, by the clients' own clocks, as a real Prometheus scrapes them.

use crate::engine::{alone, command, here, model, python};
use crate::packages::installed;
use crate::process::{profinfer, run, wait};
use crate::receiver::Receiver;
use crate::rows;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that is ended with the test, however that ends.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// A request's span has its parts, one after the other; its time is one of the clients'.
fn assert_spans(rows: &[Value], clients: &[f64]) {
    let seconds = |row: &Value| (row["end"].as_u64().unwrap() - row["start"].as_u64().unwrap()) as f64 / 1e9;
    let roots: Vec<&Value> = rows.iter().filter(|row| row["span"] == "request").collect();
    let (mut matched, mut in_part) = (0, 0);
    for root in &roots {
        let of = |name: &str| rows.iter().find(|row| row["span"] == name && row["parent"] == root["id"]);
        // The one during which the probes were attached has no first token that is known, and so no parts.
        let (Some(prefill), Some(decode)) = (of("prefill"), of("decode")) else {
            in_part += 1;
            continue;
        };
        assert_eq!((&prefill["trace"], &decode["trace"]), (&root["trace"], &root["trace"]));
        assert_eq!((&prefill["end"], &decode["end"]), (&decode["start"], &root["end"]));
        assert!(root["resource"]["process.pid"].is_u64(), "{root}");
        if root["attributes"]["gen_ai.usage.output_tokens"].as_i64() == Some(48) {
            matched += usize::from(clients.iter().any(|client| near(seconds(root), *client)));
        }
    }
    assert!(in_part <= 1, "{roots:?}");
    assert!(matched >= clients.len(), "{matched} of the clients' {clients:?}: {roots:?}");
    let ids: std::collections::BTreeSet<String> = roots.iter().map(|root| root["id"].to_string()).collect();
    assert_eq!(ids.len(), roots.len(), "no request comes twice");
}

/// Requests come as spans by a protocol, their parts in them.
fn assert_spans_by(protocol: &str, received: &Path, pid: &str, mut request: impl FnMut()) {
    let otlp = Receiver::start(received, &["--protocol", protocol]);
    let url = otlp.url();
    let push = ["--otlp", &url, "--otlp-protocol", protocol, "--otlp-interval", "200ms"];
    let (_serve, _) = serve(&[&["llama", "-p", pid, "--budget", "20%"], &push[..]].concat());
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        request();
        let rows = otlp.rows();
        let decode = rows.iter().find(|row| row["span"] == "decode");
        let whole = decode.and_then(|decode| rows.iter().find(|row| row["id"] == decode["parent"]));
        if let (Some(decode), Some(whole)) = (decode, whole) {
            assert_eq!((&whole["span"], &whole["trace"]), (&Value::from("request"), &decode["trace"]));
            assert_eq!((&whole["end"], &whole["parent"]), (&decode["end"], &Value::from("")));
            assert_eq!(whole["attributes"]["gen_ai.usage.output_tokens"], 48);
            return;
        }
        assert!(Instant::now() < until, "{protocol}: {rows:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The first value of a metric.
pub(crate) fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.split(['{', ' ']).next() == Some(name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Debian's Prometheus, in a folder of its own.
fn prometheus(folder: &Path, target: &str) -> (Ended, String) {
    // Any free port: the listener is gone when Prometheus takes it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let configuration = folder.join("prometheus.yml");
    let text = format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\nscrape_configs:\n  - job_name: engines\n    static_configs: [{{ targets: ['{target}'] }}]\n"
    );
    std::fs::write(&configuration, text).unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", configuration.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address={address}")).stdout(Stdio::null()).stderr(Stdio::null());
    (Ended(command.spawn().expect("prometheus, of the Debian package")), address)
}

/// What Prometheus has of an expression now.
fn ask(prometheus: &str, expression: &str) -> Option<f64> {
    let body = get(prometheus, &format!("/api/v1/query?query={expression}"))?;
    let answer: Value = serde_json::from_str(&body).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

/// Within the clients' 5 %, or what their own work beside the server takes.
fn near(ours: f64, clients: f64) -> bool {
    (ours - clients).abs() <= (0.05 * clients).max(0.003)
}

/// Counts up to each bound.
fn bucket_counts(text: &str, name: &str) -> Vec<(f64, f64)> {
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}_bucket{{")));
    let parse = |line: &str| {
        let bound = line.split("le=\"").nth(1)?.split('"').next()?;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
        Some((bound, line.rsplit_once(' ')?.1.parse().ok()?))
    };
    lines.filter_map(parse).collect()
}

/// `serve`, and where it listens.
fn serve(options: &[&str]) -> (Ended, String) {
    let mut serve = profinfer(&["serve", "--listen", "127.0.0.1:0"]);
    serve.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut serve = Ended(serve.spawn().unwrap());
    let mut messages = BufReader::new(serve.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let found =
        messages.find_map(|line| Some(line.strip_prefix("listening on http://")?.split('/').next()?.to_owned()));
    std::thread::spawn(move || messages.for_each(drop));
    (serve, found.expect("an address"))
}

/// Clients of a server in their process: one request each time that `once` is written.
fn clients(options: &[&str]) -> (Ended, ChildStdin, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(python());
    command.arg(here().join("clients_xllamacpp.py")).args(["--model", &model("small-dense").display().to_string()]);
    let mut clients = Ended(command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let (input, output) = (clients.0.stdin.take().unwrap(), clients.0.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    (clients, input, lines)
}

/// Nobody says which process, nor which engine: it starts after `serve`, among all others of the machine.
#[test]
#[ignore = "needs root"]
fn an_engine_that_starts_later_is_found() {
    let _alone = alone();
    let (_serve, address) = serve(&["--budget", "20%"]);
    let (clients, mut input, mut lines) = clients(&["--clients", "1", "--rounds", "1"]);
    let is_recording = || {
        let text = get(&address, "/metrics").unwrap();
        let line = text.lines().find(|line| line.contains(&format!("process_pid=\"{}\"", clients.0.id())))?.to_owned();
        (value(&text, "profinfer_recording") == Some(1.0)).then_some(line)
    };
    let until = Instant::now() + Duration::from_secs(60);
    let line = loop {
        if let Some(line) = is_recording() {
            break line;
        }
        assert!(Instant::now() < until, "{}", get(&address, "/metrics").unwrap());
        input.write_all(b"once\n").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "once");
        std::thread::sleep(Duration::from_millis(500));
    };
    assert!(line.contains("gen_ai_provider_name=\"llama.cpp\"") && !line.contains("container_id"), "{line}");
    let text = get(&address, "/metrics").unwrap();
    let mut pids = text.split("process_pid=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
    assert!(pids.all(|pid: u32| pid == clients.0.id()), "{text}");
}

/// One is loaded when the other is recorded already, and each has its own figures: as many steps as the program counts.
#[test]
#[ignore = "needs root"]
fn each_engine_of_a_process_is_followed() {
    let _alone = alone();
    let other = installed("install_onnxruntime.sh");
    let script = "import sysconfig; print(sysconfig.get_paths()['purelib'])";
    let packages = run(&mut command(&[other.display().to_string(), "-c".to_owned(), script.to_owned()]), 0).stdout;
    let mut program = Command::new(python());
    program.arg(here().join("run_two_engines.py")).arg(model("tiny-dense"));
    program.env("PYTHONPATH", String::from_utf8(packages).unwrap().trim());
    let mut program = Ended(program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let (mut input, output) = (program.0.stdin.take().unwrap(), program.0.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let (_serve, address) = serve(&["--budget", "20%"]);
    let pid = program.0.id();
    // Their steps, by engine.
    let steps = || -> BTreeMap<String, f64> {
        let text = get(&address, "/snapshots.json").unwrap();
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        let of_process = all.iter().filter(|snapshot| snapshot["pid"] == pid);
        let count = |snapshot: &Value| rows(&snapshot["phases"]).filter_map(|row| row["steps"]["count"].as_f64()).sum();
        of_process.map(|snapshot| (snapshot["engine"].as_str().unwrap().to_owned(), count(snapshot))).collect()
    };
    let until = Instant::now() + Duration::from_secs(120);
    while !steps().contains_key("llama.cpp") {
        assert!(Instant::now() < until, "{:?}", steps());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(steps().len(), 1);
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("both"));
    let mut once = || {
        input.write_all(b"\n").unwrap();
        assert_eq!(lines.next().as_deref(), Some("16 7"));
        std::thread::sleep(Duration::from_secs(1));
        steps()
    };
    // Both recorders are attached when a round of each is there.
    let (mut before, mut now) = (steps(), once());
    while !(before.len() == 2 && now.iter().all(|(engine, steps)| *steps >= before[engine] + 7.0)) {
        assert!(Instant::now() < until, "{now:?}");
        (before, now) = (now, once());
    }
    once();
    let after = once();
    let since: Vec<(&str, f64)> = after.iter().map(|(engine, steps)| (engine.as_str(), steps - now[engine])).collect();
    assert_eq!(since, [("llama.cpp", 2.0 * 16.0), ("onnxruntime", 2.0 * 7.0)]);
    let names: Vec<String> = get(&address, "/metrics")
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("profinfer_target_info{") && line.contains(&format!("process_pid=\"{pid}\"")))
        .filter_map(|line| Some(line.split("service_instance_id=\"").nth(1)?.split('"').next()?.to_owned()))
        .collect();
    assert!(names.len() == 2 && names[0] == names[1], "one name, each series with its engine: {names:?}");
}

/// The budget has room for steps and the server's own events in all of them, and for what they take in only in windows.
#[test]
#[ignore = "needs root"]
fn a_small_budget_leaves_no_request_out() {
    let _alone = alone();
    let medium = model("medium-dense").display().to_string();
    let sizes = ["--clients", "2", "--rounds", "8", "--prompt-tokens", "16", "--tokens", "24"];
    let (clients, mut input, lines) = clients(&[&["--model", &medium], &sizes[..]].concat());
    let mut lines = lines.map(Result::unwrap);
    let (_serve, address) = serve(&["llama", "-p", &clients.0.id().to_string(), "--budget", "0.7%"]);
    let mut once = || {
        input.write_all(b"once\n").unwrap();
        assert_eq!(lines.next().as_deref(), Some("once"));
    };
    let until = Instant::now() + Duration::from_secs(60);
    while value(&get(&address, "/metrics").unwrap(), "profinfer_recording") != Some(1.0) {
        assert!(Instant::now() < until);
        once();
    }
    // Until the budget has decided what is recorded in all steps.
    (0..12).for_each(|_| once());
    std::thread::sleep(Duration::from_secs(2));
    let before = get(&address, "/metrics").unwrap();
    input.write_all(b"\n").unwrap();
    let requests: Vec<Value> =
        lines.by_ref().take_while(|line| line != "done").map(|line| serde_json::from_str(&line).unwrap()).collect();
    std::thread::sleep(Duration::from_secs(2));
    let text = get(&address, "/metrics").unwrap();
    let since = |name: &str| value(&text, name).unwrap() - value(&before, name).unwrap_or(0.0);
    let sum = |key: &dyn Fn(&Value) -> f64| requests.iter().map(key).sum::<f64>();
    let number = |request: &Value, key: &str| request[key].as_f64().unwrap();
    let further = |request: &Value| number(request, "tokens") - 1.0;
    for (name, count, time) in [
        ("request_duration", 16.0, sum(&|request| number(request, "duration"))),
        ("time_to_first_token", 16.0, sum(&|request| number(request, "ttft"))),
        ("time_per_output_token", sum(&further), sum(&|request| number(request, "tpot") * further(request))),
    ] {
        let name = format!("gen_ai_server_{name}_seconds");
        assert_eq!(since(&format!("{name}_count")), count, "{name}\n{text}");
        let ours = since(&format!("{name}_sum"));
        assert!(near(ours / count, time / count), "{name}: {ours} s, the clients' {time} s");
    }
    assert_eq!(value(&text, "profinfer_requests"), Some(0.0), "none is queued\n{text}");
    // Prompts of both clients may be in one step.
    let prefill = since("profinfer_step_seconds_count");
    assert!((8.0..=17.0).contains(&prefill), "{prefill}\n{text}");
}

#[test]
#[ignore = "needs root"]
fn a_server_s_metrics_are_the_clients_own_times() {
    let _alone = alone();
    let (mut clients, mut input, lines) = clients(&["--clients", "4", "--rounds", "2"]);
    let mut lines = lines.map(Result::unwrap);
    let pid = clients.0.id().to_string();
    // All steps are to be seen: of a model this small they alone exceed the default budget.
    let folder = tempfile::tempdir().unwrap();
    let received = folder.path().join("received");
    for protocol in ["http/protobuf", "grpc"] {
        assert_spans_by(protocol, &received, &pid, || {
            input.write_all(b"once\n").unwrap();
            assert_eq!(lines.next().as_deref(), Some("once"));
        });
    }
    let otlp = Receiver::start(&received, &["--refuse", "3"]);
    let otlp_url = otlp.url();
    let options = ["llama", "-p", &pid, "--budget", "20%", "--otlp", &otlp_url, "--otlp-interval", "500ms"];
    let (mut serve, address) = serve(&options);
    let (prometheus, prometheus_address) = prometheus(folder.path(), &address);
    // Its probes are attached when a request is seen.
    let until = Instant::now() + Duration::from_secs(60);
    while value(&get(&address, "/metrics").unwrap(), "profinfer_recording") != Some(1.0) {
        assert!(Instant::now() < until);
        input.write_all(b"once\n").unwrap();
        assert_eq!(lines.next().as_deref(), Some("once"));
        std::thread::sleep(Duration::from_millis(500));
    }
    std::thread::sleep(Duration::from_secs(2));
    let before = get(&address, "/metrics").unwrap();
    let since = |text: &str, name: &str| Some(value(text, name)? - value(&before, name).unwrap_or(0.0));
    input.write_all(b"\n").unwrap();
    let requests: Vec<Value> =
        lines.by_ref().take_while(|line| line != "done").map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(requests.len(), 8);
    let until = Instant::now() + Duration::from_secs(20);
    let ended = |text: &str| since(text, "gen_ai_server_request_duration_seconds_count") == Some(8.0);
    let text = loop {
        let text = get(&address, "/metrics").unwrap();
        if ended(&text) {
            break text;
        }
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    for (name, key) in [("time_to_first_token", "ttft"), ("request_duration", "duration")] {
        let name = format!("gen_ai_server_{name}_seconds");
        let theirs: Vec<f64> = requests.iter().map(|request| request[key].as_f64().unwrap()).collect();
        let mean = theirs.iter().sum::<f64>() / 8.0;
        let ours = since(&text, &format!("{name}_sum")).unwrap() / 8.0;
        assert_eq!(since(&text, &format!("{name}_count")), Some(8.0));
        assert!(near(ours, mean), "{name}: {ours} s, the clients' {mean} s");
        // Each time is in the client's bucket, or in the next one where it is near a bound.
        let earlier: Vec<f64> = bucket_counts(&before, &name).into_iter().map(|(_, count)| count).collect();
        for (index, (bound, count)) in bucket_counts(&text, &name).into_iter().enumerate() {
            let count = count - earlier.get(index).copied().unwrap_or(0.0);
            let surely = theirs.iter().filter(|time| **time * 1.05 + 0.003 <= bound).count() as f64;
            let perhaps = theirs.iter().filter(|time| **time * 0.95 - 0.003 <= bound).count() as f64;
            assert!((surely..=perhaps).contains(&count), "{name} up to {bound}: {count}, the clients' {theirs:?}");
        }
    }
    let further: f64 = requests.iter().map(|request| request["tokens"].as_f64().unwrap() - 1.0).sum();
    let time: f64 = requests
        .iter()
        .map(|request| request["tpot"].as_f64().unwrap() * (request["tokens"].as_f64().unwrap() - 1.0))
        .sum();
    let name = "gen_ai_server_time_per_output_token_seconds";
    assert_eq!(since(&text, &format!("{name}_count")), Some(further));
    let ours = since(&text, &format!("{name}_sum")).unwrap() / further;
    assert!(near(ours, time / further), "{ours} s, the clients' {} s", time / further);
    // The same in Prometheus.
    let expression = format!("{name}_sum");
    let count_of_all = value(&text, &format!("{name}_count"));
    let until = Instant::now() + Duration::from_secs(20);
    let scraped = loop {
        let count = ask(&prometheus_address, &format!("{name}_count"));
        if count == count_of_all {
            break ask(&prometheus_address, &expression).unwrap();
        }
        assert!(Instant::now() < until, "{count:?} of {count_of_all:?}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(Some(scraped), value(&text, &expression));
    drop(prometheus);
    // Prometheus's own check of the format.
    let mut promtool = Command::new("promtool");
    let mut promtool = promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = wait(promtool, "promtool");
    assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 500, "{series} series");
    // Operators are in the figures too, and soon the account of what it cost.
    assert!(text.contains("operator=\"MUL_MAT\""), "{text}");
    let until = Instant::now() + Duration::from_secs(20);
    while value(&get(&address, "/metrics").unwrap(), "profinfer_overhead_ratio").is_none() {
        assert!(Instant::now() < until, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Not SIGINT: what a shell runs in the background ignores it.
    run(Command::new("kill").args(["-TERM", &serve.0.id().to_string()]), 0);
    assert!(serve.0.wait().unwrap().success());
    // The last push has all: the same counts, and each request.
    let rows = otlp.rows();
    let latest = |name: &str| rows.iter().rfind(|row| row["metric"] == name).unwrap();
    let ttft = latest("gen_ai.server.time_to_first_token");
    assert_eq!((ttft["kind"].as_str(), ttft["unit"].as_str()), (Some("histogram"), Some("s")));
    let count = |name: &str| value(&text, &format!("gen_ai_server_{name}_seconds_count"));
    assert_eq!(ttft["count"].as_f64(), count("time_to_first_token"));
    assert_eq!(latest("gen_ai.server.request.duration")["count"].as_f64(), count("request_duration"));
    let durations: Vec<f64> = requests.iter().map(|request| request["duration"].as_f64().unwrap()).collect();
    assert_spans(&rows, &durations);
    assert_eq!(value(&text, "profinfer_otlp_lost_spans_total"), Some(0.0));
    assert!(text.contains("profinfer_otlp_failed_pushes_total 3"), "{text}");
    drop(otlp);
    assert_eq!(clients.0.try_wait().unwrap(), None, "the engine runs on");
    drop(input);
    assert!(clients.0.wait().unwrap().success());
}
