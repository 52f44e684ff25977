//! What a trace tells of its recording: by whom, of what, with which probeset and options, on which machine.

use super::pending_target::PendingTarget;
use super::process::numbers_are_the_kernels;
use super::{Options, Subject, clock, host, pressure, saved_limits};
use profinfer_probeset::{Part, Probeset};
use profinfer_schema::{Origin, OriginPart};

pub(super) fn origin(options: &Options, probeset: &Probeset, target: &PendingTarget) -> Origin {
    let pid = target.pid().cast_unsigned();
    let command = match &options.subject {
        Subject::Command(words) => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        Subject::Process(_) => profinfer_binary::command_line(pid).unwrap_or_default(),
    };
    let sources = probeset.sources.iter().map(|source| (source.name.clone(), source.text.clone()));
    let host = host::describe();
    Origin {
        recorder: concat!("profinfer ", env!("CARGO_PKG_VERSION")).to_owned(),
        probeset: probeset.name.clone(),
        engine: probeset.engine.value.clone(),
        sources: sources.collect(),
        command,
        pid,
        launched: matches!(options.subject, Subject::Command(_)),
        options: options.described.clone(),
        wall_clock_ns: clock::wall_ns(),
        monotonic_ns: clock::monotonic_ns(),
        // Only what was measured before: to measure it now would disturb.
        roofline: saved_limits().load(&host).map(|(roofline, _)| roofline),
        host,
        cpu_quota: pressure::cpu_quota_of(pid),
        parts: probeset.parts.iter().map(origin_part).collect(),
        kept: None,
        recorder_pid: numbers_are_the_kernels().then(std::process::id),
    }
}

fn origin_part(part: &Part) -> OriginPart {
    let Part { key, probeset, engine, file, .. } = part.clone();
    OriginPart { key, probeset, engine, file }
}
