//! From C to programs that run in the kernel: the compiler and its cache, what the kernel can do, loading, attaching,
//! and the verifier's messages in the words of the probeset. It does not deal with targets and traces.

mod attacher;
pub mod compile;
pub mod features;
mod identity;
mod instructions;
mod job_formats;
#[cfg(test)]
mod jobs_tests;
mod libbpf_messages;
mod link;
mod open_spans;
mod packed;
mod perf_event;
mod run_statistics;
mod session;
pub mod shipped;
mod site_program;
mod software_event;
mod span_timer;
mod test_probe;
mod variables;
mod verifier;

pub use attacher::{FailedSite, FileSite};
pub use compile::{Compiler, Translation};
pub use features::{AttachMode, Features, Kernels};
pub use job_formats::JobFormats;
pub use perf_event::open_perf_event;
pub use run_statistics::RunStatistics;
pub use session::{Detachment, ProbedFile, Session, Setup};
pub use test_probe::TestProbe;

use profinfer_compiler::codegen::CSource;
use profinfer_diagnostics::{Diagnostic, Diagnostics};
use profinfer_files::cache::Store;

/// Bytes of an object that is cached.
const MAX_CACHED: u64 = 16 << 20;

/// A compiled BPF object: an ELF file in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfObject {
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// Where it came from.
    pub origin: ObjectOrigin,
}

/// Where an object came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectOrigin {
    /// clang has just compiled it.
    Compiled,
    /// This machine compiled it before.
    Cache,
    /// This program carries it.
    Shipped,
    /// A file that was brought along.
    File,
}

/// Finds the object of a generated program among those that this program carries and in the cache, or compiles it.
/// `compiling` is called before it is compiled, which takes seconds.
///
/// # Errors
/// No usable clang (B001), or a program that does not compile (B002).
pub fn build(translation: &Translation<'_>, compiling: impl FnOnce()) -> Result<BpfObject, Diagnostics> {
    if let Some(bytes) = shipped::find(translation.source, translation.kernels) {
        return Ok(BpfObject { bytes, origin: ObjectOrigin::Shipped });
    }
    let compiler = Compiler::find().map_err(|problem| match shipped::any() {
        true => problem.with_note(shipped::NOTE),
        false => problem,
    })?;
    let key = compiler.key(translation);
    let cache = Store::of_user("objects", MAX_CACHED);
    // One that serves every way to attach serves this one: it may have come from a machine that has a compiler.
    let whole = || compiler.key(&Translation { attach: None, ..*translation });
    if let Some(bytes) = cache.as_ref().and_then(|cache| cache.get(&key).or_else(|| cache.get(&whole()))) {
        return Ok(BpfObject { bytes, origin: ObjectOrigin::Cache });
    }
    compiling();
    let bytes = compiler.compile(translation)?;
    if let Some(cache) = &cache {
        // A cache that cannot be written costs time.
        let _ = cache.put(&key, &bytes);
    }
    Ok(BpfObject { bytes, origin: ObjectOrigin::Compiled })
}

/// An object that was compiled elsewhere, if it was compiled from this very program.
///
/// # Errors
/// B021, where it was not.
pub fn prebuilt(name: &str, object: &[u8], source: &CSource, kernels: Kernels) -> Result<BpfObject, Diagnostic> {
    identity::check(name, object, source, kernels)?;
    Ok(BpfObject { bytes: object.to_vec(), origin: ObjectOrigin::File })
}
