//! One ELF file, mapped into memory: what it is, what it needs, where its addresses lie in the file. The bytes are
//! not trusted: every offset in them is checked where it is used.

use super::Arch;
use super::FileState;
use super::bytes::FileBytes;
#[cfg(target_os = "linux")]
use super::inspected::InspectedFile;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, SectionKind};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// The parsed headers of an image: cheap to make again for each question.
pub(crate) type Headers<'a> = ElfFile64<'a, Endianness>;

/// Build-ids are 16 to 20 bytes; longer ones are forged.
const MAX_BUILD_ID: usize = 64;
/// The maximum number of entries of the dynamic section.
const MAX_DYNAMIC_STRINGS: usize = 4096;
/// Libraries that a file needs, and folders where it wants them searched.
const MAX_NEEDED: usize = 1024;
const MAX_FOLDERS: usize = 256;
/// Bytes of a library's name, and of a list of folders.
const MAX_NAME: usize = 4096;
const MAX_FOLDER_LIST: usize = 64 << 10;
/// Segments that are mapped; linkers write a handful.
const MAX_SEGMENTS: usize = 256;
/// How often all segments together may map the file: linkers map each byte once, some twice at a page's end.
const MAX_TIMES_MAPPED: u64 = 4;

/// Why a file is no use as a target, in words that follow its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It cannot be opened or mapped.
    Unreadable(String),
    /// It is something else than a 64-bit little-endian ELF program or library.
    NotElf(&'static str),
    /// It is for another instruction set.
    OtherArch(u16),
}

/// A part of the file that is mapped, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    address: u64,
    file: Range<u64>,
    executable: bool,
    writable: bool,
}

/// Values of the dynamic section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// `DT_NEEDED`, in order.
    pub(crate) needed: Vec<String>,
    /// `DT_RPATH`, split; ignored by the dynamic linker where there is a run path.
    pub(crate) rpath: Vec<String>,
    /// `DT_RUNPATH`, split.
    pub(crate) runpath: Vec<String>,
}

/// A mapped ELF program or library.
#[derive(Debug)]
pub(crate) struct Image {
    map: FileBytes,
    arch: Arch,
    build_id: Option<String>,
    segments: Vec<Segment>,
    /// Bytes of the headers that the file begins with.
    headers_end: u64,
    /// It is always mapped at the addresses in the file.
    fixed: bool,
    /// Where the dynamic section is in the file.
    dynamic: Option<Range<u64>>,
    /// The file that is mapped; `None` if it is not a separate file.
    file: Option<FileState>,
}

impl Image {
    /// Maps a file and reads its headers, nothing else.
    pub(crate) fn open(path: &Path) -> Result<Self, Unusable> {
        let (map, file) = map(path)?;
        Ok(Self { file, ..Self::of(map, false)? })
    }

    /// The same for an open file.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_file(file: &InspectedFile) -> Result<Self, Unusable> {
        let map = map_file(file.file(), file.size())?;
        Ok(Self { file: Some(file.state()), ..Self::of(map, false)? })
    }

    /// The same for a file that need not be linked: the part of a program's debug information that was left beside its
    /// object.
    pub(crate) fn open_part(path: &Path) -> Result<Self, Unusable> {
        let (map, file) = map(path)?;
        Ok(Self { file, ..Self::of(map, true)? })
    }

    /// The state of the file when it was mapped.
    pub(crate) fn file(&self) -> Option<&FileState> {
        self.file.as_ref()
    }

    /// Whether the file was cut while it was read: nothing that was read of it may be believed.
    pub(crate) fn is_torn(&self) -> bool {
        self.map.is_torn()
    }

    /// An image that stands inside of another one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Unusable> {
        Self::of(FileBytes::of_bytes(bytes).map_err(|e| Unusable::Unreadable(e.to_string()))?, false)
    }

    fn of(map: FileBytes, may_be_unlinked: bool) -> Result<Self, Unusable> {
        let header =
            elf::FileHeader64::<Endianness>::parse(&*map).map_err(|_| Unusable::NotElf("is not a 64-bit ELF file"))?;
        let endian = header.endian().map_err(|_| Unusable::NotElf("has a malformed ELF header"))?;
        if endian != Endianness::Little {
            return Err(Unusable::NotElf("is for a big-endian machine"));
        }
        let arch = match header.e_machine(endian) {
            elf::EM_X86_64 => Arch::X86_64,
            elf::EM_AARCH64 => Arch::Aarch64,
            other => return Err(Unusable::OtherArch(other.0)),
        };
        match header.e_type(endian) {
            elf::ET_EXEC | elf::ET_DYN => {}
            elf::ET_REL if may_be_unlinked => {}
            elf::ET_REL => return Err(Unusable::NotElf("is an object file that is not linked yet")),
            elf::ET_CORE => return Err(Unusable::NotElf("is a core dump")),
            _ => return Err(Unusable::NotElf("is neither a program nor a library")),
        }
        let segments = segments(header, endian, &map)?;
        let dynamic = header
            .program_headers(endian, &*map)
            .map_err(|_| Unusable::NotElf("has malformed program headers"))?
            .iter()
            .find(|segment| segment.p_type(endian) == elf::PT_DYNAMIC)
            .map(|s| s.p_offset(endian)..s.p_offset(endian).saturating_add(s.p_filesz(endian)));
        let fixed = header.e_type(endian) == elf::ET_EXEC;
        let build_id = build_id(header, endian, &map);
        let header_bytes = std::mem::size_of::<elf::FileHeader64<Endianness>>() as u64;
        // Tools that change files move this table to the end.
        let follows = header.e_phoff(endian) == header_bytes;
        let table = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
        let headers_end = header_bytes + if follows { table } else { 0 };
        Ok(Self { map, arch, build_id, segments, headers_end, fixed, dynamic, file: None })
    }

    /// The instruction set.
    pub(crate) fn arch(&self) -> Arch {
        self.arch
    }

    /// Lower-case hexadecimal.
    pub(crate) fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Sections and symbol tables; `None` where they are malformed.
    pub(crate) fn headers(&self) -> Option<Headers<'_>> {
        Headers::parse(&*self.map).ok()
    }

    /// Whether it has a full table of symbols, not only that of what it exports.
    pub(crate) fn has_symbols(&self) -> bool {
        self.headers().is_some_and(|headers| !headers.elf_symbol_table().is_empty())
    }

    /// Whether it has debug information.
    pub(crate) fn has_debug_information(&self) -> bool {
        self.headers().is_some_and(|headers| {
            let has = |name| headers.section_by_name(name).is_some_and(|section| section.size() > 0);
            has(".debug_info") || has(".debug_types")
        })
    }

    /// Where the instruction at an address is in the file; `None` where it is not in executable bytes of it.
    pub(crate) fn code_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().filter(|segment| segment.executable).find_map(|segment| {
            let offset = segment.file.start.checked_add(address.checked_sub(segment.address)?)?;
            (segment.file.contains(&offset) && offset < self.map.len() as u64).then_some(offset)
        })
    }

    /// The address of a byte of the file; `None` where it is not mapped.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.file.contains(&offset))?;
        segment.address.checked_add(offset - segment.file.start)
    }

    /// Whether it is always mapped at the addresses in the file.
    pub(crate) fn is_at_fixed_address(&self) -> bool {
        self.fixed
    }

    /// Where the dynamic section is in the file.
    pub(crate) fn dynamic_range(&self) -> Option<Range<u64>> {
        self.dynamic.clone()
    }

    /// Addresses that the file has bytes for and that are neither code nor the file's headers, which have addresses of code.
    pub(crate) fn data_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let data = self.segments.iter().filter(|segment| !segment.executable);
        data.map(|segment| {
            let end = segment.file.end.min(self.map.len() as u64);
            let headers = self.headers_end.min(end).saturating_sub(segment.file.start);
            let length = end.saturating_sub(segment.file.start);
            segment.address.saturating_add(headers)..segment.address.saturating_add(length)
        })
    }

    /// All addresses that the file has bytes for.
    pub(crate) fn mapped_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.segments.iter().map(|segment| {
            let length = (segment.file.end.min(self.map.len() as u64)).saturating_sub(segment.file.start);
            segment.address..segment.address.saturating_add(length)
        })
    }

    /// Whether the file has a byte for an address.
    pub(crate) fn is_mapped(&self, address: u64) -> bool {
        self.offset_of(address).is_some()
    }

    /// Where the byte at an address is in the file.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let at = segment.file.start.checked_add(address.checked_sub(segment.address)?)?;
            (segment.file.contains(&at) && at < self.map.len() as u64).then_some(at)
        })
    }

    /// Up to `len` bytes from an address, of one segment; empty where the file has none.
    pub(crate) fn at_address(&self, address: u64, len: usize) -> &[u8] {
        let found = self.segments.iter().find_map(|segment| {
            let at = segment.file.start.checked_add(address.checked_sub(segment.address)?)?;
            segment.file.contains(&at).then(|| (at, segment.file.end - at))
        });
        let Some((at, left)) = found else { return &[] };
        self.slice(at, usize::try_from(left).unwrap_or(usize::MAX).min(len))
    }

    /// The word at an address.
    pub(crate) fn word_at(&self, address: u64) -> Option<u64> {
        self.at_address(address, 8).try_into().ok().map(u64::from_le_bytes)
    }

    /// Up to `len` bytes from the address at that distance from another byte of the file.
    pub(crate) fn near(&self, offset: u64, distance: i64, len: usize) -> Option<&[u8]> {
        let address = self.address_of(offset)?.checked_add_signed(distance)?;
        let at = self.segments.iter().find_map(|segment| {
            let at = segment.file.start.checked_add(address.checked_sub(segment.address)?)?;
            segment.file.contains(&at).then_some(at)
        })?;
        Some(self.slice(at, len))
    }

    /// Whether a read-only mapped part contains these bytes, or the names of dynamic symbols do, which tools that repair
    /// packages move to a writable one; `whole` as in [`stands_in`].
    pub(crate) fn has_bytes(&self, bytes: &[u8], whole: bool) -> bool {
        let mut fixed = self.segments.iter().filter(|segment| !segment.writable);
        let in_segments = fixed.any(|Segment { file, .. }| {
            let length = usize::try_from(file.end.saturating_sub(file.start)).unwrap_or(usize::MAX);
            stands_in(bytes, self.slice(file.start, length), whole)
        });
        in_segments || self.dynamic_names().is_some_and(|names| stands_in(bytes, names, whole))
    }

    /// The addresses of a text in read-only mapped data, at most so many; `is_whole`: it ends there. Code, most of a large
    /// library, is searched only where no sections tell it from data.
    pub(crate) fn texts(&self, text: &str, is_whole: bool, most: usize) -> Vec<u64> {
        let end = if is_whole { "\\x00" } else { "" };
        let Ok(regex) = regex::bytes::Regex::new(&format!("(?-u:{}{end})", escaped(text.as_bytes()))) else {
            return Vec::new();
        };
        if text.is_empty() {
            return Vec::new();
        }
        let places = self.constants().into_iter().flat_map(|(start, length)| {
            let found = regex.find_iter(self.slice(start, usize::try_from(length).unwrap_or(usize::MAX)));
            found.map(|found| start + found.start() as u64).collect::<Vec<_>>()
        });
        places.filter_map(|place| self.address_of(place)).take(most).collect()
    }

    /// Where constants are in the file, and how many bytes they have: without code, where sections tell it from them.
    fn constants(&self) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        for section in self.headers().iter().flat_map(|headers| headers.sections()) {
            if matches!(section.kind(), SectionKind::ReadOnlyData | SectionKind::ReadOnlyString) {
                ranges.extend(section.file_range());
            }
        }
        if ranges.is_empty() {
            let fixed = self.segments.iter().filter(|segment| !segment.writable).map(|segment| &segment.file);
            ranges.extend(fixed.map(|file| (file.start, file.end.saturating_sub(file.start))));
        }
        ranges
    }

    /// The text of the names of dynamic symbols.
    fn dynamic_names(&self) -> Option<&[u8]> {
        let headers = self.headers()?;
        let (start, length) = headers.section_by_name(".dynstr")?.file_range()?;
        Some(self.slice(start, usize::try_from(length).ok()?))
    }

    /// Up to `len` bytes from an offset.
    pub(crate) fn slice(&self, offset: u64, len: usize) -> &[u8] {
        let start = usize::try_from(offset).map_or(self.map.len(), |start| start.min(self.map.len()));
        self.map.get(start..start.saturating_add(len).min(self.map.len())).unwrap_or_default()
    }

    /// The libraries it needs and where it wants them searched.
    pub(crate) fn dynamic(&self) -> Dynamic {
        let mut dynamic = Dynamic::default();
        let Some(headers) = self.headers() else { return dynamic };
        let Ok(table) = headers.elf_dynamic_table() else { return dynamic };
        for entry in table.iter().take(MAX_DYNAMIC_STRINGS) {
            let list = match entry.tag {
                elf::DT_NEEDED => &mut dynamic.needed,
                elf::DT_RPATH => &mut dynamic.rpath,
                elf::DT_RUNPATH => &mut dynamic.runpath,
                _ => continue,
            };
            let Ok(text) = table.string(entry) else { continue };
            let Ok(text) = std::str::from_utf8(text) else { continue };
            if entry.tag == elf::DT_NEEDED {
                list.extend((text.len() <= MAX_NAME && list.len() < MAX_NEEDED).then(|| text.to_owned()));
            } else if text.len() <= MAX_FOLDER_LIST {
                let left = MAX_FOLDERS.saturating_sub(list.len());
                list.extend(text.split(':').filter(|folder| !folder.is_empty()).take(left).map(str::to_owned));
            }
        }
        dynamic
    }
}

/// The mapped segments of a file, cut at its end. All that follows reads them again and again: a file whose segments
/// are many times its size is refused here.
fn segments(
    header: &elf::FileHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> Result<Vec<Segment>, Unusable> {
    let headers =
        header.program_headers(endian, bytes).map_err(|_| Unusable::NotElf("has malformed program headers"))?;
    let length = bytes.len() as u64;
    let mut segments = Vec::new();
    let mut mapped = 0u64;
    for segment in headers.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD) {
        let start = segment.p_offset(endian).min(length);
        let end = segment.p_offset(endian).saturating_add(segment.p_filesz(endian)).min(length);
        mapped = mapped.saturating_add(end.saturating_sub(start));
        segments.push(Segment {
            address: segment.p_vaddr(endian),
            file: start..end,
            executable: segment.p_flags(endian).contains(elf::PF_X),
            writable: segment.p_flags(endian).contains(elf::PF_W),
        });
        if segments.len() > MAX_SEGMENTS {
            return Err(Unusable::NotElf("has more segments than any linker writes"));
        }
        if mapped > length.saturating_mul(MAX_TIMES_MAPPED) {
            return Err(Unusable::NotElf("has segments that map the same bytes too often"));
        }
    }
    Ok(segments)
}

fn map(path: &Path) -> Result<(FileBytes, Option<FileState>), Unusable> {
    let unreadable = |e: std::io::Error| Unusable::Unreadable(e.to_string());
    // Opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Unusable::NotElf("is not a regular file"));
    }
    let file = File::open(path).map_err(unreadable)?;
    Ok((map_file(&file, metadata.len())?, FileState::of(&file).ok()))
}

fn map_file(file: &File, size: u64) -> Result<FileBytes, Unusable> {
    if size < size_of::<elf::FileHeader64<Endianness>>() as u64 {
        return Err(Unusable::NotElf("is too short for an ELF file"));
    }
    FileBytes::of_file(file).map_err(|e| Unusable::Unreadable(e.to_string()))
}

fn build_id(header: &elf::FileHeader64<Endianness>, endian: Endianness, bytes: &[u8]) -> Option<String> {
    // By segment first: it is there when the section headers are stripped, and needs no more pages of the file.
    let from_segments = header.program_headers(endian, bytes).ok()?.iter().find_map(|segment| {
        let mut notes = segment.notes(endian, bytes).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
        None
    });
    let id = match from_segments {
        Some(id) => id,
        None => Headers::parse(bytes).ok()?.build_id().ok()??,
    };
    if id.is_empty() || id.len() > MAX_BUILD_ID {
        return None;
    }
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Bytes as a regular expression.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// Whether some bytes stand in others. For a text, `whole` asks that it is no part of a longer number where it begins or
/// ends with one: `1.2.1` is neither in `11.2.1` nor in `1.2.10` or `1.2.1.4`.
pub(crate) fn stands_in(bytes: &[u8], all: &[u8], whole: bool) -> bool {
    let Ok(regex) = regex::bytes::Regex::new(&format!("(?-u:{})", escaped(bytes))) else { return false };
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let (first, last) = (is_digit(bytes.first()), is_digit(bytes.last()));
    // A dot belongs to a number that has digits on both sides of it.
    let goes_on = |next: Option<&u8>, after: Option<&u8>| is_digit(next) || next == Some(&b'.') && is_digit(after);
    let mut found = regex.find_iter(all).filter(|_| !bytes.is_empty());
    found.any(|found| {
        let mut before = all.get(..found.start()).unwrap_or_default().iter().rev();
        let mut after = all.get(found.end()..).unwrap_or_default().iter();
        let longer = first && goes_on(before.next(), before.next()) || last && goes_on(after.next(), after.next());
        !whole || !longer
    })
}
