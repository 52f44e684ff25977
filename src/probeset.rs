//! The arguments that every command with a probeset takes, and how they become a plan.

use profinfer_binary::{self as target, Arch, DebugFolders, Files, Lock, MAX_LOCK, Target, TargetFile};
use profinfer_compiler::{CostTable, Level, ProbePlan, Selection, plan};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::{self as spec, Library, Probeset};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A probeset and its selected probes, for subcommands without a target.
#[derive(Debug, clap::Args)]
pub(crate) struct WantedArguments {
    /// A probeset file, or the name of a shipped one
    pub(crate) spec: PathBuf,
    #[command(flatten)]
    choice: ChoiceArguments,
}

/// Which of a probeset's probes are wanted.
#[derive(Debug, clap::Args)]
pub(crate) struct ChoiceArguments {
    /// What to record
    #[arg(long, value_enum, default_value_t = LevelArgument::Operator)]
    level: LevelArgument,
    /// Use only these probes (a name or glob; repeatable)
    #[arg(long = "probe", value_name = "NAME")]
    only: Vec<String>,
    /// Omit these probes (a name or glob; repeatable)
    #[arg(long = "no-probe", value_name = "NAME")]
    without: Vec<String>,
    /// Count this in each step and operator: a counter of the probeset, or an event as in `perf list` (repeatable)
    #[arg(long = "counter", value_name = "EVENT")]
    counters: Vec<String>,
}

/// Where a target's debug information may be.
#[derive(Debug, clap::Args)]
pub(crate) struct DebugArguments {
    /// Search this folder for separate debug files first (repeatable)
    #[arg(long = "debug-dir", value_name = "DIR")]
    debug_folders: Vec<PathBuf>,
}

/// A probeset, its selected probes, and sources of facts about a target.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbesetArguments {
    #[command(flatten)]
    wanted: WantedArguments,
    #[command(flatten)]
    debug: DebugArguments,
    #[command(flatten)]
    lock: LockArguments,
}

/// What was written down of a target.
#[derive(Debug, clap::Args)]
pub(crate) struct LockArguments {
    /// Use this lock file, written by `profinfer lock`, for what the target's files lack
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

/// Any number of probesets, their selected probes, and sources of facts about a target.
#[cfg(feature = "record")]
#[derive(Debug, clap::Args)]
pub(crate) struct SeveralArguments {
    /// Probeset files or names of shipped ones, one per engine of the target (default: every shipped one whose step
    /// functions the target has)
    #[arg(value_name = "SPEC")]
    pub(crate) specs: Vec<PathBuf>,
    #[command(flatten)]
    choice: ChoiceArguments,
    #[command(flatten)]
    debug: DebugArguments,
    #[command(flatten)]
    lock: LockArguments,
}

/// The levels, each of which includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LevelArgument {
    /// Steps (one decode or prefill call each)
    Step,
    /// Steps and graphs
    Graph,
    /// Steps, graphs, operators and all other probes
    Operator,
}

/// An instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ArchArgument {
    /// x86-64
    #[value(name = "x86_64")]
    X86_64,
    /// arm64
    #[value(name = "aarch64")]
    Aarch64,
}

impl From<ArchArgument> for Arch {
    fn from(arch: ArchArgument) -> Self {
        match arch {
            ArchArgument::X86_64 => Self::X86_64,
            ArchArgument::Aarch64 => Self::Aarch64,
        }
    }
}

impl WantedArguments {
    /// Reads the probeset.
    pub(crate) fn load(&self) -> Result<(Probeset, Diagnostics), Diagnostics> {
        load(&self.spec)
    }

    /// What was asked for.
    #[cfg(feature = "record")]
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        self.spec.display()
    }

    /// The probes that are wanted.
    pub(crate) fn selection(&self) -> Selection {
        self.choice.selection()
    }

    /// Reads the probeset and plans it; the problems of both are given together.
    pub(crate) fn plan(&self, arch: Arch) -> Result<(Probeset, ProbePlan, Diagnostics), Diagnostics> {
        let (probeset, mut problems) = self.load()?;
        match plan(&probeset, &self.selection(), arch) {
            Ok((mut plan, more)) => {
                problems.0.extend(more.0);
                plan.costs = costs(arch);
                Ok((probeset, plan, problems))
            }
            Err(more) => {
                problems.0.extend(more.0);
                Err(problems)
            }
        }
    }
}

impl ChoiceArguments {
    /// The probes that are wanted.
    pub(crate) fn selection(&self) -> Selection {
        let level = match self.level {
            LevelArgument::Step => Level::Step,
            LevelArgument::Graph => Level::Graph,
            LevelArgument::Operator => Level::Operator,
        };
        Selection {
            level,
            only: self.only.clone(),
            without: self.without.clone(),
            counters: self.counters.clone(),
            offer: None,
        }
    }

    /// The choice of probes where it is not the default, as it is typed.
    #[cfg(feature = "record")]
    fn described(&self) -> Vec<String> {
        let level = match self.level {
            LevelArgument::Step => Some("--level step"),
            LevelArgument::Graph => Some("--level graph"),
            LevelArgument::Operator => None,
        };
        let only = self.only.iter().map(|glob| format!("--probe {glob}"));
        let without = self.without.iter().map(|glob| format!("--no-probe {glob}"));
        let counters = self.counters.iter().map(|counter| format!("--counter {counter}"));
        level.map(str::to_owned).into_iter().chain(only).chain(without).chain(counters).collect()
    }
}

impl DebugArguments {
    /// Opens the target that `--target` or `-p` names.
    pub(crate) fn open_target(
        &self,
        target: Option<&str>,
        pid: Option<u32>,
    ) -> Result<Option<Box<dyn Target>>, Diagnostics> {
        let name = match (target, pid) {
            (Some(target), _) => target.to_owned(),
            (None, Some(pid)) => pid.to_string(),
            (None, None) => return Ok(None),
        };
        let files = Files::with_user_cache().with_debug_folders(self.folders());
        target::open_with(&name, files).map(Some).map_err(Diagnostics::from)
    }

    /// Folders that are searched for debug files first.
    fn folders(&self) -> DebugFolders {
        DebugFolders::new(self.debug_folders.iter().cloned())
    }
}

#[cfg(feature = "record")]
impl ProbesetArguments {
    /// Reads the probeset.
    pub(crate) fn load(&self) -> Result<(Probeset, Diagnostics), Diagnostics> {
        self.wanted.load()
    }

    /// The probeset that was asked for, as it was.
    pub(crate) fn name(&self) -> std::path::Display<'_> {
        self.wanted.name()
    }

    /// The probes that are wanted.
    pub(crate) fn selection(&self) -> Selection {
        self.wanted.selection()
    }

    /// Folders that are searched for debug files first.
    pub(crate) fn debug_folders(&self) -> DebugFolders {
        self.debug.folders()
    }
}

impl ProbesetArguments {
    /// Opens the target that `--target` or `-p` names.
    pub(crate) fn open_target(
        &self,
        target: Option<&str>,
        pid: Option<u32>,
    ) -> Result<Option<Box<dyn Target>>, Diagnostics> {
        self.debug.open_target(target, pid)
    }

    /// The lock file, where one is given.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Diagnostics> {
        self.lock.read()
    }

    /// The lock file's path.
    pub(crate) fn lock_file(&self) -> Option<&Path> {
        self.lock.lock.as_deref()
    }

    /// Reads the probeset and plans it; the problems of both are given together.
    pub(crate) fn plan(&self, arch: Arch) -> Result<(Probeset, ProbePlan, Diagnostics), Diagnostics> {
        self.wanted.plan(arch)
    }
}

impl LockArguments {
    /// The lock file, where one is given.
    fn read(&self) -> Result<Option<Lock>, Diagnostics> {
        let Some(path) = &self.lock else { return Ok(None) };
        let text = read_bounded(path, MAX_LOCK).map_err(|why| {
            Diagnostic::error(Code::LockUnreadable, format!("cannot read the lock file {}: {why}", path.display()))
                .hint("create one with `profinfer lock`")
        })?;
        Ok(Some(Lock::parse(&path.display().to_string(), &text)?))
    }
}

/// Reads a probeset. Warnings and notes are for a probeset's author: those on shipped files are left out.
fn load(spec: &Path) -> Result<(Probeset, Diagnostics), Diagnostics> {
    let (probeset, mut warnings) = spec::load(spec, &Library::SHIPPED)?;
    warnings.0.retain(|problem| problem.span.as_ref().is_none_or(|span| !Library::is_shipped(&span.source.name)));
    Ok((probeset, warnings))
}

/// Reads several probesets.
#[cfg(feature = "record")]
pub(crate) fn load_all(specs: &[PathBuf]) -> Result<(Vec<Probeset>, Diagnostics), Diagnostics> {
    let (mut probesets, mut warnings) = (Vec::new(), Diagnostics::new());
    for spec in specs {
        let (probeset, more) = load(spec)?;
        probesets.push(probeset);
        warnings.0.extend(more.0);
    }
    Ok((probesets, warnings))
}

#[cfg(feature = "record")]
impl SeveralArguments {
    /// Reads the probesets that are named.
    pub(crate) fn load(&self) -> Result<(Vec<Probeset>, Diagnostics), Diagnostics> {
        load_all(&self.specs)
    }

    /// Folders that are searched for debug files first.
    pub(crate) fn debug_folders(&self) -> DebugFolders {
        self.debug.folders()
    }

    /// The lock file, where one is given.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, Diagnostics> {
        self.lock.read()
    }

    /// The lock file's path.
    pub(crate) fn lock_file(&self) -> Option<&Path> {
        self.lock.lock.as_deref()
    }

    /// The probes that are wanted; of several engines, each glob means those of all.
    pub(crate) fn selection(&self) -> Selection {
        self.choice.selection()
    }

    /// The choice of probes where it is not the default, as it is typed.
    pub(crate) fn described(&self) -> Vec<String> {
        let lock = self.lock.lock.iter().map(|path| format!("--lock {}", path.display()));
        self.choice.described().into_iter().chain(lock).collect()
    }
}

/// The instruction set of this machine, where it is one that is supported.
pub(crate) fn native_arch() -> Arch {
    if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 }
}

/// What a probe costs: as measured on this machine, if it was; else as built in.
pub(crate) fn costs(arch: Arch) -> CostTable {
    #[cfg(feature = "record")]
    let costs = profinfer_recorder::calibrate::costs(arch);
    #[cfg(not(feature = "record"))]
    let costs = CostTable::built_in(arch, None);
    costs
}

/// What was asked for, else what the target is, else what this machine is.
pub(crate) fn arch_of(asked: Option<ArchArgument>, files: Option<&[TargetFile]>) -> Arch {
    let of_target = || files.and_then(<[TargetFile]>::first).map(|file| file.arch);
    asked.map(Arch::from).or_else(of_target).unwrap_or_else(native_arch)
}

/// The bytes of a file, if it has no more than `limit`.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit { Err(format!("it is larger than {} MiB", limit >> 20)) } else { Ok(bytes) }
}

/// The files of a probeset.
pub(crate) fn sources(probeset: &Probeset) -> Vec<&Path> {
    probeset.sources.iter().map(|source| Path::new(&source.name)).collect()
}
