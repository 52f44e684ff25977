//! Where a member is, if no debug information has it: by a function of the engine that returns it, by a written layout, or
//! beside another member.

use super::accessor::{self, Found, MAX_BYTES, Until};
use super::layouts::Chosen;
use super::model::Provenance;
use super::relocate::Relocator;
use profinfer_diagnostics::{Code, Diagnostic, Span};
use profinfer_probeset::path::Type;
use profinfer_probeset::{Accessor, Member};

impl Relocator<'_> {
    /// Where a member is without debug information.
    ///
    /// # Errors
    /// `T009`, `T019`: there is no source.
    pub(super) fn without_debug_information(
        &self,
        view: &str,
        member: &Member,
        span: &Span,
    ) -> Result<(u64, Provenance), Diagnostic> {
        let name = member.name.value.as_str();
        let what = format!("{view}.{name}");
        let locked = |file: usize| self.target().chosen(file, view)?.at.get(name).copied();
        if let Some(at) = self.files_by_name().into_iter().find_map(locked) {
            return Ok((at, Provenance::Lock));
        }
        let mut refused = Vec::new();
        if let Some(from) = &member.from {
            match self.by_accessor(from, &member.ty.value, span) {
                Ok(at) => {
                    self.note_detail(&what, from.function.0.clone());
                    return Ok((at, Provenance::Accessor));
                }
                Err(why) => refused.push(format!("`{}` is not believed: {why}", from.function)),
            }
        }
        let problem = match self.given(view) {
            Ok(given) => {
                let given = given.and_then(|(Chosen { layout, .. }, from)| Some((*layout.at.get(name)?, from)));
                let by_hand = || member.offset.map(|offset| (offset, Provenance::ByHand));
                if let Some(found) = given.or_else(by_hand) {
                    return Ok(found);
                }
                None
            }
            Err(problem) => Some(problem),
        };
        if let Some(beside) = &member.beside {
            let (at, from) = self.offset(view, &beside.member, span)?;
            if let Some(at) = at.checked_add_signed(beside.distance) {
                self.note_detail(&what, format!("beside {}", beside.member));
                let from = if from == Provenance::Dwarf { Provenance::ByHand } else { from };
                return Ok((at, from));
            }
        }
        let problem = problem.unwrap_or_else(|| {
            let message = format!("the offset of `{name}` in {} is not available on this target", self.shown(view));
            let problem = Diagnostic::error(Code::LayoutUnknown, message).at(&member.name.span);
            self.with_files(problem).hint(format!(
                "its files have no debug information for {}; write the offset in bytes: `{name}: {} @ N`",
                self.shown(view),
                member.ty.value
            ))
        });
        Err(refused.into_iter().fold(problem, Diagnostic::with_note))
    }

    /// The offset that a function of the engine shows; why there is none.
    fn by_accessor(&self, accessor: &Accessor, ty: &Type, span: &Span) -> Result<u64, String> {
        let mut why = "no such function".to_owned();
        for file in self.files_by_name() {
            let Some(arch) = self.target().files().get(file).map(|file| file.arch) else { continue };
            for function in self.target().functions(file, &accessor.function) {
                let size = usize::try_from(function.size).unwrap_or(MAX_BYTES);
                let size = if size == 0 { MAX_BYTES } else { size.min(MAX_BYTES) };
                let code = self.target().code(file, function.file_offset, size);
                let until = if accessor.first_load { Until::FirstLoad } else { Until::Return };
                match accessor::follow(arch, &code, accessor.argument, until) {
                    Ok(shown) => return self.of_member(&shown, accessor, ty, span),
                    Err(reason) => why = format!("it has `{reason}`"),
                }
            }
        }
        Err(why)
    }

    /// The member's offset by what a function shows.
    fn of_member(&self, shown: &accessor::Shown, accessor: &Accessor, ty: &Type, span: &Span) -> Result<u64, String> {
        if accessor.first_load {
            let (offset, bytes) = shown.first_load.ok_or("it reads nothing of its argument")?;
            // Several elements of an array may be read at once.
            let fits = match ty {
                Type::Array(of, _) => word_bytes(of).is_none_or(|size| bytes % size.max(1) == 0),
                ty => word_bytes(ty).is_none_or(|size| bytes == size),
            };
            if !fits {
                return Err(format!("it reads {bytes} bytes first, not {ty}"));
            }
            return u64::try_from(offset).map_err(|_| "it reads before its argument".to_owned());
        }
        let found = shown.returned.as_ref().ok_or("what it returns does not come from its argument alone")?;
        let Some((view, member)) = &accessor.through else { return offset_of(found, 0, ty) };
        let (at, _) = self.offset(view, member, span).map_err(|problem| problem.message)?;
        let outer = self.declared_type(view, member).ok_or("the member that it goes through is not declared")?;
        if is_in_place(&outer) {
            return offset_of(found, 0, ty)?.checked_sub(at).ok_or_else(|| format!("it does not go through {member}"));
        }
        if found.loads.first().copied() != i64::try_from(at).ok() {
            return Err(format!("it does not go through {member}"));
        }
        offset_of(found, 1, ty)
    }
}

/// The offset of a member of a type, that a function returns after it has followed some pointers.
fn offset_of(found: &Found, pointers: usize, ty: &Type) -> Result<u64, String> {
    let loads = found.loads.get(pointers..).unwrap_or_default();
    let offset = match (loads, word_bytes(ty)) {
        // The address of what is in place, or of a value that is returned by reference.
        ([], size) if pointers <= found.loads.len() && (size.is_none() || !is_pointer(ty)) => found.offset,
        ([offset], Some(size)) if found.offset == 0 && found.size == size => *offset,
        ([_], Some(size)) => return Err(format!("it returns {} bytes, not the {size} of {ty}", found.size)),
        _ => return Err(format!("it does not return a member of type {ty}")),
    };
    u64::try_from(offset).map_err(|_| "it returns something before its argument".to_owned())
}

fn is_in_place(ty: &Type) -> bool {
    word_bytes(ty).is_none()
}

fn is_pointer(ty: &Type) -> bool {
    matches!(ty, Type::Pointer(_) | Type::Reference(_) | Type::CStr(_) | Type::Object(_))
}

/// Bytes of what is returned in a register.
fn word_bytes(ty: &Type) -> Option<u32> {
    Some(match ty {
        Type::Int { size, .. } => *size,
        Type::Bool => 1,
        Type::Enum(_) => 4,
        ty if is_pointer(ty) => 8,
        _ => return None,
    })
}
