//! From a path, a shipped probeset's name, a text or a trace's copies to a [`Probeset`]: reads the files and follows
//! their includes. The only part of `spec` that opens files, and only below the probeset's folder.

use super::library::{self, Library};
use super::local_names::LocalNames;
use super::merge::{self, Sections};
use super::model::Probeset;
use super::problems::{Problems, shown};
use super::values::{Context, Spent};
use super::yaml::{Map, Scalar};
use super::{check, limits, reader, sections, yaml};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Source, Span};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A probeset with its warnings, or every problem of it.
type Loaded = Result<(Probeset, Diagnostics), Diagnostics>;

/// Loads a probeset from a file, or, where there is none of that name, the library's probeset of that name.
///
/// # Errors
/// Every problem of its files in one run; `S001` where there is no such file.
pub fn load(path: &Path, library: &Library) -> Loaded {
    let shown_path = path.display().to_string();
    let missing = !path.exists() || path.is_dir();
    if missing && let Some((file, text)) = path.to_str().and_then(|name| library.get(name)) {
        return Loader::new(Files::None, library).root(SourceLocation::Shipped(file.to_owned()), text.to_owned());
    }
    let text = read_bounded(path).map_err(|error| unreadable(path, &error, library))?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = parent.canonicalize().map_or(Files::None, Files::Disk);
    Loader::new(folder, library).root(place_of(&shown_path), text)
}

/// Loads a probeset from a text; `name` is how diagnostics call it. It can include the library's files only.
///
/// # Errors
/// Every problem of it in one run.
pub fn load_text(name: &str, text: &str, library: &Library) -> Loaded {
    Loader::new(Files::None, library).root(place_of(name), text.to_owned())
}

/// Loads a probeset from the copies of its files (name and text, the main one first) that a trace carries. Opens no
/// file.
///
/// # Errors
/// Every problem of it in one run; `S001` where there are no files.
pub fn from_sources(sources: &[(String, String)]) -> Loaded {
    let Some((name, text)) = sources.first() else {
        return Err(Diagnostic::error(Code::SpecUnreadable, "the trace carries no probeset").into());
    };
    Loader::new(Files::Memory(sources), &Library::new(&[])).root(place_of(name), text.clone())
}

/// Folders that are searched for includes before the library.
enum Files<'a> {
    /// Nowhere.
    None,
    /// Below this folder, which is canonical.
    Disk(PathBuf),
    /// Among these.
    Memory(&'a [(String, String)]),
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceLocation {
    /// In the probeset's folder: the folder as it was written (with its `/`), and the path in it.
    Folder(String, String),
    /// In the library.
    Shipped(String),
}

impl SourceLocation {
    /// The name in diagnostics and traces.
    fn name(&self) -> String {
        match self {
            Self::Folder(folder, path) => format!("{folder}{path}"),
            Self::Shipped(file) => format!("{}{file}", library::PREFIX),
        }
    }
}

/// The inverse of `SourceLocation::name`, for the probeset's first file.
fn place_of(name: &str) -> SourceLocation {
    if let Some(file) = name.strip_prefix(library::PREFIX) {
        return SourceLocation::Shipped(file.to_owned());
    }
    let cut = name.rfind('/').map_or(0, |at| at + 1);
    let (folder, file) = name.split_at(cut);
    SourceLocation::Folder(folder.to_owned(), file.to_owned())
}

struct Loader<'a> {
    files: Files<'a>,
    library: &'a Library,
    problems: Problems,
    sources: Vec<Arc<Source>>,
    places: Vec<SourceLocation>,
    /// The files that are being read, each included by the one before.
    open: Vec<SourceLocation>,
}

impl<'a> Loader<'a> {
    fn new(files: Files<'a>, library: &'a Library) -> Self {
        Self {
            files,
            library,
            problems: Problems::default(),
            sources: Vec::new(),
            places: Vec::new(),
            open: Vec::new(),
        }
    }

    fn root(mut self, place: SourceLocation, text: String) -> Loaded {
        let name = place.name();
        let (_, file) = name.rsplit_once(['/', ':']).unwrap_or(("", &name));
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_owned();
        let source = self.source(&place, text);
        let mut sections = Sections::new(Span::new(&source, 0..0));
        let root = self.file(place, &source, &mut sections);
        let probeset = match root {
            Some(root) => {
                sections.start_at(&root);
                let mut cx = Context {
                    sections: &sections,
                    problems: &mut self.problems,
                    local: LocalNames::default(),
                    spent: Spent::default(),
                };
                let probeset = sections::read(stem, &root, self.sources, &mut cx);
                check::check(&probeset, &sections, &mut self.problems);
                Some(probeset)
            }
            None => None,
        };
        let failed = self.problems.has_errors();
        let problems = self.problems.into_diagnostics();
        match probeset {
            Some(probeset) if !failed => Ok((probeset, problems)),
            _ => Err(problems),
        }
    }

    fn source(&mut self, place: &SourceLocation, text: String) -> Arc<Source> {
        let source = Arc::new(Source { name: place.name(), text });
        self.sources.push(Arc::clone(&source));
        self.places.push(place.clone());
        source
    }

    /// Reads a file, its includes first; returns what stands in it.
    fn file(&mut self, place: SourceLocation, source: &Arc<Source>, sections: &mut Sections) -> Option<Map> {
        if source.text.len() as u64 > limits::FILE_BYTES {
            let message = format!("the file has more than {} bytes", limits::FILE_BYTES);
            self.problems.error(Code::YamlSyntax, &Span::new(source, 0..0), message);
            return None;
        }
        let root = yaml::parse(source, &mut self.problems)?;
        let file = merge::header(&root, &mut self.problems)?.clone();
        self.open.push(place);
        if let Some(includes) = file.entries.get("include") {
            for scalar in reader::texts(&includes.value, "`include`", limits::FILES, &mut self.problems) {
                if let Err(problem) = self.include(scalar, sections) {
                    self.problems.push(problem);
                }
            }
        }
        self.open.pop();
        sections.add(&file, &mut self.problems);
        Some(file)
    }

    fn include(&mut self, scalar: &Scalar, sections: &mut Sections) -> Result<(), Diagnostic> {
        let error = |message: String| Diagnostic::error(Code::BadInclude, message).at(&scalar.span);
        let (place, text) = self.find(scalar)?;
        if self.open.contains(&place) {
            let chain: Vec<String> = self.open.iter().map(|p| format!("`{}`", shown(&p.name()))).collect();
            return Err(error(format!("`{}` includes itself", shown(&place.name())))
                .with_note(format!("included from {}", chain.join(", ")))
                .hint("remove one of the includes"));
        }
        if self.places.contains(&place) {
            return Ok(());
        }
        if self.open.len() >= limits::INCLUDE_DEPTH || self.places.len() >= limits::FILES {
            let (depth, files) = (limits::INCLUDE_DEPTH, limits::FILES);
            return Err(error("too many includes".into())
                .hint(format!("a probeset has at most {files} files, {depth} of them inside one another")));
        }
        let source = self.source(&place, text);
        self.file(place, &source, sections);
        Ok(())
    }

    /// The file that an include means: one in the probeset's folder, else one of the library.
    fn find(&self, scalar: &Scalar) -> Result<(SourceLocation, String), Diagnostic> {
        let wanted = scalar.text.as_str();
        let error = |message: String| Diagnostic::error(Code::BadInclude, message).at(&scalar.span);
        if let Some(place @ SourceLocation::Folder(folder, from)) = self.open.last() {
            let path = join(from, wanted).map_err(|why| {
                let folder = if folder.is_empty() { "the probeset's folder" } else { folder.as_str() };
                error(format!("`{}` {why}", shown(wanted))).hint(format!(
                    "give a path below {}, relative to {}",
                    shown(folder),
                    shown(&place.name())
                ))
            })?;
            let place = SourceLocation::Folder(folder.clone(), path.clone());
            if let Some(text) = self.own(&path, &place).map_err(|why| error(format!("`{}` {why}", shown(wanted))))? {
                return Ok((place, text));
            }
        }
        if let Some(found) = self.shipped(wanted) {
            return Ok(found);
        }
        let diagnostic = error(format!("file `{}` not found", shown(wanted)));
        Err(match profinfer_diagnostics::did_you_mean(&shown(wanted), self.library.names()) {
            Some(near) => diagnostic.hint(near),
            None => diagnostic.hint("give a file below the probeset's folder, or the name of a shipped probeset"),
        })
    }

    /// A file below the probeset's folder, `None` where there is none.
    fn own(&self, path: &str, place: &SourceLocation) -> Result<Option<String>, String> {
        match &self.files {
            Files::None => Ok(None),
            Files::Memory(files) => {
                let name = place.name();
                Ok(files.iter().find(|(file, _)| *file == name).map(|(_, text)| text.clone()))
            }
            Files::Disk(root) => {
                let Ok(canonical) = root.join(path).canonicalize() else { return Ok(None) };
                if !canonical.starts_with(root) {
                    return Err("leaves the probeset's folder through a symbolic link".into());
                }
                if !canonical.is_file() {
                    return Err("is not a regular file".into());
                }
                read_bounded(&canonical).map(Some).map_err(|e| format!("cannot be read: {e}"))
            }
        }
    }

    fn shipped(&self, wanted: &str) -> Option<(SourceLocation, String)> {
        if let Files::Memory(files) = &self.files {
            let yaml = format!("{}{wanted}.yaml", library::PREFIX);
            let plain = format!("{}{wanted}", library::PREFIX);
            let (name, text) = files.iter().find(|(file, _)| *file == plain || *file == yaml)?;
            return Some((place_of(name), text.clone()));
        }
        let (file, text) = self.library.get(wanted)?;
        Some((SourceLocation::Shipped(file.to_owned()), text.to_owned()))
    }
}

/// The path that `wanted` means in the file `from`, both relative to the probeset's folder.
fn join(from: &str, wanted: &str) -> Result<String, &'static str> {
    if wanted.is_empty() || wanted.len() > limits::PATH_BYTES || wanted.contains(['\0', '\\', '\n']) {
        return Err("is not a file's name");
    }
    if wanted.starts_with('/') || Path::new(wanted).is_absolute() {
        return Err("is an absolute path");
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in wanted.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("leaves the probeset's folder")?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// The text of a file, no more than a probeset may have (and a byte, by which it is found out).
fn read_bounded(path: &Path) -> io::Result<String> {
    // Opening a named pipe would wait for its other end, and a device may never end.
    let kind = path.metadata()?;
    let is_open = path.starts_with("/dev/fd") || path.starts_with("/proc") || path == Path::new("/dev/stdin");
    if !kind.is_file() && !kind.is_dir() && !is_open {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limits::FILE_BYTES + 1).read_to_end(&mut bytes)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        // The cut may have gone through a character; such a file is refused for its size.
        Err(error) if error.as_bytes().len() as u64 > limits::FILE_BYTES => {
            Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")),
    }
}

fn unreadable(path: &Path, error: &io::Error, library: &Library) -> Diagnostics {
    let wanted = path.display().to_string();
    let names: Vec<&str> = library.names().collect();
    let (message, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            let near = profinfer_diagnostics::did_you_mean(&shown(&wanted), names.iter().copied());
            let hint = near.unwrap_or_else(|| match names.as_slice() {
                [] => "give the path of a probeset".to_owned(),
                names => format!(
                    "give the path of a probeset, or the name of a shipped one: {}",
                    super::problems::list(names)
                ),
            });
            (format!("probeset `{}` not found", shown(&wanted)), hint)
        }
        _ if path.is_dir() => {
            (format!("`{}` is a folder", shown(&wanted)), "give the probeset's file in it".to_owned())
        }
        _ => (format!("cannot read `{}`: {error}", shown(&wanted)), "give a readable YAML file".to_owned()),
    };
    Diagnostic::error(Code::SpecUnreadable, message).hint(hint).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LIBRARY: Library = Library::new(&[
        ("base.yaml", "profinfer: 1\nengine: base\ntypes: { shared: { first: i32 } }\n"),
        (
            "engine.yaml",
            "profinfer: 1\nengine: shipped\ninclude: base.yaml\nmodules: { m: libm.so }\nprobes: { p: { at: \"m:f()\", role: mark } }\n",
        ),
    ]);

    const ROOT: &str =
        "profinfer: 1\nengine: e\nmodules: { m: libm.so }\nprobes: { p: { at: \"m:f()\", role: mark } }\n";

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = folder.path(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            folder
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn load(&self, name: &str) -> Loaded {
            load(&self.path(name), &LIBRARY)
        }
    }

    fn root_with(include: &str) -> String {
        format!("{ROOT}include: {include}\n")
    }

    fn only_problem(loaded: Loaded) -> Diagnostic {
        let mut problems = loaded.unwrap_err().0;
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    #[test]
    fn a_name_that_is_no_file_is_a_shipped_probeset() {
        for name in ["engine", "engine.yaml"] {
            let (probeset, _) = load(Path::new(name), &LIBRARY).unwrap();
            assert_eq!((probeset.name.as_str(), probeset.engine.as_str()), ("engine", "shipped"));
            let names: Vec<&str> = probeset.sources.iter().map(|s| s.name.as_str()).collect();
            assert_eq!(names, ["builtin:engine.yaml", "builtin:base.yaml"]);
        }
    }

    #[test]
    fn a_file_goes_before_a_shipped_probeset_and_a_folder_does_not() {
        let folder = Folder::new(&[("engine.yaml", ROOT)]);
        assert_eq!(folder.load("engine.yaml").unwrap().0.engine.value, "e");
        // Not found below the temporary folder, and its name is no shipped one either.
        let problem = only_problem(folder.load("engin.yaml"));
        assert_eq!(problem.code, Code::SpecUnreadable);
    }

    #[test]
    fn what_is_no_text_file_cannot_be_read() {
        let folder = Folder::new(&[("sub/x.yaml", "")]);
        fs::write(folder.path("latin1.yaml"), b"engine: \xe9").unwrap();
        assert_eq!(only_problem(folder.load("latin1.yaml")).code, Code::SpecUnreadable);
        assert!(only_problem(folder.load("sub")).message.contains("is a folder"));
        let near = only_problem(load(Path::new("engin"), &LIBRARY));
        assert_eq!(near.hint.as_deref(), Some("did you mean `engine`?"));
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let bytes = usize::try_from(limits::FILE_BYTES).unwrap();
        let folder = Folder::new(&[("large.yaml", &"#é".repeat(bytes))]);
        assert_eq!(only_problem(folder.load("large.yaml")).code, Code::YamlSyntax);
    }

    #[test]
    fn includes_are_relative_to_their_file_and_read_once() {
        let inner = "profinfer: 1\ninclude: [../common.yaml, base]\ntypes: { v: { a: i32 } }\n";
        let common = "profinfer: 1\ntypes: { v: { a: i32, b: i32 } }\n";
        let root = root_with("[sub/inner.yaml, ./common.yaml]");
        let folder = Folder::new(&[("root.yaml", &root), ("sub/inner.yaml", inner), ("common.yaml", common)]);
        let (probeset, _) = folder.load("root.yaml").unwrap();
        assert_eq!(probeset.sources.len(), 4);
        assert_eq!(probeset.types["v"].members.len(), 2, "members of several files are put together");
        assert!(probeset.types.contains_key("shared"), "shipped files are found from any folder");
    }

    #[test]
    fn a_trace_s_copies_load_without_the_files() {
        let inner = "profinfer: 1\ninclude: [../common.yaml, base]\n";
        let common = "profinfer: 1\ntypes: { v: { b: i32 } }\n";
        let root = root_with("sub/inner.yaml");
        let folder = Folder::new(&[("root.yaml", &root), ("sub/inner.yaml", inner), ("common.yaml", common)]);
        let (first, _) = folder.load("root.yaml").unwrap();
        drop(folder);
        let copies: Vec<(String, String)> = first.sources.iter().map(|s| (s.name.clone(), s.text.clone())).collect();
        let (again, _) = from_sources(&copies).unwrap();
        assert_eq!(again.name, "root");
        assert_eq!(again.sources, first.sources);
        assert_eq!(format!("{:?}", again.types), format!("{:?}", first.types));

        let (shipped, _) = load(Path::new("engine"), &LIBRARY).unwrap();
        let copies: Vec<(String, String)> = shipped.sources.iter().map(|s| (s.name.clone(), s.text.clone())).collect();
        assert_eq!(from_sources(&copies).unwrap().0.sources, shipped.sources);
        assert_eq!(only_problem(from_sources(&copies[..1])).code, Code::BadInclude);
        assert_eq!(only_problem(from_sources(&[])).code, Code::SpecUnreadable);
    }

    #[test]
    fn an_include_cannot_leave_the_folder() {
        let outside = Folder::new(&[("secret.yaml", ROOT)]);
        let secret = outside.path("secret.yaml");
        for include in ["../secret.yaml", "sub/../../secret.yaml", secret.to_str().unwrap()] {
            let folder = Folder::new(&[("root.yaml", &root_with(include))]);
            assert_eq!(only_problem(folder.load("root.yaml")).code, Code::BadInclude, "{include}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn nor_through_a_symbolic_link() {
        let outside = Folder::new(&[("secret.yaml", ROOT)]);
        let folder =
            Folder::new(&[("root.yaml", &root_with("link.yaml")), ("other.yaml", &root_with("sub/secret.yaml"))]);
        std::os::unix::fs::symlink(outside.path("secret.yaml"), folder.path("link.yaml")).unwrap();
        std::os::unix::fs::symlink(outside.0.path(), folder.path("sub")).unwrap();
        for root in ["root.yaml", "other.yaml"] {
            let problem = only_problem(folder.load(root));
            assert_eq!(problem.code, Code::BadInclude);
            assert!(problem.message.contains("symbolic link"), "{}", problem.message);
        }
    }

    #[test]
    fn includes_that_come_round_or_never_end_are_refused() {
        let folder = Folder::new(&[("a.yaml", &root_with("b.yaml")), ("b.yaml", "profinfer: 1\ninclude: a.yaml\n")]);
        let problem = only_problem(folder.load("a.yaml"));
        assert_eq!(problem.code, Code::BadInclude);
        assert!(problem.message.contains("includes itself"), "{}", problem.message);

        let chain: Vec<(String, String)> =
            (0..20).map(|i| (format!("{i}.yaml"), format!("profinfer: 1\ninclude: {}.yaml\n", i + 1))).collect();
        let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let folder = Folder::new(&chain);
        fs::write(folder.path("root.yaml"), root_with("0.yaml")).unwrap();
        assert_eq!(only_problem(folder.load("root.yaml")).message, "too many includes");
    }

    #[test]
    fn problems_of_an_included_file_are_shown_there() {
        let folder = Folder::new(&[
            ("root.yaml", &root_with("part.yaml")),
            ("part.yaml", "profinfer: 1\ntypes: { v: { a: in32 } }\nx: 1\n"),
        ]);
        let problems = folder.load("root.yaml").unwrap_err();
        let codes: Vec<Code> = problems.0.iter().map(|d| d.code).collect();
        assert_eq!(codes, [Code::UnknownName, Code::UnknownKey]);
        assert!(problems.0.iter().all(|d| d.span.as_ref().unwrap().source.name.ends_with("part.yaml")));
    }

    /// The error of a probeset that has `entries` under `analysis: context`.
    fn problem_of(entries: &str, rest: &str) -> Option<Diagnostic> {
        let text = format!("profinfer: 1\nengine: e\nmodules: {{ m: libm.so }}\n{rest}\nanalysis:\n{entries}");
        load_text("test.yaml", &text, &Library::SHIPPED).err().map(|problems| {
            assert_eq!(problems.0.len(), 1, "{problems:?}");
            problems.0[0].clone()
        })
    }

    #[test]
    fn a_probeset_is_bounded_as_a_whole() {
        let probe = "probes: { p: { at: \"m:f()\", role: mark } }";
        let named =
            |count: usize, value: &str| (0..count).map(|i| format!("    K{i}: '{value}'\n")).collect::<String>();
        let patterns =
            |count| format!("  let: {{ one: 'name ~ \"a\" + name ~ \"b\"' }}\n  context:\n{}", named(count, "one"));
        // The two patterns are also in `let`.
        assert!(problem_of(&patterns(limits::REGEXES / 2 - 1), probe).is_none());
        let problem = problem_of(&patterns(limits::REGEXES / 2), probe).unwrap();
        assert_eq!(problem.code, Code::OutOfRange);
        assert!(problem.message.contains("512 regular expressions"), "{problem:?}");
        let parts = |count| {
            let (some, many) = (format!("bytes{}", " + bytes".repeat(99)), format!("some{}", " + some".repeat(8)));
            format!("  let: {{ some: '{some}', many: '{many}' }}\n  context:\n{}", named(count, "many"))
        };
        assert!(problem_of(&parts(200), probe).is_none());
        let problem = problem_of(&parts(400), probe).unwrap();
        assert!(problem.message.contains("names, numbers and operators"), "{problem:?}");
        let names = |count: usize| {
            let each = |i| format!("  p{i}: {{ at: 'm:{}{i}()', role: mark }}\n", "f*".repeat(3) + &"g".repeat(900));
            format!("probes:\n{}", (0..count).map(each).collect::<String>())
        };
        assert!(problem_of("  prefill: tokens > 1\n", &names(200)).is_none());
        let problem = problem_of("  prefill: tokens > 1\n", &names(400)).unwrap();
        assert!(problem.message.contains("names of functions"), "{problem:?}");
    }
}
