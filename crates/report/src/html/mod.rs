//! The report as one page: a file that any browser opens, which asks for nothing else. It holds the report's JSON, the
//! steps, a timeline within bounds, and the program that shows them (`*.js` beside this file, plain and by hand).
//!
//! Whatever a trace contains is data there: JSON that ends no script, or text that begins no tag. The page's own
//! Content-Security-Policy lets nothing run but the program whose hash it has, and nothing be asked for at all.

mod columns;
mod device_spans;
mod escape;
mod selection;
mod span;
mod spans;
mod steps;

use super::functions::{Flame, FunctionsReport};
use super::markup;
use super::report::Report;
use super::text::{TextStyle, report_text};
use profinfer_analysis::{Statistics, Timeline};
use profinfer_trace::Meta;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use profinfer_schema::ModuleInfo;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

pub use spans::{MOST_SPANS, SpanCollector};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// In the order in which they need each other.
const PROGRAM: &[&str] = &[
    include_str!("format.js"),
    include_str!("elements.js"),
    include_str!("data.js"),
    include_str!("tables.js"),
    include_str!("charts.js"),
    include_str!("steps.js"),
    include_str!("tracks.js"),
    include_str!("arrows.js"),
    include_str!("timeline.js"),
    include_str!("sections.js"),
    include_str!("pictures.js"),
    include_str!("statistics.js"),
    include_str!("verdict.js"),
    include_str!("graph.js"),
    include_str!("flame.js"),
    include_str!("page.js"),
];
/// Characters of a page's title.
const TITLE: usize = 120;

/// Everything that a page shows.
#[derive(Debug)]
pub struct Page<'a> {
    /// What `report --json` gives.
    pub report: &'a Report,
    /// Of the whole trace.
    pub statistics: &'a Statistics,
    /// Read to its end.
    pub timeline: &'a Timeline,
    /// Where the trace comes from.
    pub meta: &'a Meta,
    /// The timeline's spans.
    pub spans: SpanCollector,
    /// Parts that the page shows where they are there.
    pub parts: Parts,
}

/// Parts of a page that others make.
#[derive(Debug, Default)]
pub struct Parts {
    /// Pictures of the operator graph, the first of which is shown first.
    pub drawings: Vec<Drawing>,
    /// Statistics as JSON: any object; its lists of objects are shown as tables, its series as charts.
    pub statistics: Option<serde_json::Value>,
    /// Flame graphs, the first of which is shown first.
    pub flames: Vec<Flame>,
    /// What `report --by function --json` prints; `None` without samples.
    pub functions: Option<FunctionsReport>,
}

/// A picture.
#[derive(Debug, Default)]
pub struct Drawing {
    /// What it is called where there are several.
    pub name: String,
    /// An `<svg>` element whose texts are escaped. Its first `<style>` becomes the page's, since the page allows no
    /// other: no text of a trace may stand before that.
    pub svg: String,
}

impl Drawing {
    /// The picture without its style, and the style.
    fn apart(&self) -> (String, &str) {
        let parts =
            self.svg.split_once("<style>").and_then(|(before, rest)| Some((before, rest.split_once("</style>")?)));
        match parts {
            Some((before, (style, after))) => ([before, after].concat(), style),
            None => (self.svg.clone(), ""),
        }
    }
}

/// What the page has besides the report.
#[derive(Debug, Serialize)]
struct Besides<'a> {
    page: &'static str,
    steps: steps::StepFacts,
    timeline: spans::SpanFacts,
    environment: Environment<'a>,
    flames: &'a [Flame],
    functions: Option<&'a FunctionsReport>,
}

#[derive(Debug, Serialize)]
struct Environment<'a> {
    host: &'a str,
    memory: u64,
    cpu_quota: Option<f64>,
    launched: bool,
    options: &'a [String],
    modules: &'a [ModuleInfo],
    notices: Vec<&'a str>,
}

/// Writes the page; gives what its timeline leaves out, in a sentence, or an empty text.
///
/// # Errors
/// The first one that writing met.
pub fn write_page(page: Page<'_>, mut out: impl Write) -> io::Result<String> {
    let Page { report, statistics, timeline, meta, spans, parts } = page;
    let spans = spans.finish(timeline.catalogue(), timeline.decoder(), meta);
    let (points, of) = statistics.step_points();
    let (step_facts, step_columns) = steps::columns(&points, of, statistics.steps());
    let left_out = spans.facts.sentence_text().to_owned();
    let besides = Besides {
        page: concat!("profinfer ", env!("CARGO_PKG_VERSION")),
        steps: step_facts,
        timeline: spans.facts,
        environment: environment(meta),
        flames: &parts.flames,
        functions: parts.functions.as_ref(),
    };
    let program = program();
    let mut styles = vec![STYLE];
    let mut drawings = String::new();
    for drawing in &parts.drawings {
        let (svg, style) = drawing.apart();
        if !styles.contains(&style) {
            styles.push(style);
        }
        let name = markup::html(&drawing.name);
        drawings.push_str(&format!("<template class=\"drawing\" data-name=\"{name}\">{svg}</template>\n"));
    }
    // A picture's colours are of the page's theme: the page's style overrides it.
    styles.rotate_left(1);
    let style = styles.concat();
    let title = title(report);
    let values = [
        ("policy", policy(&program, &style)),
        ("title", markup::html(&title)),
        ("style", style),
        ("text", markup::html(&report_text(report, &TextStyle::default()))),
        ("drawings", drawings),
        ("report", json(report)?),
        ("page", json(&besides)?),
        ("statistics", parts.statistics.as_ref().map_or(Ok("null".to_owned()), json)?),
        ("steps", step_columns.into_text()?),
        ("spans", spans.columns.into_text()?),
        ("program", program),
    ];
    fill(TEMPLATE, &values, &mut out)?;
    out.flush()?;
    Ok(left_out)
}

/// The page's program: one function, so that nothing of it can be reached by name.
fn program() -> String {
    ["(() => {\n\"use strict\";\n", &PROGRAM.concat(), "})();\n"].concat()
}

/// What the page may do: show its own style, run its own program, nothing else.
fn policy(program: &str, style: &str) -> String {
    let (script, style) = (hash(program), hash(style));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

fn title(report: &Report) -> String {
    let trace = &report.trace;
    let program = trace.command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let parts = [trace.engine.as_str(), program].into_iter().filter(|part| !part.is_empty());
    let named: Vec<&str> = parts.chain(["profinfer"]).collect();
    named.join(" · ").chars().filter(|c| !c.is_control()).take(TITLE).collect()
}

fn environment(meta: &Meta) -> Environment<'_> {
    let origin = &meta.origin;
    Environment {
        host: &origin.host.name,
        memory: origin.host.memory,
        cpu_quota: origin.cpu_quota,
        launched: origin.launched,
        options: &origin.options,
        modules: &meta.modules,
        notices: meta
            .notices
            .iter()
            .filter(|notice| !notice.text.is_empty())
            .take(NOTICES)
            .map(|notice| notice.text.as_str())
            .collect(),
    }
}

/// Notices that the page lists.
const NOTICES: usize = 200;

fn json(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map(|text| escape::json(&text)).map_err(io::Error::other)
}

/// Writes the template, with `{{name}}` replaced by the value of that name. Values are not expanded.
fn fill(template: &str, values: &[(&str, String)], out: &mut impl Write) -> io::Result<()> {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let Some((name, after)) = after.split_once("}}") else { break };
        let value = values.iter().find(|(key, _)| *key == name);
        let value = value.ok_or_else(|| io::Error::other(format!("the page has no part `{name}`")))?;
        out.write_all(value.1.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests;
