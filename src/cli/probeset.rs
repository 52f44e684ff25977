//! The arguments that every command with a probeset takes, and how they become a plan.

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::plan::{CostTable, Level, ProbePlan, Selection, plan};
use crate::spec::{self, Library, Probeset};
use crate::target::{self, Arch, DebugFolders, Files, Lock, MAX_LOCK, Target};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A probeset and which of its probes are wanted, for what looks at no target.
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
    /// How much is recorded
    #[arg(long, value_enum, default_value_t = LevelArgument::Operator)]
    level: LevelArgument,
    /// Only these probes (a name or glob; may be given several times)
    #[arg(long = "probe", value_name = "NAME")]
    only: Vec<String>,
    /// Not these probes (a name or glob; may be given several times)
    #[arg(long = "no-probe", value_name = "NAME")]
    without: Vec<String>,
    /// Count this, over each step and operator: a counter of the probeset, or an event as `perf list` writes it (may be
    /// given several times)
    #[arg(long = "counter", value_name = "EVENT")]
    counters: Vec<String>,
}

/// Where a target's debug information may be.
#[derive(Debug, clap::Args)]
pub(crate) struct DebugArguments {
    /// Look for separate debug files in this folder first (may be given several times)
    #[arg(long = "debug-dir", value_name = "DIR")]
    debug_folders: Vec<PathBuf>,
}

/// A probeset, which of its probes are wanted, and what is known of a target.
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
    /// Take what the target's files do not say from this lock file, written by `profinfer lock`
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

/// Any number of probesets, which of their probes are wanted, and what is known of a target.
#[cfg(feature = "record")]
#[derive(Debug, clap::Args)]
pub(crate) struct SeveralArguments {
    /// Probeset files, or names of shipped ones, each for an engine of the target; without any, every shipped one whose
    /// functions the target has
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
    /// Everything
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
        spec::load(&self.spec, &Library::SHIPPED)
    }

    /// What was asked for.
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
    fn selection(&self) -> Selection {
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

    /// Where debug files are looked for first.
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

    /// Where debug files are looked for first.
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
            Diagnostic::error(Code::LockUnreadable, format!("the lock file {} cannot be read: {why}", path.display()))
                .hint("`profinfer lock` writes one")
        })?;
        Ok(Some(Lock::parse(&path.display().to_string(), &text)?))
    }
}

#[cfg(feature = "record")]
impl SeveralArguments {
    /// Reads the probesets that are named.
    pub(crate) fn load(&self) -> Result<(Vec<Probeset>, Diagnostics), Diagnostics> {
        let (mut probesets, mut warnings) = (Vec::new(), Diagnostics::new());
        for spec in &self.specs {
            let (probeset, more) = spec::load(spec, &Library::SHIPPED)?;
            probesets.push(probeset);
            warnings.0.extend(more.0);
        }
        Ok((probesets, warnings))
    }

    /// Where debug files are looked for first.
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

    /// The probes that are wanted of a probeset; of several, each glob means those of all.
    pub(crate) fn selection(&self, probeset: &Probeset) -> Selection {
        let mut selection = self.choice.selection();
        if !probeset.parts.is_empty() {
            let of_all = |glob: &String| match glob.contains('{') {
                true => glob.clone(),
                false => format!("{{{glob},*{}{glob}}}", spec::Part::BETWEEN),
            };
            selection.only = selection.only.iter().map(of_all).collect();
            selection.without = selection.without.iter().map(of_all).collect();
        }
        selection
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
    let costs = crate::record::calibrate::costs(arch);
    #[cfg(not(feature = "record"))]
    let costs = CostTable::built_in(arch, None);
    costs
}

/// What was asked for, else what the target is, else what this machine is.
pub(crate) fn arch_of(asked: Option<ArchArgument>, target: Option<&dyn Target>) -> Arch {
    let of_target = || target.and_then(|t| t.files().first()).map(|file| file.arch);
    asked.map(Arch::from).or_else(of_target).unwrap_or_else(native_arch)
}

/// The bytes of a file, if it has no more than `limit`.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit { Err(format!("it is larger than {} MB", limit >> 20)) } else { Ok(bytes) }
}

/// The files of a probeset.
pub(crate) fn sources(probeset: &Probeset) -> Vec<&Path> {
    probeset.sources.iter().map(|source| Path::new(&source.name)).collect()
}
