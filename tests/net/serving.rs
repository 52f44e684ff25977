//! Files for those who watch the metrics of `serve`: alert rules, by Prometheus's own test of rules, and a dashboard.

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging")
}

fn promtool(words: &[&str], folder: &Path) {
    let output = Command::new("promtool").args(words).current_dir(folder).output().expect("promtool (prometheus)");
    assert!(
        output.status.success(),
        "promtool {words:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The metrics that expressions read, without what Prometheus makes of a histogram, and without those that rules record.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\b(?:gen_ai_server|profinfer)_[a-z_]+").unwrap();
    let suffix = Regex::new(r"_(?:bucket|sum|count)$").unwrap();
    name.find_iter(text).map(|found| suffix.replace(found.as_str(), "").into_owned()).collect()
}

/// Those that the page of live figures lists.
fn documented() -> BTreeSet<String> {
    let page = std::fs::read_to_string(packaging().join("../docs/live.md")).unwrap();
    page.lines().filter(|line| line.starts_with("| `")).flat_map(metrics_in).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&std::fs::read_to_string(packaging().join("grafana/profinfer.json")).unwrap()).unwrap()
}

/// The expressions of a dashboard.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs promtool"]
fn alerts_fire_on_their_causes() {
    let folder = packaging().join("prometheus");
    promtool(&["check", "rules", "profinfer.rules.yml"], &folder);
    promtool(&["test", "rules", "profinfer.test.yml"], &folder);
}

#[test]
#[ignore = "needs promtool"]
fn the_dashboard_s_expressions_are_prometheus_s() {
    let folder = tempfile::tempdir().unwrap();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for (index, expression) in expressions(&dashboard()).iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "1m");
        rules.push_str(&format!("      - record: panel:{index}\n        expr: {}\n", Value::from(expression)));
    }
    std::fs::write(folder.path().join("rules.yml"), rules).unwrap();
    promtool(&["check", "rules", "rules.yml"], folder.path());
}

#[test]
fn dashboard_and_alerts_read_metrics_that_exist() {
    let (dashboard, documented) = (dashboard(), documented());
    assert!(documented.len() > 20, "{documented:?}");
    let rules = std::fs::read_to_string(packaging().join("prometheus/profinfer.rules.yml")).unwrap();
    for name in metrics_in(&expressions(&dashboard).join("\n")).union(&metrics_in(&rules)) {
        assert!(documented.contains(name), "`{name}` is not in docs/live.md");
    }
    // Panels lie beside each other.
    let panels = dashboard["panels"].as_array().unwrap();
    let place = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().unwrap();
    for (index, one) in panels.iter().enumerate() {
        assert!(place(one, "x") + place(one, "w") <= 24);
        for other in &panels[..index] {
            let apart = |at: &str, size: &str| {
                place(one, at) + place(one, size) <= place(other, at)
                    || place(other, at) + place(other, size) <= place(one, at)
            };
            assert!(apart("x", "w") || apart("y", "h"), "{} and {}", one["title"], other["title"]);
        }
    }
}
