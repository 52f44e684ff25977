//! From a probeset to programs: which probes share one, what each records, and every constant the code will need.

use super::constants::{collect, symbol_of};
use super::counters::{Counters, at_an_instant};
use super::model::{
    Action, Counts, DescribesPlan, FieldPlan, Level, ObjectPlan, ProbePlan, Program, ProgramKind, Relocation,
    RelocationKind, Selection, Shape,
};
use super::module::glob_matches;
use super::record_layout::{SCALED, WAITING, field_type, kernel_fields, lay_out};
use super::results::{can_be_had, is_of_return, reads_result, saved};
use super::scopes::{enclosing_problem, scope_at, scope_of};
use super::site::CostTable;
use super::stack_budget::StackBudget;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Span};
use profinfer_probeset::path::{AttachPoint, Budget, Checked, Expr, Node, Place, Scope, Signature, Type, check_within};
use profinfer_probeset::{DESCRIBED, Describes, Nested, Probe, Probeset};

use indexmap::IndexMap;
use profinfer_binary::Arch;
use profinfer_schema::Role;
use profinfer_schema::bpf::builtin_records;
use profinfer_schema::{BUILTIN, DescribesObject, FieldType, RecordKind, RecordType, Schema};

/// Frames of a probe with `nested: all`: a power of two, by which `PF_SAVED_OF` in `bpf-runtime/record.h` finds one.
const NESTED_FRAMES: u32 = profinfer_schema::bpf::NESTED_CALLS;

/// Plans the probes that are selected. Every problem of every path is found in one run.
///
/// # Errors
/// Whatever does not type-check, and selections that leave nothing.
pub fn plan(probeset: &Probeset, selection: &Selection, arch: Arch) -> Result<(ProbePlan, Diagnostics), Diagnostics> {
    let mut planner = planned(probeset, selection, arch)?;
    // All open spans and records in the making live in one thread's state, which the kernel bounds.
    let refusal = StackBudget::of(&planner.plan, probeset).refusal(probeset);
    planner.problems.0.extend(refusal);
    planner.finish()
}

/// How much of a thread's state the probes that are selected take, whether it is granted or not.
///
/// # Errors
/// As [`plan`], but for that there may be too much.
pub fn stack_budget(probeset: &Probeset, selection: &Selection, arch: Arch) -> Result<StackBudget, Diagnostics> {
    let (plan, _) = planned(probeset, selection, arch)?.finish()?;
    Ok(StackBudget::of(&plan, probeset))
}

fn planned<'p>(probeset: &'p Probeset, selection: &Selection, arch: Arch) -> Result<Planner<'p>, Diagnostics> {
    let counters = Counters::new(probeset, selection)?;
    let mut planner = Planner {
        probeset,
        selected: Vec::new(),
        problems: Diagnostics::new(),
        relocations: IndexMap::new(),
        program_names: Vec::new(),
        module: None,
        plan: ProbePlan {
            arch,
            programs: Vec::new(),
            objects: Vec::new(),
            schema: Schema {
                records: builtin_records(),
                counters: counters.info.clone(),
                names: probeset.names.clone(),
                ..Schema::default()
            },
            counters: counters.all.clone(),
            relocations: Vec::new(),
            costs: CostTable::built_in(arch, None),
        },
        counters,
        budget: Budget::default(),
    };
    planner.select(selection);
    planner.objects();
    planner.programs();
    Ok(planner)
}

struct Planner<'p> {
    probeset: &'p Probeset,
    selected: Vec<&'p Probe>,
    problems: Diagnostics,
    relocations: IndexMap<RelocationKind, (String, Span)>,
    program_names: Vec<String>,
    counters: Counters,
    /// The module of the program that is being planned.
    module: Option<String>,
    plan: ProbePlan,
    /// For all expressions.
    budget: Budget,
}

/// Whether a glob is of a probe: of several engines, it means those of all, or names one by its identifier.
fn selects(probeset: &Probeset, glob: &str, probe: &str) -> bool {
    glob_matches(glob, probe) || glob_matches(glob, probeset.names.plain(probe))
}

/// The probes that are selected.
pub(super) fn selected<'p>(probeset: &'p Probeset, selection: &Selection) -> Vec<&'p Probe> {
    let matches = |globs: &[String], name: &str| globs.iter().any(|glob| selects(probeset, glob, name));
    let wanted = |probe: &&Probe| {
        let level = match probe.role.value {
            Role::Step | Role::Batch | Role::Request => Level::Step,
            // Where a step's arguments do not contain its number of tokens, such a region does.
            Role::Region if probe.fields.contains_key("tokens") => Level::Step,
            Role::Graph | Role::Submit | Role::Wait | Role::Device => Level::Graph,
            _ => Level::Operator,
        };
        level <= selection.level
            && (selection.only.is_empty() || matches(&selection.only, &probe.name))
            && !matches(&selection.without, &probe.name)
    };
    probeset.probes.values().filter(wanted).collect()
}

impl<'p> Planner<'p> {
    fn select(&mut self, selection: &Selection) {
        self.selected = selected(self.probeset, selection);
        for glob in selection.only.iter().chain(&selection.without) {
            if !self.probeset.probes.keys().any(|name| selects(self.probeset, glob, name)) {
                let names: Vec<&str> = self.probeset.probes.keys().map(String::as_str).collect();
                self.problems.push(
                    Diagnostic::error(Code::BadArgument, format!("the probeset has no probe `{glob}`"))
                        .hint(format!("it has {}", names.join(", "))),
                );
            }
        }
        if self.selected.is_empty() {
            self.problems.push(Diagnostic::error(Code::BadArgument, "no probe is selected"));
        }
    }

    fn is_selected(&self, probe: &str) -> bool {
        self.selected.iter().any(|p| p.name.value == probe)
    }

    // ---- objects -------------------------------------------------------------------------------------------------

    fn objects(&mut self) {
        let probeset = self.probeset;
        for object in probeset.objects.values() {
            let scope = probeset.scope_of(object.of.as_str());
            let mut checked = Vec::new();
            for field in object.fields.values() {
                let value = check_within(&field.value, &scope, &self.budget);
                let Some(value) = self.problems.keep(value) else { continue };
                let ty = field_type(&value, probeset).map_err(Diagnostics::from);
                let Some(ty) = self.problems.keep(ty) else { continue };
                if matches!(ty, FieldType::List(..)) {
                    let message = "a list of variable length cannot be part of an object yet";
                    self.problems.push(
                        Diagnostic::error(Code::NotSupportedYet, message)
                            .at(&value.span)
                            .hint("give both ends, such as `[0..4]`"),
                    );
                    continue;
                }
                checked.push((field.name.value.clone(), ty, value));
            }
            let mut layout = vec![("address".to_owned(), FieldType::Pointer)];
            layout.extend(checked.iter().map(|(name, ty, _)| (name.clone(), ty.clone())));
            let Some(record) = self.record(&object.name, &object.name.span, RecordKind::Object, None, layout) else {
                continue;
            };
            let name = object.name.value.clone();
            let fields = self.field_plans(record, checked, |_| false);
            let mut relocations = Vec::new();
            for field in &fields {
                self.needs(&field.value, None, &mut relocations);
            }
            for kind in [
                RelocationKind::BlockStart { object: name.clone() },
                RelocationKind::BlockLength { object: name.clone() },
            ] {
                relocations.push(self.relocation(kind, &object.name.span));
            }
            relocations.push(self.relocation(RelocationKind::Absent { record }, &object.name.span));
            self.plan.objects.push(ObjectPlan { name, view: object.of.value.clone(), record, fields, relocations });
        }
    }

    fn field_plans(
        &self,
        record: usize,
        checked: Vec<(String, FieldType, Checked)>,
        at_return: impl Fn(&str) -> bool,
    ) -> Vec<FieldPlan> {
        let layout = &self.plan.schema.records[record];
        let index = |name: &str| layout.fields.iter().position(|f| f.name == name).unwrap_or_default();
        checked
            .into_iter()
            .map(|(name, _, value)| FieldPlan { index: index(&name), at_return: at_return(&name), value })
            .collect()
    }

    /// Adds a record type, or finds the one that another program's alternative of the same probe has made.
    fn record(
        &mut self,
        name: &str,
        span: &Span,
        kind: RecordKind,
        role: Option<Role>,
        fields: Vec<(String, FieldType)>,
    ) -> Option<usize> {
        let laid_out = lay_out(name, kind, fields).map_err(|problem| Diagnostics::from(problem.at(span)));
        let record = RecordType { role, ..self.problems.keep(laid_out)? };
        let is_object = kind == RecordKind::Object;
        let same = |r: &RecordType| r.name == record.name && (r.kind == RecordKind::Object) == is_object;
        let spec_records = &self.plan.schema.records[BUILTIN..];
        if let Some(found) = spec_records.iter().position(same) {
            if spec_records[found] != record {
                let message = format!("the alternatives of `{name}` record fields of different types");
                self.problems.push(
                    Diagnostic::error(Code::TypeMismatch, message)
                        .at(span)
                        .hint("give the arguments that a field reads the same types in each alternative"),
                );
                return None;
            }
            return Some(BUILTIN + found);
        }
        self.plan.schema.records.push(record);
        Some(self.plan.schema.records.len() - 1)
    }

    // ---- programs ------------------------------------------------------------------------------------------------

    fn programs(&mut self) {
        let probeset = self.probeset;
        for root in probeset.probes.values() {
            if root.at.iter().any(|at| matches!(at.place, Place::Probe(_))) {
                continue;
            }
            let riders: Vec<&Probe> = self
                .selected
                .iter()
                .copied()
                .filter(|p| p.name.value == root.name.value || rides(probeset, p, root))
                .collect();
            let is_recorded = riders.iter().any(|probe| probe.role.value != Role::Boundary);
            let ends = !self.ended_by(&root.name).is_empty();
            // A boundary of spans that are not selected has nothing to do; what ends selected ones is needed in any case.
            let is_boundary = ends || !riders.is_empty() && self.is_waited_from(&root.name);
            if !is_recorded && !is_boundary {
                continue;
            }
            for (alternative, at) in root.at.iter().enumerate() {
                self.program(root, alternative, at, &riders);
            }
        }
    }

    fn program(&mut self, root: &'p Probe, alternative: usize, at: &'p AttachPoint, riders: &[&'p Probe]) {
        let index = self.plan.programs.len();
        let tracepoint = matches!(at.place, Place::Tracepoint { .. } | Place::Software { .. });
        self.module = at.place.module().map(|module| module.value.clone());
        self.problems.0.extend(enclosing_problem(self.probeset, root));
        let name = root.name.value.clone();
        self.program_names.push(format!("{name}__{alternative}"));
        let actions: Vec<Action> = riders.iter().filter_map(|probe| self.action(root, probe, at, tracepoint)).collect();
        let is_call = |action: &Action| matches!(action.shape, Shape::Call { .. });
        let kind = match tracepoint {
            true => ProgramKind::Tracepoint,
            false if actions.iter().any(is_call) => ProgramKind::Span,
            false => ProgramKind::Entry,
        };
        let mut relocations = Vec::new();
        for action in &actions {
            let expressions = action.fields.iter().map(|f| &f.value).chain(&action.when).chain(&action.describe);
            for expression in expressions {
                self.needs(expression, Some(index), &mut relocations);
            }
            for object in self.objects_of(action.record) {
                relocations.extend_from_slice(&self.plan.objects[object].relocations);
            }
        }
        for argument in actions.iter().flat_map(|action| &action.saved) {
            relocations
                .push(self.relocation(RelocationKind::Argument { program: index, argument: *argument }, &at.span));
        }
        for action in actions.iter().filter(|action| action.record >= BUILTIN) {
            relocations.push(self.relocation(RelocationKind::Absent { record: action.record }, &at.span));
        }
        let mut optional_relocations = Vec::new();
        for identity in actions.iter().filter_map(|action| action.identity.as_ref()) {
            self.needs(identity, Some(index), &mut optional_relocations);
        }
        // An argument is where the others are; what is optional is where a member is.
        let is_argument = |this: &Self, index: usize| {
            matches!(this.relocations.get_index(index), Some((RelocationKind::Argument { .. }, _)))
        };
        relocations.extend(optional_relocations.iter().copied().filter(|index| is_argument(self, *index)));
        relocations.sort_unstable();
        relocations.dedup();
        optional_relocations.retain(|index| relocations.binary_search(index).is_err());
        self.plan.programs.push(Program {
            name: format!("{name}__{alternative}"),
            probes: std::iter::once(name.clone())
                .chain(riders.iter().map(|p| p.name.value.clone()).filter(|p| *p != name))
                .collect(),
            alternative,
            kind,
            place: at.place.clone(),
            span: at.span.clone(),
            actions,
            enclosing: root.enclosing.as_ref().map(|enclosing| enclosing.value.clone()),
            ends: self.ended_by(&name),
            notes_entry: self.is_waited_from(&name),
            relocations,
            optional_relocations,
            optional: root.optional,
        });
    }

    /// Selected probes with an alternative whose spans end at `probe`'s entry.
    fn ended_by(&self, probe: &str) -> Vec<String> {
        let ends = |p: &&&Probe| p.at.iter().any(|at| at.until.iter().any(|until| until.value == probe));
        self.selected.iter().filter(ends).map(|p| p.name.value.clone()).collect()
    }

    fn is_waited_from(&self, probe: &str) -> bool {
        let waits = |at: &AttachPoint| at.waiting_from.as_ref().is_some_and(|from| from.value == probe);
        self.selected.iter().any(|p| p.at.iter().any(waits))
    }

    /// The objects that a record's fields refer to.
    fn objects_of(&self, record: usize) -> Vec<usize> {
        let refers_to = |ty: &FieldType, object: &ObjectPlan| match ty {
            FieldType::Object(name) => *name == object.name,
            FieldType::Array(of, _) => **of == FieldType::Object(object.name.clone()),
            _ => false,
        };
        let fields = &self.plan.schema.records[record].fields;
        let refers = |object: &ObjectPlan| fields.iter().any(|field| refers_to(&field.ty, object));
        (0..self.plan.objects.len()).filter(|i| refers(&self.plan.objects[*i])).collect()
    }

    fn action(&mut self, root: &Probe, probe: &'p Probe, at: &AttachPoint, tracepoint: bool) -> Option<Action> {
        let role = probe.role.value;
        if role == Role::Boundary {
            return None; // it is in the program's `ends` and `notes_entry`
        }
        if matches!(role, Role::SchedSwitch | Role::SchedWakeup) {
            return self.scheduler_action(probe, at, role);
        }
        if let Some(layout) = kernel_fields(role) {
            // Where they are, and that they take no fields, the spec's checks have seen to.
            let kind = if matches!(role, Role::Reclaim | Role::Job) { RecordKind::Span } else { RecordKind::Mark };
            let record = self.record(&probe.name, &probe.name.span, kind, Some(role), layout)?;
            let (name, shape, counts) = (probe.name.value.clone(), Shape::Instant, Counts::default());
            return Some(Action {
                probe: name,
                role,
                record,
                shape,
                fields: Vec::new(),
                saved: Vec::new(),
                counts,
                when: None,
                describe: None,
                describes: None,
                identity: None,
            });
        }
        let rides = probe.name.value != root.name.value;
        let shape = match role {
            _ if tracepoint => Shape::Instant,
            // What a function returns is available only at its return: such a mark is the call's span.
            Role::Mark | Role::Experts | Role::Batch | Role::Request | Role::Device if !reads_result(probe) => {
                Shape::Instant
            }
            _ if !at.until.is_empty() && !rides => Shape::Until {
                waiting_from: at
                    .waiting_from
                    .as_ref()
                    .map(|from| from.value.clone())
                    .filter(|from| self.is_selected(from)),
            },
            _ => Shape::Call { frames: if probe.nested == Nested::All { NESTED_FRAMES } else { 1 } },
        };
        if matches!(shape, Shape::Call { .. }) && !at.place.is_call() {
            // The return address is read where a function has it at its beginning.
            let message = format!("`{}` is a span, and no return can be watched for from there", probe.name.value);
            self.problems.push(
                Diagnostic::error(Code::RolePlace, message)
                    .at(&at.span)
                    .hint("write `until PROBE` behind it, give the probe `role: mark`, or name a function's beginning"),
            );
            return None;
        }
        let signature = at.place.signature().cloned().unwrap_or_default();
        let checked = self.checked_fields(probe, root, &signature, &shape)?;
        let mut layout: Vec<(String, FieldType)> = checked.iter().map(|(n, ty, _)| (n.clone(), ty.clone())).collect();
        if probe.at.iter().any(|at| at.waiting_from.is_some()) {
            layout.push((WAITING.to_owned(), FieldType::Duration));
        }
        let mut checked = checked;
        let describes = match &probe.describes {
            Some(describes) => {
                let (plan, value) = self.describes(probe, describes, &checked, root, (&signature, &shape))?;
                layout.push((DESCRIBED.to_owned(), FieldType::Pointer));
                checked.push((DESCRIBED.to_owned(), FieldType::Pointer, value));
                Some(plan)
            }
            None => None,
        };
        let counted = self.counted(probe, &shape, &mut layout)?;
        let has_list = layout.iter().any(|(_, ty)| matches!(ty, FieldType::List(..)));
        let has_rows = || checked.iter().any(|(_, _, value)| matches!(value.node, Node::Slice { rows: Some(_), .. }));
        if has_list && (matches!(shape, Shape::Until { .. }) || shape != Shape::Instant && has_rows()) {
            let message = format!(
                "such a list can only be recorded at an instant or of a call; `{}` is neither",
                probe.name.value
            );
            self.problems.push(
                Diagnostic::error(Code::NotSupportedYet, message)
                    .at(&probe.name.span)
                    .hint("give the list to a probe of role `mark` or `experts` at `probe X`"),
            );
            return None;
        }
        let kind = if shape == Shape::Instant { RecordKind::Mark } else { RecordKind::Span };
        let record = self.record(&probe.name, &probe.name.span, kind, Some(role), layout)?;
        let before = Scope { returns: None, ..scope_of(self.probeset, self.plan.arch, root, &signature) };
        let mut checked_before = |written: &Option<Expr>| {
            let checked = written.as_ref().map(|written| check_within(written, &before, &self.budget));
            checked.and_then(|checked| self.problems.keep(checked))
        };
        let [when, describe, identity] = [&probe.when, &probe.describe, &probe.identity].map(&mut checked_before);
        if let Some(identity) = identity.as_ref().filter(|identity| !matches!(identity.ty, Type::Int { .. })) {
            let message = format!("`identity` is an integer, not {}", identity.ty);
            self.problems.push(Diagnostic::error(Code::TypeMismatch, message).at(&identity.span));
            return None;
        }
        let described_late = describes.as_ref().is_some_and(|describes| describes.at_return);
        let is_late = |name: &str| match name {
            DESCRIBED => described_late,
            _ => probe.fields.get(name).is_some_and(is_of_return),
        };
        let fields = self.field_plans(record, checked, is_late);
        let counts = self.counts(record, counted);
        if let Some(DescribesPlan { object, at_return }) = &describes {
            let (object, field) = (object.clone(), DESCRIBED.to_owned());
            let describes = DescribesObject { object, field, at_end: *at_return };
            self.plan.schema.describes.insert(probe.name.value.clone(), describes);
        }
        let probe = probe.name.value.clone();
        let saved = saved(&fields, &signature, self.encloses(&probe));
        Some(Action { probe, role, record, shape, fields, saved, when, describe, describes, identity, counts })
    }

    /// Whether a selected probe reads the arguments of this one's call.
    fn encloses(&self, probe: &str) -> bool {
        self.selected.iter().any(|of| of.enclosing.as_ref().is_some_and(|enclosing| enclosing.value == probe))
    }

    /// The address of the object that a probe describes, and when it is available.
    fn describes(
        &mut self,
        probe: &Probe,
        describes: &Describes,
        fields: &[(String, FieldType, Checked)],
        root: &Probe,
        (signature, shape): (&Signature, &Shape),
    ) -> Option<(DescribesPlan, Checked)> {
        let scope = scope_at((self.probeset, self.plan.arch), root, signature, shape);
        let at_return = describes.at_return;
        let checked = check_within(&describes.address, &scope, &self.budget)
            .and_then(|value| can_be_had(value, at_return).map_err(Diagnostics::from));
        let address = self.problems.keep(checked)?;
        if !matches!(address.ty, Type::Pointer(_) | Type::Object(_) | Type::Int { size: 8, .. }) {
            let message = format!("`describes` is of an address, not of {}", address.ty);
            self.problems.push(Diagnostic::error(Code::TypeMismatch, message).at(&address.span));
            return None;
        }
        if fields.is_empty() {
            let message = format!("`{}` describes an object and has no fields", probe.name.value);
            let hint = "add `fields`, such as `name` and `op`";
            self.problems.push(Diagnostic::error(Code::RoleField, message).at(&address.span).hint(hint));
            return None;
        }
        let plan = DescribesPlan { object: describes.object.value.clone(), at_return };
        Some((plan, address))
    }

    /// Adds the fields of a probe's counters; gives the counters.
    fn counted(&mut self, probe: &Probe, shape: &Shape, layout: &mut Vec<(String, FieldType)>) -> Option<Vec<usize>> {
        if *shape == Shape::Instant {
            self.problems.0.extend(at_an_instant(probe));
            return Some(Vec::new());
        }
        let counted = self.counters.of(probe);
        let counters = || counted.iter().filter_map(|index| self.counters.all.get(*index));
        let mut added: Vec<(String, FieldType)> =
            counters().map(|counter| (counter.name.clone(), FieldType::Counter)).collect();
        if counters().any(|counter| counter.event().is_some()) {
            added.push((SCALED.to_owned(), FieldType::Scaled));
        }
        if let Some((name, _)) = added.iter().find(|(name, _)| layout.iter().any(|(field, _)| field == name)) {
            let message =
                format!("`{}` has a field `{name}`, and its counters make one of that name", probe.name.value);
            let place = probe.fields.get(name).map_or(&probe.name.span, |field| &field.name.span);
            self.problems.push(Diagnostic::error(Code::Duplicate, message).at(place).hint("rename the field"));
            return None;
        }
        layout.extend(added);
        Some(counted)
    }

    fn counts(&self, record: usize, counted: Vec<usize>) -> Counts {
        let layout = &self.plan.schema.records[record];
        let field = |name: &str| layout.fields.iter().position(|field| field.name == name);
        let of = |index: usize| Some((index, field(&self.counters.all.get(index)?.name)?));
        let scaled = layout.fields.iter().position(|field| field.ty == FieldType::Scaled);
        Counts { fields: counted.into_iter().filter_map(of).collect(), scaled }
    }

    fn scheduler_action(&mut self, probe: &Probe, at: &AttachPoint, role: Role) -> Option<Action> {
        let (event, record) = match role {
            Role::SchedSwitch => ("sched_switch", 2),
            _ => ("sched_wakeup", 3),
        };
        let fits = matches!(&at.place, Place::Tracepoint { category, name }
            if category.value == "sched" && name.value == event);
        if !fits {
            let message = format!("role {event} needs `at: tracepoint sched:{event}`");
            self.problems.push(Diagnostic::error(Code::RoleField, message).at(&at.span));
            return None;
        }
        if let Some(field) = probe.fields.values().next() {
            let message = "the scheduler's events have fixed fields; none can be added";
            self.problems.push(Diagnostic::error(Code::NotSupportedYet, message).at(&field.name.span));
        }
        Some(Action {
            probe: probe.name.value.clone(),
            role,
            record,
            shape: Shape::Instant,
            fields: Vec::new(),
            saved: Vec::new(),
            when: None,
            describe: None,
            describes: None,
            identity: None,
            counts: Counts::default(),
        })
    }

    fn checked_fields(
        &mut self,
        probe: &Probe,
        root: &Probe,
        signature: &Signature,
        shape: &Shape,
    ) -> Option<Vec<(String, FieldType, Checked)>> {
        let mut found = Vec::new();
        let mut problems = Diagnostics::new();
        let scope = scope_at((self.probeset, self.plan.arch), root, signature, shape);
        for field in probe.fields.values() {
            if field.at_return && !matches!(shape, Shape::Call { .. }) {
                let message =
                    format!("`{}` has no return at which `{}` could be read", probe.name.value, field.name.value);
                let hint = "leave `at return` out, or let the probe span a function's call";
                problems.push(Diagnostic::error(Code::RolePlace, message).at(&field.value.span).hint(hint));
                continue;
            }
            let value = check_within(&field.value, &scope, &self.budget)
                .and_then(|value| can_be_had(value, is_of_return(field)).map_err(Diagnostics::from));
            let Some(value) = problems.keep(value) else { continue };
            let ty = field_type(&value, self.probeset).map_err(Diagnostics::from);
            let Some(ty) = problems.keep(ty) else { continue };
            if field.at_return && refers_to_object(&ty) {
                let message = "an object cannot be referred to at the return yet";
                let hint = "an object is read where the call begins; leave `at return` out";
                problems.push(Diagnostic::error(Code::NotSupportedYet, message).at(&field.value.span).hint(hint));
                continue;
            }
            found.push((field.name.value.clone(), ty, value));
        }
        let failed = problems.has_errors();
        self.problems.0.extend(problems.0);
        (!failed).then_some(found)
    }

    // ---- relocations ---------------------------------------------------------------------------------------------

    fn relocation(&mut self, kind: RelocationKind, span: &Span) -> usize {
        if let Some(index) = self.relocations.get_index_of(&kind) {
            return index;
        }
        let mut symbol = symbol_of(&kind, |program| self.program_names.get(program).cloned().unwrap_or_default());
        // Two names may become one when their punctuation is replaced.
        while self.relocations.values().any(|(other, _)| *other == symbol) {
            symbol.push('_');
        }
        self.relocations.insert(kind, (symbol, span.clone()));
        self.relocations.len() - 1
    }

    /// Collects the relocations that an expression's code will use.
    fn needs(&mut self, checked: &Checked, program: Option<usize>, into: &mut Vec<usize>) {
        let mut kinds: Vec<(RelocationKind, Span)> = Vec::new();
        collect(checked, program, self.module.as_deref().filter(|_| program.is_some()), &mut kinds);
        for (kind, span) in kinds {
            into.push(self.relocation(kind, &span));
        }
    }

    // ---- the end -------------------------------------------------------------------------------------------------

    fn finish(mut self) -> Result<(ProbePlan, Diagnostics), Diagnostics> {
        // Alternatives repeat a field's problem; a person wants it once.
        let mut seen = Vec::new();
        self.problems.0.retain(|problem| {
            let new = !seen.contains(problem);
            if new {
                seen.push(problem.clone());
            }
            new
        });
        self.plan.relocations =
            self.relocations.into_iter().map(|(what, (symbol, span))| Relocation { symbol, what, span }).collect();
        self.problems.finish(self.plan)
    }
}

/// Whether `probe` is at `probe X` (of `probe X`…) of `root`.
fn rides(probeset: &Probeset, probe: &Probe, root: &Probe) -> bool {
    let mut at = probe;
    // The spec's checks refuse circles; the bound is for those who call without them.
    for _ in 0..probeset.probes.len() {
        let Some(AttachPoint { place: Place::Probe(next), .. }) = at.at.first() else { return false };
        if next.value == root.name.value {
            return true;
        }
        let Some(next) = probeset.probes.get(&next.value) else { return false };
        at = next;
    }
    false
}

fn refers_to_object(ty: &FieldType) -> bool {
    match ty {
        FieldType::Object(_) => true,
        FieldType::Array(of, _) | FieldType::List(of, _) => refers_to_object(of),
        _ => false,
    }
}
