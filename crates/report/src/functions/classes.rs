//! What sampled functions do: by the probeset's conditions on the engine's functions, and by the names that the kernel, C
//! libraries and OpenMP runtimes have for theirs.

use super::model::FEW;
use super::names::{Function, Names, Symbolizer};
use profinfer_analysis::{Catalogue, FunctionClass, FunctionClasses, Phase, Profile, Within};
use profinfer_schema::{CodePlace, Sampling};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// The kernel handles a page fault.
    Fault,
    /// Anything else of the kernel's.
    Kernel,
    /// Probes: traps, and the programs that record.
    Probe,
    /// It waits for other threads, without sleeping.
    Wait,
    /// It copies or fills memory.
    Copy,
    /// It converts quantised numbers.
    Dequantise,
    /// It multiplies.
    Multiply,
    /// Anything else.
    Other,
    /// It has no name.
    Unnamed,
}

impl Class {
    /// Every one.
    pub(crate) const ALL: [Self; 9] = [
        Self::Fault,
        Self::Kernel,
        Self::Probe,
        Self::Wait,
        Self::Copy,
        Self::Dequantise,
        Self::Multiply,
        Self::Other,
        Self::Unnamed,
    ];

    /// As the JSON has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fault => "page_faults",
            Self::Kernel => "kernel",
            Self::Probe => "probes",
            Self::Wait => "wait",
            Self::Copy => "copy",
            Self::Dequantise => "dequantise",
            Self::Multiply => "multiply",
            Self::Other => "other",
            Self::Unnamed => "unnamed",
        }
    }

    fn of(function: &Function, engine: &FunctionClasses) -> Self {
        if function.module == "kernel" {
            let has = |parts: &[&str]| parts.iter().any(|part| function.name.contains(part));
            return match () {
                () if has(&FAULTS) => Self::Fault,
                () if has(&PROBES) => Self::Probe,
                () => Self::Kernel,
            };
        }
        if !function.known {
            return if is_of_openmp(function) { Self::Wait } else { Self::Unnamed };
        }
        match engine.of(&function.name, &function.module) {
            Some(FunctionClass::Wait) => Self::Wait,
            Some(FunctionClass::Copy) => Self::Copy,
            Some(FunctionClass::Dequantise) => Self::Dequantise,
            Some(FunctionClass::Multiply) => Self::Multiply,
            None if is_copy(function) => Self::Copy,
            None if is_wait(function) => Self::Wait,
            None => Self::Other,
        }
    }
}

/// Parts of the names of kernel functions that handle page faults: entry, search of the mapping, allocation and clearing
/// of pages, page tables.
const FAULTS: [&str; 27] = [
    "page_fault",
    "mm_fault",
    "do_fault",
    "user_addr_fault",
    "_pf_",
    "do_mem_abort",
    "do_translation_fault",
    "do_anonymous_page",
    "do_wp_page",
    "do_cow_fault",
    "do_read_fault",
    "finish_fault",
    "filemap_map_",
    "filemap_fault",
    "next_uptodate_folio",
    "set_pte_range",
    "pte_alloc",
    "clear_page",
    "clear_huge_page",
    "clear_subpage",
    "clear_user_highpage",
    "clear_highpage",
    "folio_zero_user",
    "alloc_anon_folio",
    "vma_alloc_folio",
    "folio_add_new_anon_rmap",
    "lock_vma_under_rcu",
];

/// Parts of the names of kernel functions that probes run, and of those that any exception begins and ends with: in
/// operators with probes most of these are traps.
const PROBES: [&str; 16] = [
    "uprobe",
    "bpf_",
    "int3",
    "swbp",
    "xol_",
    "exc_debug",
    "single_step",
    "notify_die",
    "notifier_call",
    "error_entry",
    "error_return",
    "sync_regs",
    "irqentry_",
    "native_irq_return",
    "ring_buffer",
    "perf_",
];

/// Whether it is a function of a C library.
fn is_of_c(function: &Function) -> bool {
    ["libc.", "libc-", "ld-", "libmusl"].iter().any(|name| function.module.starts_with(name))
}

/// Whether it is one of the C library's functions for memory, which have many names: one for each instruction set.
fn is_copy(function: &Function) -> bool {
    let name = function.name.trim_start_matches('_');
    let is_named = ["memcpy", "memmove", "memset", "mempcpy", "wmemset", "bzero"].iter().any(|of| name.starts_with(of));
    // A program may be linked with them.
    is_named && (is_of_c(function) || !name.contains("::"))
}

/// Whether it is of an OpenMP runtime. Distributions ship these without the symbols of their inner functions, in which
/// nearly all of their CPU time is: the loops in which their threads wait for work and for each other.
fn is_of_openmp(function: &Function) -> bool {
    ["libgomp", "libomp", "libiomp"].iter().any(|name| function.module.starts_with(name))
}

/// Functions in which the threads of OpenMP runtimes wait.
fn is_wait(function: &Function) -> bool {
    let runtimes = [
        ("libgomp", &["gomp_barrier_", "gomp_team_barrier_", "do_wait", "do_spin", "gomp_thread_start"][..]),
        ("libomp", &["__kmp_", "kmp_flag", "void __kmp_", "bool __kmp_"][..]),
        ("libiomp", &["__kmp_", "kmp_flag", "void __kmp_", "bool __kmp_"][..]),
    ];
    let names = |names: &[&str]| names.iter().any(|name| function.name.starts_with(name));
    let waits = |name: &str| name.contains("wait") || name.contains("barrier") || name.contains("do_spin");
    runtimes.iter().any(|(module, begins)| {
        function.module.starts_with(module) && names(begins) && (*module == "libgomp" || waits(&function.name))
    })
}

const UNKNOWN: CodePlace = CodePlace { module: CodePlace::UNKNOWN, offset: 0 };

/// A function that samples are in.
struct Sampled {
    class: Class,
    function: Function,
}

/// By function that entered the kernel: samples in functions of the kernel for faults, for probes, and in others.
#[derive(Default)]
struct Entries {
    by: HashMap<Function, [u64; 3]>,
}

impl Entries {
    fn add(&mut self, class: Class, entered: &Function, count: u64) {
        let column = match class {
            Class::Fault => 0,
            Class::Probe => 1,
            Class::Kernel => 2,
            _ => return,
        };
        self.by.entry(entered.clone()).or_default()[column] += count;
    }

    /// What the kernel does for a function where its own function does not tell: locks, lists and accounting serve
    /// everything. Where a good part of what tells is page faults, it is those; functions of a C library that are none
    /// for memory make system calls.
    fn class(&self, entered: &Function) -> Class {
        let [faults, probes, others] = self.by.get(entered).copied().unwrap_or_default();
        let is_call = is_of_c(entered) && !is_copy(entered);
        match () {
            () if faults > probes && 4 * faults >= others && !is_call => Class::Fault,
            () if probes > 0 && 4 * probes >= others && !is_call => Class::Probe,
            () => Class::Kernel,
        }
    }
}

/// Samples by what the interrupted function does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClassCounts {
    by: [u64; Class::ALL.len()],
    /// Of these classes, by function.
    functions: BTreeMap<(Class, String), u64>,
}

impl ClassCounts {
    fn add(&mut self, class: Class, function: &str, count: u64) {
        self.by[class as usize] += count;
        *self.functions.entry((class, function.to_owned())).or_default() += count;
    }

    pub(crate) fn of(&self, class: Class) -> u64 {
        self.by[class as usize]
    }

    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        self.by.iter().sum()
    }

    /// In the kernel.
    pub(crate) fn in_kernel(&self) -> u64 {
        self.of(Class::Fault) + self.of(Class::Kernel)
    }

    /// The function with most samples of a class.
    pub(crate) fn most(&self, class: Class) -> Option<(&str, u64)> {
        let of_class = self.functions.iter().filter(|((of, _), _)| *of == class);
        of_class.max_by_key(|(_, count)| **count).map(|((_, name), count)| (name.as_str(), *count))
    }

    /// The function that has at least half of all samples, where these are not few.
    pub(crate) fn main(&self) -> Option<&str> {
        let all = self.all();
        let has_half = |(_, count): &(_, &u64)| **count >= FEW && 2 * **count >= all;
        self.functions.iter().find(has_half).map(|((_, name), _)| name.as_str())
    }
}

/// Operators of one name: its pattern and its type.
type Named = (Phase, Arc<str>, Arc<str>);

/// Samples within operators by what the interrupted functions do. Those in which a lane waited, by the probeset's
/// `waiting`, are not among them: that time is known exactly.
#[derive(Debug, Default)]
pub struct SampledWork {
    phases: BTreeMap<Phase, ClassCounts>,
    operators: HashMap<Named, ClassCounts>,
}

/// The function that entered the kernel.
fn entered(places: &[CodePlace]) -> Option<&CodePlace> {
    let is_of_kernel = |place: &&CodePlace| place.module == CodePlace::KERNEL;
    places.first().filter(is_of_kernel)?;
    places.iter().find(|place| !is_of_kernel(place))
}

/// What a sample is in by its innermost function; in the kernel, by its callers there where they tell more.
fn innermost(places: &[CodePlace], classes: &HashMap<CodePlace, Sampled>) -> Class {
    let of = |place: &CodePlace| classes.get(place).map_or(Class::Unnamed, |sampled| sampled.class);
    let first = places.first().map_or(Class::Unnamed, of);
    let mut callers = places.iter().take_while(|place| place.module == CodePlace::KERNEL).map(of);
    match first {
        Class::Kernel => callers.find(|class| matches!(class, Class::Fault | Class::Probe)).unwrap_or(first),
        _ => first,
    }
}

impl SampledWork {
    /// Of a profile that is finished.
    pub fn new(
        sampling: &Sampling,
        (profile, catalogue): (&Profile, &Catalogue),
        engine: &FunctionClasses,
        symbols: &mut dyn Symbolizer,
    ) -> Self {
        let mut names = Names::new(sampling, symbols);
        let mut classes: HashMap<CodePlace, Sampled> = HashMap::new();
        let mut entries = Entries::default();
        let within = || profile.counts().filter(|(_, _, waiting, ..)| !waiting);
        for (_, _, _, stack, count) in within() {
            let places = profile.stack(stack);
            let of_kernel = places.iter().take_while(|place| place.module == CodePlace::KERNEL).count();
            for place in places.iter().take(of_kernel + 1) {
                classes.entry(*place).or_insert_with(|| {
                    let function = names.of(*place);
                    Sampled { class: Class::of(&function, engine), function }
                });
            }
            if let Some(entered) = entered(places).and_then(|place| classes.get(place)) {
                entries.add(innermost(places, &classes), &entered.function, count);
            }
        }
        let mut work = Self::default();
        let unknown = Sampled { class: Class::Unnamed, function: names.of(UNKNOWN) };
        for (phase, within, _, stack, count) in within() {
            let Within::Operator(kind) = within else { continue };
            let places = profile.stack(stack);
            let of = places.first().and_then(|place| classes.get(place)).unwrap_or(&unknown);
            let class = match entered(places).and_then(|place| classes.get(place)) {
                Some(entered) if innermost(places, &classes) == Class::Kernel => entries.class(&entered.function),
                _ => innermost(places, &classes),
            };
            let kind = catalogue.kind(kind);
            let named = (phase, kind.pattern.clone(), kind.op.clone());
            work.phases.entry(phase).or_default().add(class, &of.function.full_name(), count);
            work.operators.entry(named).or_default().add(class, &of.function.full_name(), count);
        }
        work
    }

    /// Of a phase.
    pub(crate) fn phase(&self, phase: Phase) -> Option<&ClassCounts> {
        self.phases.get(&phase)
    }

    /// Of the operators of a name and type.
    pub(crate) fn operators(&self, phase: Phase, name: &Arc<str>, op: &Arc<str>) -> Option<&ClassCounts> {
        self.operators.get(&(phase, name.clone(), op.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_is_known_by_the_function_that_entered_it() {
        let function = |name: &str, module: &str| Function { name: name.into(), module: module.into(), known: true };
        let (grows, calls, probed) = (function("grow", "e.so"), function("read", "libc.so.6"), function("op", "e.so"));
        let mut entries = Entries::default();
        entries.add(Class::Fault, &grows, 50);
        entries.add(Class::Kernel, &grows, 60);
        entries.add(Class::Fault, &calls, 30);
        entries.add(Class::Kernel, &calls, 40);
        entries.add(Class::Probe, &probed, 9);
        entries.add(Class::Kernel, &probed, 5);
        assert_eq!(entries.class(&grows), Class::Fault);
        assert_eq!(entries.class(&calls), Class::Kernel, "a system call that faults");
        assert_eq!(entries.class(&probed), Class::Probe);
        assert_eq!(entries.class(&function("other", "e.so")), Class::Kernel);
    }

    #[test]
    fn functions_of_the_system_have_their_classes() {
        let engine = FunctionClasses::default();
        let class = |name: &str, module: &str| {
            Class::of(&Function { name: name.into(), module: module.into(), known: true }, &engine)
        };
        for name in
            ["clear_page_erms", "asm_exc_page_fault", "handle_mm_fault", "do_anonymous_page", "do_user_addr_fault"]
        {
            assert_eq!(class(name, "kernel"), Class::Fault, "{name}");
        }
        for name in ["asm_exc_int3", "uprobe_notify_resume", "bpf_prog_5cb9e1_operator", "sync_regs"] {
            assert_eq!(class(name, "kernel"), Class::Probe, "{name}");
        }
        for name in ["rep_movs_alternative", "ksys_read", "copy_page_to_iter", "rcu_core"] {
            assert_eq!(class(name, "kernel"), Class::Kernel, "{name}");
        }
        for name in ["__memmove_avx_unaligned_erms", "memset", "__memset_evex_unaligned_erms", "__mempcpy_sve"] {
            assert_eq!(class(name, "libc.so.6"), Class::Copy, "{name}");
        }
        assert_eq!(class("memory_plan", "libengine.so"), Class::Other);
        assert_eq!(class("gomp_team_barrier_wait_end", "libgomp.so.1.0.0"), Class::Wait);
        assert_eq!(class("gomp_malloc", "libgomp.so.1.0.0"), Class::Other);
        assert_eq!(class("__kmp_hyper_barrier_release", "libomp.so.5"), Class::Wait);
        assert_eq!(class("__kmp_allocate", "libiomp5.so"), Class::Other);
        let openmp = Function { name: "[libgomp.so.1]".into(), module: "libgomp.so.1".into(), known: false };
        assert_eq!(Class::of(&openmp, &engine), Class::Wait);
        let nameless = Function { name: "[libengine.so]".into(), module: "libengine.so".into(), known: false };
        assert_eq!(Class::of(&nameless, &engine), Class::Unnamed);
    }
}
