//! The values of a path's steps at one hit of a probe: each step becomes a field of a generated probe, which is recorded
//! until it was hit once.

use super::explain::Live;
use super::probeset::ProbesetArguments;
use super::short_run::ShortRun;
use profinfer_compiler::PathStep;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Spanned};
use profinfer_probeset::path::Place;
use profinfer_probeset::{Field, Probe, Probeset};
use profinfer_recorder::Subject;

use profinfer_schema::MAX_FIELDS;
use profinfer_schema::Role;

use profinfer_trace::RecordView;
use std::fmt::Write;
use std::time::Duration;

/// Bytes of a value that are shown.
const MOST_BYTES: usize = 16;
/// The probe that is recorded, and the beginning of its fields' names.
const PROBE: &str = "explained";
const FIELD: &str = "step_";

/// Records one hit of a probe's alternative in a process, with the steps as its fields.
pub(super) fn values(
    arguments: &ProbesetArguments,
    pid: i32,
    wait: Duration,
    probeset: &Probeset,
    (probe, alternative, at_return): (&str, usize, bool),
    steps: &[PathStep],
) -> Result<Live, Diagnostics> {
    let shown: Vec<&PathStep> = steps.iter().filter(|step| step.recordable).collect();
    // The last ones are nearest to what is asked for.
    let shown = &shown[shown.len().saturating_sub(MAX_FIELDS - 1)..];
    let Some(reduced) = reduced(probeset, (probe, alternative, at_return), shown) else { return Ok(Live::new()) };
    let mut run = ShortRun::new(Subject::Process(pid), wait)?;
    run.options.steps = Some((1, 1));
    run.options.debug_folders = arguments.debug_folders();
    run.options.lock = arguments.lock()?;
    let summary = run.record(&reduced)?;
    let mut live = None;
    run.trace()?.for_each_record(|record| {
        if record.kind().name == PROBE {
            live = Some(of_record(record, shown));
        }
        live.is_none()
    });
    if let Some(live) = live {
        return Ok(live);
    }
    if summary.problems.has_errors() {
        return Err(summary.problems);
    }
    let message = format!("`{probe}` had no hit within {} s", wait.as_secs());
    Err(Diagnostic::error(Code::NothingRecorded, message).hint("send the process work, or increase `--seconds`").into())
}

fn of_record(record: RecordView<'_>, steps: &[&PathStep]) -> Live {
    let mut live = Live::new();
    for (number, step) in steps.iter().enumerate() {
        let Some(index) = record.index_of(&format!("{FIELD}{number}")) else { continue };
        let layout = &record.kind().fields[index];
        let from = layout.offset as usize;
        let size = layout.ty.size() as usize;
        let bytes = record.bytes().get(from..from.saturating_add(size)).unwrap_or_default();
        let mut hex = String::new();
        if !record.missing(index) && !step.is_list {
            for byte in bytes.iter().take(MOST_BYTES) {
                let _ = write!(hex, "{byte:02x}");
            }
            if bytes.len() > MOST_BYTES {
                hex.push('…');
            }
        }
        let value = match record.missing(index) {
            true => "not readable".to_owned(),
            false => record.field(index).to_string().escape_debug().to_string(),
        };
        live.insert(step.expr.span.text().to_owned(), (hex, value));
    }
    live
}

/// The probeset with that probe alone, at that alternative, and the steps as its fields.
fn reduced(
    probeset: &Probeset,
    (probe, alternative, at_return): (&str, usize, bool),
    steps: &[&PathStep],
) -> Option<Probeset> {
    let own = probeset.probes.get(probe)?;
    let mut root = own;
    // A probe may be at another, which may be at a third; the bound is for circles.
    for _ in 0..probeset.probes.len() {
        match &root.at.first()?.place {
            Place::Probe(next) => root = probeset.probes.get(&next.value)?,
            _ => break,
        }
    }
    let mut at = root.at.get(alternative)?.clone();
    at.waiting_from = None;
    let name = |text: String, span: &profinfer_diagnostics::Span| Spanned::new(text, span.clone());
    for end in at.until.drain(1.min(at.until.len())..) {
        drop(end);
    }
    if let Some(end) = at.until.first_mut() {
        *end = name(PROBE.to_owned(), &end.span.clone());
    }
    let fields = steps.iter().enumerate().map(|(number, step)| {
        let field = format!("{FIELD}{number}");
        (field.clone(), Field { name: name(field, &step.expr.span), value: step.expr.clone(), at_return })
    });
    // Steps are counted, and so the recording ends with the first; a list can be in an instant only.
    let role = if steps.iter().any(|step| step.is_list) { Role::Mark } else { Role::Step };
    let explained = Probe {
        except: Vec::new(),
        enclosing: None,
        unless: Vec::new(),
        name: name(PROBE.to_owned(), &own.name.span),
        at: vec![at],
        role: Spanned::new(role, own.role.span.clone()),
        fields: fields.collect(),
        when: own.when.clone(),
        describe: None,
        describes: None,
        identity: None,
        counters: Vec::new(),
        optional: false,
        nested: own.nested,
    };
    let mut reduced = probeset.clone();
    reduced.counters.clear();
    reduced.probes.clear();
    reduced.probes.insert(PROBE.to_owned(), explained);
    Some(reduced)
}
