//! What the template is filled with.

use super::counting::{Counting, counting, member_name, open_spans};
use super::expression::{Names, condition_function, field_function, member};
use super::pieces::Pieces;
use super::source::{comment, place, runtime_after_records, runtime_before_records};
use crate::path::c::{Symbols, offset_in_object};
use crate::path::{Checked, Node, Place};
use crate::plan::{
    Action, FieldPlan, ObjectPlan, Placement, ProbePlan, Program, ProgramKind, Provenance, RelocationKind, Shape, Tier,
    WAITING,
};
use crate::spec::{Probeset, Role};
use crate::target::Arch;
use crate::trace::{BUILTIN, FieldType, RecordKind, RecordType};
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
    runtime_before_records: String,
    runtime_after_records: String,
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
struct Constant {
    symbol: String,
    comment: String,
    value: Option<String>,
}

#[derive(Debug, Serialize)]
struct Record {
    structure: String,
    type_name: String,
    number: usize,
    members: Vec<String>,
    assertions: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FieldData {
    function: String,
    body: String,
    index: usize,
    member: String,
    list: bool,
    /// Where it lies in the object that is described.
    offset: Option<String>,
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
    fields: Vec<FieldData>,
    references: Vec<Reference>,
}

/// A field that refers to objects: one, or several.
#[derive(Debug, Serialize)]
struct Reference {
    object: String,
    member: String,
    count: Option<u32>,
    /// Where it lies in the object, and that object's first byte that is read; where it is not taken from a record.
    offset: Option<String>,
    first_byte: Option<String>,
}

/// The end of an `until` span.
#[derive(Debug, Serialize)]
struct Closer {
    probe: String,
    counts: bool,
    waiting: Option<usize>,
    waiting_from: Option<String>,
    graph: bool,
    tier: &'static str,
}

/// The open calls of a probe.
#[derive(Debug, Serialize)]
struct Frames {
    probe: String,
    limit: u32,
    type_name: String,
    tier: &'static str,
}

#[derive(Debug, Serialize)]
struct ProgramData {
    name: String,
    comment: String,
    function: bool,
    span: bool,
    switch: bool,
    wakeup: bool,
    fault: bool,
    page_cache: bool,
    /// It is the one that has threads' first wake-ups recorded too.
    wakeup_new: bool,
    raw_tracepoint: Option<String>,
    ends: Vec<String>,
    notes_entry: Option<String>,
    step_frames: Vec<String>,
    counts_steps: bool,
    /// It describes objects that steps use which come later: it records whatever steps are wanted.
    always: bool,
    /// The tier that says whether this program records now.
    tier: &'static str,
    /// The type of record that is lost where the thread's state is not to be had.
    counted_as: String,
    /// Where this returns: calls of other probes that it may have been left from by other ways than a return.
    calls_within: Vec<Frames>,
    actions: Vec<ActionData>,
    functions: Vec<String>,
    #[serde(skip)]
    pieces: usize,
}

#[derive(Debug, Serialize)]
struct ActionData {
    probe: String,
    structure: String,
    type_name: String,
    call: bool,
    limit: u32,
    until: bool,
    instant: bool,
    step: bool,
    graph: bool,
    when: Option<String>,
    describe: Option<String>,
    identity: Option<String>,
    entry_fields: Vec<FieldData>,
    return_fields: Vec<FieldData>,
    references: Vec<Reference>,
    counts: bool,
    /// Where the arguments are that are kept until the return.
    kept: Vec<Kept>,
    list: Option<List>,
    rows: bool,
    /// The type of object that the record describes, where its address is known at the entry, or at the return.
    describes_at_entry: Option<String>,
    describes_at_return: Option<String>,
    unused_waiting: Option<usize>,
}

/// An argument that is kept: its number among those, and the constant that says where it is.
#[derive(Debug, Serialize)]
struct Kept {
    number: usize,
    place: String,
}

/// A list that is read row by row, in as many records as the rows fill.
#[derive(Debug, Serialize)]
struct RowList {
    probe: String,
    structure: String,
    type_name: String,
    list: List,
}

#[derive(Debug, Serialize)]
struct List {
    index: usize,
    member: String,
    max: u32,
    element_size: u32,
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
        runtime_before_records: runtime_before_records(!plan.counters.is_empty()),
        runtime_after_records: runtime_after_records(!plan.counters.is_empty()),
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

fn constants(plan: &ProbePlan, probeset: &Probeset, placement: Option<&Placement>) -> Vec<Constant> {
    let describe = |what: &RelocationKind| match what {
        RelocationKind::Offset { view, member } => {
            let declared = probeset.types.get(view).and_then(|v| v.members.get(member));
            let ty = declared.map_or_else(String::new, |m| format!(": {}", m.ty.value));
            let at = declared.map_or_else(String::new, |m| format!(", {}", place(&m.name.span)));
            format!("{view}.{member}{ty}{at}")
        }
        RelocationKind::Size { view } => format!("size of {view}"),
        RelocationKind::Shift { view, member } => format!("lowest bit of {view}.{member}"),
        RelocationKind::Strings { module: Some(module) } => format!("layout of strings in {module}"),
        RelocationKind::Strings { module: None } => "layout of strings".to_owned(),
        RelocationKind::Constant { enumeration, name } => format!("enum {enumeration}: {name}"),
        RelocationKind::Argument { program, argument } => {
            let program = plan.programs.get(*program);
            let name = program
                .and_then(|p| p.signature()?.params.get(*argument)?.name.clone())
                .map_or_else(|| argument.to_string(), |name| name.value);
            format!("argument {name} of {}", program.map_or("", |p| p.name.as_str()))
        }
        RelocationKind::BlockStart { object } => format!("first byte of {object} that is read"),
        RelocationKind::BlockLength { object } => format!("bytes of {object} that are read"),
    };
    let value = |symbol: &str| placement?.values.iter().find(|value| value.symbol == symbol);
    plan.relocations
        .iter()
        .map(|relocation| {
            let value = value(&relocation.symbol);
            let origin = match value.map(|v| v.provenance) {
                Some(Provenance::Dwarf) => " (debug information)",
                Some(Provenance::Lock) => " (lock file)",
                Some(Provenance::ByHand) => " (probeset)",
                Some(Provenance::Checked) => " (probeset, by a check)",
                Some(Provenance::Abi) => " (calling convention)",
                None => "",
            };
            Constant {
                symbol: relocation.symbol.clone(),
                comment: comment(&format!(
                    "{}; used at {}{origin}",
                    describe(&relocation.what),
                    place(&relocation.span)
                )),
                value: value.map(|v| v.value.to_string()),
            }
        })
        .collect()
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
    let mut assertions: Vec<String> = stored
        .iter()
        .map(|(name, f)| {
            let what = comment(&f.name);
            format!("_Static_assert(offsetof(struct {structure}, {name}) == {}, \"{what}\");", f.offset)
        })
        .collect();
    let list = record.fields.last().filter(|f| matches!(f.ty, FieldType::List(..)));
    assertions.push(match list {
        Some(list) => format!(
            "_Static_assert(offsetof(struct {structure}, {}.elements) == {}, \"elements follow the fixed part\");",
            list.name, record.size
        ),
        None => format!("_Static_assert(sizeof(struct {structure}) == {}, \"size\");", record.size),
    });
    Record {
        type_name: type_name_of(record),
        structure,
        number,
        members: stored.iter().map(|(name, f)| member(name, &with_room(plan, number, &f.ty))).collect(),
        assertions,
    }
}

/// Members of the thread's state: open calls, open `until` spans, records in the making, last entries.
fn spans(plan: &ProbePlan) -> Vec<String> {
    let mut members: Vec<String> = Vec::new();
    members.extend(frames(plan).iter().map(|f| open_spans(plan, &f.probe, false)));
    members.extend(actions(plan, |a| !a.kept.is_empty()).into_iter().map(|action| {
        let alternatives = plan.programs.iter().flat_map(|p| &p.actions).filter(|a| a.probe == action.probe);
        let most = alternatives.map(|a| a.kept.len()).max().unwrap_or_default();
        format!("PF_KEPT({}, {}, {most})", action.probe, action.shape.frames())
    }));
    members.extend(closers(plan).iter().map(|c| open_spans(plan, &c.probe, true)));
    members.extend(
        actions(plan, |a| a.shape == Shape::Instant && !a.role.is_of_the_kernel())
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

/// One action for each probe that has one that passes: alternatives share their probe's state.
fn actions(plan: &ProbePlan, wanted: impl Fn(&Action) -> bool) -> Vec<&Action> {
    let mut found: Vec<&Action> = Vec::new();
    for action in plan.programs.iter().flat_map(|p| &p.actions).filter(|a| wanted(a)) {
        if !found.iter().any(|a| a.probe == action.probe) {
            found.push(action);
        }
    }
    found
}

fn frames(plan: &ProbePlan) -> Vec<Frames> {
    actions(plan, |a| matches!(a.shape, Shape::Call { .. }))
        .into_iter()
        .map(|action| Frames {
            probe: action.probe.clone(),
            limit: action.shape.frames(),
            type_name: type_name_of(&plan.schema.records[action.record]),
            tier: plan.tier_of_probe(&action.probe).name(),
        })
        .collect()
}

/// A step or graph that returns ends what is open in it on its thread: a call that was left by other ways than its
/// return is counted then, and not when the next one comes, which may be in another step.
fn calls_within(plan: &ProbePlan, program: &Program) -> Vec<Frames> {
    let encloses = |a: &Action| matches!(a.role, Role::Step | Role::Graph) && matches!(a.shape, Shape::Call { .. });
    if !program.actions.iter().any(encloses) {
        return Vec::new();
    }
    let own = |probe: &str| program.actions.iter().any(|a| a.probe == probe);
    frames(plan).into_iter().filter(|frames| !own(&frames.probe)).collect()
}

fn closers(plan: &ProbePlan) -> Vec<Closer> {
    actions(plan, |a| matches!(a.shape, Shape::Until { .. }))
        .into_iter()
        .map(|action| {
            let waiting_from = match &action.shape {
                Shape::Until { waiting_from } => waiting_from.clone(),
                _ => None,
            };
            let waiting = plan.schema.records[action.record].fields.iter().position(|f| f.name == WAITING);
            Closer {
                probe: action.probe.clone(),
                counts: !action.counts.fields.is_empty(),
                waiting,
                waiting_from,
                graph: action.role == Role::Graph,
                tier: plan.tier_of_probe(&action.probe).name(),
            }
        })
        .collect()
}

fn object_data(plan: &ProbePlan, object: &ObjectPlan) -> ObjectData {
    let record = &plan.schema.records[object.record];
    let names = || Names { plan, program: None, pieces: None, kept: None };
    let symbol = |kind: RelocationKind| plan.symbol(&kind).unwrap_or("missing_constant").to_owned();
    let fields: Vec<FieldData> =
        object.fields.iter().map(|f| field_data(names(), &structure_of(record), record, f)).collect();
    let in_block = fields.iter().all(|field| field.offset.is_some());
    let mut references = references(record, |name| name == object.name);
    for reference in references.iter_mut().filter(|_| in_block) {
        reference.offset = fields.iter().find(|f| f.member == reference.member).and_then(|f| f.offset.clone());
        reference.first_byte = Some(symbol(RelocationKind::BlockStart { object: object.name.clone() }));
    }
    ObjectData {
        name: object.name.clone(),
        structure: structure_of(record),
        type_name: type_name_of(record),
        first_byte: symbol(RelocationKind::BlockStart { object: object.name.clone() }),
        bytes: symbol(RelocationKind::BlockLength { object: object.name.clone() }),
        fields,
        in_block,
        references,
    }
}

fn references(record: &RecordType, wanted: impl Fn(&str) -> bool) -> Vec<Reference> {
    let reference = |field: &crate::trace::FieldLayout| {
        let (object, count) = match &field.ty {
            FieldType::Object(object) => (object, None),
            FieldType::Array(of, n) => match &**of {
                FieldType::Object(object) => (object, Some(*n)),
                _ => return None,
            },
            _ => return None,
        };
        let (object, member) = (object.clone(), field.name.clone());
        wanted(&object).then_some(Reference { object, member, count, offset: None, first_byte: None })
    };
    record.fields.iter().filter_map(reference).collect()
}

fn field_data(mut names: Names<'_>, prefix: &str, record: &RecordType, field: &FieldPlan) -> FieldData {
    let layout = &record.fields[field.index];
    let function = format!("{prefix}__{}", layout.name);
    FieldData {
        offset: offset_in_object(&field.value, &mut names),
        body: field_function(&function, &field.value, &layout.ty, names),
        function,
        index: field.index,
        member: layout.name.clone(),
        list: matches!(layout.ty, FieldType::List(..)),
    }
}

/// A row is read behind what is there already before it is known whether it fits: room for twice the list.
fn with_room(plan: &ProbePlan, record: usize, ty: &FieldType) -> FieldType {
    let by_rows = || plan.programs.iter().flat_map(|p| &p.actions).any(|a| a.record == record && has_rows(a));
    match ty {
        FieldType::List(of, max) if by_rows() => FieldType::List(of.clone(), max.saturating_mul(2)),
        ty => ty.clone(),
    }
}

fn list_of(record: &RecordType) -> Option<List> {
    record.fields.iter().enumerate().find_map(|(index, f)| match &f.ty {
        FieldType::List(of, max) => Some(List { index, member: f.name.clone(), max: *max, element_size: of.size() }),
        _ => None,
    })
}

fn has_rows(action: &Action) -> bool {
    action.fields.iter().any(|field| matches!(field.value.node, Node::Slice { rows: Some(_), .. }))
}

fn row_lists(plan: &ProbePlan) -> Vec<RowList> {
    let row_list = |action: &Action| {
        let record = &plan.schema.records[action.record];
        let (structure, type_name) = (structure_of(record), type_name_of(record));
        Some(RowList { probe: action.probe.clone(), structure, type_name, list: list_of(record)? })
    };
    actions(plan, has_rows).into_iter().filter_map(row_list).collect()
}

fn program_data(plan: &ProbePlan, index: usize, program: &Program) -> ProgramData {
    let tracepoint = match &program.place {
        Place::Tracepoint { name, .. } => Some(name.value.clone()),
        Place::Software { event } => Some(event.value.clone()),
        _ => None,
    };
    let has_role = |role: Role| program.actions.iter().any(|a| a.role == role);
    let of_the_kernel = program.actions.iter().any(|a| a.role.is_of_the_kernel());
    let (pieces, mut functions) = Pieces::of(&program.name, &entry_expressions(program), plan, index);
    let names = || Names { plan, program: Some(index), pieces: Some(&pieces), kept: None };
    let actions: Vec<ActionData> = program
        .actions
        .iter()
        .filter(|a| !matches!(a.role, Role::SchedSwitch | Role::SchedWakeup))
        .map(|action| action_data(plan, &names, program, action, &mut functions))
        .collect();
    let is_step = |a: &&Action| a.role == Role::Step && matches!(a.shape, Shape::Call { .. });
    ProgramData {
        name: program.name.clone(),
        comment: comment(&format!("{}, {}", program.span.text(), place(&program.span))),
        function: tracepoint.is_none(),
        span: program.kind == ProgramKind::Span,
        switch: has_role(Role::SchedSwitch),
        wakeup: has_role(Role::SchedWakeup),
        fault: has_role(Role::Fault),
        page_cache: has_role(Role::PageCache),
        wakeup_new: first_with(plan, Role::SchedWakeup) == Some(index),
        raw_tracepoint: tracepoint.filter(|_| !of_the_kernel),
        ends: program.ends.iter().filter(|p| closers(plan).iter().any(|c| c.probe == **p)).cloned().collect(),
        notes_entry: program.notes_entry.then(|| root(program).to_owned()),
        step_frames: actions_named(plan, is_step),
        counts_steps: program.actions.iter().any(|a| is_step(&a)),
        always: plan.tier(program) == Tier::Always,
        tier: plan.tier(program).name(),
        counted_as: actions.first().map_or_else(|| "PF_THREAD".to_owned(), |a| a.type_name.clone()),
        calls_within: calls_within(plan, program),
        actions,
        functions,
        pieces: pieces.len(),
    }
}

/// The first program that records an event of the scheduler.
fn first_with(plan: &ProbePlan, role: Role) -> Option<usize> {
    plan.programs.iter().position(|program| program.actions.iter().any(|action| action.role == role))
}

/// What a program reads at a function's entry. At its return memory may be another.
fn entry_expressions(program: &Program) -> Vec<&Checked> {
    let mut expressions = Vec::new();
    for action in &program.actions {
        expressions.extend(action.when.iter().chain(&action.describe).chain(&action.identity));
        expressions.extend(action.fields.iter().filter(|field| !field.at_return).map(|field| &field.value));
    }
    expressions
}

fn actions_named(plan: &ProbePlan, wanted: impl Fn(&&Action) -> bool) -> Vec<String> {
    actions(plan, |a| wanted(&a)).into_iter().map(|a| a.probe.clone()).collect()
}

fn action_data<'p>(
    plan: &'p ProbePlan,
    names: &dyn Fn() -> Names<'p>,
    program: &Program,
    action: &'p Action,
    functions: &mut Vec<String>,
) -> ActionData {
    let record = &plan.schema.records[action.record];
    let prefix = format!("{}__{}", program.name, action.probe);
    let condition = |name: &str, value: &Option<Checked>, functions: &mut Vec<String>| {
        value.as_ref().map(|value| {
            let function = format!("{prefix}__{name}");
            functions.push(condition_function(&function, value, names()));
            function
        })
    };
    let when = condition("when", &action.when, functions);
    let references = references(record, |_| true);
    let describe = if references.is_empty() { None } else { condition("describe", &action.describe, functions) };
    let identity = action.identity.as_ref().map(|identity| {
        let function = format!("{prefix}__identity");
        functions.push(field_function(&function, identity, &FieldType::Uint(8), names()));
        function
    });
    let read = |f: &&FieldPlan| !matches!(record.fields[f.index].ty, FieldType::Match(_));
    let (at_return, at_entry): (Vec<&FieldPlan>, Vec<&FieldPlan>) =
        action.fields.iter().filter(read).partition(|f| f.at_return);
    let fields = |plans: Vec<&FieldPlan>| -> Vec<FieldData> {
        let late = || Names { pieces: None, kept: Some(action), ..names() };
        let at = |f: &FieldPlan| if f.at_return { late() } else { names() };
        plans.into_iter().map(|f| field_data(at(f), &prefix, record, f)).collect()
    };
    let describes = |at_return: bool| {
        let described = action.describes.as_ref().filter(|describes| describes.at_return == at_return)?;
        let object = plan.objects.iter().find(|object| object.name == described.object)?;
        Some(type_name_of(&plan.schema.records[object.record]))
    };
    let waiting = record.fields.iter().position(|f| f.name == WAITING);
    let list = list_of(record);
    let (entry_fields, return_fields) = (fields(at_entry), fields(at_return));
    functions.extend(entry_fields.iter().chain(&return_fields).map(|f| f.body.clone()));
    ActionData {
        probe: action.probe.clone(),
        structure: structure_of(record),
        type_name: type_name_of(record),
        call: matches!(action.shape, Shape::Call { .. }),
        limit: action.shape.frames(),
        until: matches!(action.shape, Shape::Until { .. }),
        instant: action.shape == Shape::Instant,
        step: action.role == Role::Step,
        graph: action.role == Role::Graph,
        when,
        describe,
        identity,
        entry_fields,
        return_fields,
        references,
        counts: !action.counts.fields.is_empty(),
        kept: action
            .kept
            .iter()
            .map(|kept| names().argument(*kept))
            .enumerate()
            .map(|(number, place)| Kept { number, place })
            .collect(),
        list,
        rows: has_rows(action),
        describes_at_entry: describes(false),
        describes_at_return: describes(true),
        unused_waiting: waiting.filter(|_| !matches!(action.shape, Shape::Until { waiting_from: Some(_) })),
    }
}
