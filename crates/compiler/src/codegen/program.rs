//! What the template is filled with.

use super::beginning::Beginning;
use super::constants::{Constant, constants};
use super::counting::{Counting, counting, member_name, open_spans};
use super::expression::{Names, field, member};
use super::pieces::{Pieces, When, Written};
use super::source::{comment, origin, place};
use super::steps;
use crate::{
    Action, FieldPlan, ObjectPlan, Placement, ProbePlan, Program, ProgramKind, RelocationKind, Shape, Tier, WAITING,
};
use profinfer_probeset::Probeset;
use profinfer_probeset::path::c::{Symbols, offset_in_object, value};
use profinfer_probeset::path::{Checked, ClassPart, Place};

use profinfer_binary::Arch;
use profinfer_schema::{
    BUILTIN, FieldLayout, FieldType, JobEvent, JobTracepoint, ReclaimKind, RecordKind, RecordType, Role,
};
use serde::Serialize;

/// Everything in the generated file that differs from probeset to probeset.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    version: &'static str,
    probeset: String,
    engine: String,
    arch: String,
    target_macro: &'static str,
    types: usize,
    /// Counters that the cpus count; with none, nothing is generated for them.
    events: usize,
    pieces: usize,
    /// Some spans count something.
    counts: bool,
    /// Some programs are where drivers of devices report their jobs.
    jobs: bool,
    /// Elements of maps or sets are read.
    maps: bool,
    /// Some programs drop the calls that were left within theirs.
    drops: bool,
    /// Whether calls of steps are open on a thread; `None` where no step is a call.
    steps: Option<String>,
    constants: Vec<Constant>,
    records: Vec<Record>,
    spans: Vec<String>,
    objects: Vec<ObjectData>,
    counting: Vec<Counting>,
    closers: Vec<Closer>,
    row_lists: Vec<RowList>,
    frames: Vec<Frames>,
    programs: Vec<ProgramData>,
}

#[derive(Debug, Serialize)]
struct Record {
    structure: String,
    type_name: String,
    number: usize,
    members: Vec<String>,
    layout: String,
    /// The constant with its absent fields; `None` where no program makes such a record.
    absent: Option<String>,
}

#[derive(Debug, Serialize)]
struct ObjectData {
    name: String,
    structure: String,
    type_name: String,
    first_byte: String,
    bytes: String,
    /// All of it is in the part that is read at once.
    in_block: bool,
    /// Calls that hash its fields, where they are in that part.
    hashes: Vec<String>,
    /// Statements that fill its description.
    fields: Vec<String>,
    /// Statements that enqueue what it refers to.
    references: Vec<String>,
}

/// The end of an `until` span.
#[derive(Debug, Serialize)]
struct Closer {
    probe: String,
    tier: &'static str,
    rank: u32,
    graph: bool,
    step: bool,
    lines: Vec<String>,
}

/// The open calls of a probe.
#[derive(Debug, Serialize)]
struct Frames {
    probe: String,
    limit: u32,
    type_name: String,
    tier: &'static str,
    rank: u32,
}

#[derive(Debug, Serialize)]
struct ProgramData {
    name: String,
    comment: String,
    /// A program at a function, not at an event of the kernel.
    function: bool,
    span: bool,
    /// Calls of steps begin and end here.
    is_step: bool,
    /// The whole program, where the runtime has it.
    of_kernel: Option<String>,
    raw_tracepoint: Option<String>,
    /// What comes before its actions, and decides whether it records now.
    before: Vec<String>,
    /// The type of record that is lost where the thread's state is not to be had.
    counted_as: String,
    /// Spans that end where this returns, if they are still open.
    close_at_return: Vec<String>,
    /// Where this returns, calls of other probes may have been left by other ways than a return: its own record type.
    drops_all_but: Option<String>,
    actions: Vec<ActionData>,
    /// Its spans, if there are several: they begin at the same time.
    begin_together: Vec<String>,
    /// What several of its expressions read.
    macros: Vec<String>,
    #[serde(skip)]
    pieces: usize,
}

/// What a program does for one probe.
#[derive(Debug, Serialize)]
struct ActionData {
    probe: String,
    type_name: String,
    /// Its condition, and the condition's place in the YAML.
    when: Option<String>,
    origin: String,
    indent: &'static str,
    /// The call of the runtime that gives the record at the entry, and the statements that fill it.
    begin: String,
    entry: Vec<String>,
    /// The same at the return, for calls.
    end: Option<String>,
    leave: Vec<String>,
}

/// A list that is read row by row, in as many records as the rows fill.
#[derive(Debug, Serialize)]
struct RowList {
    probe: String,
    list: List,
}

#[derive(Debug, Serialize)]
struct List {
    index: usize,
    member: String,
    max: u32,
}

/// Fills the template's data from a plan.
pub(super) fn data(plan: &ProbePlan, probeset: &Probeset, placement: Option<&Placement>) -> Data {
    let records = || plan.schema.records.iter().enumerate().skip(BUILTIN);
    let programs: Vec<ProgramData> =
        plan.programs.iter().enumerate().map(|(index, program)| program_data(plan, index, program)).collect();
    Data {
        version: env!("CARGO_PKG_VERSION"),
        probeset: comment(&probeset.name),
        engine: comment(&probeset.engine),
        arch: plan.arch.to_string(),
        target_macro: target_macro(plan.arch),
        types: plan.schema.records.len(),
        events: plan.events(),
        // C has no empty arrays.
        pieces: programs.iter().map(|program| program.pieces).max().unwrap_or_default().max(1),
        counts: !plan.counters.is_empty(),
        maps: plan.relocations.iter().any(|of| matches!(of.what, RelocationKind::Class { part: ClassPart::Walk, .. })),
        jobs: plan.programs.iter().flat_map(|program| &program.actions).any(|action| action.role == Role::Job),
        drops: programs.iter().any(|program| program.drops_all_but.is_some()),
        steps: steps::open(plan),
        constants: constants(plan, probeset, placement),
        records: records().map(|(number, record)| record_data(plan, number, record)).collect(),
        spans: spans(plan),
        objects: plan.objects.iter().map(|object| object_data(plan, object)).collect(),
        counting: counting(plan),
        closers: closers(plan),
        row_lists: row_lists(plan),
        frames: frames(plan),
        programs,
    }
}

/// The macro that picks the registers' header.
fn target_macro(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "__TARGET_ARCH_x86",
        Arch::Aarch64 => "__TARGET_ARCH_arm64",
    }
}

pub(super) fn structure_of(record: &RecordType) -> String {
    let kind = if record.kind == RecordKind::Object { "object" } else { "record" };
    format!("{}_{kind}", record.name)
}

fn type_name_of(record: &RecordType) -> String {
    format!("TYPE_{}", structure_of(record))
}

fn record_data(plan: &ProbePlan, number: usize, record: &RecordType) -> Record {
    let structure = structure_of(record);
    let fields = record.fields.iter().enumerate().map(|(index, f)| (member_name(record, index), f));
    let stored: Vec<_> = fields.filter(|(_, f)| !matches!(f.ty, FieldType::Match(_))).collect();
    let at = |(name, f): &(String, &FieldLayout)| format!("PF_AT({structure}, {name}, {})", f.offset);
    let mut layout: Vec<String> = stored.iter().map(at).collect();
    let list = record.fields.last().filter(|f| matches!(f.ty, FieldType::List(..)));
    layout.push(match list {
        Some(list) => format!("PF_AT({structure}, {}.elements, {})", list.name, record.size),
        None => format!("PF_SIZE({structure}, {})", record.size),
    });
    Record {
        type_name: type_name_of(record),
        absent: plan.symbol(&RelocationKind::Absent { record: number }).map(str::to_owned),
        structure,
        number,
        members: stored.iter().map(|(name, f)| member(name, &with_room(plan, number, &f.ty))).collect(),
        layout: layout.join(" && "),
    }
}

/// Members of the thread's state: open calls, open `until` spans, records in the making, last entries.
fn spans(plan: &ProbePlan) -> Vec<String> {
    let mut members: Vec<String> = Vec::new();
    members.extend(frames(plan).iter().map(|f| open_spans(plan, &f.probe, false)));
    members.extend(plan.actions_of_probes(|a| !a.saved.is_empty()).into_iter().map(|action| {
        let alternatives = plan.programs.iter().flat_map(|p| &p.actions).filter(|a| a.probe == action.probe);
        let most = alternatives.map(|a| a.saved.len()).max().unwrap_or_default();
        format!("PF_SAVED({}, {}, {most})", action.probe, action.shape.frames())
    }));
    members.extend(closers(plan).iter().map(|c| open_spans(plan, &c.probe, true)));
    members.extend(
        plan.actions_of_probes(|a| a.shape == Shape::Instant && !a.role.is_of_the_kernel())
            .iter()
            .map(|a| format!("struct {0}_record {0}_instant", a.probe)),
    );
    members.extend(plan.objects.iter().map(|o| format!("struct {0}_object {0}_description", o.name)));
    members.extend(plan.programs.iter().filter(|p| p.notes_entry).map(|p| format!("__u64 {}_last", root(p))));
    if members.is_empty() {
        // C has no empty structs.
        members.push("__u64 unused".to_owned());
    }
    members
}

fn root(program: &Program) -> &str {
    program.probes.first().map_or("", String::as_str)
}

fn frames(plan: &ProbePlan) -> Vec<Frames> {
    plan.actions_of_probes(|a| matches!(a.shape, Shape::Call { .. }))
        .into_iter()
        .map(|action| Frames {
            probe: action.probe.clone(),
            limit: action.shape.frames(),
            type_name: type_name_of(&plan.schema.records[action.record]),
            tier: plan.tier_of_probe(&action.probe).name(),
            rank: rank(action),
        })
        .collect()
}

/// A sample is assigned to the open span of the highest rank.
fn rank(action: &Action) -> u32 {
    match action.role {
        Role::Operator => 2,
        // One on the operator's own thread is a part of its span.
        Role::Share => 1,
        _ => 0,
    }
}

/// A step or graph that returns ends what is open in it on its thread: a call that was left by other ways than its
/// return is counted then, and not when the next one comes, which may be in another step.
fn drops_all_but(plan: &ProbePlan, program: &Program) -> Option<String> {
    let encloses = |a: &&Action| matches!(a.role, Role::Step | Role::Graph) && matches!(a.shape, Shape::Call { .. });
    program.actions.iter().find(encloses)?;
    let calls = program.actions.iter().filter(|a| matches!(a.shape, Shape::Call { .. }));
    let types: Vec<String> = calls.map(|action| type_name_of(&plan.schema.records[action.record])).collect();
    // Types of records begin at 0, with one that no probe has.
    let also = if types.len() > 1 { types.get(1) } else { None };
    Some(format!("{}, {}", types.first()?, also.map_or("PF_THREAD", String::as_str)))
}

fn closers(plan: &ProbePlan) -> Vec<Closer> {
    plan.actions_of_probes(|a| matches!(a.shape, Shape::Until { .. }))
        .into_iter()
        .map(|action| {
            let waiting_from = match &action.shape {
                Shape::Until { waiting_from } => waiting_from.clone(),
                _ => None,
            };
            let record = &plan.schema.records[action.record];
            let waiting = record.fields.iter().position(|f| f.name == WAITING);
            let waits = waiting.zip(waiting_from).map(|(index, from)| format!("PF_WAITING({index}, {from});"));
            let probe = action.probe.clone();
            let before = format!("(void *)&thread->spans.{probe}_open.before");
            let counts =
                (!action.counts.fields.is_empty()).then(|| format!("{probe}_count(thread, record, {before});"));
            Closer {
                tier: plan.tier_of_probe(&probe).name(),
                rank: rank(action),
                graph: action.role == Role::Graph,
                step: action.role == Role::Step,
                lines: waits.into_iter().chain(counts).collect(),
                probe,
            }
        })
        .collect()
}

fn object_data(plan: &ProbePlan, object: &ObjectPlan) -> ObjectData {
    let record = &plan.schema.records[object.record];
    let names = || Names { plan, program: None, pieces: None, saved: None };
    let symbol = |kind: RelocationKind| plan.symbol(&kind).unwrap_or("missing_constant").to_owned();
    let layout = |f: &FieldPlan| &record.fields[f.index];
    let fields = || object.fields.iter();
    let first_byte = symbol(RelocationKind::BlockStart { object: object.name.clone() });
    let offsets: Vec<Option<String>> = fields().map(|f| offset_in_object(&f.value, &mut names())).collect();
    let in_block = offsets.iter().all(Option::is_some);
    let hash = |(f, offset): (&FieldPlan, &Option<String>)| {
        let (member, offset) = (&layout(f).name, offset.as_ref()?);
        Some(format!("pf_hash_block(&it.hash, call, {offset}, sizeof(record->{member}));"))
    };
    let enqueue = |reference: &Reference<'_>| {
        let place = fields().zip(&offsets).find(|(f, _)| layout(f).name == reference.member);
        let offset = place.and_then(|(_, offset)| offset.as_ref()).filter(|_| in_block);
        let address = match (offset, reference.count) {
            (Some(offset), Some(_)) => format!("pf_block_address(thread, {offset} - {first_byte} + i * 8)"),
            (Some(offset), None) => format!("pf_block_address(thread, {offset} - {first_byte})"),
            (None, Some(_)) => format!("record->{}[i]", reference.member),
            (None, None) => format!("record->{}", reference.member),
        };
        match reference.count {
            Some(count) => format!("PF_ENQUEUE_EACH({count}, {address});"),
            None => format!("PF_ENQUEUE({address});"),
        }
    };
    let references = references(record);
    let own = references.iter().filter(|reference| reference.object == object.name);
    ObjectData {
        name: object.name.clone(),
        structure: structure_of(record),
        type_name: type_name_of(record),
        bytes: symbol(RelocationKind::BlockLength { object: object.name.clone() }),
        hashes: fields().zip(&offsets).filter_map(hash).filter(|_| in_block).collect(),
        fields: fields().map(|f| field(f.index, &layout(f).name, &layout(f).ty, &f.value, names())).collect(),
        references: own.map(enqueue).collect(),
        in_block,
        first_byte,
    }
}

/// A field that refers to objects: one, or several.
struct Reference<'r> {
    object: &'r str,
    member: &'r str,
    count: Option<u32>,
}

fn references(record: &RecordType) -> Vec<Reference<'_>> {
    fn of(field: &FieldLayout) -> Option<Reference<'_>> {
        let (object, count) = match &field.ty {
            FieldType::Object(object) => (object, None),
            FieldType::Array(of, n) => match &**of {
                FieldType::Object(object) => (object, Some(*n)),
                _ => return None,
            },
            _ => return None,
        };
        Some(Reference { object, member: &field.name, count })
    }
    record.fields.iter().filter_map(of).collect()
}

/// A row is read behind the earlier ones before its fit is checked: space for twice the list.
fn with_room(plan: &ProbePlan, record: usize, ty: &FieldType) -> FieldType {
    match ty {
        FieldType::List(of, max) if plan.has_rows(record) => FieldType::List(of.clone(), max.saturating_mul(2)),
        ty => ty.clone(),
    }
}

fn list_of(record: &RecordType) -> Option<List> {
    record.fields.iter().enumerate().find_map(|(index, f)| match &f.ty {
        FieldType::List(_, max) => Some(List { index, member: f.name.clone(), max: *max }),
        _ => None,
    })
}

fn row_lists(plan: &ProbePlan) -> Vec<RowList> {
    let row_list = |action: &Action| {
        let record = &plan.schema.records[action.record];
        Some(RowList { probe: action.probe.clone(), list: list_of(record)? })
    };
    plan.actions_of_probes(Action::has_rows).into_iter().filter_map(row_list).collect()
}

fn program_data(plan: &ProbePlan, index: usize, program: &Program) -> ProgramData {
    let tracepoint = match &program.place {
        Place::Tracepoint { name, .. } => Some(name.value.clone()),
        Place::Software { event } => Some(event.value.clone()),
        _ => None,
    };
    let of_the_kernel = program.actions.iter().any(|a| a.role.is_of_the_kernel());
    let bare = Names { plan, program: Some(index), pieces: None, saved: None };
    let at_entry = Pieces::of(0, &entry_expressions(program), bare);
    let deciding: Vec<&Checked> = program.actions.iter().flat_map(deciding).collect();
    let decided =
        at_entry.written(&format!("{}__piece", program.name), &deciding, When::Used, &Written::default(), bare);
    let (mut macros, mut pieces) = (decided.macros.clone(), at_entry.end());
    let beginning = Beginning::of(program);
    let recorded = program.actions.iter().filter(|a| !matches!(a.role, Role::SchedSwitch | Role::SchedWakeup));
    let several = recorded.clone().count() > 1;
    let mut first = 0;
    let mut data = |action: &Action| {
        let name = if several { format!("{}__{}", program.name, action.probe) } else { program.name.clone() };
        let fields =
            at_entry.written(&format!("{name}__field"), &fields_of(action, false), When::Before, &decided, bare);
        // At the return memory may be another, and each action has saved arguments of its own.
        let (saved, returned) = (Names { saved: Some(action), ..bare }, fields_of(action, true));
        let at_return = Pieces::of(first, &returned, saved);
        (first, pieces) = (first.max(at_return.end()), pieces.max(at_return.end()));
        let returned =
            at_return.written(&format!("{name}__result"), &returned, When::Before, &Written::default(), saved);
        macros.extend(fields.macros.iter().chain(&returned.macros).cloned());
        let names = ActionNames { names: bare, decided: &decided, fields: &fields, returned: &returned };
        action_data(plan, &names, action, beginning)
    };
    let actions: Vec<ActionData> = recorded.map(&mut data).collect();
    let (span, name) = (program.kind == ProgramKind::Span, &program.name);
    let counts_steps = program.actions.iter().any(steps::is_step);
    let closers = closers(plan);
    let ends: Vec<&String> = program.ends.iter().filter(|p| closers.iter().any(|c| c.probe == **p)).collect();
    let close: Vec<String> = if ends.len() > 1 && ends.len() == closers.len() {
        vec!["pf_close_spans(call->thread, call->now);".to_owned()]
    } else {
        ends.iter().map(|probe| format!("{probe}_close(call->thread, call->now);")).collect()
    };
    // The last operator of a graph ends with it.
    let is_graph = |a: &Action| a.role == Role::Graph && matches!(a.shape, Shape::Call { .. });
    let close_at_return = if program.actions.iter().any(is_graph) { close.clone() } else { Vec::new() };
    let mut before = close;
    if program.notes_entry {
        before.push(format!("call->thread->spans.{}_last = call->now;", root(program)));
    }
    if counts_steps {
        before.push(steps::begins(plan));
    }
    // One that describes objects of later steps records whatever steps are wanted.
    let tier = plan.tier(program);
    let wanted = match (tier, counts_steps) {
        (Tier::Always, _) => "PF_WHILE_ON",
        (_, true) => "PF_WHILE_STEP_WANTED",
        (_, false) => "PF_WHILE_WANTED",
    };
    before.push(match (tier, counts_steps) {
        (Tier::Detail | Tier::Waiting, false) => "PF_WHILE_DETAIL_WANTED();".to_owned(),
        _ => format!("{wanted}({});", tier.name()),
    });
    if counts_steps {
        before.push("PF_STEP_CAME();".to_owned());
    }
    let wakeups = || if first_with(plan, Role::SchedWakeup) == Some(index) { "PF_AT_NEW_WAKEUP\n" } else { "" };
    let structure = || actions.first().map_or_else(String::new, |action| format!("{}_record", action.probe));
    let of_kernel = program.actions.first().and_then(|action| match action.role {
        Role::SchedSwitch => Some(format!("PF_AT_SWITCH({name})")),
        Role::SchedWakeup => Some(format!("{}PF_AT_WAKEUP({name})", wakeups())),
        Role::Fault => Some(format!("PF_AT_FAULT({name}, {0}, TYPE_{0})", structure())),
        Role::PageCache => Some(format!("PF_AT_PAGE_CACHE({name}, {0}, TYPE_{0})", structure())),
        Role::Reclaim => tracepoint.as_deref().and_then(ReclaimKind::at_tracepoint).map(|kind| {
            format!("PF_AT_RECLAIM({name}, {0}, TYPE_{0}, {1}, {2})", structure(), kind.event(), kind as u32)
        }),
        Role::Job => tracepoint.as_deref().and_then(JobTracepoint::of).map(|of| {
            let macro_of = match of.event {
                JobEvent::Queued => "PF_AT_JOB_QUEUED",
                JobEvent::Run => "PF_AT_JOB_RUN",
                JobEvent::FenceMade => "PF_AT_FENCE_MADE",
                JobEvent::FenceEmitted => "PF_AT_FENCE_EMITTED",
                JobEvent::Done => "PF_AT_JOB_DONE",
                JobEvent::FenceSignaled => "PF_AT_FENCE_SIGNALED",
            };
            format!("{macro_of}({name}, {0}, TYPE_{0}, {1}, {2})", structure(), of.category, of.name)
        }),
        _ => None,
    });
    ProgramData {
        name: name.clone(),
        comment: comment(&format!("{}: {}", place(&program.span), program.span.text())),
        function: tracepoint.is_none(),
        span,
        is_step: counts_steps,
        of_kernel,
        raw_tracepoint: tracepoint.filter(|_| !of_the_kernel),
        before,
        counted_as: actions.first().map_or_else(|| "PF_THREAD".to_owned(), |a| a.type_name.clone()),
        close_at_return,
        drops_all_but: drops_all_but(plan, program),
        begin_together: beginning.together(program),
        actions,
        macros,
        pieces,
    }
}

/// The first program that records an event of the scheduler.
fn first_with(plan: &ProbePlan, role: Role) -> Option<usize> {
    plan.programs.iter().position(|program| program.actions.iter().any(|action| action.role == role))
}

/// What a program reads at a function's entry.
fn entry_expressions(program: &Program) -> Vec<&Checked> {
    let of = |action| deciding(action).into_iter().chain(fields_of(action, false));
    program.actions.iter().flat_map(of).collect()
}

/// What an action reads to know whether and how it records.
fn deciding(action: &Action) -> Vec<&Checked> {
    action.when.iter().chain(&action.describe).chain(&action.identity).collect()
}

/// What an action's fields read at the entry, or at the return.
fn fields_of(action: &Action, at_return: bool) -> Vec<&Checked> {
    action.fields.iter().filter(|field| field.at_return == at_return).map(|field| &field.value).collect()
}

/// The names in an action's expressions, with the pieces of those that decide about the record and of the fields at the
/// entry and at the return.
struct ActionNames<'p> {
    names: Names<'p>,
    decided: &'p Written,
    fields: &'p Written,
    returned: &'p Written,
}

impl ActionNames<'_> {
    fn deciding(&self) -> Names<'_> {
        Names { pieces: Some(self.decided), ..self.names }
    }
}

fn action_data(plan: &ProbePlan, names: &ActionNames<'_>, action: &Action, beginning: Beginning) -> ActionData {
    let record = &plan.schema.records[action.record];
    let (probe, limit) = (&action.probe, action.shape.frames());
    let tier = plan.tier_of_probe(probe).name();
    let begin = match action.shape {
        Shape::Call { .. } => format!("PF_BEGIN_CALL({probe}, {tier}, {limit}, {})", object_of(&names.names, action)),
        Shape::Until { .. } => format!("PF_BEGIN_UNTIL({probe}, {tier})"),
        _ => format!("PF_INSTANT({probe})"),
    };
    ActionData {
        probe: probe.clone(),
        type_name: type_name_of(record),
        when: action.when.as_ref().map(|when| value(when, &mut names.deciding())),
        origin: action.when.as_ref().map(|when| origin(&when.span)).unwrap_or_default(),
        indent: if action.when.is_some() { "\t\t" } else { "\t" },
        begin,
        entry: entry_lines(plan, names, action, beginning),
        end: matches!(action.shape, Shape::Call { .. }).then(|| format!("PF_END_CALL({probe}, {tier}, {limit})")),
        leave: return_lines(plan, names, action, record),
    }
}

/// The object that a virtual method is called on, where calls within calls are recorded: an override and its base's that it
/// calls are one operator.
fn object_of(names: &Names<'_>, action: &Action) -> String {
    let counts = action.role == Role::Operator && action.shape.frames() > 1;
    counts.then(|| names.method_object()).flatten().unwrap_or_else(|| "0".to_owned())
}

/// Statements that fill a field each, after those that read pieces; a capture is no member of the C structure.
fn field_lines(names: &ActionNames<'_>, action: &Action, record: &RecordType, at_return: bool) -> Vec<String> {
    let wanted = |f: &&FieldPlan| f.at_return == at_return && !matches!(record.fields[f.index].ty, FieldType::Match(_));
    let (pieces, saved) = if at_return { (names.returned, Some(action)) } else { (names.fields, None) };
    let line = |f: &FieldPlan| {
        let layout = &record.fields[f.index];
        field(f.index, &layout.name, &layout.ty, &f.value, Names { pieces: Some(pieces), saved, ..names.names })
    };
    pieces.reads.iter().cloned().chain(action.fields.iter().filter(wanted).map(line)).collect()
}

/// What an action does at the entry once it has its record.
fn entry_lines(plan: &ProbePlan, names: &ActionNames<'_>, action: &Action, beginning: Beginning) -> Vec<String> {
    let record = &plan.schema.records[action.record];
    let (probe, limit) = (&action.probe, action.shape.frames());
    let mut lines = Vec::new();
    if action.role == Role::Graph {
        lines.push(match &action.identity {
            Some(identity) => format!(
                "pf_graph_begins(call, PF_VALUE_OR(0, {})); {}",
                value(identity, &mut names.deciding()),
                origin(&identity.span)
            ),
            None => "pf_graph_begins(call, 0);".to_owned(),
        });
    }
    let waiting = record.fields.iter().position(|f| f.name == WAITING);
    match (waiting, &action.shape) {
        (Some(index), Shape::Until { waiting_from: None }) => lines.push(format!("PF_NO_WAITING({index});")),
        // It is over before its thread waits.
        (Some(_), Shape::Call { .. }) => lines.push("record->waiting = 0;".to_owned()),
        _ => {}
    }
    lines.extend(field_lines(names, action, record, false));
    for (number, argument) in action.saved.iter().enumerate() {
        lines.push(format!("PF_SAVE({probe}, {limit}, {number}, {});", names.deciding().argument(*argument)));
    }
    lines.extend(forget_line(plan, action, false));
    let references = references(record);
    let braces = if action.describe.is_some() && references.len() > 1 { " {" } else { "" };
    if let Some(describe) = action.describe.as_ref().filter(|_| !references.is_empty()) {
        lines.push(format!(
            "if (PF_VALUE_OR(1, {})){braces} {}",
            value(describe, &mut names.deciding()),
            origin(&describe.span)
        ));
    }
    let indent = if action.describe.is_some() { "\t" } else { "" };
    lines.extend(references.iter().map(|Reference { object, member, count }| match count {
        Some(count) => format!("{indent}PF_DESCRIBE_EACH({object}, {member}, {count});"),
        None => format!("{indent}PF_DESCRIBE({object}, {member});"),
    }));
    if braces == " {" {
        lines.push("}".to_owned());
    }
    if !action.counts.fields.is_empty() {
        let before = match action.shape {
            Shape::Until { .. } => format!("&call->thread->spans.{probe}_open.before"),
            _ => "(record + 1)".to_owned(),
        };
        lines.push("/* As late as possible, so that the probe itself is not counted. */".to_owned());
        lines.push(format!("{probe}_begin_counts(call->thread, (void *){before});"));
    }
    match action.shape {
        Shape::Call { .. } => lines.extend([beginning.line(probe), "skip = 0;".to_owned()]),
        Shape::Until { .. } => {
            lines.extend([beginning.line(probe), format!("call->thread->spans.{probe}_open.open = 1;")])
        }
        Shape::Instant if action.has_rows() => lines.push(format!("{probe}_send_rows(call->thread);")),
        Shape::Instant => lines.push(send_line(record)),
    }
    lines
}

/// What an action does at the return once it has its record.
fn return_lines(plan: &ProbePlan, names: &ActionNames<'_>, action: &Action, record: &RecordType) -> Vec<String> {
    let mut lines = Vec::new();
    if !action.counts.fields.is_empty() {
        lines.push(format!("{}_count(call->thread, record, (void *)(record + 1));", action.probe));
    }
    if action.role == Role::Graph {
        lines.push("call->thread->graph = 0;".to_owned());
    }
    lines.extend(field_lines(names, action, record, true));
    lines.extend(forget_line(plan, action, true));
    lines.push(send_line(record));
    lines
}

fn send_line(record: &RecordType) -> String {
    match list_of(record) {
        Some(List { member, max, .. }) => format!("PF_SEND_LIST({member}, {max});"),
        None => "PF_SEND();".to_owned(),
    }
}

/// The record describes an object anew: what was sent of it before is out of date.
fn forget_line(plan: &ProbePlan, action: &Action, at_return: bool) -> Option<String> {
    let described = action.describes.as_ref().filter(|describes| describes.at_return == at_return)?;
    let object = plan.objects.iter().find(|object| object.name == described.object)?;
    let type_name = type_name_of(&plan.schema.records[object.record]);
    Some(format!("pf_object_forget(call->thread, record->described, {type_name});"))
}
