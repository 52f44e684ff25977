//! The files of an emulated machine: a program of ours, the targets, and objects that were made here, as it has no clang.

use super::machine::{Arch, run, script};
use super::{PROBESET, ROOT, counting, locked, looked_up, returned, shipped};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// `profinfer` on this machine.
pub(crate) fn profinfer(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.arg(subcommand).current_dir(ROOT);
    command
}

/// What makes programs for a machine.
pub(crate) struct Tools {
    pub(crate) arch: Arch,
    compiler: PathBuf,
    pub(crate) strip: PathBuf,
}

impl Tools {
    pub(crate) fn of(arch: Arch) -> Self {
        match arch {
            Arch::Amd64 => Self { arch, compiler: "cc".into(), strip: "strip".into() },
            Arch::Arm64 => {
                let tools = PathBuf::from(script("get.sh", &["toolchain"]));
                Self { arch, compiler: tools.join("cc"), strip: tools.join("strip") }
            }
        }
    }

    /// Compiles files of `tests/targets`.
    pub(crate) fn compile(&self, program: &Path, flags: &[&str], files: &[&str]) {
        let sources = Path::new(ROOT).join("tests/targets");
        let mut command = Command::new(&self.compiler);
        command
            .args(["-O2", "-g", "-fasynchronous-unwind-tables", "-Wl,--build-id=sha1", "-o"])
            .arg(program)
            .args(flags);
        run(command.args(files.iter().map(|file| sources.join(file))).args(["-ldl", "-lpthread"]));
    }

    /// Makes an object of a probeset for old and for recent kernels, where [`super::machine::Kernel::objects`] says.
    pub(crate) fn build(&self, probeset: &str, options: &[&str], root: &Path, name: &str) {
        for (folder, kernel) in [("recent", None), ("old", Some("--old-kernel"))] {
            let mut build = profinfer("build");
            build.args([probeset, "--arch", self.arch.profinfer()]).args(options);
            build.arg("-o").arg(root.join("objects").join(folder).join(name)).args(kernel);
            run(&mut build);
        }
    }
}

/// All that the tests of an architecture want of a machine, but the steps: a copy of what is made once.
pub(crate) fn lay_out(arch: Arch) -> tempfile::TempDir {
    static MADE: [OnceLock<()>; 2] = [const { OnceLock::new() }; 2];
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines").join(arch.debian());
    MADE[usize::from(arch == Arch::Arm64)].get_or_init(|| {
        let _ = fs::remove_dir_all(&made);
        fs::create_dir_all(&made).unwrap();
        make(arch, &made);
    });
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("cp").arg("-a").arg(made.join(".")).arg(folder.path()));
    folder
}

fn make(arch: Arch, root: &Path) {
    let folders = ["bin", "dev", "proc", "sys", "run", "root", "lib64", "tests/targets", "cache", "steps"];
    for name in folders.iter().chain(&["objects/old", "objects/recent"]) {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    install(Path::new(&script("get.sh", &["busybox", arch.debian()])), &root.join("bin/busybox"));
    install(&Path::new(ROOT).join("tests/kernels/init"), &root.join("init"));
    for name in ["toy.yaml", "toy_kernels.yaml", "known_counts.yaml", "returned.yaml", "looked_up.yaml"] {
        fs::copy(Path::new(ROOT).join("tests/targets").join(name), root.join("tests/targets").join(name)).unwrap();
    }
    for options in [&[][..], &["--old-kernel"]] {
        let mut build = profinfer("build");
        build.args([PROBESET, "--arch", arch.profinfer(), "-o", "/dev/null"]).args(options);
        run(build.env("PROFINFER_CACHE", root.join("cache")));
    }
    // Objects are known by the compiler that made them, too. The machine's says that it is that one.
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let version = run(Command::new(clang).arg("--version"));
    let clang = format!("#!/bin/sh\necho '{}'\n", version.lines().next().unwrap());
    fs::write(root.join("bin/clang"), clang).unwrap();
    fs::set_permissions(root.join("bin/clang"), fs::Permissions::from_mode(0o755)).unwrap();
    let tools = Tools::of(arch);
    compile_toys(&tools, &root.join("bin"));
    match arch {
        Arch::Amd64 => lay_out_amd64(root),
        Arch::Arm64 => lay_out_arm64(root),
    }
    shipped::lay_out(&tools, root);
    locked::lay_out(&tools, root);
    returned::lay_out(&tools, root);
    looked_up::lay_out(&tools, root);
    counting::lay_out(&tools, root);
    run(Command::new("chmod").arg("-R").arg("go-w").arg(root));
}

fn lay_out_amd64(root: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_profinfer"));
    install_stripped("strip", program, &root.join("bin/profinfer"));
    let needed = run(Command::new("ldd").arg(program)) + &run(Command::new("ldd").arg(root.join("bin/toy")));
    for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
        let library = Path::new(library.trim_end_matches(':'));
        let place = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        install(library, &place);
    }
}

fn lay_out_arm64(root: &Path) {
    install(&packaged(Arch::Arm64), &root.join("bin/profinfer"));
    let tools = PathBuf::from(script("get.sh", &["toolchain"]));
    let libraries = tools.join("sysroot/usr/lib/aarch64-linux-gnu");
    fs::create_dir_all(root.join("lib/aarch64-linux-gnu")).unwrap();
    for name in ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libgcc_s.so.1"] {
        install(&libraries.join(name), &root.join("lib/aarch64-linux-gnu").join(name));
    }
    install(&libraries.join("ld-linux-aarch64.so.1"), &root.join("lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"));
    symlink("aarch64-linux-gnu/ld-linux-aarch64.so.1", root.join("lib/ld-linux-aarch64.so.1")).unwrap();
}

/// The program as it is packaged for an architecture, with what it links inside.
pub(crate) fn packaged(arch: Arch) -> PathBuf {
    let packages = script("../installed/packages.sh", &[env!("CARGO_BIN_EXE_profinfer"), arch.profinfer()]);
    let name = format!("profinfer-{}-linux-{}", env!("CARGO_PKG_VERSION"), arch.profinfer());
    Path::new(&packages).join(name)
}

fn compile_toys(tools: &Tools, folder: &Path) {
    let toys: [(&str, &[&str], &[&str]); 3] = [
        ("toy", &["-DLINKED"], &["toy.c", "toy_engine.c"]),
        ("toy_late", &[], &["toy.c"]),
        ("libtoy_engine.so", &["-shared", "-fPIC"], &["toy_engine.c"]),
    ];
    for (name, flags, files) in toys {
        tools.compile(&folder.join(name), flags, files);
    }
}

/// Copies a file; not the symbolic link to it.
pub(crate) fn install(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()));
}

fn install_stripped(strip: &str, from: &Path, to: &Path) {
    install(from, to);
    run(Command::new(strip).arg(to));
}
