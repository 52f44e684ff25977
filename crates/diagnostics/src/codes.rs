//! The table of diagnostic codes. A code is for ever: it may be retired, never given another meaning.
//! `docs/diagnostics.md` has a section for each, and a test compares the two.

/// What kind of fault a code stands for, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The input (spec, target, trace, argument) is at fault: exit code 1.
    Input,
    /// This machine is at fault (kernel, privilege, missing program): exit code 3.
    Machine,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $class:ident;)*) => {
        /// A stable name for one kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as it is printed, such as `S004`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What is at fault.
            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }
    };
}

codes! {
    /// A probeset file cannot be read.
    SpecUnreadable = "S001", Input;
    /// The YAML itself is malformed, or too large or deep.
    YamlSyntax = "S002", Input;
    /// A value has the wrong YAML shape (a list where a text is expected…).
    WrongShape = "S003", Input;
    /// A key that the language does not have.
    UnknownKey = "S004", Input;
    /// A required key is missing.
    MissingKey = "S005", Input;
    /// The language version is not one this program reads.
    UnknownVersion = "S006", Input;
    /// Something that is not an identifier where one is needed.
    BadIdentifier = "S007", Input;
    /// A name defined twice with different meanings (also across includes).
    Duplicate = "S008", Input;
    /// An include leaves the probeset's folders, does not exist, or comes round to itself.
    BadInclude = "S009", Input;
    /// A name that refers to nothing (module, type, object, probe, counter).
    UnknownName = "S010", Input;
    /// A number, size or count outside its range.
    OutOfRange = "S011", Input;
    /// A malformed or too costly glob or regular expression.
    BadPattern = "S012", Input;
    /// A role's required field is missing, or a reserved field is given to a role that has no use for it.
    RoleField = "S013", Input;
    /// Part of the language that this version parses but does not carry out yet.
    NotSupportedYet = "S014", Input;
    /// Probes that refer to one another in a circle, or `until` something that never ends.
    BadSpanEnd = "S015", Input;
    /// A role that cannot be where the probe is: a span at a tracepoint, a scheduler role at a function.
    RolePlace = "S016", Input;
    /// A path, type, attach point or expression that does not parse.
    PathSyntax = "P001", Input;
    /// A name in an expression that is no argument, enum constant or field.
    PathUnknownName = "P002", Input;
    /// A view has no such member.
    UnknownMember = "P003", Input;
    /// An operation the types do not allow (`.` on a pointer, index of an integer…).
    TypeMismatch = "P004", Input;
    /// An index or slice beyond the end of its array.
    IndexOutOfBounds = "P005", Input;
    /// A value that cannot be a field (a whole view, a `void`).
    NotAField = "P006", Input;
    /// A slice without a bound, or with one too large.
    Unbounded = "P007", Input;
    /// A constant expression that is refuted by its types (always true, always false, division by zero).
    ConstantCondition = "P008", Input;
    /// A unit that there is not, or that a value does not have; values of different units added or compared.
    Unit = "P009", Input;
    /// A counter that is not an event in perf's syntax.
    CounterSyntax = "C001", Input;
    /// The machine has not got a counter, or does not let it be read.
    CounterAbsent = "C002", Machine;
    /// More counters than the machine counts at once.
    CountersShared = "C003", Machine;
    /// The target does not exist, or is no process, program, library or folder.
    TargetNotFound = "T001", Input;
    /// The target is not an ELF file this program can read.
    BadBinary = "T002", Input;
    /// No mapped file is this module.
    ModuleNotFound = "T003", Input;
    /// Two engines cannot be recorded together.
    EnginesConflict = "T004", Input;
    /// No function of that name in the module.
    FunctionNotFound = "T005", Input;
    /// An attach point means more places than may be probed.
    TooManySites = "T006", Input;
    /// The target's type has no such member.
    TargetMemberMissing = "T007", Input;
    /// A member has another type in the target than the spec expects.
    TargetTypeDiffers = "T008", Input;
    /// An offset or size is in neither the debug information nor the spec.
    LayoutUnknown = "T009", Input;
    /// No probe of a required group has a site.
    GroupNotAttached = "T010", Input;
    /// A site is dear on this machine, or another one could not be used.
    CostlySite = "T011", Input;
    /// The target's architecture is not supported or not the one asked for.
    WrongArchitecture = "T012", Input;
    /// Two builds of one engine are mapped at once.
    LayoutsDiffer = "T013", Input;
    /// The location of an argument cannot be determined (a class by value of unknown size, too many arguments).
    ArgumentPlace = "T014", Input;
    /// A function was inlined, and its copies cannot be probed, or not all of them.
    InlinedCopies = "T017", Input;
    /// Two programs are at one place.
    SharedSite = "T018", Input;
    /// None of the layouts that a probeset gives a view is the target's, or several could be.
    LayoutNotChosen = "T019", Input;
    /// A file claims to have more than one of its size can; a part of it was not read.
    TargetExceedsItself = "T020", Input;
    /// A file was written to while it was recorded.
    TargetOverwritten = "T021", Input;
    /// A member's values cannot be what the probeset expects there.
    ExpectationBroken = "T022", Input;
    /// Which of several slots a method is in is not known.
    SlotUnknown = "T023", Input;
    /// A probe there would change what the target computes.
    HarmfulSite = "T030", Input;
    /// The debug information found is of another build.
    DebugInformationDiffers = "D001", Input;
    /// A lock file cannot be read, or is malformed.
    LockUnreadable = "L001", Input;
    /// A lock file is of another build than the target.
    LockOfOtherBuild = "L002", Input;
    /// A site differs from the lock file.
    LockDiffers = "L003", Input;
    /// The target cannot be locked: it has no build-id, or nothing to write down.
    CannotLock = "L004", Input;
    /// clang is missing or too old.
    NoCompiler = "B001", Machine;
    /// The generated program does not compile; a fault of profinfer.
    CompileFailed = "B002", Machine;
    /// The kernel refused the program.
    VerifierRefused = "B003", Machine;
    /// The kernel lacks a feature that the recording needs.
    KernelFeature = "B004", Machine;
    /// A privilege is missing.
    Privilege = "B005", Machine;
    /// A site could not be attached.
    AttachFailed = "B006", Machine;
    /// A cached file may have been written by somebody else, or is damaged: it is ignored.
    CacheIgnored = "B012", Machine;
    /// An object was compiled from another program than the one asked for.
    ObjectDiffers = "B021", Input;
    /// The command to launch cannot be run.
    LaunchFailed = "R001", Input;
    /// No process of that number.
    NoSuchProcess = "R002", Input;
    /// The trace file cannot be written (any more).
    CannotWrite = "R003", Machine;
    /// The target ended before any probe of a step was hit.
    NothingRecorded = "R004", Input;
    /// The probes that stay attached cost more than the budget.
    BudgetExceeded = "R005", Input;
    /// The target has no engine of a shipped probeset.
    NoEngine = "R006", Input;
    /// The recording ended before its budget covered a sampling window.
    TooShort = "R007", Input;
    /// What the machine can do at most cannot be measured.
    CannotMeasure = "R029", Machine;
    /// The target makes calls on its own stacks, where returns cannot be probed.
    OtherStacks = "R030", Input;
    /// The file cannot be read.
    TraceUnreadable = "F001", Input;
    /// The file is not a trace.
    NotATrace = "F002", Input;
    /// The trace is of a newer format than this program reads.
    TraceTooNew = "F003", Input;
    /// The trace ends within a frame: everything before it was read.
    TraceCut = "F004", Input;
    /// A frame's checksum or contents are wrong: it was left out.
    TraceCorrupt = "F005", Input;
    /// The trace has nothing of what the command is about.
    TraceLacks = "F006", Input;
    /// An argument of the command line asks for something that is not there.
    BadArgument = "U001", Input;
    /// An output would go where something is that is not an earlier output of its kind, or where nothing can be put.
    NotReplaced = "U002", Input;
    /// A recording writes to the file.
    TraceInUse = "U003", Input;
    /// Something that a script for bpftrace cannot express.
    NotInBpftrace = "G001", Input;
    /// A fault of profinfer itself.
    Bug = "X001", Machine;
}
