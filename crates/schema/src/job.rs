//! Where the kernel's drivers of devices report what becomes of a job.

/// What a tracepoint reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobEvent {
    /// A process gave a job to the scheduler of a device.
    Queued,
    /// The scheduler gave it to the device.
    Run,
    /// The device is done.
    Done,
    /// A fence was made, of a driver without that scheduler.
    FenceMade,
    /// Work that signals the fence was given to the device.
    FenceEmitted,
    /// The work is done.
    FenceSignaled,
}

impl JobEvent {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Run, Self::Done, Self::FenceMade, Self::FenceEmitted, Self::FenceSignaled];

    /// The runtime's constant that tells where the event has its fields.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Queued => "pf_job_queued",
            Self::Run => "pf_job_run",
            Self::Done => "pf_job_done",
            Self::FenceMade => "pf_fence_made",
            Self::FenceEmitted => "pf_fence_emitted",
            Self::FenceSignaled => "pf_fence_signaled",
        }
    }
}

/// A tracepoint of the kernel, with the names of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobTracepoint {
    /// Its category.
    pub category: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it reports.
    pub event: JobEvent,
    /// The fields that tell jobs apart: one or two numbers.
    pub key: &'static [&'static str],
    /// The text that names the ring or queue, where there is one.
    pub ring: Option<&'static str>,
    /// The text that names the driver or the device.
    pub driver: Option<&'static str>,
}

const fn job(name: &'static str, event: JobEvent, key: &'static [&'static str]) -> JobTracepoint {
    let is_done = matches!(event, JobEvent::Done);
    let ring = if is_done { None } else { Some("name") };
    let driver = if is_done || key.len() == 1 { None } else { Some("dev") };
    JobTracepoint { category: "gpu_scheduler", name, event, key, ring, driver }
}

const fn fence(name: &'static str, event: JobEvent) -> JobTracepoint {
    let (key, ring, driver) = (&["context", "seqno"], Some("timeline"), Some("driver"));
    JobTracepoint { category: "dma_fence", name, event, key, ring, driver }
}

const FENCE: &[&str] = &["fence"];
const CONTEXT: &[&str] = &["fence_context", "fence_seqno"];

/// All of them. The kernel renamed those of the scheduler in 6.16, and made them an interface that does not change.
pub const JOB_TRACEPOINTS: [JobTracepoint; 9] = [
    job("drm_sched_job_queue", JobEvent::Queued, CONTEXT),
    job("drm_sched_job_run", JobEvent::Run, CONTEXT),
    job("drm_sched_job_done", JobEvent::Done, CONTEXT),
    job("drm_sched_job", JobEvent::Queued, FENCE),
    job("drm_run_job", JobEvent::Run, FENCE),
    job("drm_sched_process_job", JobEvent::Done, FENCE),
    fence("dma_fence_init", JobEvent::FenceMade),
    fence("dma_fence_emit", JobEvent::FenceEmitted),
    fence("dma_fence_signaled", JobEvent::FenceSignaled),
];

impl JobTracepoint {
    /// The one of this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        JOB_TRACEPOINTS.iter().find(|of| of.name == name)
    }

    /// `category:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.category, self.name)
    }
}
