//! Layouts and enumerations from an image's debug information (DWARF 2 to 5, C and C++). All that is asked at once is
//! answered in one pass, which ends when the last name was found.

mod alignment;
mod defining;
pub(super) mod inlined;
mod scan;
mod sections;
mod signatures;
mod split;
mod types;
mod unit;

#[cfg(test)]
mod tests;

use super::elf::Image;
use super::{InlinedCopy, Layout};
use scan::{NameKind, Wanted};
use sections::Sections;
use std::collections::BTreeMap;
use types::Types;
use unit::Debug;

pub(crate) use defining::{layout_in, units};
pub(crate) use signatures::signatures;
pub(crate) use split::Parts;

/// The constants of an enumeration by number.
pub(crate) type Constants = BTreeMap<i64, String>;

/// Queries of one image and the answers of its debug information: `None` if it has no such type.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Answers {
    /// Structs, classes and unions by the name that was asked.
    pub(crate) types: BTreeMap<String, Option<Layout>>,
    /// Enumerations by the name that was asked.
    pub(crate) enums: BTreeMap<String, Option<Constants>>,
    /// Inlined copies by the pattern that was asked.
    pub(crate) inlined: BTreeMap<String, Vec<InlinedCopy>>,
    /// The units that functions are defined in, by symbol and offset.
    pub(crate) units: BTreeMap<String, Option<usize>>,
    /// Structs, classes and unions by the name that was asked, in units.
    pub(crate) by_unit: BTreeMap<String, BTreeMap<usize, Option<Layout>>>,
}

/// Bytes of debug information in the file; 0 where there is none, and every answer is no. `None` where what is compressed
/// claims to be larger than it can be, and every answer is no, too.
pub(crate) fn size(image: &Image) -> Option<u64> {
    sections::is_plausible(image).then(|| sections::size_in_file(image))
}

/// Answers for every name, from an image's debug information and its parts that lie elsewhere.
pub(crate) fn answer(image: &Image, parts: &Parts, types: &[&str], enums: &[&str]) -> Answers {
    let mut answers = Answers {
        types: types.iter().map(|name| ((*name).to_owned(), None)).collect(),
        enums: enums.iter().map(|name| ((*name).to_owned(), None)).collect(),
        ..Answers::default()
    };
    let parts = parts.images.iter().filter_map(Sections::load_part);
    let files: Vec<Sections<'_>> = Sections::load(image).into_iter().chain(parts).collect();
    let types = types.iter().map(|name| (Wanted::new(NameKind::Type, name), *name));
    let enums = enums.iter().map(|name| (Wanted::new(NameKind::Enum, name), *name));
    let (mut wanted, mut names): (Vec<_>, Vec<_>) = types.chain(enums).unzip();
    let mentioned = scan::mentioned(&files, &wanted);
    retain(&mut wanted, &mentioned);
    retain(&mut names, &mentioned);

    let debug = Debug::new(&files);
    let types = Types::new(&debug);
    scan::scan(&debug, &wanted, |index, place| match wanted[index].kind {
        NameKind::Type => keep(&mut answers.types, names[index], types.layout(place)),
        NameKind::Enum => keep(&mut answers.enums, names[index], types.enumeration(place)),
    });
    answers
}

fn retain<T>(items: &mut Vec<T>, retained: &[bool]) {
    let mut retained = retained.iter();
    items.retain(|_| retained.next().copied().unwrap_or(false));
}

fn keep<T>(answers: &mut BTreeMap<String, Option<T>>, name: &str, answer: Option<T>) -> bool {
    let good = answer.is_some();
    if good {
        answers.insert(name.to_owned(), answer);
    }
    good
}
