//! Which of several engines the target had.

use super::Modules;
use crate::counts::Counts;
use profinfer_probeset::Part;
use profinfer_schema::engines_present;

impl Modules<'_> {
    /// Their names, as [`engines_present`] finds them.
    pub(in super::super) fn engines(&self, parts: &[Part], counts: &Counts) -> Vec<String> {
        let schema = &self.plan.schema;
        let probes = |program: usize| self.plan.programs.get(program).into_iter().flat_map(|program| &program.probes);
        let attached = self.attached.iter();
        let placed =
            attached.flat_map(|(program, file, offset)| probes(*program).map(|probe| ((*file, *offset), probe)));
        let has_records = |record: usize| counts.of_type(record) > 0;
        let present = engines_present(&schema.records, has_records, |probe| schema.names.engine(probe), placed);
        present.iter().filter_map(|engine| Some(parts.get(usize::from(engine.0))?.engine.clone())).collect()
    }
}
