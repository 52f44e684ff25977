//! Counts of the kernel and the programs: losses, open spans, runs of programs and their time.

use super::{Session, TRACKERS};
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramMut};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd};

impl Session<'_> {
    /// Losses so far, summed over cpus: index is record type × [`profinfer_schema::bpf::LOSSES_PER_TYPE`] + kind.
    pub fn losses(&self) -> Vec<u64> {
        let Some(map) = self.map("pf_losses") else { return Vec::new() };
        let sum = |entry: u32| {
            let values = map.lookup_percpu(&entry.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            let counts = values.iter().filter_map(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)));
            counts.fold(0_u64, u64::saturating_add)
        };
        (0..self.loss_entries).map(sum).collect()
    }

    /// Spans that are open on threads now, by record.
    pub fn open_spans(&self, threads: &[i32]) -> BTreeMap<String, u64> {
        let storage = self.map("pf_threads").and_then(|map| MapHandle::try_from(&map).ok());
        storage.map_or_else(BTreeMap::new, |storage| self.open_spans.count(&storage, threads))
    }

    /// How often the kernel skipped a program because it ran already on that cpu, by the record that is lost by it.
    pub fn recursions(&self) -> BTreeMap<String, u64> {
        let mut records: HashMap<String, &str> =
            TRACKERS.iter().map(|(program, record)| ((*program).to_owned(), *record)).collect();
        for program in self.setup.programs {
            let Some(record) = program.probes.first() else { continue };
            let parts = self.parts(program).into_iter().map(|part| part.name);
            let of_kernel = program.at_kernel_events().into_iter().map(|(function, _)| function);
            records.extend(parts.chain(of_kernel).map(|name| (name, record.as_str())));
        }
        let mut skipped = BTreeMap::new();
        for generation in &self.generations {
            for program in generation.object.progs_mut() {
                let name = program.name().to_string_lossy();
                let Some(record) = records.get(&*name).filter(|_| generation.loaded.contains(&*name)) else { continue };
                let misses = info(&program).map_or(0, |info| info.recursion_misses);
                if misses > 0 {
                    *skipped.entry((*record).to_owned()).or_default() += misses;
                }
            }
        }
        skipped
    }

    /// How often each program (index into the plan's) ran, and for how many ns; as long as the caller stores
    /// [`crate::bpf::RunStatistics`].
    pub fn runs(&self) -> BTreeMap<usize, (u64, u64)> {
        let times = self.sums(|info| info.run_time_ns);
        let of = |(program, hits)| (program, (hits, times.get(&program).copied().unwrap_or(0)));
        self.sums(|info| info.run_cnt).into_iter().map(of).collect()
    }

    /// Sums something up over the loaded functions of each program.
    fn sums(&self, of: fn(&sys::bpf_prog_info) -> u64) -> BTreeMap<usize, u64> {
        let mut sums = BTreeMap::new();
        for generation in &self.generations {
            for program in &generation.programs {
                let Some(planned) = self.setup.programs.get(*program) else { continue };
                let names: Vec<String> = self.parts(planned).into_iter().map(|part| part.name).collect();
                let loaded = generation.object.progs_mut();
                let ours = loaded.filter(|loaded| names.iter().any(|name| loaded.name() == name.as_str()));
                let entry: &mut u64 = sums.entry(*program).or_default();
                *entry =
                    ours.filter_map(|program| info(&program)).map(|info| of(&info)).fold(*entry, u64::saturating_add);
            }
        }
        sums
    }
}

fn info(program: &ProgramMut<'_>) -> Option<sys::bpf_prog_info> {
    let mut info = sys::bpf_prog_info::default();
    let mut len = u32::try_from(size_of::<sys::bpf_prog_info>()).unwrap_or(0);
    // SAFETY: `info` is a live, zeroed value of `len` bytes; the descriptor is the loaded program's.
    let result = unsafe { sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &raw mut info, &raw mut len) };
    (result == 0).then_some(info)
}
