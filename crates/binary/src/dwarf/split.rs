//! Split DWARF: the linked file has a skeleton of each unit, the unit itself is in a part that was left beside its
//! object (`.dwo`), or packed with the others (`.dwp`). A part is taken only where its number is the skeleton's.

use super::sections::{self, Sections};
use super::unit::{Debug, Unit};
use crate::debug_file::{DebugFolders, is_plain, roots};
use crate::elf::Image;
use gimli::{AttributeValue, UnitType};
use object::{Object, ObjectSection};
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The maximum number of parts opened for one file, each with a mapping.
const MAX_PARTS: usize = 1 << 14;
/// Parts that are named one by one as of another build.
const MAX_REFUSED: usize = 3;

/// The parts of an image's debug information that lie in other files.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(super) images: Vec<Image>,
    /// Units whose part was not found: missing answers may be there.
    pub(crate) missing: usize,
    /// What was found, and is of another build.
    pub(crate) refused: Vec<Diagnostic>,
}

/// The skeleton of a unit that is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Skeleton {
    name: String,
    folder: String,
    id: u64,
}

impl Parts {
    /// Finds the parts of an image. `places` are the files that it or its program lie at.
    pub(crate) fn find(image: &Image, places: &[&Path], folders: &DebugFolders) -> Self {
        let mut parts = Self::default();
        let mut open: HashMap<u64, Skeleton> =
            skeletons(image).into_iter().map(|skeleton| (skeleton.id, skeleton)).collect();
        if open.is_empty() {
            return parts;
        }
        for path in packages(places, folders) {
            parts.package(&path, &mut open);
        }
        let mut left: Vec<Skeleton> = open.into_values().collect();
        left.sort_unstable_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        for skeleton in left {
            let found = parts.images.len() < MAX_PARTS && parts.object(&skeleton, places, folders);
            parts.missing += usize::from(!found);
        }
        parts
    }

    /// All of the debug information is in the image itself: answers depend on no other file.
    pub(crate) fn is_none(&self) -> bool {
        self.images.is_empty() && self.missing == 0
    }

    /// Takes a package if it has any of the units, which are then found.
    fn package(&mut self, path: &Path, open: &mut HashMap<u64, Skeleton>) {
        let Ok(image) = Image::open_part(path) else { return };
        let bytes = sections::index_bytes(&image);
        let Some(index) = sections::index(&bytes) else { return };
        let before = open.len();
        open.retain(|id, _| index.find(*id).is_none());
        let taken = open.len() < before;
        drop(bytes);
        if taken {
            self.images.push(image);
        } else if before > 0 {
            self.refuse(path, "none of its units belongs to the program".to_owned());
        }
    }

    /// Takes the part of one unit, if it is at the unit's path, or beside the program.
    fn object(&mut self, skeleton: &Skeleton, places: &[&Path], folders: &DebugFolders) -> bool {
        for path in skeleton.candidates(places, folders) {
            let Ok(image) = Image::open_part(&path) else { continue };
            match part_id(&image) {
                Some(id) if id == skeleton.id => {
                    self.images.push(image);
                    return true;
                }
                Some(id) => {
                    self.refuse(
                        &path,
                        format!("its DWO id is {id:016x}, that of the program's unit {:016x}", skeleton.id),
                    );
                }
                None => {}
            }
        }
        false
    }

    fn refuse(&mut self, path: &Path, why: String) {
        if self.refused.len() < MAX_REFUSED {
            let message = format!("{} is the debug information of another build", path.display());
            let refusal = Diagnostic::warning(Code::DebugInformationDiffers, message).with_note(why);
            self.refused.push(refusal.hint("it is ignored; rebuild the program with its `.dwo` files"));
        }
    }
}

impl Skeleton {
    fn candidates(&self, places: &[&Path], folders: &DebugFolders) -> Vec<PathBuf> {
        let path_in_unit = Path::new(&self.folder).join(&self.name);
        let mut candidates = Vec::new();
        for place in places {
            let beside = place.parent().unwrap_or(Path::new("."));
            if path_in_unit.is_absolute() {
                let below = |root: PathBuf| root.join(path_in_unit.strip_prefix("/").unwrap_or(&path_in_unit));
                candidates.extend(roots(place).into_iter().map(below));
            } else {
                candidates.push(beside.join(&path_in_unit));
            }
            candidates.push(beside.join(&self.name));
        }
        if let Some(file) = Path::new(&self.name).file_name() {
            let beside = places.iter().filter_map(|place| place.parent());
            candidates.extend(beside.chain(folders.iter()).map(|folder| folder.join(file)));
        }
        let mut seen = HashSet::new();
        candidates.retain(|path| seen.insert(path.clone()));
        candidates
    }
}

/// Where packages may be: beside the files, with `.dwp` behind their name, or in the folders that were asked for.
fn packages(places: &[&Path], folders: &DebugFolders) -> Vec<PathBuf> {
    let mut packages = Vec::new();
    for place in places {
        let Some(name) = place.file_name().and_then(|name| name.to_str()).filter(|name| is_plain(name)) else {
            continue;
        };
        packages.push(place.with_file_name(format!("{name}.dwp")));
        packages.extend(folders.iter().map(|folder| folder.join(format!("{name}.dwp"))));
    }
    packages.dedup();
    packages
}

/// The units of an image that are elsewhere.
fn skeletons(image: &Image) -> Vec<Skeleton> {
    // Before DWARF 5 each unit must be opened to recognise a skeleton; most files have none of what comes with them.
    let old_ones = image.headers().is_some_and(|headers| {
        let has = |name| headers.section_by_name(name).is_some_and(|section| section.size() > 0);
        has(".debug_addr") || has(".debug_gnu_pubnames")
    });
    let files: Vec<Sections<'_>> = Sections::load(image).into_iter().collect();
    let debug = Debug::new(&files);
    let may_be = |number: &usize| match debug.headers[*number].type_() {
        UnitType::Skeleton(_) => true,
        UnitType::Compilation => old_ones && debug.headers[*number].version() < 5,
        _ => false,
    };
    let numbers = (0..debug.headers.len()).filter(may_be);
    numbers.filter_map(|number| skeleton(&debug.unit(number)?)).take(MAX_PARTS).collect()
}

fn skeleton(unit: &Unit<'_>) -> Option<Skeleton> {
    let root = unit.entry(unit.header.root_offset())?;
    let text = |name| {
        let text = unit.text(root.attr_value(name)?)?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let name = text(gimli::DW_AT_dwo_name).or_else(|| text(gimli::DW_AT_GNU_dwo_name))?;
    Some(Skeleton { name, folder: text(gimli::DW_AT_comp_dir).unwrap_or_default(), id: unit_id(unit)? })
}

/// The number by which a unit and its skeleton know each other.
fn unit_id(unit: &Unit<'_>) -> Option<u64> {
    match unit.header.type_() {
        UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id.0),
        _ => match unit.entry(unit.header.root_offset())?.attr_value(gimli::DW_AT_GNU_dwo_id)? {
            AttributeValue::DwoId(id) => Some(id.0),
            value => value.udata_value(),
        },
    }
}

/// The number of the unit in an object's part; `None` where it is none.
fn part_id(image: &Image) -> Option<u64> {
    let files = [Sections::load_part(image)?];
    let debug = Debug::new(&files);
    (0..debug.headers.len().min(MAX_PARTS)).find_map(|number| unit_id(&debug.unit(number)?))
}
