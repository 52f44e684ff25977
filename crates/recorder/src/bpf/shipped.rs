//! Objects that this program carries: those of the shipped probesets, so that they are recorded without a compiler. A
//! package is built with them (`scripts/package`); other builds have none.

use super::features::Kernels;
use super::identity;
use object::read::archive::ArchiveFile;
use profinfer_compiler::codegen::CSource;
use std::io::Read;

/// An archive (`ar`) of objects, each compressed with zstd and named by [`identity::name`]; empty where there are none.
static ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/objects.a"));
/// Bytes of an object.
const MAX_OBJECT: u64 = 64 << 20;

/// What a person who has no clang must know of the objects.
pub(super) const NOTE: &str = "this program carries the objects of shipped probesets, for each --level; other probesets, \
                               --probe, --no-probe and --counter need clang";

/// Whether there are any.
pub fn any() -> bool {
    !ARCHIVE.is_empty()
}

/// The object of a program for such kernels, if this program carries it.
pub(super) fn find(source: &CSource, kernels: Kernels) -> Option<Vec<u8>> {
    if any() { find_in(ARCHIVE, source, kernels) } else { None }
}

/// One for these kernels comes before one for old kernels, which works on all.
fn find_in(archive: &[u8], source: &CSource, kernels: Kernels) -> Option<Vec<u8>> {
    let archive_file = ArchiveFile::parse(archive).ok()?;
    let of = |kernels: Kernels| {
        let wanted = identity::identity(source, kernels);
        let name = identity::name(&wanted);
        let named = |member: &object::read::archive::ArchiveMember<'_>| member.name() == name.as_bytes();
        let member = archive_file.members().filter_map(Result::ok).find(named)?;
        let mut object = Vec::new();
        let compressed = zstd::Decoder::new(member.data(archive).ok()?).ok()?;
        compressed.take(MAX_OBJECT).read_to_end(&mut object).ok()?;
        Some(object).filter(|object| identity::read(object).as_ref() == Some(&wanted))
    };
    of(kernels).or_else(|| of(Kernels::Old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Compiler, Translation};
    use profinfer_binary::Arch;

    #[test]
    fn an_object_is_found_by_its_program_and_kernels() {
        let source = |text: &str| CSource { name: "toy.bpf.c".into(), text: text.into(), arch: Arch::X86_64 };
        let (one, two) = (source("int f(void *context) { return 0; }\n"), source("int g(void *c) { return 1; }\n"));
        let name = |source: &CSource, kernels| identity::name(&identity::identity(source, kernels));
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler::find().unwrap();
        let mut command = std::process::Command::new("ar");
        command.arg("rcs").arg("objects.a").current_dir(folder.path());
        let mut objects = Vec::new();
        for (source, kernels) in [(&one, Kernels::Recent), (&one, Kernels::Old), (&two, Kernels::Old)] {
            let object = compiler.compile(&Translation { source, sources: &[], kernels, attach: None }).unwrap();
            let name = name(source, kernels);
            std::fs::write(folder.path().join(&name), zstd::encode_all(object.as_slice(), 1).unwrap()).unwrap();
            command.arg(name);
            objects.push(object);
        }
        assert!(command.status().unwrap().success());
        let archive = std::fs::read(folder.path().join("objects.a")).unwrap();
        assert_eq!(find_in(&archive, &one, Kernels::Recent).unwrap(), objects[0]);
        assert_eq!(find_in(&archive, &one, Kernels::Old).unwrap(), objects[1]);
        // One for old kernels works on recent ones, too.
        assert_eq!(find_in(&archive, &two, Kernels::Recent).unwrap(), objects[2]);
        assert_eq!(find_in(&archive, &source("int h;"), Kernels::Recent), None);
        assert_eq!(find_in(b"no archive", &one, Kernels::Recent), None);
        assert_eq!(find_in(&archive[..archive.len() / 2], &two, Kernels::Recent), None);
        // What has another's name is not taken for it.
        let [of_one, of_two] = [&one, &two].map(|source| name(source, Kernels::Old));
        std::fs::copy(folder.path().join(of_one), folder.path().join(&of_two)).unwrap();
        let mut again = std::process::Command::new("ar");
        again.args(["rcs", "objects.a", &of_two]).current_dir(folder.path());
        assert!(again.status().unwrap().success());
        assert_eq!(find_in(&std::fs::read(folder.path().join("objects.a")).unwrap(), &two, Kernels::Old), None);
    }
}
