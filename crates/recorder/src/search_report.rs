//! What a recording searched for, in which processes, and what of it was not there: so that no trace is called complete
//! that has nothing of what was asked for. It deals with sites and counts, not with files or signals.

use super::counts::Counts;
use profinfer_binary::{ProcessStatus, ProcessTarget};
use profinfer_compiler::{Placement, ProbePlan, Program, Unplaced, glob_matches};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use profinfer_probeset::path::{Place, listed};
use profinfer_schema::Role;
use profinfer_schema::{LeftOut, LeftOutKind, RecordKind, RecordType};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Processes whose names are stored; further ones are counted.
const MOST_PROCESSES: usize = 256;
/// Processes that a sentence names.
const PROCESSES_SHOWN: usize = 4;
/// Entries for the trace.
const MOST_ENTRIES: usize = 64;
/// Characters of an entry.
const MOST_CHARACTERS: usize = 400;

/// What was searched for, and what of it was found.
#[derive(Debug)]
pub(super) struct SearchReport<'a> {
    plan: &'a ProbePlan,
    /// Names of the modules' files.
    globs: Vec<String>,
    /// The processes that were inspected, with their commands' names: a process may run several, one after the other.
    processes: Vec<(u32, String)>,
    /// How many there were beside these, and the last of them.
    further: u64,
    latest: Option<(u32, String)>,
    /// Probes with a site in any process.
    placed: BTreeSet<String>,
    /// The programs that have sites; of a probe's alternatives, one.
    programs: BTreeSet<usize>,
    /// Probes without a site, why, and whether the process without it has others.
    unplaced: BTreeMap<String, (bool, Unplaced)>,
    /// Each with the message of the warning that named it.
    left_out: Vec<(LeftOut, Option<String>)>,
    /// One that ran on when the recording ended.
    survivor: Option<u32>,
}

/// Programs that have a service start other programs, which are not their children.
const CLIENTS: [&str; 7] = ["docker", "podman", "nerdctl", "crictl", "kubectl", "systemd-run", "machinectl"];

impl<'a> SearchReport<'a> {
    /// By a plan, in files of these names.
    pub(super) fn new(plan: &'a ProbePlan, globs: Vec<String>) -> Self {
        let (processes, placed, unplaced) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self {
            plan,
            globs,
            processes,
            further: 0,
            latest: None,
            placed,
            programs: BTreeSet::new(),
            unplaced,
            left_out: Vec::new(),
            survivor: None,
        }
    }

    /// A process was inspected; what came of it, unless it is not what the probeset expects.
    pub(super) fn add_process(&mut self, target: &ProcessTarget, placement: Option<&Placement>) {
        let process = self.passed(target.pid());
        for path in target.unreadable() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if self.is_module(&name) {
                let text = format!(
                    "profinfer could not read {}, which process {} has mapped",
                    path.display(),
                    named(&process)
                );
                self.add(LeftOutKind::File, None, text);
            }
        }
        let Some(placement) = placement else { return };
        let any = !placement.sites.is_empty();
        self.placed.extend(placement.sites.iter().flat_map(|site| &site.site.probes).cloned());
        self.programs.extend(placement.sites.iter().map(|site| site.program));
        for unplaced in &placement.unplaced {
            let had_others = self.unplaced.get(&unplaced.probe).is_some_and(|(others, _)| *others);
            if any || !had_others {
                self.unplaced.insert(unplaced.probe.clone(), (any, unplaced.clone()));
            }
        }
    }

    /// Whether a file of this name is a module of the probeset.
    pub(super) fn is_module(&self, name: &str) -> bool {
        self.globs.iter().any(|glob| glob_matches(glob, name))
    }

    /// A module was written to while it was read.
    pub(super) fn overwritten(&mut self, path: &str) {
        self.add(LeftOutKind::File, None, format!("{path} was overwritten while it was read: it has no probes"));
    }

    /// Adds a process to those that were inspected, with the name of its command.
    fn passed(&mut self, pid: u32) -> (u32, String) {
        let process = (pid, name_of(pid).unwrap_or_else(|| "?".to_owned()));
        if !self.processes.contains(&process) {
            if self.processes.len() < MOST_PROCESSES {
                self.processes.push(process.clone());
            } else if self.latest.replace(process.clone()) != Some(process.clone()) {
                self.further += 1;
            }
        }
        process
    }

    /// Adds what warnings of placement or of the machine name as missing.
    pub(super) fn warned(&mut self, warnings: &[Diagnostic]) {
        for problem in warnings {
            let kind = match (problem.code, problem.severity) {
                // Both builds are recorded.
                (Code::LayoutsDiffer, _) => continue,
                (_, Severity::Warning) => LeftOutKind::Part,
                (Code::TargetMemberMissing, Severity::Note) => LeftOutKind::Part,
                _ => continue,
            };
            let lost = problem.notes.iter().find(|note| note.ends_with("left out"));
            let lost = lost.map_or_else(String::new, |lost| format!(": {lost}"));
            self.add_named(kind, None, format!("{}{lost}", problem.message), Some(&problem.message));
        }
    }

    /// What warnings with these messages named as missing was found after all.
    pub(super) fn forget(&mut self, is_settled: &dyn Fn(&str) -> bool) {
        self.left_out.retain(|(_, message)| !message.as_deref().is_some_and(is_settled));
    }

    /// A process could not be inspected.
    pub(super) fn not_inspected(&mut self, pid: i32, why: &str) {
        let pid = pid.cast_unsigned();
        let name = name_of(pid).map_or_else(String::new, |name| format!(" ({name})"));
        self.add(LeftOutKind::Process, None, format!("process {pid}{name} could not be inspected: {why}"));
    }

    /// A process that could not be stopped for it got sites.
    pub(super) fn attached_late(&mut self, pid: i32, sites: u16) {
        let process = self.named_process(pid);
        let text = format!("{sites} sites were attached while process {process} ran: earlier calls are not recorded");
        self.add(LeftOutKind::Late, None, text);
    }

    /// Where members are was learned while records without them were written.
    pub(super) fn learned_late(&mut self, members: &[&str], after: Duration) {
        let text = format!(
            "{} in the first {:.2} s after the first object: learned meanwhile (the next recording starts with it)",
            members.join(", "),
            after.as_secs_f64()
        );
        self.add(LeftOutKind::Part, None, text);
    }

    /// The target's figures lack something.
    pub(super) fn lacks(&mut self, what: Option<String>) {
        if let Some(what) = what {
            self.add(LeftOutKind::Part, None, what);
        }
    }

    /// Processes that were inspected and run on when the recording ends with the command.
    pub(super) fn ran_on(&mut self, is_alive: impl Fn(u32) -> bool) {
        let alive: BTreeMap<u32, &String> =
            self.processes.iter().filter(|(pid, _)| is_alive(*pid)).map(|(pid, name)| (*pid, name)).collect();
        let alive: Vec<(u32, String)> = alive.into_iter().map(|(pid, name)| (pid, name.clone())).collect();
        if !alive.is_empty() {
            let text = format!("{} still ran after the command had ended", list(&alive, 0));
            self.add(LeftOutKind::Survivor, None, text);
            self.survivor = alive.last().map(|(pid, _)| *pid);
        }
    }

    /// How to record what runs without the command that was launched.
    pub(super) fn how_to_attach(&self) -> Option<String> {
        if let Some(pid) = self.survivor {
            return Some(format!("attach to what still runs: `profinfer record … -p {pid}`"));
        }
        let client = self.processes.iter().find_map(|(_, name)| CLIENTS.iter().find(|client| name == *client))?;
        Some(format!(
            "if `{client}` has a service start the engine, attach to the engine's process: `-p PID`, as in `ps`"
        ))
    }

    fn named_process(&self, pid: i32) -> String {
        let pid = pid.cast_unsigned();
        let found = self.processes.iter().rev().find(|(of, _)| *of == pid);
        found.map_or_else(|| pid.to_string(), named)
    }

    fn add(&mut self, kind: LeftOutKind, probe: Option<&str>, text: String) {
        self.add_named(kind, probe, text, None);
    }

    fn add_named(&mut self, kind: LeftOutKind, probe: Option<&str>, text: String, message: Option<&str>) {
        let text = text.chars().take(MOST_CHARACTERS).collect();
        let entry = LeftOut { kind, probe: probe.map(str::to_owned), text };
        if self.left_out.len() < MOST_ENTRIES && self.left_out.iter().all(|(other, _)| *other != entry) {
            self.left_out.push((entry, message.map(str::to_owned)));
        }
    }

    /// What probes wait for: the problem of each that must have a site, and has none in any process.
    pub(super) fn waiting_for(&self) -> Diagnostics {
        let wanted = self.missing().filter(|unplaced| unplaced.required);
        Diagnostics(wanted.map(|unplaced| unplaced.problem.clone()).collect())
    }

    fn missing(&self) -> impl Iterator<Item = &Unplaced> {
        let without = self.unplaced.iter().filter(|(probe, _)| !self.placed.contains(*probe));
        without.map(|(_, (_, unplaced))| unplaced)
    }

    /// A program without a server has no requests, and one without a backend for devices no dispatches: that nothing
    /// shows them is no loss.
    fn is_of_what_few_have(&self, probe: &str) -> bool {
        let of_probe = |record: &&RecordType| record.name == probe;
        let role = self.plan.schema.records.iter().find(of_probe).and_then(|record| record.role);
        match role {
            Some(role) => role == Role::Request || role.is_of_a_device(),
            // A boundary has no record: it is of the spans that it ends.
            None => {
                let is_it = |program: &&Program| program.probes.first().is_some_and(|root| root == probe);
                let mut ends = self.plan.programs.iter().filter(is_it).flat_map(|program| &program.ends).peekable();
                ends.peek().is_some() && ends.all(|ended| ended != probe && self.is_of_what_few_have(ended))
            }
        }
    }

    /// Everything that was left out; `begun` steps were seen to begin.
    pub(super) fn left_out(&mut self, counts: &Counts, begun: u64) -> Vec<LeftOut> {
        let nothing = self.nothing(counts, begun);
        let without_site: Vec<(String, String)> = self
            .missing()
            .filter(|unplaced| unplaced.problem.code != Code::GroupNotAttached)
            // One that another probe stands for lacks nothing.
            .filter(|unplaced| unplaced.problem.severity != Severity::Note)
            .filter(|unplaced| !self.is_of_what_few_have(&unplaced.probe))
            .map(|unplaced| (unplaced.probe.clone(), unplaced.problem.message.clone()))
            .collect();
        let engines: Vec<(String, String)> = self
            .missing()
            .filter(|unplaced| unplaced.required && unplaced.problem.code == Code::GroupNotAttached)
            .map(|unplaced| (unplaced.probe.clone(), unplaced.problem.message.clone()))
            .collect();
        match nothing {
            Some(text) => self.add(LeftOutKind::Nothing, None, text),
            None => {
                for (probe, why) in engines {
                    self.add(LeftOutKind::Nothing, Some(&probe), why);
                }
            }
        }
        for (probe, why) in without_site {
            let text = format!("probe `{}` is not attached: {why}", self.plan.schema.names.plain(&probe));
            self.add(LeftOutKind::Probe, Some(&probe), text);
        }
        std::mem::take(&mut self.left_out).into_iter().map(|(entry, _)| entry).collect()
    }

    /// The records of probes, and how many of each are in the trace.
    fn seen(&self, counts: &Counts) -> Vec<(&RecordType, u64)> {
        let is_probe = |record: &RecordType| matches!(record.kind, RecordKind::Span | RecordKind::Mark);
        let records = (0..).zip(&self.plan.schema.records).filter(|(_, record)| is_probe(record));
        records.map(|(number, record)| (record, counts.of_type(number))).collect()
    }

    /// Records of probed calls are in the trace, not the kernel's events alone.
    pub(super) fn has_calls(&self, counts: &Counts) -> bool {
        let is_call = |record: &RecordType| !record.role.is_some_and(Role::is_of_the_kernel);
        self.seen(counts).into_iter().any(|(record, count)| is_call(record) && count > 0)
    }

    /// Operators are in the trace.
    pub(super) fn has_operators(&self, counts: &Counts) -> bool {
        self.seen(counts).into_iter().any(|(record, count)| record.role == Some(Role::Operator) && count > 0)
    }

    /// Whether probes mark steps, by the analysis' rule: a target in which operators have sites, and steps have none, is like
    /// a probeset without steps.
    pub(super) fn marks_steps(&self) -> bool {
        let schema = &self.plan.schema;
        let placed = |role: Role| {
            schema.records.iter().any(|record| record.role == Some(role) && self.placed.contains(&record.name))
        };
        schema.has_role(Role::Step) && (placed(Role::Step) || !placed(Role::Operator))
    }

    /// That no step is in the trace, or, where no probe is a step, no record of any: what was searched for, where, and what
    /// was there.
    pub(super) fn nothing(&self, counts: &Counts, begun: u64) -> Option<String> {
        let seen = self.seen(counts);
        if seen.is_empty() {
            return None;
        }
        let is_step = |record: &RecordType| record.role == Some(Role::Step);
        let has_steps = seen.iter().any(|(record, _)| is_step(record));
        if seen.iter().any(|(record, count)| (is_step(record) || !has_steps) && *count > 0) {
            return None;
        }
        let wanted =
            |probe: &String| !has_steps || seen.iter().any(|(record, _)| is_step(record) && record.name == *probe);
        let is_placed = |(number, _): &(usize, &Program)| self.programs.contains(number);
        let programs = self.plan.programs.iter().enumerate();
        let mut programs: Vec<(usize, &Program)> =
            programs.filter(|(_, program)| program.probes.iter().any(wanted)).collect();
        let placed = programs.iter().any(is_placed);
        if !placed && self.has_operators(counts) {
            return None; // a report finds the steps by them
        }
        if placed {
            // Of several engines that were waited for, those that did not come have nothing to do with it; of alternatives,
            // those that others stand for.
            programs.retain(is_placed);
        }
        let functions: BTreeSet<String> = programs.iter().filter_map(|(_, program)| function_of(program)).collect();
        let functions: Vec<String> = functions.iter().take(PROCESSES_SHOWN).map(|name| format!("`{name}`")).collect();
        let functions = functions.join(" or ");
        let processes = match self.processes.as_slice() {
            [] => "no process was inspected".to_owned(),
            of => format!("in {}", list(of, self.further)),
        };
        let others = seen.iter().filter(|(record, count)| !is_step(record) && *count > 0);
        let others: Vec<String> = others.map(|(record, count)| format!("{count} `{}`", record.name)).collect();
        let mut others =
            if others.is_empty() { String::new() } else { format!("; {} were seen", others.join(" and ")) };
        if self.has_operators(counts) {
            others += ", by which a report may find steps";
        }
        let what = if has_steps { "no step was seen" } else { "nothing was seen" };
        if seen.iter().all(|(record, _)| record.role.is_some_and(Role::is_of_the_kernel)) {
            return Some(format!(
                "{what}: the kernel's events are recorded of threads that make probed calls, and no calls are probed"
            ));
        }
        if begun > 0 && has_steps {
            return Some(format!("{what} from its beginning to its end, of {begun} that began {processes}{others}"));
        }
        if placed {
            return Some(format!("{what}: {functions} was never called, {processes}{others}"));
        }
        let of_wanted = self.missing().filter(|unplaced| wanted(&unplaced.probe));
        let mut problems: Vec<&Diagnostic> = of_wanted.map(|unplaced| &unplaced.problem).collect();
        problems.sort_by_key(|problem| problem.severity != Severity::Error);
        let engines = problems.iter().filter(|problem| problem.code == Code::GroupNotAttached).count();
        if engines > 1 {
            return Some(format!("{what}: the target has no step function of any probeset, {processes}{others}"));
        }
        let why = problems.first().map(|problem| match (problem.code, problem.notes.first()) {
            // The reason of the first of a group.
            (Code::GroupNotAttached, Some(reason)) => reason.clone(),
            _ => problem.message.clone(),
        });
        let why = why.unwrap_or_else(|| format!("{functions} was not found"));
        Some(format!("{what}: {why}, {processes}{others}"))
    }
}

/// The function that a program is at, as the probeset writes it.
fn function_of(program: &Program) -> Option<String> {
    match &program.place {
        Place::Function { pattern, .. } => Some(pattern.to_string()),
        Place::Virtual { base, slots, .. } => Some(format!("slot {} of {}", listed(slots), base.value)),
        Place::Usdt { provider, name, .. } => Some(format!("{}:{}", provider.value, name.value)),
        _ => program.probes.first().cloned(),
    }
}

fn name_of(pid: u32) -> Option<String> {
    ProcessStatus::read(pid).ok().map(|status| status.name)
}

fn named((pid, name): &(u32, String)) -> String {
    format!("{pid} ({name})")
}

/// `process 12 (sh)`, `processes 12 (sh), 13 (engine) and 40 others`: the last ones, since wrappers come first.
fn list(processes: &[(u32, String)], further: u64) -> String {
    let shown: Vec<String> = processes.iter().rev().take(PROCESSES_SHOWN).rev().map(named).collect();
    let others = (processes.len() - shown.len()) as u64 + further;
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    match others {
        0 => format!("{noun} {}", shown.join(", ")),
        1 => format!("{noun} {} and 1 other", shown.join(", ")),
        _ => format!("{noun} {} and {others} others", shown.join(", ")),
    }
}
