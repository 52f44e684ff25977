//! The sites of a method of which several slots are probed until it is known which one computes.

use super::{Modules, NewSite};
use crate::bpf::Session;
use crate::consumer::Consumer;
use crate::module_sites::Group;
use profinfer_binary::FileId;
use profinfer_compiler::Placement;
use profinfer_probeset::path::Place;
use profinfer_schema::Site;
use std::collections::BTreeSet;

impl Modules<'_> {
    /// Has records of methods wait whose slot is to be found.
    pub(super) fn hold_open(&self, placement: &Placement, new: &[NewSite<'_>], sites: &[Site], consumer: &Consumer) {
        for (site, new) in sites.iter().zip(new).filter(|(_, new)| placement.open_slots.contains(&new.placed.program)) {
            let place = self.plan.programs.get(new.placed.program).map(|program| &program.place);
            let (slots, slot) = (place.and_then(Place::open_slot), place.and_then(Place::slot));
            if let (Some(slots), Some(slot), Some(probe)) = (slots, slot, site.probes.first()) {
                let method = (self.plan.schema.names.plain(probe), slots.as_str(), site.module);
                consumer.with_held(|held| held.add(site.id, slot, method));
            }
        }
    }

    /// Detaches the programs that are at sites of a method's other slots. They stay known as attached, so that they are not
    /// attached again.
    pub(in super::super) fn detach_sites(&mut self, sites: &BTreeSet<u16>, session: &mut Session<'_>) {
        let is_there = |group: &Group| group.sites().iter().any(|site| sites.contains(&site.site.id));
        let groups = || self.groups.iter().flatten().filter(|group| is_there(group));
        let programs: BTreeSet<(usize, FileId)> = groups().map(|group| (group.of.program, group.file())).collect();
        // Calls may be found left open from the first detached program on.
        session.leave_other_slots(groups().flat_map(Group::sites).map(|site| site.site.id));
        session.detach_programs(&programs);
        drop(self.take_groups(is_there));
    }
}
