//! Counts of the kernel and the programs: losses, open spans, runs of programs and their time.

use super::{Session, TRACKERS};
use crate::bpf::attacher::Function;
use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapType};
use nix::errno::Errno;
use profinfer_schema::bpf::{CALLS_WITHIN, LOSSES_PER_TYPE};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

impl Session<'_> {
    /// How often the counts of [`Self::losses`] have changed.
    pub fn loss_changes(&self) -> u64 {
        self.variable("pf_loss_changes").map_or(0, |changes| changes.load(Ordering::Acquire))
    }

    /// Losses so far, summed over cpus: index is record type × [`profinfer_schema::bpf::LOSSES_PER_TYPE`] + kind.
    pub fn losses(&self) -> Vec<u64> {
        let Some(map) = self.maps.get("pf_losses") else { return Vec::new() };
        if let Some(sums) = all_sums(map, self.loss_entries) {
            return sums;
        }
        let sum = |entry: u32| {
            let values = map.lookup_percpu(&entry.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            sum_of(values.iter().map(Vec::as_slice))
        };
        (0..self.loss_entries).map(sum).collect()
    }

    /// Calls within one that stands for them so far, by record type; none where none was counted.
    pub fn calls_within(&self) -> Vec<u64> {
        let counted = if self.loss_changes() > 0 { self.losses() } else { Vec::new() };
        let of_types = counted.chunks(LOSSES_PER_TYPE as usize);
        of_types.map(|counts| counts.get(CALLS_WITHIN as usize).copied().unwrap_or_default()).collect()
    }

    /// Spans that are open on threads now, by record.
    pub fn open_spans(&self, threads: &[i32]) -> BTreeMap<String, u64> {
        let storage = self.maps.get("pf_threads");
        storage.map_or_else(BTreeMap::new, |storage| self.open_spans.count(storage, threads))
    }

    /// Jobs of devices that are not done, with the record that each would be.
    pub fn pending_jobs(&self) -> Option<(String, u64)> {
        let pending = self.variable("pf_jobs_pending")?.load(Ordering::Relaxed).cast_signed();
        let of_jobs = self.setup.programs.iter().find(|program| program.job_tracepoint().is_some());
        let record = of_jobs.and_then(|program| program.probes.first())?;
        // An event may have come twice.
        u64::try_from(pending).ok().filter(|pending| *pending > 0).map(|pending| (record.clone(), pending))
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
        for (name, function) in self.generations.iter().flat_map(|generation| &generation.functions) {
            let Some(record) = records.get(name) else { continue };
            let misses = infos(function).map(|info| info.recursion_misses).sum::<u64>();
            if misses > 0 {
                *skipped.entry((*record).to_owned()).or_default() += misses;
            }
        }
        skipped
    }

    /// How often each program (index into the plan's) that is asked for ran, and for how many ns; as long as the caller
    /// stores [`crate::bpf::RunStatistics`]. Each takes a system call.
    pub fn runs(&self, is_wanted: impl Fn(usize) -> bool) -> BTreeMap<usize, (u64, u64)> {
        let mut runs: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for function in self.generations.iter().flat_map(|generation| generation.functions.values()) {
            let Some(program) = function.program.filter(|program| is_wanted(*program)) else { continue };
            let (count, ns) = runs.entry(program).or_default();
            for info in infos(function) {
                *count = count.saturating_add(info.run_cnt);
                *ns = ns.saturating_add(info.run_time_ns);
            }
        }
        runs
    }
}

/// Of all programs that the kernel runs for a function: a run counts as the one's that is attached.
fn infos(function: &Function) -> impl Iterator<Item = sys::bpf_prog_info> {
    function.descriptors().filter_map(|descriptor| {
        let mut info = sys::bpf_prog_info::default();
        let mut len = u32::try_from(size_of::<sys::bpf_prog_info>()).unwrap_or(0);
        // SAFETY: `info` is a live, zeroed value of `len` bytes; the descriptor is open.
        let result = unsafe { sys::bpf_prog_get_info_by_fd(descriptor.as_raw_fd(), &raw mut info, &raw mut len) };
        (result == 0).then_some(info)
    })
}

fn sum_of<'a>(of_each_cpu: impl Iterator<Item = &'a [u8]>) -> u64 {
    of_each_cpu.filter_map(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?))).fold(0_u64, u64::saturating_add)
}

/// The entries of an array of 64-bit numbers for each cpu, each summed over the cpus, by one system call; `None` where the
/// kernel, before Linux 5.13, has none for such arrays.
fn all_sums(map: &impl MapCore, entries: u32) -> Option<Vec<u64>> {
    let cpus = libbpf_rs::num_possible_cpus().ok()?;
    if map.map_type() != MapType::PercpuArray || map.value_size() != 8 || map.max_entries() < entries {
        return None;
    }
    let room = map.max_entries() as usize;
    let (mut keys, mut values) = (vec![0_u8; room * 4], vec![0_u8; room * cpus * 8]);
    let (mut next, mut count) = (0_u32, map.max_entries());
    let options = sys::bpf_map_batch_opts { sz: size_of::<sys::bpf_map_batch_opts>() as _, ..Default::default() };
    // SAFETY: the kernel writes `count` keys of 4 bytes, as arrays have, and as many values, each 8 bytes for each possible
    // cpu: the buffers have room for all entries of the map. `next` has room for a key.
    let result = unsafe {
        sys::bpf_map_lookup_batch(
            map.as_fd().as_raw_fd(),
            std::ptr::null_mut(),
            (&raw mut next).cast(),
            keys.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &raw mut count,
            &raw const options,
        )
    };
    // The end of the map is reported as no further entry.
    let is_whole = result == 0 || Errno::last() == Errno::ENOENT;
    if !is_whole || count < entries {
        return None;
    }
    let sums = values.chunks_exact(cpus * 8).take(entries as usize);
    Some(sums.map(|of_each_cpu| sum_of(of_each_cpu.chunks_exact(8))).collect())
}
