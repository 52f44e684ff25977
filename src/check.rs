//! `profinfer check`: every probe, site and path of a probeset, resolved against a real binary.

use super::expected::{Expected, Seen};
use super::probeset::ProbesetArguments;
use super::resolved::{Resolved, TargetArguments};
use super::table::columns;
use super::terminal::{report_problems, write_json, write_out};
use super::{DONE, Outcome};
use profinfer_compiler::{
    PlacedSite, Placement, ProbePlan, Program, ProgramKind, Provenance, RelocationKind, relocations_of,
};
use profinfer_diagnostics::{Diagnostics, Severity};
use profinfer_probeset::path::{Checked, ClassPart};
use profinfer_probeset::{Metric, Probeset};

use profinfer_schema::FieldType;
use profinfer_schema::Role;
use serde_json::json;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    #[command(flatten)]
    target: TargetArguments,
    /// Estimate the overhead of each step of this trace
    #[arg(long, value_name = "FILE", requires = "of")]
    trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Resolved { probeset, plan, placement, mut problems } = arguments.target.resolve(&arguments.probeset)?;
    let unplaced = placement.iter().flat_map(|placement| &placement.unplaced).filter(|unplaced| unplaced.required);
    problems.0.extend(unplaced.map(|unplaced| unplaced.problem.clone()));
    let paths = paths(&plan, placement.as_ref());
    let seen = arguments.trace.as_deref().map(Seen::read).transpose()?;
    let expected = seen.zip(placement.as_ref()).map(|(seen, placement)| seen.expect(&plan, placement));
    if arguments.json {
        let mut all = as_json(&plan, placement.as_ref(), &paths, expected.as_ref(), &problems);
        all["metrics"] = probeset.analysis.metrics.values().map(metric_json).collect();
        write_json(&format!("{all:#}\n"))?;
    } else {
        write_out(&as_text(&plan, placement.as_ref(), &paths, expected.as_ref(), &metrics_table(&probeset)))?;
        report_problems(&problems);
    }
    if problems.has_errors() { Ok(1) } else { Ok(DONE) }
}

/// Values from here on stand for what the target lacks.
const ABSENT_SIZE: u64 = 1 << 48;

/// One path of the probeset as it is read on the target.
struct Path {
    owner: String,
    field: String,
    text: String,
    ty: String,
    /// Members with their offsets, in the order they are read.
    layout: Vec<(String, Option<u64>)>,
    provenance: Option<Provenance>,
    /// The source in words, with the function or table.
    from: String,
}

fn paths(plan: &ProbePlan, placement: Option<&Placement>) -> Vec<Path> {
    let mut paths = Vec::new();
    for (index, program) in plan.programs.iter().enumerate().filter(|(index, _)| is_used(*index, plan, placement)) {
        for action in &program.actions {
            let owner = || action.probe.clone();
            let conditions = [("when", &action.when), ("describe", &action.describe), ("identity", &action.identity)];
            for (name, value) in conditions.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
                paths.push(path(plan, placement, Some(index), owner(), name, value, "condition".to_owned()));
            }
            for field in &action.fields {
                let layout = &plan.schema.records[action.record].fields[field.index];
                paths.push(path(
                    plan,
                    placement,
                    Some(index),
                    owner(),
                    &layout.name,
                    &field.value,
                    type_name(&layout.ty),
                ));
            }
        }
    }
    for object in &plan.objects {
        for field in &object.fields {
            let layout = &plan.schema.records[object.record].fields[field.index];
            let owner = format!("object {}", object.name);
            paths.push(path(plan, placement, None, owner, &layout.name, &field.value, type_name(&layout.ty)));
        }
    }
    paths
}

/// Without a target every alternative is shown; with one, those that have a site.
fn is_used(program: usize, plan: &ProbePlan, placement: Option<&Placement>) -> bool {
    let tracepoint = plan.programs[program].kind == ProgramKind::Tracepoint;
    placement.is_none_or(|placement| tracepoint || placement.sites.iter().any(|site| site.program == program))
}

fn path(
    plan: &ProbePlan,
    placement: Option<&Placement>,
    program: Option<usize>,
    owner: String,
    field: &str,
    value: &Checked,
    ty: String,
) -> Path {
    let mut layout = Vec::new();
    let mut provenance = None;
    let mut details: Vec<String> = Vec::new();
    let module = program.and_then(|program| plan.programs.get(program)?.module());
    for kind in relocations_of(value, program, module) {
        let label = match &kind {
            RelocationKind::Offset { view, member } => format!("{view}.{member}"),
            RelocationKind::Size { view } => format!("sizeof {view}"),
            RelocationKind::Shift { view, member } => format!("bit of {view}.{member}"),
            RelocationKind::Class { of, part: ClassPart::Tag, .. } => format!("tag of {of}"),
            RelocationKind::Class { of, part: ClassPart::Size, .. } => format!("sizeof {of}"),
            RelocationKind::Class { of, part: ClassPart::Walk, .. } => format!("elements of {of}"),
            RelocationKind::Strings { module: Some(module) } => format!("strings of {module}"),
            RelocationKind::Strings { module: None } => "strings".to_owned(),
            RelocationKind::Constant { name, .. } => name.clone(),
            _ => continue,
        };
        let symbol = plan.symbol(&kind);
        let found = placement.and_then(|p| p.values.iter().find(|v| Some(v.symbol.as_str()) == symbol));
        // One member by hand makes the whole path as good as that.
        if let Some(found) = found {
            provenance = match provenance {
                Some(Provenance::ByHand) => Some(Provenance::ByHand),
                _ => Some(found.provenance),
            };
            let detail = format!("{} {}", found.provenance.describe(), found.detail);
            if !found.detail.is_empty() && !details.contains(&detail) {
                details.push(detail);
            }
        }
        // What a path reads over again is shown once.
        let part = (label, found.map(|v| v.value));
        if !layout.contains(&part) {
            layout.push(part);
        }
    }
    Path {
        owner,
        field: field.to_owned(),
        text: value.span.text().split_whitespace().collect::<Vec<_>>().join(" "),
        ty,
        layout,
        from: match (provenance, details.is_empty()) {
            (Some(provenance), true) => provenance.describe().to_owned(),
            (Some(_), false) => details.join(", "),
            (None, _) => String::new(),
        },
        provenance,
    }
}

fn type_name(ty: &FieldType) -> String {
    match ty {
        FieldType::Int(n) => format!("i{}", n * 8),
        FieldType::Uint(n) => format!("u{}", n * 8),
        FieldType::Float(n) => format!("f{}", n * 8),
        FieldType::Bool => "bool".to_owned(),
        FieldType::Pointer => "address".to_owned(),
        FieldType::Enum(name) => format!("enum {name}"),
        FieldType::Text(n) => format!("text of {n}"),
        FieldType::Hex(n) => format!("hex of {n}"),
        FieldType::Object(name) => format!("object {name}"),
        FieldType::Array(of, n) => format!("{}[{n}]", type_name(of)),
        FieldType::List(of, max) => format!("{}[≤ {max}]", type_name(of)),
        FieldType::Match(n) => format!("capture {n}"),
        FieldType::Duration => "duration".to_owned(),
        FieldType::Counter => "counter".to_owned(),
        FieldType::Scaled => "which counters are scaled".to_owned(),
    }
}

// ---- text --------------------------------------------------------------------------------------------------------

fn as_text(
    plan: &ProbePlan,
    placement: Option<&Placement>,
    paths: &[Path],
    expected: Option<&Expected>,
    metrics: &str,
) -> String {
    let mut text = String::from("PROBES\n");
    text.push_str(&match placement {
        Some(placement) => sites_table(plan, placement, expected),
        None => programs_table(plan),
    });
    text.push_str(&expected.map(|expected| expected.as_text(&plan.costs)).unwrap_or_default());
    text.push_str("\nPATHS\n");
    let headers = ["PROBE", "FIELD", "PATH", "TYPE", "LAYOUT", "FROM"];
    text.push_str(&columns(
        &headers,
        paths.iter().map(|path| {
            let layout = path.layout.iter().map(|(label, value)| match value {
                Some(value) if *value >= ABSENT_SIZE => format!("{label} absent"),
                Some(value) => format!("{label} {value}"),
                None => label.clone(),
            });
            let from = path.from.clone();
            let layout = layout.collect::<Vec<_>>().join(", ");
            vec![path.owner.clone(), path.field.clone(), path.text.clone(), path.ty.clone(), layout, from]
        }),
    ));
    text.push_str(metrics);
    if let Some(placement) = placement {
        text.push_str(&missing_text(placement));
    } else {
        text.push_str("\nNo target given: `--target FILE|DIR|PID` shows sites and offsets.\n");
    }
    text
}

/// The metrics, with what they come out in.
fn metrics_table(probeset: &Probeset) -> String {
    let metrics = &probeset.analysis.metrics;
    if metrics.is_empty() {
        return String::new();
    }
    let row = |metric: &Metric| vec![metric.name.value.clone(), metric.value.span.text().to_owned(), unit(metric)];
    format!("\nMETRICS\n{}", columns(&["METRIC", "VALUE", "UNIT"], metrics.values().map(row)))
}

fn unit(metric: &Metric) -> String {
    if metric.unit.is_empty() { "number".to_owned() } else { metric.unit.clone() }
}

fn metric_json(metric: &Metric) -> serde_json::Value {
    json!({ "metric": metric.name.value, "value": metric.value.span.text(), "unit": metric.unit })
}

fn sites_table(plan: &ProbePlan, placement: &Placement, expected: Option<&Expected>) -> String {
    let mut headers = vec!["PROBE", "ROLE", "FUNCTION", "FILE", ">OFFSET", "INSTRUCTION", ">NS PER HIT"];
    if expected.is_some() {
        headers.extend([">HITS PER STEP", ">µS PER STEP"]);
    }
    headers.push("REASON");
    let placed = placement.sites.iter().enumerate().map(|(index, site)| {
        let program = &plan.programs[site.program];
        let module = placement.modules.get(site.site.module);
        let file = module.and_then(|m| m.path.rsplit('/').next()).unwrap_or("?").to_owned();
        let function = site.site.place();
        let (offset, cost) = (format!("{:#x}", site.site.file_offset), cost_text(plan, program, site));
        let mut row = vec![names(program), role(program), function, file, offset, site.site.instruction.clone(), cost];
        if let Some(expected) = expected {
            let seen = expected.sites.get(index).copied().flatten();
            let shown = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| format!("{value:.1}"));
            row.extend([shown(seen.map(|(hits, _)| hits)), shown(seen.and_then(|(_, us)| us))]);
        }
        row.push(site.reason.clone());
        row
    });
    let tracepoints = plan.programs.iter().filter(|p| p.kind == ProgramKind::Tracepoint).map(|program| {
        let blank = String::new;
        let mut row = vec![names(program), role(program), program.span.text().to_owned()];
        row.resize_with(headers.len(), blank);
        row
    });
    columns(&headers, placed.chain(tracepoints))
}

/// Expected cost of a hit of the trap alone; a return is a second one.
fn cost_text(plan: &ProbePlan, program: &Program, site: &PlacedSite) -> String {
    match (site.cost_ns, program.kind) {
        (Some(cost), ProgramKind::Span) => match plan.costs.return_ns {
            Some(more) => format!("{cost} + {more}"),
            None => format!("{cost} + return"),
        },
        (Some(cost), _) => cost.to_string(),
        (None, _) => "unknown".to_owned(),
    }
}

fn names(program: &Program) -> String {
    program.probes.join(", ")
}

fn role(program: &Program) -> String {
    // What records nothing is there for others' spans.
    let role = program.actions.first().map_or(Role::Boundary, |action| action.role);
    serde_json::to_value(role).ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
}

fn programs_table(plan: &ProbePlan) -> String {
    columns(
        &["PROBE", "ROLE", "ATTACH POINT"],
        plan.programs.iter().map(|program| vec![names(program), role(program), program.span.text().to_owned()]),
    )
}

fn missing_text(placement: &Placement) -> String {
    let missing: Vec<String> = placement
        .unplaced
        .iter()
        .map(|u| format!("{}{}: {}", u.probe, if u.required { "" } else { " (optional)" }, u.problem.message))
        .collect();
    if missing.is_empty() { String::new() } else { format!("\nMISSING\n{}\n", missing.join("\n")) }
}

// ---- JSON --------------------------------------------------------------------------------------------------------

fn as_json(
    plan: &ProbePlan,
    placement: Option<&Placement>,
    paths: &[Path],
    expected: Option<&Expected>,
    problems: &Diagnostics,
) -> serde_json::Value {
    let site = |(index, site): (usize, &PlacedSite)| {
        let seen = expected.and_then(|expected| expected.sites.get(index).copied().flatten());
        json!({
            "probes": site.site.probes,
            "role": role(&plan.programs[site.program]),
            "alternative": site.site.alternative,
            "file": site.path,
            "function": site.site.function,
            "inlined_into": site.site.inlined_into,
            "file_offset": site.site.file_offset,
            "function_offset": site.site.function_offset,
            "instruction": site.site.instruction,
            "captures": site.site.captures,
            "expected_ns": site.cost_ns,
            "reason": site.reason,
            "hits_a_step": seen.map(|(hits, _)| hits),
            "us_a_step": seen.and_then(|(_, us)| us),
            "return": plan.programs[site.program].kind == ProgramKind::Span,
        })
    };
    let path = |path: &Path| {
        let layout: Vec<_> =
            path.layout.iter().map(|(label, value)| json!({ "what": label, "value": value })).collect();
        json!({
            "probe": path.owner,
            "field": path.field,
            "path": path.text,
            "type": path.ty,
            "layout": layout,
            "from": path.provenance.map(|_| &path.from),
        })
    };
    let problem = |d: &profinfer_diagnostics::Diagnostic| {
        let severity = match d.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let place = d.span.as_ref().map(|span| {
            let (line, column) = span.line_column();
            json!({ "file": span.source.name, "line": line, "column": column })
        });
        json!({
            "code": d.code.as_str(),
            "severity": severity,
            "message": d.message,
            "notes": d.notes,
            "place": place,
            "hint": d.hint,
        })
    };
    let unplaced = |u: &profinfer_compiler::Unplaced| json!({ "probe": u.probe, "required": u.required, "why": u.problem.message });
    json!({
        "arch": plan.arch.to_string(),
        "costs": plan.costs,
        "expected": expected.map(Expected::as_json),
        "modules": placement.map(|p| &p.modules),
        "sites": placement.map(|p| p.sites.iter().enumerate().map(site).collect::<Vec<_>>()),
        "paths": paths.iter().map(path).collect::<Vec<_>>(),
        "missing": placement.map(|p| p.unplaced.iter().map(unplaced).collect::<Vec<_>>()),
        "problems": problems.0.iter().map(problem).collect::<Vec<_>>(),
    })
}
