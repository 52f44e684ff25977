//! The program that takes timer samples: in every object, loaded where samples are asked for.

use super::{Generation, Session};
use libbpf_rs::Link;
use profinfer_diagnostics::Diagnostics;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
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
        self.generations.push(Generation::of_the_runtime(object, BTreeSet::from([SAMPLER.to_owned()])));
        Ok(())
    }

    /// Has an event's overflows take samples, on its thread and those that inherit it, until the link is dropped.
    ///
    /// # Errors
    /// Why not, in libbpf's words.
    pub fn attach_sampler(&self, event: OwnedFd) -> Result<Link, String> {
        let generation = self.generations.iter().find(|generation| generation.loaded.contains(SAMPLER));
        let program =
            generation.and_then(|generation| generation.object.progs_mut().find(|program| program.name() == SAMPLER));
        let program = program.ok_or("its program is not loaded")?;
        let link = program.attach_perf_event(event.as_raw_fd()).map_err(|error| error.to_string())?;
        // The link closes it.
        let _ = event.into_raw_fd();
        Ok(link)
    }

    /// Samples taken so far, and of them those that were lost.
    pub fn samples(&self) -> (u64, u64) {
        let count = |name| self.variable(name).map_or(0, |count| count.load(Ordering::Relaxed));
        (count("pf_samples"), count("pf_samples_lost"))
    }
}
