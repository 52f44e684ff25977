//! Pushes to OpenTelemetry receivers, by each protocol: with and without TLS, to receivers that refuse, die and come back.

use super::encrypted::make;
use super::live::{Serve, end, toy};
use super::receiver::Receiver;
use super::toy::{Run, wait_until};
use std::collections::BTreeSet;
use std::process::Child;

const PROTOCOLS: [&str; 3] = ["http/json", "http/protobuf", "grpc"];

/// Steps that a receiver has been told of.
fn steps(receiver: &Receiver, of: &Child) -> u64 {
    let rows = receiver.rows();
    let of_toy = rows.iter().filter(|row| row["resource"]["process.pid"] == of.id());
    of_toy.filter(|row| row["metric"] == "profinfer.step").filter_map(|row| row["count"].as_u64()).max().unwrap_or(0)
}

/// When the recording began, by all points that a receiver was sent.
fn starts(receiver: &Receiver) -> BTreeSet<u64> {
    let rows = receiver.rows();
    rows.iter().filter(|row| row["metric"] == "profinfer.step").filter_map(|row| row["from"].as_u64()).collect()
}

fn failed(serve: &Serve) -> f64 {
    serve.metric("profinfer_otlp_failed_pushes_total", &[]).unwrap()
}

#[test]
#[ignore = "needs root"]
fn a_receiver_that_dies_and_comes_back_is_pushed_to_again() {
    let run = Run::new();
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let pid = toy_at_work.id().to_string();
    for protocol in PROTOCOLS {
        let received = run.path("received");
        let options = ["--protocol", protocol, "--refuse", "2", "--header", "x-key=0123=4"];
        let receiver = Receiver::start(&received, &options);
        let (url, port) = (receiver.url(), receiver.port().to_owned());
        let push = ["-p", &pid, "--otlp", &url, "--otlp-protocol", protocol, "--otlp-interval", "200ms"];
        let serve = Serve::start_with(&push, &[("OTEL_EXPORTER_OTLP_HEADERS", "x-key=0123=4")]);
        wait_until("it takes steps", || steps(&receiver, &toy_at_work) > 0);
        assert_eq!(failed(&serve), 2.0, "{protocol}: {}", serve.messages());
        let first = starts(&receiver);
        drop(receiver);
        wait_until("failed pushes are counted", || failed(&serve) > 4.0);
        assert!(serve.messages().contains("cannot push metrics to http://127.0.0.1:"), "{}", serve.messages());
        let receiver = Receiver::start(&received, &["--protocol", protocol, "--port", &port]);
        wait_until("it takes steps again", || steps(&receiver, &toy_at_work) > 0);
        // With another start it would be another recording.
        assert!(first.len() == 1 && starts(&receiver) == first, "{first:?}, then {:?}", starts(&receiver));
        assert!(serve.messages().contains("takes metrics again"), "{}", serve.messages());
        assert_eq!(serve.metric("profinfer_otlp_lost_spans_total", &[]), Some(0.0));
        // Without the key.
        drop(receiver);
        let receiver =
            Receiver::start(&received, &["--protocol", protocol, "--port", &port, "--header", "x-key=other"]);
        let before = failed(&serve);
        wait_until("it refuses", || failed(&serve) > before + 2.0);
        assert_eq!(steps(&receiver, &toy_at_work), 0);
    }
    end(toy_at_work, input);
}

#[test]
#[ignore = "needs root"]
fn receivers_are_pushed_to_by_tls() {
    let run = Run::new();
    let certificates =
        [make(&run, "ours", &["-addext", "basicConstraints=critical,CA:FALSE"]), make(&run, "other", &[])];
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let pid = toy_at_work.id().to_string();
    let [[certificate, key], [other, _]] = &certificates;
    for protocol in PROTOCOLS {
        let receiver = Receiver::start(&run.path("received"), &["--protocol", protocol, "--tls", certificate, key]);
        let url = format!("https://localhost:{}", receiver.port());
        // The protocol, too, is a variable.
        let push = ["-p", &pid, "--otlp", &url, "--otlp-interval", "200ms"];
        let start = |trusted: &str| {
            let variables = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("OTEL_EXPORTER_OTLP_CERTIFICATE", trusted)];
            Serve::start_with(&push, &variables)
        };
        let serve = start(other);
        wait_until("it is not trusted", || failed(&serve) > 1.0);
        assert!(serve.messages().to_lowercase().contains("certificate"), "{}", serve.messages());
        assert_eq!(steps(&receiver, &toy_at_work), 0);
        drop(serve);
        let serve = start(certificate);
        wait_until("it takes steps", || steps(&receiver, &toy_at_work) > 0);
        assert_eq!(failed(&serve), 0.0, "{}", serve.messages());
    }
    end(toy_at_work, input);
}
