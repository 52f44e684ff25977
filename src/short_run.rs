//! A recording of which nothing is left: its trace is in a folder that goes with it. Used by subcommands that
//! read a few records.

use super::trace_file::{self, AnyReader};
use profinfer_binary::DebugFolders;
use profinfer_compiler::Selection;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::cache;
use profinfer_files::output::{OutputKind, Request};
use profinfer_probeset::Probeset;
use profinfer_recorder::{self as record, Barriers, Options, OverheadLimits, Prepared, Subject, Summary};
use std::time::Duration;
use tempfile::TempDir;

/// A recording to be made.
pub(super) struct ShortRun {
    _folder: TempDir,
    /// How: everything is recorded as long as it lasts, unless set here.
    pub(super) options: Options,
}

impl ShortRun {
    /// Of this, for so long at most.
    pub(super) fn new(subject: Subject, wait: Duration) -> Result<Self, Diagnostics> {
        let folder = cache::private_folder().map_err(|error| {
            Diagnostic::error(Code::CannotWrite, format!("cannot make a folder for the trace: {error}"))
        })?;
        let options = Options {
            subject,
            output: Request {
                path: folder.path().join("short.pfi"),
                kind: OutputKind::Trace,
                force: false,
                inputs: Vec::new(),
            },
            mode: None,
            selection: Selection::default(),
            steps: None,
            duration: Some(wait),
            follow_forks: true,
            attach: None,
            limits: OverheadLimits { budget: None, min_rate: None },
            barriers: Barriers::All,
            samples: None,
            exact: false,
            debug_folders: DebugFolders::default(),
            lock: None,
            object: None,
            ring_bytes: None,
            is_compressed: true,
            old_kernel: false,
            environment: Vec::new(),
            measure_limits: Some(false),
            described: Vec::new(),
            until_learned: false,
        };
        Ok(Self { _folder: folder, options })
    }

    /// Makes it. A command that was launched is ended.
    pub(super) fn record(&self, probeset: &Probeset) -> Result<Summary, Diagnostics> {
        Self::record_prepared(self.prepare(probeset)?)
    }

    /// What is needed for it, before a command is launched.
    pub(super) fn prepare<'a>(&'a self, probeset: &'a Probeset) -> Result<Prepared<'a>, Diagnostics> {
        record::prepare(probeset, &self.options, || {})
    }

    /// As [`Self::record`].
    pub(super) fn record_prepared(prepared: Prepared<'_>) -> Result<Summary, Diagnostics> {
        let mut summary = record::record(prepared, &mut |_| {})?;
        summary.target.end();
        Ok(summary)
    }

    /// What was recorded.
    pub(super) fn trace(&self) -> Result<AnyReader, Diagnostics> {
        trace_file::open(&self.options.output.path)
    }
}
