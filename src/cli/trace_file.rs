//! Opens the trace that a subcommand is given; of several engines that were recorded together the one that is wanted.

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::output::open_reader;
use crate::trace::{OriginPart, TraceReader};
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A reader of any input.
pub(crate) type AnyReader = TraceReader<Box<dyn Read + Send>>;

/// What `--engine` says, for every trace that this run opens.
static WANTED: Mutex<Option<String>> = Mutex::new(None);

/// Has every trace that is opened from now on seen as this engine.
pub(crate) fn want(engine: Option<String>) {
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = engine;
}

/// The engine that is wanted.
pub(crate) fn wanted() -> Option<String> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Opens a trace; `-` is standard input. One of several engines is seen as that engine alone.
pub(crate) fn open(path: &Path) -> Result<AnyReader, Diagnostics> {
    let mut reader = open_whole(path)?;
    if wanted().is_some() {
        return Ok(reader);
    }
    let parts = present(path, &reader)?;
    match parts.as_slice() {
        [] => {}
        [part] => reader.only(part),
        several => return Err(choose(several).into()),
    }
    Ok(reader)
}

/// Opens a trace of several engines as one of them.
pub(crate) fn open_part(path: &Path, part: &OriginPart) -> Result<AnyReader, Diagnostics> {
    let mut reader = read(path)?;
    reader.only(part);
    Ok(reader)
}

/// Opens a trace with all of its engines, where none is asked for.
pub(crate) fn open_whole(path: &Path) -> Result<AnyReader, Diagnostics> {
    let mut reader = read(path)?;
    let Some(wanted) = wanted() else { return Ok(reader) };
    let origin = &reader.meta().origin;
    let is_it = |name: &str| name.eq_ignore_ascii_case(&wanted);
    match origin.parts.iter().find(|part| is_it(&part.key) || is_it(&part.probeset) || is_it(&part.engine)).cloned() {
        Some(part) => reader.only(&part),
        None if origin.parts.is_empty() && (is_it(&origin.probeset) || is_it(&origin.engine)) => {}
        None => {
            let all = origin.parts.iter().map(|part| part.key.as_str());
            let all: Vec<&str> = if origin.parts.is_empty() { vec![&origin.probeset] } else { all.collect() };
            let problem = Diagnostic::error(Code::BadArgument, format!("the trace has no engine `{wanted}`"));
            return Err(problem.hint(format!("it has {}", all.join(", "))).into());
        }
    }
    Ok(reader)
}

/// The engines of a trace of several that the target had; of one that cannot be read twice, all that were looked for.
pub(crate) fn engines(path: &Path) -> Result<Vec<OriginPart>, Diagnostics> {
    if !is_read_again(path) {
        return Ok(Vec::new());
    }
    present(path, &read(path)?)
}

fn present(path: &Path, reader: &AnyReader) -> Result<Vec<OriginPart>, Diagnostics> {
    let parts = reader.meta().origin.parts.clone();
    if parts.is_empty() || !is_read_again(path) {
        return Ok(parts);
    }
    let mut all = read(path)?;
    while all.next().is_some() {}
    let sites = &all.meta().sites;
    let is_there =
        |part: &&OriginPart| sites.iter().flat_map(|site| &site.probes).any(|probe| part.own(probe).is_some());
    let there: Vec<OriginPart> = parts.iter().filter(is_there).cloned().collect();
    // Of a target with none of them any is as good as another.
    Ok(if there.is_empty() { parts.into_iter().take(1).collect() } else { there })
}

/// Whether what is read of a path can be read a second time: a pipe cannot.
fn is_read_again(path: &Path) -> bool {
    path.as_os_str() != "-" && std::fs::metadata(path).is_ok_and(|found| found.is_file())
}

fn choose(parts: &[OriginPart]) -> Diagnostic {
    let names: Vec<&str> = parts.iter().map(|part| part.engine.as_str()).collect();
    let keys: Vec<String> = parts.iter().map(|part| format!("`--engine {}`", part.key)).collect();
    Diagnostic::error(Code::BadArgument, format!("the trace has several engines: {}", names.join(", ")))
        .hint(format!("say which: {}", keys.join(" or ")))
}

fn read(path: &Path) -> Result<AnyReader, Diagnostics> {
    let input: Box<dyn Read + Send> = if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            let problem =
                Diagnostic::error(Code::TraceUnreadable, "standard input is a terminal, and a trace is not typed");
            return Err(problem.hint("`<FILE`, `COMMAND|`, or a trace's name instead of `-`").into());
        }
        Box::new(io::stdin())
    } else {
        Box::new(open_reader(path).map_err(|error| unreadable(path, &error))?)
    };
    Ok(TraceReader::new(input)?.ahead())
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::TraceUnreadable, format!("cannot read {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound => diagnostic.hint("`profinfer record -o FILE …` writes a trace"),
        io::ErrorKind::PermissionDenied => diagnostic.hint("it was perhaps recorded by root: change its owner"),
        io::ErrorKind::TimedOut => diagnostic.hint("start its writer first: `profinfer record -o FILE …`"),
        io::ErrorKind::IsADirectory => diagnostic.hint("give a trace in it"),
        _ => diagnostic.hint("give a trace, or `-` for standard input"),
    }
}
