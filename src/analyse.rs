//! Reads a trace through the analysis, by the rules of the probeset that it carries.

use super::trace_file::AnyReader;
use profinfer_analysis::{Rules, Timeline, Visitor};
use profinfer_diagnostics::{Diagnostics, Severity};
use profinfer_probeset as spec;
use profinfer_trace::{Item, Meta};

use profinfer_schema::Origin;

/// Gives every step of the trace to the visitor, and returns the trace's problems, without ending the reading.
pub(crate) fn analyse(mut reader: AnyReader, visitor: &mut dyn Visitor) -> (Timeline, Meta, Diagnostics) {
    let (rules, mut problems) = rules_of(&reader.meta().origin);
    let mut timeline = Timeline::new(&reader.meta().schema, rules, reader.meta().origin.pid);
    let mut offset = 0;
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => timeline.record(record.bytes(), visitor),
            Item::Sites { sites, .. } => {
                timeline.add_sites(sites);
                timeline.add_enums(&reader.meta().schema);
            }
            Item::Notice(notice) => timeline.notice(notice),
            Item::Samples(samples) => visitor.samples(samples),
            _ => {}
        }
        if reader.offset() != offset {
            offset = reader.offset();
            visitor.offset(offset);
        }
    }
    timeline.finish(visitor);
    let meta = reader.into_meta();
    problems.0.extend(meta.problems.0.iter().cloned());
    (timeline, meta, problems)
}

/// The `analysis:` of the probeset that the trace carries. Without it there is still a report.
fn rules_of(origin: &Origin) -> (Rules, Diagnostics) {
    let loaded = match origin.sources.first() {
        None => return (Rules::default(), Diagnostics::new()),
        Some(_) => probeset_rules(origin),
    };
    match loaded {
        Ok(rules) => (rules, Diagnostics::new()),
        Err(mut problems) => {
            for problem in &mut problems.0 {
                problem.severity = Severity::Warning;
            }
            (Rules::default(), problems)
        }
    }
}

fn probeset_rules(origin: &Origin) -> Result<Rules, Diagnostics> {
    let (probeset, _) = spec::from_sources(&origin.sources)?;
    Rules::new(&probeset.analysis)
}
