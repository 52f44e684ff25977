//! Timer samples of the target's threads: their events are opened here, their addresses become places in files. What they
//! mean is the analysis's.

mod event;
mod intake;
mod kernel;
mod mappings;
mod unwind;

pub(super) use intake::SampleIntake;

use crate::bpf::Session;
use kernel::Functions;
use profinfer_schema::Sampling;
use profinfer_schema::bpf::SampleStacks;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// How the target is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleOptions {
    /// Samples of each thread in a second of its CPU time.
    pub hz: u32,
    /// What they have of the user's stack.
    pub stacks: SampleStacks,
}

/// Takes samples until it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    intake: Arc<Mutex<SampleIntake>>,
    /// One for each thread that there was at the start; others inherit theirs.
    links: Vec<OwnedFd>,
    sampling: Sampling,
    /// Functions of the kernel that the trace does not have yet, and what the trace has of the rest.
    functions: Functions,
    told: Sampling,
}

impl Sampler {
    /// Prepares to sample. Where that cannot be, the trace has the reason.
    pub(super) fn new(options: Option<SampleOptions>, session: &mut Session<'_>) -> Option<Self> {
        let options = options?;
        let mut sampling = Sampling {
            hz: options.hz,
            stacks: options.stacks != SampleStacks::Innermost,
            unwind_tables: options.stacks == SampleStacks::Copy,
            ..Sampling::default()
        };
        if let Err(problems) = session.load_sampler() {
            sampling.absent = problems.0.first().map(|problem| problem.message.clone());
        }
        let (functions, told) = (Functions::default(), Sampling::default());
        Some(Self { intake: Arc::default(), links: Vec::new(), sampling, functions, told })
    }

    /// What takes the samples out of the ring.
    pub(super) fn intake(&self) -> Arc<Mutex<SampleIntake>> {
        Arc::clone(&self.intake)
    }

    /// Samples the threads that a process has, and those that they make; with the processes that they make, if
    /// `children`.
    pub(super) fn start(&mut self, session: &Session<'_>, pid: i32, children: bool) {
        if self.sampling.absent.is_some() {
            return;
        }
        let (events, opened) = event::open(pid, self.sampling.hz, children);
        self.sampling.event = opened.event.to_owned();
        self.sampling.hz = opened.hz;
        self.sampling.absent = opened.absent;
        self.intake.lock().unwrap_or_else(PoisonError::into_inner).described.clone_from(&self.sampling);
        for event in events {
            match session.attach_sampler(event) {
                Ok(link) => self.links.push(link),
                Err(why) => self.sampling.absent = Some(why),
            }
        }
    }

    /// Takes no more samples.
    pub(super) fn stop(&mut self) {
        self.links.clear();
    }

    /// Looks for the names of the kernel's functions that are new, if it is time: it takes tens of milliseconds.
    pub(super) fn name_functions(&mut self) {
        let addresses = self.intake.lock().unwrap_or_else(PoisonError::into_inner).kernel.take_new();
        self.functions.look_for(addresses);
        self.functions.read_if_due();
    }

    /// What is new since this was last asked, but for samples that were read in the last instant: a recorder that is killed
    /// loses no more. `None` where nothing is.
    pub(super) fn news(&mut self, session: &Session<'_>) -> Option<Sampling> {
        self.now(session.samples(), |intake| intake.dropped)
    }

    /// What samples refer to, once the last one was read from the ring: what the trace does not have yet.
    pub(super) fn finish(&mut self, session: &Session<'_>) -> Sampling {
        let addresses = self.intake.lock().unwrap_or_else(PoisonError::into_inner).kernel.take_new();
        self.functions.look_for(addresses);
        self.functions.read();
        let lost = |intake: &mut SampleIntake| intake.dropped + intake.drop_early();
        self.now(session.samples(), lost).unwrap_or_else(|| self.told.clone())
    }

    /// Of so many samples that were taken and lost on their way.
    fn now(&mut self, (taken, lost): (u64, u64), also_lost: impl FnOnce(&mut SampleIntake) -> u64) -> Option<Sampling> {
        let mut intake = self.intake.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = lost + also_lost(&mut intake);
        let counts = Sampling { taken, lost, cut: intake.unwinder.cut, ..self.sampling.clone() };
        let (first_module, modules) = intake.mappings.take_news();
        let kernel = self.functions.take_news();
        let counts = Sampling { first_module: first_module + modules.len(), ..counts };
        let is_news = !modules.is_empty() || !kernel.is_empty() || counts != self.told;
        self.told.clone_from(&counts);
        intake.described.clone_from(&counts);
        is_news.then_some(Sampling { first_module, modules, kernel, ..counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_tells_what_is_new_of_its_samples() {
        let sampling = Sampling { hz: 99, ..Sampling::default() };
        let (functions, told) = (Functions::default(), Sampling::default());
        let mut sampler = Sampler { intake: Arc::default(), links: Vec::new(), sampling, functions, told };
        let intake = sampler.intake();
        let with = |act: &dyn Fn(&mut SampleIntake)| act(&mut intake.lock().unwrap());
        let here = std::process::id();
        with(&|intake| {
            intake.mappings.place(here, u64::MAX, 1);
            (intake.dropped, intake.unwinder.cut) = (2, 3);
        });
        let first = sampler.now((10, 1), |intake| intake.dropped).unwrap();
        assert_eq!((first.hz, first.taken, first.lost, first.cut, first.first_module), (99, 10, 3, 3, 0));
        assert!(!first.modules.is_empty());
        assert_eq!(sampler.now((10, 1), |intake| intake.dropped), None, "nothing is new");
        let second = sampler.now((12, 1), |intake| intake.dropped).unwrap();
        assert_eq!((second.taken, second.first_module, second.modules.len()), (12, first.modules.len(), 0));
        with(&|intake| assert_eq!(intake.described.taken, 12, "a frame in between does not take it back"));
    }
}
