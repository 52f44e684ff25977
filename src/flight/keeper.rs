//! The folder of kept traces: what happened becomes a trace there, beside one of the time before it, within bounds of
//! files and bytes.

use super::AtMost;
use crate::analyse::analyse;
use crate::terminal::status;
use crate::trace_file;
use profinfer_analysis::{Completeness, Statistics};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use profinfer_files::cache::own_folder;
use profinfer_files::output::{Beside, Lock, lock};
use profinfer_live::Condition;
use profinfer_recorder::default_path;
use profinfer_report::{Options, build};
use profinfer_schema::Kept;
use profinfer_trace::{Part, cut};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How the names of kept traces begin and end; the second ending is that of a time before.
const PREFIX: &str = "kept-";
const SUFFIX: &str = ".pfi";
const BEFORE: &str = "-before.pfi";
/// A second is left out between the two traces, ns: what happened may have begun in it.
const BETWEEN: u64 = 1_000_000_000;

/// What is to be kept.
pub(super) struct Job {
    /// The last minutes, and when they begin.
    pub(super) segments: Vec<Arc<Beside>>,
    pub(super) ring_from: u64,
    /// When it happened.
    pub(super) window: (u64, u64),
    pub(super) engine: String,
    pub(super) pid: u32,
}

/// Keeps traces in a folder, which it has alone.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    at_most: AtMost,
    condition: Condition,
    keep: Duration,
    cool_down: Duration,
    /// One trace is written at a time.
    writing: Mutex<()>,
    _lock: Lock,
}

/// A trace that is whole and has no name yet.
struct Written {
    beside: Beside,
    bytes: u64,
    records: u64,
}

impl Keeper {
    pub(super) fn open(
        folder: &Path,
        at_most: AtMost,
        condition: Condition,
        (keep, cool_down): (Duration, Duration),
    ) -> Result<Self, Diagnostics> {
        let shown = folder.display().to_string();
        let failed = |error: io::Error| {
            Diagnostics::from(
                Diagnostic::error(Code::CannotWrite, format!("cannot keep traces in {shown}: {error}"))
                    .hint("name another folder with `--into FOLDER`"),
            )
        };
        let folder = own_folder(folder).map_err(failed)?;
        let locked = File::open(&folder).and_then(|file| lock(&file)).map_err(failed)?;
        let Some(locked) = locked else {
            let problem = Diagnostic::error(Code::TraceInUse, format!("another `serve` keeps traces in {shown}"));
            return Err(problem.hint("name another folder with `--into FOLDER`").into());
        };
        Beside::clean(&folder);
        Ok(Self { folder, at_most, condition, keep, cool_down, writing: Mutex::new(()), _lock: locked })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn condition(&self) -> &Condition {
        &self.condition
    }

    pub(super) fn keep(&self) -> Duration {
        self.keep
    }

    pub(super) fn cool_down(&self) -> Duration {
        self.cool_down
    }

    /// Keeps what happened, and says where; whether it could.
    pub(super) fn write(&self, job: &Job) -> bool {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.traces(job) {
            Ok(path) => {
                let condition = self.condition.text();
                status(&format!("kept {}: {condition}{}", path.display(), verdict(&path)));
                true
            }
            Err(error) => {
                let error = printable(&error.to_string());
                status(&format!("the flight recorder cannot keep a trace in {}: {error}", self.folder.display()));
                false
            }
        }
    }

    /// Writes both traces, and gives the path of that of what happened.
    fn traces(&self, job: &Job) -> io::Result<PathBuf> {
        let (from, to) = job.window;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let engine: String = job.engine.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let name = default_path(&format!("{PREFIX}{engine}-{}", job.pid)).display().to_string();
        let before_name = name.replace(SUFFIX, BEFORE);
        let until = from.saturating_sub(BETWEEN);
        let before = if job.ring_from < until {
            let part = Part { from: job.ring_from, to: until, kept: None };
            Some(self.cut(job, &part)?).filter(|trace| trace.records > 0)
        } else {
            None
        };
        let kept =
            Kept { condition: self.condition.text().to_owned(), before: before.is_some().then(|| before_name.clone()) };
        let part = Part { from: from.max(job.ring_from), to, kept: Some(kept) };
        let trace = self.cut(job, &part)?;
        let traces = [Some(&trace), before.as_ref()];
        self.make_space(traces.iter().flatten().count(), traces.iter().flatten().map(|trace| trace.bytes).sum())?;
        if let Some(before) = before {
            before.beside.appear(&self.folder.join(before_name))?;
        }
        let path = self.folder.join(name);
        trace.beside.appear(&path)?;
        Ok(path)
    }

    fn cut(&self, job: &Job, part: &Part) -> io::Result<Written> {
        let beside = Beside::create(&self.folder.join("trace"), Some(0o600))?;
        let segments: Vec<File> = job.segments.iter().map(|segment| segment.reader()).collect::<io::Result<_>>()?;
        let cut = cut(segments, part, beside.file())?;
        let records = cut.map(|cut| cut.records).ok_or_else(|| io::Error::other("the last minutes are not there"))?;
        let bytes = beside.file().metadata()?.len();
        Ok(Written { beside, bytes, records })
    }

    /// Removes the oldest traces until there is space for so many files and bytes more.
    fn make_space(&self, files: usize, bytes: u64) -> io::Result<()> {
        if files > self.at_most.files || bytes > self.at_most.bytes {
            return Err(io::Error::other(format!("its {bytes} bytes are more than `--at-most` allows")));
        }
        // What belongs together goes together.
        let mut groups: BTreeMap<String, (SystemTime, Vec<(PathBuf, u64)>)> = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(BEFORE).or_else(|| name.strip_suffix(SUFFIX));
            let Some(stem) = stem.filter(|stem| stem.starts_with(PREFIX)) else { continue };
            let Ok(metadata) = std::fs::symlink_metadata(entry.path()) else { continue };
            if !metadata.is_file() {
                continue;
            }
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let (newest, group) = groups.entry(stem.to_owned()).or_insert((modified, Vec::new()));
            *newest = modified.max(*newest);
            group.push((entry.path(), metadata.len()));
        }
        let mut groups: Vec<(SystemTime, Vec<(PathBuf, u64)>)> = groups.into_values().collect();
        groups.sort();
        let mut there: usize = groups.iter().map(|(_, group)| group.len()).sum();
        let mut used: u64 = groups.iter().flat_map(|(_, group)| group).map(|(_, bytes)| bytes).sum();
        for (_, group) in groups {
            if there + files <= self.at_most.files && used.saturating_add(bytes) <= self.at_most.bytes {
                break;
            }
            for (path, length) in group {
                std::fs::remove_file(&path)?;
                (there, used) = (there - 1, used.saturating_sub(length));
                status(&format!("removed {}, an older kept trace", path.display()));
            }
        }
        Ok(())
    }
}

/// What a kept trace's report begins with.
fn verdict(path: &Path) -> String {
    let Ok(reader) = trace_file::open(path) else { return String::new() };
    let mut statistics = Statistics::default();
    let (timeline, meta, _) = analyse(reader, &mut statistics);
    let completeness = Completeness::judge(&meta, timeline.findings(), &statistics);
    let report = build(&meta, completeness, &statistics, &timeline, &Options::default());
    report.verdict.sentences.first().map_or_else(String::new, |first| format!("; {first}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{End, HEADER_SIZE, Origin, RecordKind, RecordType, Schema};
    use profinfer_trace::{TraceReader, TraceWriter};
    use std::io::Write;

    /// A minute with a mark in each ms.
    fn minute(folder: &Path) -> Arc<Beside> {
        let mark = RecordType {
            name: "mark".into(),
            kind: RecordKind::Mark,
            role: None,
            size: HEADER_SIZE,
            fields: Vec::new(),
        };
        let schema = Schema { records: vec![mark], ..Schema::default() };
        let mut writer = TraceWriter::new(Vec::new(), &Origin::default(), &schema).unwrap();
        writer.losses(&[]).unwrap();
        for ms in 0..60_000_u64 {
            let mut record = vec![0; HEADER_SIZE as usize];
            record[12..16].copy_from_slice(&(ms as u32 + 1).to_le_bytes());
            // What does not compress.
            let time = ms * 1_000_000 + ms.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 900_000;
            record[16..24].copy_from_slice(&time.to_le_bytes());
            writer.push(&record).unwrap();
        }
        let beside = Beside::create(&folder.join("segment"), Some(0o600)).unwrap();
        beside.file().write_all(&writer.finish(&End::default()).unwrap()).unwrap();
        Arc::new(beside)
    }

    fn keeper(folder: &Path, files: usize, bytes: u64) -> Result<Keeper, Diagnostics> {
        let condition = Condition::parse("--when", "time_to_first_token > 1s").unwrap();
        let times = (Duration::from_secs(60), Duration::from_secs(60));
        Keeper::open(folder, AtMost { files, bytes }, condition, times)
    }

    fn there(folder: &Path) -> Vec<(String, u64)> {
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut all: Vec<_> =
            entries.map(|of| (of.file_name().into_string().unwrap(), of.metadata().unwrap().len())).collect();
        all.sort();
        all
    }

    fn records(path: &Path) -> u64 {
        let mut reader = TraceReader::new(File::open(path).unwrap()).unwrap();
        while reader.next().is_some() {}
        assert!(reader.meta().problems.0.is_empty());
        reader.meta().records
    }

    const SECOND: u64 = 1_000_000_000;

    fn job(minute: &Arc<Beside>, pid: u32, window: (u64, u64)) -> Job {
        let (segments, window) = (vec![Arc::clone(minute)], (window.0 * SECOND, window.1 * SECOND));
        Job { segments, ring_from: 0, window, engine: "a/../b c".into(), pid }
    }

    #[test]
    fn what_happened_is_kept_with_the_time_before_and_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("new").join("kept");
        let minute = minute(folder.path());
        let large = keeper(&kept, 4, 1 << 30).unwrap();
        assert!(large.write(&job(&minute, 1, (40, 45))));
        let files = there(&kept);
        assert_eq!(files.len(), 2);
        assert!(files.iter().all(|(name, _)| name.starts_with("kept-a_.._b_c-1-")), "{files:?}");
        let [before, trace] = [&files[0].0, &files[1].0].map(|name| records(&kept.join(name)));
        // The second between them is left out.
        assert_eq!((before, trace), (39_000, 5_000));
        let reader = TraceReader::new(File::open(kept.join(&files[1].0)).unwrap()).unwrap();
        let why = reader.meta().origin.kept.clone().unwrap();
        assert_eq!((why.condition.as_str(), why.before.as_ref()), ("time_to_first_token > 1s", Some(&files[0].0)));
        // Nobody else keeps traces there, and what others put there stays.
        assert!(keeper(&kept, 4, 1 << 30).is_err());
        std::fs::write(kept.join("mine.pfi"), "mine").unwrap();
        std::fs::write(kept.join(".profinfer-left"), "of a killed one").unwrap();
        // Nothing before it, and so one file.
        assert!(large.write(&job(&minute, 2, (0, 3))));
        for pid in 3..6 {
            assert!(large.write(&job(&minute, pid, (40, 45))));
            assert!(there(&kept).len() <= 4 + 2);
        }
        let names: String = there(&kept).iter().map(|(name, _)| format!("{name} ")).collect();
        assert!(names.contains("b_c-5-") && names.contains("b_c-4-") && !names.contains("b_c-1-"), "{names}");
        assert!(names.contains("mine.pfi"));
        // Bytes are bounded too, and what is too large alone is not kept.
        let one = there(&kept).iter().map(|(_, bytes)| *bytes).max().unwrap();
        drop(large);
        let small = keeper(&kept, 100, one * 3).unwrap();
        assert!(!kept.join(".profinfer-left").exists());
        for pid in 6..9 {
            assert!(small.write(&job(&minute, pid, (40, 45))));
            let used: u64 = there(&kept).iter().filter(|(name, _)| name.starts_with("kept-")).map(|of| of.1).sum();
            assert!(used <= one * 3, "{used}");
        }
        drop(small);
        let tiny = keeper(&kept, 100, 1000).unwrap();
        let before = there(&kept);
        assert!(!tiny.write(&job(&minute, 9, (40, 45))));
        assert_eq!(there(&kept), before);
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let problems = keeper(&open.join("kept"), 4, 1 << 20).unwrap_err();
        assert!(problems.0[0].message.contains("other users can write"), "{problems:?}");
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(keeper(&folder.path().join("file"), 4, 1 << 20).is_err());
    }
}
