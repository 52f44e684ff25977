//! The global variables of a BPF object: name → section and place in it, from the ELF symbol table.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::HashMap;

/// Where a variable is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// `.rodata`, `.data` or `.bss`.
    pub(super) section: String,
    /// Bytes from the section's start.
    pub(super) offset: usize,
    /// Bytes.
    pub(super) size: usize,
}

/// Every global variable of an ELF object; none where it is not readable.
pub(super) fn variables(elf: &[u8]) -> HashMap<String, Variable> {
    let Ok(file) = object::File::parse(elf) else { return HashMap::new() };
    let data = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data);
    data.filter_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?.name().ok()?.to_owned();
        let offset = usize::try_from(symbol.address()).ok()?;
        let size = usize::try_from(symbol.size()).ok()?;
        Some((symbol.name().ok()?.to_owned(), Variable { section, offset, size }))
    })
    .collect()
}
