//! The page as text, without a browser; `tests/net/html.rs` opens it in one.

use super::*;
use crate::{Options, build};
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Completeness, Rules};
use profinfer_trace::{Item, TraceReader, TraceWriter};

use profinfer_schema::Origin;

const HOSTILE: &str = "</script><script>alert(1)</script><!-- <b onload=x> \u{2028} {{program}} & \"'";

/// The page of a trace whose every text is hostile.
fn hostile_page(parts: Parts) -> String {
    let mut records = Records::default();
    records.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    let fields = [("address", Put::Int(16)), ("op", Put::Text("</script>")), ("name", Put::Text(HOSTILE))];
    records.push("tensor", 7, (2, 2), &fields);
    records.push("operator", 7, (20, 30), &[("node", Put::Int(16))]);
    records.push("graph", 7, (15, 40), &[("backend", Put::Text("<!--"))]);
    records.push("step", 7, (10, 50), &[("tokens", Put::Int(1))]);
    let mut bytes = Vec::new();
    let command = vec![HOSTILE.to_owned()];
    let origin = Origin { engine: HOSTILE.to_owned(), command, pid: 1, ..Origin::default() };
    let mut writer = TraceWriter::new(&mut bytes, &origin, &records.schema).unwrap();
    records.records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish(&profinfer_schema::End::default()).unwrap();

    let mut reader = TraceReader::new(bytes.as_slice()).unwrap();
    let mut timeline = Timeline::new(&reader.meta().schema, Rules::default(), 1);
    let (mut statistics, mut spans) = (Statistics::default(), SpanCollector::new(None));
    let mut items = 0;
    while let Some(item) = reader.next() {
        items += 1;
        if let Item::Record(record) = item {
            timeline.record(record.bytes(), &mut Both(&mut statistics, &mut spans));
        }
    }
    assert!(items > 0);
    timeline.finish(&mut Both(&mut statistics, &mut spans));
    let meta = reader.into_meta();
    let judged = Completeness::judge(&meta, timeline.findings(), &statistics);
    let report = build(&meta, judged, &statistics, &timeline, &Options::default());
    let (statistics, timeline, meta) = (&statistics, &timeline, &meta);
    let mut out = Vec::new();
    write_page(Page { report: &report, statistics, timeline, meta, spans, parts }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

struct Both<'a>(&'a mut Statistics, &'a mut SpanCollector);

impl profinfer_analysis::Visitor for Both<'_> {
    fn step(
        &mut self,
        step: &profinfer_analysis::Step,
        catalogue: &profinfer_analysis::Catalogue,
        decoder: &profinfer_analysis::Decoder,
    ) {
        self.0.step(step, catalogue, decoder);
        self.1.step(step, catalogue, decoder);
    }
}

/// What stands between the first `opening` and what closes it.
fn between<'a>(page: &'a str, opening: &str, closing: &str) -> &'a str {
    page.split_once(opening).unwrap().1.split_once(closing).unwrap().0
}

#[test]
fn no_text_of_a_trace_becomes_part_of_the_page() {
    let page = hostile_page(Parts::default());
    // Six scripts: five of data and the program; each closed once.
    let count = |text: &str| page.matches(text).count();
    assert_eq!((count("<script"), count("</script>")), (6, 6));
    assert_eq!((count("alert(1)</script>"), count("<!--"), count("<b onload")), (0, 0, 0));
    let scripts = || page.split("<script").skip(1).map(|rest| rest.split_once("</script>").unwrap().0);
    assert!(scripts().all(|script| !script.contains('\u{2028}')));
    let report: serde_json::Value = serde_json::from_str(between(&page, "id=\"report\">", "</script>")).unwrap();
    assert_eq!(report["trace"]["engine"], HOSTILE);
}

#[test]
fn the_policy_has_the_hash_of_what_stands_in_the_page() {
    let svg = "<svg><style>svg { fill: red }</style><text>a</text></svg>";
    let drawing = Drawing { name: "<i>".into(), svg: svg.into() };
    for parts in [Parts::default(), Parts { drawings: vec![drawing], ..Parts::default() }] {
        let page = hostile_page(parts);
        let policy = between(&page, "Content-Security-Policy\" content=\"", "\">");
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        let hashed = |text: &str| format!("'sha256-{}'", hash(text));
        assert!(policy.contains(&hashed(between(&page, "<style>", "</style>"))));
        for script in page.split("<script>").skip(1).map(|rest| rest.split_once("</script>").unwrap().0) {
            assert!(script.is_empty() || policy.contains(&hashed(script)));
        }
    }
}

#[test]
fn the_page_names_no_other_file() {
    let page = hostile_page(Parts::default());
    for outside in
        [" src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket", "import(", "innerHTML", "eval("]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_template_s_values_are_not_looked_into() {
    let mut out = Vec::new();
    fill("a {{x}} b", &[("x", "{{y}}".into())], &mut out).unwrap();
    assert_eq!(out, b"a {{y}} b");
    assert!(fill("{{z}}", &[], &mut Vec::new()).is_err());
}

#[test]
fn a_picture_s_style_becomes_the_page_s() {
    let drawing =
        |name: &str| Drawing { name: name.into(), svg: "<svg><style>.a{}</style><text>&lt;</text></svg>".into() };
    let page = hostile_page(Parts { drawings: vec![drawing("a\"b"), drawing("two")], ..Parts::default() });
    assert!(
        page.contains("<template class=\"drawing\" data-name=\"a&quot;b\"><svg><text>&lt;</text></svg></template>")
    );
    assert_eq!(page.matches(".a{}").count(), 1);
    assert!(between(&page, "<style>", "</style>").contains(".a{}"));
}
