//! Which program an object was compiled from: a text in the object itself, so that one that was compiled elsewhere is
//! used only for the very program that is asked for.

use super::features::Kernels;
use super::variables::variables;
use object::{Object, ObjectSection};
use profinfer_compiler::codegen::CSource;
use profinfer_diagnostics::{Code, Diagnostic};
use sha2::{Digest, Sha256};

/// The variable of the object that has the text.
const VARIABLE: &str = "pf_made_from";
/// How the text calls [`Kernels`].
const RECENT: &str = "recent-kernels";
const OLD: &str = "old-kernels";
/// Bytes of the text.
const MAX_TEXT: usize = 512;

/// How an object of a program describes itself: who compiled it, for which machine, from what.
pub(super) fn identity(source: &CSource, kernels: Kernels) -> String {
    let hash = Sha256::digest(significant(&source.standalone()).as_bytes());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let kernels = match kernels {
        Kernels::Recent => RECENT,
        Kernels::Old => OLD,
    };
    format!("profinfer {} {} {hash} {kernels}", env!("CARGO_PKG_VERSION"), source.arch)
}

/// The name of an object among those of one version and instruction set, by its text: the last two words, as
/// `scripts/package` names it.
pub(super) fn name(identity: &str) -> String {
    identity.split(' ').skip(3).collect::<Vec<_>>().join(".")
}

/// The line of C that puts the text into the object.
pub(super) fn declaration(source: &CSource, kernels: Kernels) -> String {
    format!("\nconst char {VARIABLE}[] __attribute__((used)) = \"{}\";\n", identity(source, kernels))
}

/// Whether an object was compiled from a program, for such kernels. One for old kernels works on recent ones, too.
///
/// # Errors
/// `B021`, with what it was compiled from.
pub(super) fn check(name: &str, object: &[u8], source: &CSource, kernels: Kernels) -> Result<(), Diagnostic> {
    let refused = |message: String| {
        Diagnostic::error(Code::ObjectDiffers, message)
            .hint("`profinfer build` with the same probeset, --level, --probe and --no-probe makes the object")
    };
    let Some(found) = read(object) else {
        return Err(refused(format!("{name} is no object that profinfer compiled")));
    };
    let wanted = identity(source, kernels);
    if found == wanted || found == identity(source, Kernels::Old) {
        return Ok(());
    }
    let parts = |text: &str| text.splitn(5, ' ').map(str::to_owned).collect::<Vec<_>>();
    let (has, wants) = (parts(&found), parts(&wanted));
    let same = |part| has.get(part) == wants.get(part);
    if same(1) && same(2) && same(3) {
        let message = format!("{name} was compiled for kernels that have what this one lacks");
        return Err(
            Diagnostic::error(Code::ObjectDiffers, message).hint("`profinfer build --old-kernel` makes the object")
        );
    }
    let message = match (same(1), same(2)) {
        (false, _) => format!("{name} was compiled by another version of profinfer"),
        (_, false) => format!("{name} was compiled for another instruction set"),
        _ => format!("{name} was compiled from another probeset, or for other probes of it"),
    };
    Err(refused(message).with_note(format!("it is {found}")).with_note(format!("what is recorded is {wanted}")))
}

/// How an object describes itself.
pub(super) fn read(object: &[u8]) -> Option<String> {
    let variable = variables(object).remove(VARIABLE).filter(|variable| variable.size <= MAX_TEXT)?;
    let file = object::File::parse(object).ok()?;
    let section = file.section_by_name(&variable.section)?.data().ok()?;
    let text = section.get(variable.offset..variable.offset.checked_add(variable.size)?)?;
    let text = text.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The program without its comments and its references to places in the probeset: those change with a file's name.
fn significant(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("#line "));
    let mut stripped = String::with_capacity(text.len());
    let (mut in_comment, mut in_string) = (false, false);
    for line in lines {
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            match (c, characters.peek()) {
                ('*', Some('/')) if in_comment => {
                    characters.next();
                    in_comment = false;
                }
                _ if in_comment => {}
                ('/', Some('*')) if !in_string => {
                    characters.next();
                    in_comment = true;
                }
                ('\\', Some(_)) if in_string => {
                    stripped.push(c);
                    stripped.extend(characters.next());
                }
                _ => {
                    in_string ^= c == '"';
                    stripped.push(c);
                }
            }
        }
        in_string = false;
        stripped.push('\n');
    }
    stripped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Compiler, Translation};
    use profinfer_binary::Arch;

    fn source(text: &str) -> CSource {
        CSource { name: "toy.bpf.c".into(), text: text.into(), arch: Arch::X86_64 }
    }

    fn compiled(source: &CSource) -> Vec<u8> {
        Compiler::find()
            .unwrap()
            .compile(&Translation { source, sources: &[], kernels: Kernels::Recent, attach: None })
            .unwrap()
    }

    #[test]
    fn comments_and_places_do_not_matter_but_all_else_does() {
        let one = source("#line 1 \"a.yaml\"\nint a; /* a.yaml:1 */\nchar *b = \"/* no comment */ \\\" */\";\n");
        let same =
            source("#line 7 \"b/a.yaml\"\nint a; /* b/a.yaml:7\n x */\nchar *b = \"/* no comment */ \\\" */\";\n");
        let significant = |source: &CSource| significant(&source.text).replace([' ', '\n'], "");
        assert_eq!(significant(&one), significant(&same));
        assert_eq!(significant(&one), "inta;char*b=\"/*nocomment*/\\\"*/\";");
        let identity = |source: &CSource| identity(source, Kernels::Recent);
        assert_ne!(identity(&one), identity(&source("int a;")));
        assert_ne!(identity(&one), identity(&CSource { arch: Arch::Aarch64, ..one.clone() }));
    }

    #[test]
    fn an_object_is_known_by_its_program() {
        let one = source("int f(void *context) { return 0; }\n");
        let object = compiled(&one);
        assert_eq!(check("toy.bpf.o", &object, &one, Kernels::Recent), Ok(()));
        let old = check("toy.bpf.o", &object, &one, Kernels::Old).unwrap_err();
        assert!(old.message.contains("kernels"), "{old:?}");
        let other =
            check("toy.bpf.o", &object, &source("int f(void *context) { return 1; }\n"), Kernels::Recent).unwrap_err();
        assert_eq!(other.code, Code::ObjectDiffers);
        assert!(other.message.contains("another probeset"), "{other:?}");
        let arch = CSource { arch: Arch::Aarch64, ..one.clone() };
        assert!(check("toy.bpf.o", &object, &arch, Kernels::Recent).unwrap_err().message.contains("instruction set"));
        let version = String::from_utf8_lossy(&object).contains(env!("CARGO_PKG_VERSION"));
        assert!(version, "the version stands in it as text");
        let mut older = object.clone();
        let at = older.windows(10).position(|window| window == b"profinfer ").unwrap() + 10;
        older[at] = b'9';
        assert!(check("toy.bpf.o", &older, &one, Kernels::Recent).unwrap_err().message.contains("another version"));
    }

    #[test]
    fn what_is_no_object_of_ours_is_refused() {
        let one = source("int f(void *context) { return 0; }\n");
        for bytes in [&b""[..], b"\x7fELF", &compiled(&one)[..100], &std::fs::read("/proc/self/exe").unwrap()[..4000]] {
            let problem = check("x.o", bytes, &one, Kernels::Recent).unwrap_err();
            assert!(problem.message.contains("no object that profinfer compiled"), "{problem:?}");
        }
    }
}
