//! `profinfer explain`: one path of a probeset, step by step: types, offsets, their sources, and with a
//! running process the bytes that are read.

use super::probeset::ProbesetArguments;
use super::resolved::{Resolved, TargetArguments};
use super::table::columns;
use super::terminal::{report_problems, write_out};
use super::{DONE, Outcome};
use indexmap::IndexMap;
use profinfer_compiler::{
    Meeting, PathStep, PlacedSite, Provenance, explain_at, explain_in_object, explain_met, meetings,
};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, did_you_mean};
use profinfer_probeset::path::Expr;
use profinfer_probeset::{Field, Probeset};
use std::fmt::Write;

/// What stands before an object's name where a probe's could stand.
const OBJECT: &str = "object:";

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "With -p, also shows the values of one hit of the probe, or of a probe that reads the object.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    /// A probe or one of its fields (operator, operator.lane), or an object's field (object:tensor.name)
    path: String,
    #[command(flatten)]
    target: TargetArguments,
    /// With -p: seconds to wait for a hit
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
}

/// Values of a probe's steps, as one hit had them: by text of the step, bytes and value.
pub(super) type Live = std::collections::HashMap<String, (String, String)>;

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let resolved = arguments.target.resolve(&arguments.probeset)?;
    let wanted = Wanted::find(&resolved.probeset, &arguments.path)?;
    let of_this = |problem: &Diagnostic| {
        let within = |expr: &Expr| problem.span.as_ref().is_some_and(|span| span.text() == expr.span.text());
        wanted.paths.iter().any(|(_, expr)| within(expr))
    };
    let related = resolved.problems.0.iter().filter(|problem| of_this(problem)).cloned().collect();
    let text = match wanted.kind {
        SubjectKind::Object(view) => of_object(arguments, &resolved, view, &wanted)?,
        SubjectKind::Probe => of_probe(arguments, &resolved, &wanted)?,
    };
    write_out(&text)?;
    report_problems(&Diagnostics(related));
    Ok(DONE)
}

/// The requested path.
struct Wanted<'a> {
    name: &'a str,
    kind: SubjectKind<'a>,
    /// Fields and conditions, by name.
    paths: Vec<(&'a str, &'a Expr)>,
}

#[derive(Clone, Copy)]
enum SubjectKind<'a> {
    Probe,
    /// Of this view.
    Object(&'a str),
}

impl<'a> Wanted<'a> {
    fn find(probeset: &'a Probeset, path: &str) -> Result<Self, Diagnostics> {
        let (owner, field) = path.split_once('.').map_or((path, None), |(owner, field)| (owner, Some(field)));
        let fields = |fields: &'a IndexMap<String, Field>| -> Vec<(&'a str, &'a Expr)> {
            fields.iter().map(|(name, field)| (name.as_str(), &field.value)).collect()
        };
        let (name, kind, mut paths) = match owner.strip_prefix(OBJECT) {
            Some(object) => {
                let (name, found) = named("object", &probeset.objects, object)?;
                (name, SubjectKind::Object(&found.of.value), fields(&found.fields))
            }
            None => {
                let (name, probe) = named("probe", &probeset.probes, owner)?;
                let conditions = [("when", &probe.when), ("describe", &probe.describe), ("identity", &probe.identity)];
                let conditions = conditions.into_iter().filter_map(|(name, expr)| Some((name, expr.as_ref()?)));
                (name, SubjectKind::Probe, fields(&probe.fields).into_iter().chain(conditions).collect())
            }
        };
        if let Some(field) = field {
            let available: Vec<&str> = paths.iter().map(|(name, _)| *name).collect();
            paths.retain(|(name, _)| *name == field);
            if paths.is_empty() {
                return Err(missing("field", field, available.into_iter()).into());
            }
        }
        Ok(Self { name, kind, paths })
    }
}

fn missing<'n>(kind: &str, name: &str, available: impl Iterator<Item = &'n str> + Clone) -> Diagnostic {
    let hint = did_you_mean(name, available.clone())
        .unwrap_or_else(|| format!("there are {}", available.collect::<Vec<_>>().join(", ")));
    Diagnostic::error(Code::BadArgument, format!("the probeset has no {kind} `{name}`")).hint(hint)
}

/// What has that name.
fn named<'a, T>(kind: &str, all: &'a IndexMap<String, T>, name: &str) -> Result<(&'a str, &'a T), Diagnostic> {
    let (name, found) = all.get_key_value(name).ok_or_else(|| missing(kind, name, all.keys().map(String::as_str)))?;
    Ok((name, found))
}

/// An object's fields, as its memory has them; with a process, as a probe meets one.
fn of_object(
    arguments: &Arguments,
    resolved: &Resolved,
    view: &str,
    wanted: &Wanted<'_>,
) -> Result<String, Diagnostics> {
    let Resolved { probeset, plan, placement, .. } = resolved;
    let mut text = format!("object {}, of {view}\n", wanted.name);
    let met = placement.as_ref().filter(|_| arguments.target.pid.is_some());
    let met = met.and_then(|placement| meetings(plan, probeset, placement, wanted.name).into_iter().next());
    let alternative = |meeting: &Meeting<'_>| plan.programs.get(meeting.program).map_or(0, |at| at.alternative);
    if let Some(meeting) = &met {
        let _ = writeln!(text, "  read by {} in {}", meeting.probe, meeting.site.site.place());
    }
    for (name, expr) in &wanted.paths {
        let (steps, live) = match &met {
            Some(meeting) => {
                let steps = explain_met(plan, probeset, placement.as_ref(), (meeting, view), expr);
                let live = live(arguments, probeset, (meeting.probe, alternative(meeting), false), &steps)?;
                (steps, live)
            }
            None => (explain_in_object(plan, probeset, placement.as_ref(), view, expr), None),
        };
        text.push_str(&table(name, expr, &steps, live.as_ref()));
    }
    Ok(text)
}

fn of_probe(arguments: &Arguments, resolved: &Resolved, wanted: &Wanted<'_>) -> Result<String, Diagnostics> {
    let Resolved { probeset, plan, placement, .. } = resolved;
    let placement = placement.as_ref();
    let mut text = String::new();
    for (program, at) in plan.programs.iter().enumerate().filter(|(_, at)| at.probes.iter().any(|p| p == wanted.name)) {
        let sites: Vec<&PlacedSite> =
            placement.iter().flat_map(|placement| &placement.sites).filter(|site| site.program == program).collect();
        if placement.is_some() && sites.is_empty() && at.signature().is_some() {
            continue;
        }
        let _ = writeln!(text, "{} at {}", wanted.name, at.span.text());
        for site in sites.iter().take(8) {
            let file = site.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let _ = writeln!(text, "  {file}: {}, `{}`", site.site.place(), site.site.instruction);
        }
        if sites.len() > 8 {
            let _ = writeln!(text, "  and {} more sites", sites.len() - 8);
        }
        let explained: Vec<(&str, &Expr, Vec<PathStep>)> = wanted
            .paths
            .iter()
            .map(|(name, expr)| {
                (*name, *expr, explain_at(plan, probeset, placement, (program, sites.first().copied()), expr))
            })
            .collect();
        for (name, expr, steps) in &explained {
            let field = probeset.probes.get(wanted.name).and_then(|probe| probe.fields.get(*name));
            let at_return = field.is_some_and(|field| field.at_return) || expr.names_result();
            let live = live(arguments, probeset, (wanted.name, at.alternative, at_return), steps)?;
            text.push_str(&table(name, expr, steps, live.as_ref()));
        }
        text.push('\n');
    }
    if text.is_empty() {
        let why = placement.into_iter().flat_map(|placement| &placement.unplaced).find(|u| u.probe == wanted.name);
        let problem = why.map_or_else(
            || Diagnostic::error(Code::BadArgument, format!("`{}` has no site on this target", wanted.name)),
            |unplaced| unplaced.problem.clone(),
        );
        return Err(problem.into());
    }
    Ok(text)
}

/// The values of a hit, where a process is given.
#[cfg(feature = "record")]
fn live(
    arguments: &Arguments,
    probeset: &Probeset,
    probe: (&str, usize, bool),
    steps: &[PathStep],
) -> Result<Option<Live>, Diagnostics> {
    let Some(pid) = arguments.target.pid.and_then(|pid| i32::try_from(pid).ok()) else { return Ok(None) };
    let wait = std::time::Duration::from_secs(arguments.seconds.max(1));
    super::explain_live::values(&arguments.probeset, pid, wait, probeset, probe, steps).map(Some)
}

#[cfg(not(feature = "record"))]
fn live(
    arguments: &Arguments,
    _probeset: &Probeset,
    _probe: (&str, usize, bool),
    _steps: &[PathStep],
) -> Result<Option<Live>, Diagnostics> {
    let _ = arguments.seconds;
    Ok(None)
}

fn table(name: &str, expr: &Expr, steps: &[PathStep], live: Option<&Live>) -> String {
    let mut headers = vec!["STEP", "TYPE", "PLACE", "FROM"];
    if live.is_some() {
        headers.extend(["BYTES", "VALUE"]);
    }
    let rows = steps.iter().map(|step| {
        let text = step.expr.span.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let from = step.provenance.map_or("", Provenance::describe).to_owned();
        let mut row = vec![text, step.ty.clone(), step.place.clone(), from];
        if let Some(live) = live {
            let (bytes, value) = live.get(step.expr.span.text()).cloned().unwrap_or_default();
            row.extend([bytes, value]);
        }
        row
    });
    format!("\n{name}: {}\n{}", expr.span.text(), columns(&headers, rows))
}
