//! Sizes and places within classes of the C++ library that hold a value in place, from the sizes of what they hold. It
//! reads nothing: sizes of views, and which library it is, are asked for.

use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::{ClassPart, Type, fixed_size};
use profinfer_schema::bpf::{StringLayout, map_bits};

/// No class that is held in another is larger.
const MAX_SIZE: u64 = 1 << 32;

/// The size of a type, and between which bounds its alignment is: debug information has no alignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) size: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    /// It may begin with a class that may be empty. LLVM's library gives those of them that lie in one another bases
    /// without members, of which two of one type must not have one address: so what holds it lies elsewhere.
    pub(super) begins_with_class: bool,
}

impl Measure {
    fn exact(size: u64, align: u64) -> Self {
        Self { size, least: align, most: align, begins_with_class: false }
    }

    /// Of a struct of this size, in which something is aligned so: its size is a multiple of its alignment.
    pub(super) fn of_struct(size: u64, least: u64, begins_with_class: bool) -> Self {
        let size = size.clamp(1, MAX_SIZE);
        let most = 1 << size.trailing_zeros();
        Self { size, least: least.min(most), most, begins_with_class }
    }
}

/// What the sizes depend on.
pub(super) trait Sizes {
    /// Of a view.
    fn view(&self, name: &str) -> Result<Measure, Diagnostic>;
    /// How strings are laid out.
    fn strings(&self) -> Result<StringLayout, Diagnostic>;
    /// Whether the library is LLVM's.
    fn is_llvm(&self) -> Result<bool, Diagnostic>;
}

/// How a class is laid out if what it holds has one of the possible alignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    /// Where it has whether it has a value, or which, and the bytes of that number.
    tag: u64,
    bytes: u64,
    size: u64,
}

/// A number within a class: for [`ClassPart::Tag`] of a variant eight times the offset of the number of its
/// alternative, and the bytes of that number. `known`: the class's size in the target.
///
/// # Errors
/// Those of `sizes`, and `T009` where alignments decide and are not certain.
pub(super) fn class_part(of: &Type, part: ClassPart, known: Option<u64>, sizes: &dyn Sizes) -> Result<u64, Diagnostic> {
    if let (Type::Optional(value), ClassPart::Tag) = (of, part) {
        return Ok(measure(value, sizes)?.size);
    }
    if let Type::Map { sorted, key, value, .. } = of {
        return map_part(of, (*sorted, key, value.as_deref()), part, known, sizes);
    }
    let candidates = candidates(of, sizes)?;
    let of_size = candidates.iter().filter(|one| known.is_none_or(|known| known == one.size));
    let value = |one: &Candidate| match (part, of) {
        (ClassPart::Size, _) => one.size,
        (ClassPart::Tag | ClassPart::Walk, _) => one.tag << 3 | one.bytes,
    };
    same(of, of_size.map(value))
}

/// Whether a class may have this size; it is also so where its size is not certain.
pub(super) fn may_have_size(of: &Type, size: u64, sizes: &dyn Sizes) -> bool {
    candidates(of, sizes).map_or(true, |candidates| candidates.iter().any(|one| one.size == size))
}

/// The same of a map or set, of this kind, key and value. How its keys are compared or hashed is taken to have no members.
fn map_part(
    of: &Type,
    (sorted, key, value): (bool, &Type, Option<&Type>),
    part: ClassPart,
    known: Option<u64>,
    sizes: &dyn Sizes,
) -> Result<u64, Diagnostic> {
    use map_bits::{COLOUR_FIRST, COUNT, ELEMENT, FIRST, SORTED, VALUE};
    let is_llvm = sizes.is_llvm()?;
    // What a map begins with: its size, and where it has its first node and the number of its elements.
    let (size, first, count) = match (sorted, is_llvm) {
        (true, false) => (48, 24, 40),
        (true, true) => (24, 0, 16),
        (false, false) => (56, 16, 24),
        (false, true) => (40, 16, 24),
    };
    if known.is_some_and(|known| known != size) {
        let message = format!("the layout of {of} is not that of its library: its comparison or hash has members");
        return Err(Diagnostic::error(Code::LayoutUnknown, message)
            .hint(format!("with {size} bytes it would be; write a view of the map with the members that you need")));
    }
    if part == ClassPart::Size {
        return Ok(size);
    }
    let key = measure(key, sizes)?;
    let value = value.map(|value| measure(value, sizes)).transpose()?;
    let mut layouts = Vec::new();
    for of_key in aligns(key) {
        for of_value in value.map_or_else(|| vec![1], |value| aligns(value).collect()) {
            let align = of_key.max(of_value);
            // Links, or links and a hash. What a node of LLVM's tree holds may begin right after its colour, a byte.
            let node: u64 = match (sorted, is_llvm) {
                (true, false) => 32,
                (true, true) => 25,
                (false, false) => 8,
                (false, true) => 16,
            };
            layouts.push((node.next_multiple_of(align), key.size.next_multiple_of(of_value)));
        }
    }
    let flags = if sorted { SORTED } else { 0 } | if sorted && !is_llvm { COLOUR_FIRST } else { 0 };
    let whole =
        |(element, value): (u64, u64)| flags | first << FIRST | count << COUNT | element << ELEMENT | value << VALUE;
    let value_at = |value_at| if value.is_some() { value_at } else { 0 };
    let found = same(of, layouts.into_iter().map(|(element, value)| (element, value_at(value))))?;
    if found.0 > 0xff || found.1 > u64::from(u16::MAX) { Err(unknown(of)) } else { Ok(whole(found)) }
}

fn candidates(of: &Type, sizes: &dyn Sizes) -> Result<Vec<Candidate>, Diagnostic> {
    let (held, bytes) = match of {
        Type::Optional(value) => (vec![measure(value, sizes)?], 1),
        Type::Variant(alternatives) => {
            let held = alternatives.iter().map(|one| measure(one, sizes)).collect::<Result<Vec<_>, _>>()?;
            // GNU's library takes as few bytes as there must be, LLVM's always four.
            (held, if sizes.is_llvm()? { 4 } else { 1 })
        }
        _ => return Err(Diagnostic::error(Code::Bug, format!("{of} is no class that holds a value"))),
    };
    let whole = union(&held);
    if whole.begins_with_class && sizes.is_llvm()? {
        return Err(unknown(of));
    }
    let layout = |align: u64| {
        let tag = whole.size.next_multiple_of(align).next_multiple_of(bytes);
        Candidate { tag, bytes, size: (tag + bytes).next_multiple_of(align.max(bytes)) }
    };
    Ok(aligns(whole).map(layout).collect())
}

/// Of a type as it is in memory.
fn measure(ty: &Type, sizes: &dyn Sizes) -> Result<Measure, Diagnostic> {
    Ok(match ty {
        Type::Void => Measure::exact(1, 1),
        Type::View(view) => sizes.view(view)?,
        Type::Array(of, count) => {
            let of = measure(of, sizes)?;
            Measure { size: of.size.saturating_mul(*count).min(MAX_SIZE), ..of }
        }
        Type::Chars(count) => Measure::exact(*count, 1),
        Type::StdString(_) => match sizes.strings()? {
            StringLayout::Libstdcxx => Measure::exact(32, 8),
            StringLayout::LibstdcxxCow => Measure::exact(8, 8),
            StringLayout::Libcxx => Measure::exact(24, 8),
        },
        Type::Map { .. } => Measure::exact(class_part(ty, ClassPart::Size, None, sizes)?, 8),
        Type::Optional(value) => nested(ty, measure(value, sizes)?, 1, sizes)?,
        Type::Variant(alternatives) => {
            let held = alternatives.iter().map(|one| measure(one, sizes)).collect::<Result<Vec<_>, _>>()?;
            nested(ty, union(&held), if sizes.is_llvm()? { 4 } else { 1 }, sizes)?
        }
        ty => match ty.library_size() {
            Some(size) => Measure::exact(size, 8),
            None => match fixed_size(ty) {
                Some(size @ (1 | 2 | 4 | 8)) => Measure::exact(size, size),
                _ => return Err(unknown(ty)),
            },
        },
    })
}

fn nested(ty: &Type, held: Measure, bytes: u64, sizes: &dyn Sizes) -> Result<Measure, Diagnostic> {
    let size = same(ty, candidates(ty, sizes)?.iter().map(|one| one.size))?;
    Ok(Measure { size, least: held.least.max(bytes), most: held.most.max(bytes), begins_with_class: true })
}

fn union(of: &[Measure]) -> Measure {
    of.iter().fold(Measure::exact(0, 1), |all, one| Measure {
        size: all.size.max(one.size),
        least: all.least.max(one.least),
        most: all.most.max(one.most),
        begins_with_class: all.begins_with_class || one.begins_with_class,
    })
}

/// The powers of two between the bounds of an alignment.
fn aligns(of: Measure) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(of.least), |align| align.checked_mul(2)).take_while(move |align| *align <= of.most)
}

/// What all layouts that are possible have.
fn same<T: PartialEq>(ty: &Type, mut values: impl Iterator<Item = T>) -> Result<T, Diagnostic> {
    let first = values.next().ok_or_else(|| unknown(ty))?;
    if values.all(|value| value == first) { Ok(first) } else { Err(unknown(ty)) }
}

fn unknown(ty: &Type) -> Diagnostic {
    let message = format!("the layout of {ty} is not certain: it depends on how what it holds is laid out");
    Diagnostic::error(Code::LayoutUnknown, message)
        .hint("write a view with its members' offsets instead, such as `{ number: u8 @ 48, first: TYPE @ 0 }`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_diagnostics::{Source, Span};
    use profinfer_probeset::path::parse_type;
    use std::sync::Arc;

    struct Library(StringLayout);

    impl Sizes for Library {
        fn view(&self, name: &str) -> Result<Measure, Diagnostic> {
            Ok(match name {
                "pair" => Measure::exact(12, 4),
                "forty" => Measure::of_struct(40, 8, false),
                "wide" => Measure::of_struct(32, 8, false),
                _ => return Err(Diagnostic::error(Code::LayoutUnknown, "unknown")),
            })
        }
        fn strings(&self) -> Result<StringLayout, Diagnostic> {
            Ok(self.0)
        }
        fn is_llvm(&self) -> Result<bool, Diagnostic> {
            Ok(self.0 == StringLayout::Libcxx)
        }
    }

    fn part(text: &str, part: ClassPart, library: StringLayout) -> Option<u64> {
        let span = Span::new(&Arc::new(Source { name: "test.yaml".into(), text: text.into() }), 0..text.len());
        class_part(&parse_type(text, &span).unwrap(), part, None, &Library(library)).ok()
    }

    /// As g++ 12 with its library and clang++ 14 with LLVM's print them.
    #[test]
    fn classes_are_laid_out_as_their_libraries_do() {
        let cases = [
            ("std::optional<i8>", Some((1, 2)), Some((1, 2))),
            ("std::optional<i32>", Some((4, 8)), Some((4, 8))),
            ("std::optional<std::string>", Some((32, 40)), Some((24, 32))),
            ("std::optional<std::optional<i16>>", Some((4, 6)), None),
            ("std::optional<pair>", Some((12, 16)), Some((12, 16))),
            ("std::variant<i8, u8>", Some((1 << 3 | 1, 2)), Some((4 << 3 | 4, 8))),
            ("std::variant<std::monostate, i32>", Some((4 << 3 | 1, 8)), Some((4 << 3 | 4, 8))),
            ("std::variant<i64, pair>", Some((16 << 3 | 1, 24)), Some((16 << 3 | 4, 24))),
            ("std::variant<i64, std::string>", Some((32 << 3 | 1, 40)), Some((24 << 3 | 4, 32))),
            ("std::variant<char[3], i8>", Some((3 << 3 | 1, 4)), Some((4 << 3 | 4, 8))),
            // LLVM's would have two bases of one type at one address, which moves what it holds.
            ("std::variant<char[3], std::optional<i8>>", Some((3 << 3 | 1, 4)), None),
            ("std::variant<i64, std::variant<i32, f64>>", Some((16 << 3 | 1, 24)), None),
        ];
        for (text, gnu, llvm) in cases {
            for (library, expected) in [(StringLayout::Libstdcxx, gnu), (StringLayout::Libcxx, llvm)] {
                let found = part(text, ClassPart::Tag, library).zip(part(text, ClassPart::Size, library));
                assert_eq!(found, expected, "{text} of {library:?}");
            }
        }
    }

    /// As the same compilers print them: where a node has its element, where that has what its key stands for, and the size.
    #[test]
    fn maps_are_laid_out_as_their_libraries_do() {
        let cases = [
            ("std::map<i32, i32>", (32, 4, 48), (28, 4, 24)),
            ("std::map<i8, i8>", (32, 1, 48), (25, 1, 24)),
            ("std::multimap<i16, i16>", (32, 2, 48), (26, 2, 24)),
            ("std::map<i64, i32>", (32, 8, 48), (32, 8, 24)),
            ("std::map<std::string, i32>", (32, 32, 48), (32, 24, 24)),
            ("std::set<i8>", (32, 0, 48), (25, 0, 24)),
            ("std::unordered_map<i8, i8>", (8, 1, 56), (16, 1, 40)),
            ("std::unordered_map<i32, pair>", (8, 4, 56), (16, 4, 40)),
            ("std::unordered_map<std::string, i32>", (8, 32, 56), (16, 24, 40)),
            ("std::unordered_multiset<std::string>", (8, 0, 56), (16, 0, 40)),
        ];
        for (text, gnu, llvm) in cases {
            for (library, expected) in [(StringLayout::Libstdcxx, gnu), (StringLayout::Libcxx, llvm)] {
                let walk = part(text, ClassPart::Walk, library).unwrap();
                let found = (walk >> map_bits::ELEMENT & 0xff, walk >> map_bits::VALUE);
                let size = part(text, ClassPart::Size, library).unwrap();
                assert_eq!((found.0, found.1, size), expected, "{text} of {library:?}");
            }
        }
    }

    #[test]
    fn what_depends_on_an_unknown_alignment_is_not_guessed() {
        let gnu = StringLayout::Libstdcxx;
        // The view of 32 bytes may be aligned to 8, 16 or 32.
        assert_eq!(part("std::variant<forty, wide>", ClassPart::Tag, gnu), None);
        assert_eq!(part("std::variant<i64, wide>", ClassPart::Tag, gnu), Some(32 << 3 | 1));
        assert_eq!(part("std::optional<wide>", ClassPart::Tag, gnu), Some(32));
        assert_eq!(part("std::optional<wide>", ClassPart::Size, gnu), None);
        assert_eq!(part("std::optional<forty>", ClassPart::Size, gnu), Some(48));
        assert_eq!(part("std::unordered_map<i32, wide>", ClassPart::Walk, gnu), None);
        assert!(part("std::map<i64, forty>", ClassPart::Walk, gnu).is_some());
        assert_eq!(part("std::optional<missing>", ClassPart::Tag, gnu), None);
    }
}
