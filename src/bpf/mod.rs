//! From C to programs that run in the kernel: the compiler and its cache, what the kernel can do, loading, attaching,
//! and what the verifier says in the words of the probeset. It knows nothing of targets and traces.

mod attacher;
pub mod compile;
mod empty;
pub mod features;
mod identity;
mod open_spans;
mod perf_event;
mod run_statistics;
mod session;
mod software_event;
mod variables;
mod verifier;

pub use attacher::{FailedSite, FileSite};
pub use compile::{Compiler, Translation};
pub use empty::EmptyProbe;
pub use features::{AttachMode, Features, Kernels};
pub use perf_event::open_perf_event;
pub use run_statistics::RunStatistics;
pub use session::{LOSS_KINDS, ProbedFile, Session, Setup};

use crate::cache::Store;
use crate::codegen::CSource;
use crate::diag::{Diagnostic, Diagnostics};

/// Bytes of an object that is kept.
const MAX_CACHED: u64 = 16 << 20;

/// A compiled BPF object: an ELF file in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfObject {
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// It was in the cache.
    pub cached: bool,
}

/// Compiles a generated program, or finds it in the cache. `compiling` is told before it is compiled, which takes seconds.
///
/// # Errors
/// No usable clang (B001), or a program that does not compile (B002).
pub fn build(translation: &Translation<'_>, compiling: impl FnOnce()) -> Result<BpfObject, Diagnostics> {
    let compiler = Compiler::find()?;
    let key = compiler.key(translation);
    let cache = Store::of_user("objects", MAX_CACHED);
    // One that serves every way to attach serves this one: it may have come from a machine that has a compiler.
    let whole = || compiler.key(&Translation { attach: None, ..*translation });
    if let Some(bytes) = cache.as_ref().and_then(|cache| cache.get(&key).or_else(|| cache.get(&whole()))) {
        return Ok(BpfObject { bytes, cached: true });
    }
    compiling();
    let bytes = compiler.compile(translation)?;
    if let Some(cache) = &cache {
        // A cache that cannot be written costs time.
        let _ = cache.put(&key, &bytes);
    }
    Ok(BpfObject { bytes, cached: false })
}

/// An object that was compiled elsewhere, if it was compiled from this very program.
///
/// # Errors
/// B021, where it was not.
pub fn prebuilt(name: &str, object: &[u8], source: &CSource, kernels: Kernels) -> Result<BpfObject, Diagnostic> {
    identity::check(name, object, source, kernels)?;
    Ok(BpfObject { bytes: object.to_vec(), cached: true })
}
