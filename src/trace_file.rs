//! Opens the trace that a subcommand is given; of several engines that were recorded together the one that is wanted.

use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::open_reader;
use profinfer_schema::{EngineId, OriginPart, Site, engines_present};
use profinfer_trace::{Item, TraceReader};
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A reader of any input.
pub(crate) type AnyReader = TraceReader<Box<dyn Read + Send>>;

/// The value of `--engine`, for every trace that this run opens.
static WANTED: Mutex<Option<String>> = Mutex::new(None);

/// Has every trace that is opened from now on seen as this engine.
pub(crate) fn want(engine: Option<String>) {
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = engine;
}

/// The engine that is wanted.
pub(crate) fn wanted() -> Option<String> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The name of what is made of a trace, if none is given: the trace's with this extension, behind the engine's that is
/// wanted.
pub(crate) fn made_of(trace: &Path, extension: &str) -> PathBuf {
    named(trace, wanted().as_deref(), extension)
}

fn named(trace: &Path, engine: Option<&str>, extension: &str) -> PathBuf {
    let is_usual = trace.extension().is_some_and(|extension| extension == "pfi");
    let mut name = if is_usual { trace.with_extension("") } else { trace.to_owned() }.into_os_string();
    if let Some(engine) = engine {
        // An engine's name is the trace's word: it leads to no other folder.
        name.push(".");
        name.push(engine.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    }
    name.push(".");
    name.push(extension);
    name.into()
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
        [(engine, _)] => reader.only(*engine),
        several => return Err(choose(several).into()),
    }
    Ok(reader)
}

/// Opens a trace with all of its engines; if the target had one of those that were searched for, as that engine.
pub(crate) fn open_present(path: &Path) -> Result<AnyReader, Diagnostics> {
    let mut reader = open_whole(path)?;
    if wanted().is_none()
        && let [(engine, _)] = engines(path)?.as_slice()
    {
        reader.only(*engine);
    }
    Ok(reader)
}

/// Opens a trace of several engines as one of them.
pub(crate) fn open_part(path: &Path, engine: EngineId) -> Result<AnyReader, Diagnostics> {
    let mut reader = read(path)?;
    reader.only(engine);
    Ok(reader)
}

/// Opens a trace with all of its engines, where none is asked for.
pub(crate) fn open_whole(path: &Path) -> Result<AnyReader, Diagnostics> {
    let mut reader = read(path)?;
    select(&mut reader)?;
    Ok(reader)
}

/// Has a trace seen as the engine that is wanted; whether there is one.
pub(crate) fn select(reader: &mut AnyReader) -> Result<bool, Diagnostics> {
    let Some(wanted) = wanted() else { return Ok(false) };
    let origin = &reader.meta().origin;
    let is_it = |name: &str| name.eq_ignore_ascii_case(&wanted);
    let is_wanted = |part: &OriginPart| is_it(&part.key) || is_it(&part.probeset) || is_it(&part.engine);
    let found = origin.engines().find(|(_, part)| is_wanted(part)).map(|(engine, _)| engine);
    match found {
        Some(engine) => reader.only(engine),
        None if origin.parts.is_empty() && (is_it(&origin.probeset) || is_it(&origin.engine)) => {}
        None => {
            let all = origin.parts.iter().map(|part| part.key.as_str());
            let all: Vec<&str> = if origin.parts.is_empty() { vec![&origin.probeset] } else { all.collect() };
            let problem = Diagnostic::error(Code::BadArgument, format!("the trace has no engine `{wanted}`"));
            return Err(problem.hint(format!("it has {}", all.join(", "))).into());
        }
    }
    Ok(true)
}

/// The engines of a trace of several that the target had; of one that cannot be read twice, all that the recorder
/// searched for.
pub(crate) fn engines(path: &Path) -> Result<Vec<(EngineId, OriginPart)>, Diagnostics> {
    if !is_read_again(path) {
        return Ok(Vec::new());
    }
    present(path, &read(path)?)
}

fn present(path: &Path, reader: &AnyReader) -> Result<Vec<(EngineId, OriginPart)>, Diagnostics> {
    let engines = reader.meta().origin.engines().map(|(engine, part)| (engine, part.clone()));
    let mut engines: Vec<(EngineId, OriginPart)> = engines.collect();
    if engines.is_empty() || !is_read_again(path) {
        return Ok(engines);
    }
    let mut all = read(path)?;
    let mut seen = vec![false; all.meta().schema.records.len()];
    while let Some(item) = all.next() {
        if let Item::Record(record) = item
            && let Some(seen) = seen.get_mut(record.type_index())
        {
            *seen = true;
        }
    }
    let meta = all.meta();
    let engine = |probe: &str| meta.engine_of(probe);
    // A file is listed again when an engine that is loaded later has it, too.
    let place = |site: &Site| (meta.modules.get(site.module).map(|module| module.path.as_str()), site.file_offset);
    let placed = meta.sites.iter().flat_map(|site| site.probes.iter().map(move |probe| (place(site), probe)));
    let there = engines_present(&meta.schema.records, |record| seen[record], engine, placed);
    // Of a target with none of them any is as good as another.
    let is_there = |engine: EngineId| if there.is_empty() { engine == EngineId(0) } else { there.contains(&engine) };
    engines.retain(|(engine, _)| is_there(*engine));
    Ok(engines)
}

/// Whether what is read of a path can be read a second time: a pipe cannot.
fn is_read_again(path: &Path) -> bool {
    size(path).is_some()
}

/// Bytes of a trace that is a file.
pub(crate) fn size(path: &Path) -> Option<u64> {
    let found = std::fs::metadata(path).ok().filter(|_| path.as_os_str() != "-")?;
    found.is_file().then_some(found.len())
}

fn choose(engines: &[(EngineId, OriginPart)]) -> Diagnostic {
    let names: Vec<&str> = engines.iter().map(|(_, part)| part.engine.as_str()).collect();
    let keys: Vec<String> = engines.iter().map(|(_, part)| format!("`--engine {}`", part.key)).collect();
    Diagnostic::error(Code::BadArgument, format!("the trace has several engines ({})", names.join(", ")))
        .hint(format!("select one: {}", keys.join(" or ")))
}

fn read(path: &Path) -> Result<AnyReader, Diagnostics> {
    let input: Box<dyn Read + Send> = if path.as_os_str() == "-" {
        if io::stdin().is_terminal() {
            let problem = Diagnostic::error(Code::TraceUnreadable, "standard input is a terminal, not a trace");
            return Err(problem.hint("use `<FILE`, `COMMAND |`, or the trace's name instead of `-`").into());
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
        io::ErrorKind::NotFound => diagnostic.hint("record a trace: `profinfer record -o FILE …`"),
        io::ErrorKind::PermissionDenied => diagnostic.hint("if root recorded it, change its owner"),
        io::ErrorKind::TimedOut => diagnostic.hint("start its writer first: `profinfer record -o FILE …`"),
        io::ErrorKind::IsADirectory => diagnostic.hint("give a trace in it"),
        _ => diagnostic.hint("give a trace, or `-` for standard input"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_traces_has_names_of_its_own() {
        let of = |trace: &str, engine: Option<&str>| named(Path::new(trace), engine, "html").display().to_string();
        assert_eq!(of("a/llm-3.1.pfi", None), "a/llm-3.1.html");
        assert_eq!(of("a/llm-3.1", None), "a/llm-3.1.html", "what follows a dot is a part of the name");
        assert_eq!(of("run.pfi", Some("toy")), "run.toy.html");
        assert_eq!(of("run.pfi", Some("../toy")), "run.___toy.html");
    }
}
