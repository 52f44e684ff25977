//! Timer samples of the target's threads: their events are opened here, their addresses become places in files. What they
//! mean is the analysis's.

mod event;
mod intake;
mod kernel;
mod mappings;
mod unwind;

pub(super) use intake::SampleIntake;

use crate::bpf::Session;
use libbpf_rs::Link;
use profinfer_schema::Sampling;
use profinfer_schema::bpf::SampleStacks;
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
    links: Vec<Link>,
    sampling: Sampling,
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
        Some(Self { intake: Arc::default(), links: Vec::new(), sampling })
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

    /// What samples refer to, once the last one was read from the ring.
    pub(super) fn finish(&self, session: &Session<'_>) -> Sampling {
        let mut intake = self.intake.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, lost) = session.samples();
        let (first_module, modules) = intake.mappings.take_news();
        let kernel = kernel::functions(&intake.kernel);
        let lost = lost + intake.dropped + intake.drop_early();
        let cut = intake.unwinder.cut;
        Sampling { first_module, modules, kernel, taken, lost, cut, ..self.sampling.clone() }
    }
}
