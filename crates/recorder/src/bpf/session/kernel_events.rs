//! Programs at events of the kernel, of which a kernel may lack some: a recording goes on without those that are optional,
//! and says that they are not there.

use super::{Attached, Session, attach_problem};
use crate::bpf::JobFormats;
use crate::bpf::libbpf_messages::LibbpfMessages;
use crate::bpf::software_event;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Link, Object};
use profinfer_compiler::Program;
use profinfer_diagnostics::{Code, Diagnostic, Severity};
use profinfer_probeset::path::Place;
use profinfer_schema::Schema;
use std::collections::{BTreeMap, BTreeSet};

/// The plan's programs at events of the kernel.
#[derive(Debug, Default)]
pub(super) struct KernelEvents {
    /// C functions that this kernel can load, each with the index of its program.
    functions: BTreeMap<String, usize>,
    /// Programs that are not attached.
    missing: BTreeSet<String>,
    /// Some of them would be at a device's jobs.
    jobs_are_missing: bool,
    /// Why.
    unattached: Vec<Diagnostic>,
}

impl KernelEvents {
    /// Of a plan on this kernel.
    pub(super) fn of(programs: &[Program], jobs: &JobFormats) -> Self {
        let kernel = Btf::from_vmlinux().ok();
        let has = |tracepoint: &str| {
            let of =
                |kernel: &Btf<'_>| kernel.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some();
            kernel.as_ref().is_none_or(of)
        };
        let mut found = Self::among(programs, has, |tracepoint| jobs.has(tracepoint));
        if found.jobs_are_missing {
            found.unattached.extend(jobs.problem());
        }
        found
    }

    /// What the kernel lacks and the recording can do without is left out.
    fn among(programs: &[Program], has: impl Fn(&str) -> bool, has_job: impl Fn(&str) -> bool) -> Self {
        let mut found = Self::default();
        for (index, program) in programs.iter().enumerate() {
            let functions = program.at_kernel_events();
            // Kernels have some of them, by their age and by the drivers that are loaded.
            if program.job_tracepoint().is_some_and(|tracepoint| !has_job(tracepoint)) {
                found.jobs_are_missing = true;
                found.missing.insert(program.name.clone());
                continue;
            }
            let lacks = |(_, tracepoint): &(String, Option<String>)| {
                tracepoint.as_ref().filter(|tracepoint| !has(tracepoint)).cloned()
            };
            match functions.iter().find_map(lacks).filter(|_| program.optional) {
                Some(tracepoint) => {
                    let message = format!("this kernel has no tracepoint `{tracepoint}`");
                    found.leave_out(program, Diagnostic::error(Code::KernelFeature, message));
                }
                None => found.functions.extend(functions.into_iter().map(|(function, _)| (function, index))),
            }
        }
        found
    }

    /// C functions that this kernel can load.
    pub(super) fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    fn leave_out(&mut self, program: &Program, problem: Diagnostic) {
        if self.missing.insert(program.name.clone()) {
            let probe = program.probes.first().map_or("?", String::as_str);
            let note = format!("`{probe}` at it is left out");
            self.unattached.push(Diagnostic { severity: Severity::Warning, ..problem }.with_note(note));
        }
    }

    /// The schema of what is recorded: events that no program is attached to have no role, so that nobody takes their
    /// absence for a count of 0.
    fn recorded(&self, programs: &[Program], schema: &Schema) -> Schema {
        let mut schema = schema.clone();
        let records = |is_missing: bool| {
            let is_it = move |program: &&Program| self.missing.contains(&program.name) == is_missing;
            programs.iter().filter(is_it).flat_map(|program| &program.actions).map(|action| action.record)
        };
        let recorded: BTreeSet<usize> = records(false).collect();
        for record in records(true).filter(|record| !recorded.contains(record)) {
            if let Some(record) = schema.records.get_mut(record) {
                record.role = None;
            }
        }
        schema
    }
}

impl Session<'_> {
    /// Attaches these functions of an object, and those of the plan at events of the kernel.
    ///
    /// # Errors
    /// What the recording cannot do without is not attached.
    pub(super) fn attach_by_themselves(&mut self, object: &Object, names: &BTreeSet<&str>) -> Result<(), Diagnostic> {
        let mut links: Vec<(Option<&Program>, Link)> = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let planned = self.kernel_events.functions.get(&name).and_then(|index| self.setup.programs.get(*index));
            if planned.is_none() && !names.contains(&*name) {
                continue;
            }
            let messages = LibbpfMessages::capture();
            let attached = match planned.map(|planned| &planned.place) {
                Some(Place::Software { event }) => software_event::attach(&program, &event.value),
                _ => {
                    program.attach().map(|link| vec![link]).map_err(|e| attach_problem(&program, &e, &messages.text()))
                }
            };
            match (attached, planned.filter(|planned| planned.optional)) {
                (Ok(attached), _) => links.extend(attached.into_iter().map(|link| (planned, link))),
                (Err(problem), Some(planned)) => self.kernel_events.leave_out(planned, problem),
                (Err(problem), None) => return Err(problem),
            }
        }
        // One function of a program is nothing without the other.
        let is_whole = |planned: Option<&Program>| {
            planned.is_none_or(|planned| !self.kernel_events.missing.contains(&planned.name))
        };
        links.retain(|(planned, _)| is_whole(*planned));
        self.links.extend(links.into_iter().map(|(_, link)| Attached::ToKernel(link)));
        Ok(())
    }

    /// Why programs at the kernel's events that the recording can do without are not attached.
    pub fn take_unattached(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.kernel_events.unattached)
    }

    /// The schema of what is recorded: of events that no program is attached to it has no role.
    pub fn recorded(&self, schema: &Schema) -> Schema {
        self.kernel_events.recorded(self.setup.programs, schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_binary::Arch;
    use profinfer_compiler::Selection;
    use profinfer_probeset::{Library, load_text};
    use profinfer_schema::Role;

    const TEXT: &str = "profinfer: 1
engine: toy
modules: { m: libm.so }
probes:
  step: { at: 'm:step(i32 tokens) -> i32', role: step, fields: { tokens: tokens } }
  cached: { at: 'tracepoint filemap:mm_filemap_add_to_page_cache', role: page_cache }
  reclaim:
    at: ['tracepoint vmscan:mm_vmscan_memcg_reclaim_begin', 'tracepoint compaction:mm_compaction_begin']
    role: reclaim
    optional: true
";

    #[test]
    fn what_a_kernel_lacks_has_no_role_once_nothing_of_it_is_left() {
        let (probeset, _) = load_text("toy.yaml", TEXT, &Library::SHIPPED).unwrap();
        let (plan, _) = profinfer_compiler::plan(&probeset, &Selection::default(), Arch::X86_64).unwrap();
        let role_without = |lacking: &[&str]| {
            let events = KernelEvents::among(&plan.programs, |name| !lacking.contains(&name), |_| true);
            let schema = events.recorded(&plan.programs, &plan.schema);
            let role = schema.records.iter().find(|record| record.name == "reclaim").unwrap().role;
            (events.functions.into_keys().collect::<Vec<_>>(), role, events.unattached.len())
        };
        let all = ["cached__0", "reclaim__0", "reclaim__0_end", "reclaim__1", "reclaim__1_end"];
        assert_eq!(role_without(&[]), (all.map(str::to_owned).into(), Some(Role::Reclaim), 0));
        let some = ["cached__0", "reclaim__0", "reclaim__0_end"].map(str::to_owned);
        assert_eq!(role_without(&["mm_compaction_end"]), (some.into(), Some(Role::Reclaim), 1));
        let none = role_without(&["mm_compaction_begin", "mm_vmscan_memcg_reclaim_end"]);
        assert_eq!(none, (vec!["cached__0".to_owned()], None, 2));
        // What the recording needs fails to load, with the kernel's reason.
        let needed = role_without(&["mm_filemap_add_to_page_cache"]);
        assert_eq!((needed.0.len(), needed.2), (5, 0));
    }
}
