//! Names that a view has for expressions over its members: they are used as members are.

use super::ast::{Expr, Type};
use super::check::{Checker, Result1};
use super::checked::Checked;
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

/// Most parts that expressions in the place of names have, in one expression.
const MAX_PARTS: usize = 16_384;

impl Checker<'_, '_> {
    /// The expression that a name stands for where a view's members are names.
    pub(super) fn computed_here(&self, name: &str, span: &Span) -> Option<Result1<Checked>> {
        let expr = self.scope.definitions.computed(self.scope.object?, name)?;
        Some(self.in_place_of(expr, expr.parts(), span))
    }

    /// The expression that `.name` or `->name` stands for, of the view that is written as `written`.
    pub(super) fn computed_of(
        &self,
        base: &Checked,
        written: &Expr,
        name: &str,
        arrow: bool,
        span: &Span,
    ) -> Option<Result1<Checked>> {
        let view = match &base.ty {
            Type::Object(object) if arrow => self.scope.definitions.view_of_object(object)?.to_owned(),
            _ => self.view_of(base, arrow)?,
        };
        let expr = self.scope.definitions.computed(&view, name)?;
        let parts = expr.parts() * written.parts();
        Some(self.in_place_of(&self.seen_from(&view, expr, written, arrow && !base.is_referred_to()), parts, span))
    }

    /// An expression over a view's members as one over those of the view that is written as `base`.
    pub(super) fn seen_from(&self, view: &str, expr: &Expr, base: &Expr, arrow: bool) -> Expr {
        let mut expr = expr.clone();
        expr.see_from(base, arrow, &|name| self.scope.definitions.member(view, name).is_some());
        expr
    }

    /// A view's expression cannot be read of each element of a slice.
    pub(super) fn not_of_each(&self, view: &str, name: &Spanned<String>) -> Result1<()> {
        if self.scope.definitions.computed(view, name).is_none() {
            return Ok(());
        }
        let message = format!("`{}` of each element cannot be read: it is an expression of {view}", name.value);
        let problem = Diagnostic::error(Code::NotSupportedYet, message).at(&name.span);
        Err(problem.hint("select a member, or one element: `[0]`"))
    }

    fn in_place_of(&self, expr: &Expr, parts: usize, span: &Span) -> Result1<Checked> {
        self.computed.set(self.computed.get().saturating_add(parts));
        if self.computed.get() > MAX_PARTS {
            let message = format!("with the names of views' `let` replaced, this has more than {MAX_PARTS} parts");
            return Err(Diagnostic::error(Code::OutOfRange, message)
                .at(span)
                .hint("record parts of it as separate fields"));
        }
        Ok(Checked { span: span.clone(), ..self.expr(expr)? })
    }
}
