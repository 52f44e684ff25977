//! A recording of which nothing is left: its trace is in a folder that goes with it. What looks at a few records takes one.

use super::trace_file::{self, AnyReader};
use crate::cache;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::output::{Kind, Request};
use crate::plan::Selection;
use crate::record::{self, Options, Subject, Summary, Terms};
use crate::spec::Probeset;
use crate::target::DebugFolders;
use std::time::Duration;
use tempfile::TempDir;

/// A recording to be made.
pub(super) struct ShortRun {
    _folder: TempDir,
    /// How: everything is recorded as long as it lasts, unless said otherwise here.
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
                kind: Kind::Trace,
                force: false,
                inputs: Vec::new(),
            },
            mode: None,
            selection: Selection::default(),
            steps: None,
            duration: Some(wait),
            follow_forks: true,
            attach: None,
            terms: Terms { budget: None, min_rate: None },
            exact: false,
            debug_folders: DebugFolders::default(),
            lock: None,
            object: None,
            ring_bytes: None,
            old_kernel: false,
            described: Vec::new(),
        };
        Ok(Self { _folder: folder, options })
    }

    /// Makes it. A command that was launched is ended.
    pub(super) fn record(&self, probeset: &Probeset) -> Result<Summary, Diagnostics> {
        let mut summary = record::record(&self.options, probeset, &mut |_| {})?;
        summary.target.end();
        Ok(summary)
    }

    /// What was recorded.
    pub(super) fn trace(&self) -> Result<AnyReader, Diagnostics> {
        trace_file::open(&self.options.output.path)
    }
}
