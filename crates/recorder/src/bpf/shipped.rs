//! Objects that this program carries: those of the shipped probesets, so that they are recorded without a compiler. A
//! package is built with them (`scripts/package`); other builds have none.

use super::features::Kernels;
use super::identity;
use object::read::archive::ArchiveFile;
use profinfer_compiler::codegen::CSource;
use std::io::Read;

/// An archive of objects (`ar`), compressed with zstd; empty where there are none.
static ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/objects.a.zst"));
/// Bytes of the archive.
const MAX_ARCHIVE: u64 = 64 << 20;

/// What a person who has no clang must know of the objects.
pub(super) const NOTE: &str = "this program carries the objects of shipped probesets, for each --level; other probesets, \
                               --probe, --no-probe and --counter need clang";

/// Whether there are any.
pub fn any() -> bool {
    !ARCHIVE.is_empty()
}

/// The object of a program for such kernels, if this program carries it. The archive, some megabytes, is unpacked each
/// time, which takes ten milliseconds: a recorder needs it once.
pub(super) fn find(source: &CSource, kernels: Kernels) -> Option<Vec<u8>> {
    if !any() {
        return None;
    }
    let mut archive = Vec::new();
    zstd::Decoder::new(ARCHIVE).ok()?.take(MAX_ARCHIVE).read_to_end(&mut archive).ok()?;
    find_in(&archive, source, kernels)
}

/// One for these kernels comes before one for old kernels, which works on all.
fn find_in(archive: &[u8], source: &CSource, kernels: Kernels) -> Option<Vec<u8>> {
    let objects = || {
        let members = ArchiveFile::parse(archive).ok().into_iter().flat_map(|archive| archive.members());
        members.filter_map(|member| member.ok()?.data(archive).ok())
    };
    let of = |kernels: Kernels| {
        let wanted = Some(identity::identity(source, kernels));
        objects().find(|object| identity::read(object) == wanted).map(<[u8]>::to_vec)
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
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler::find().unwrap();
        let mut command = std::process::Command::new("ar");
        command.arg("rcs").arg("objects.a").current_dir(folder.path());
        let mut objects = Vec::new();
        for (name, source, kernels) in
            [("one.o", &one, Kernels::Recent), ("one-old.o", &one, Kernels::Old), ("two-old.o", &two, Kernels::Old)]
        {
            let object = compiler.compile(&Translation { source, sources: &[], kernels, attach: None }).unwrap();
            std::fs::write(folder.path().join(name), &object).unwrap();
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
    }
}
