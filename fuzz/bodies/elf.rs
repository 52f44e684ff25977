//! What is asked of a file that may be a binary: its symbols, virtual tables, static probes and debug information.

use profinfer_binary::{Files, TargetBytes, TargetFiles, TargetSymbols, TargetTypes, open_path};
use profinfer_probeset::path::NamePattern;
use std::io::Write;

pub(crate) fn feed(bytes: &[u8]) {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let Ok(target) = open_path(file.path(), Files::new(None)) else { return };
    for number in 0..target.files().len() {
        drop(target.functions(number, &NamePattern("*".to_owned())));
        for slot in [0, 2, 4096] {
            let found = target.overrides(number, "Base", slot);
            assert!(found.functions.len() <= bytes.len());
        }
        drop(target.class_like(number, "Base"));
        drop(target.static_sites(number, "toy", "step"));
        drop(target.layout(number, "tensor"));
        drop(target.enumeration(number, "op"));
        drop(target.signatures(number, &["run"]));
        drop(target.inlined(number, &NamePattern("run*".to_owned())));
        assert!(target.class_bases(number).len() <= bytes.len());
        assert!(!target.has_bytes(number, b"no such bytes in any file"));
    }
}
