//! The program that takes timer samples: in every object, loaded where samples are asked for.

use super::Session;
use crate::bpf::link::link_perf_event;
use profinfer_diagnostics::Diagnostics;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

/// The program's name.
const SAMPLER: &str = "pf_sample";

impl Session<'_> {
    /// Loads the program that takes samples, on the same maps.
    ///
    /// # Errors
    /// B003 (verifier), B004 (kernel), B005 (privilege).
    pub fn load_sampler(&mut self) -> Result<(), Diagnostics> {
        let object = self.load_object(&BTreeSet::from([SAMPLER]), &BTreeMap::new())?;
        self.add_generation(&object, BTreeMap::new(), |name| (name == SAMPLER).then_some(None))
    }

    /// Has an event's overflows take samples, on its thread and those that inherit it, until what is returned is closed.
    ///
    /// # Errors
    /// Why not, in the system's words.
    pub fn attach_sampler(&self, event: OwnedFd) -> Result<OwnedFd, String> {
        let program = self.generations.iter().find_map(|generation| generation.functions.get(SAMPLER));
        let program = program.ok_or("its program is not loaded")?;
        link_perf_event(program.descriptor.as_fd(), event, 0).map_err(|error| error.desc().to_owned())
    }

    /// Samples taken so far, and of them those that were lost.
    pub fn samples(&self) -> (u64, u64) {
        let count = |name| self.variable(name).map_or(0, |count| count.load(Ordering::Relaxed));
        (count("pf_samples"), count("pf_samples_lost"))
    }
}
