//! What a probeset's names mean to the type checker.

use crate::Probeset;
use crate::path::{Definitions, Expr, Scope, Type};

impl Definitions for Probeset {
    fn member(&self, view: &str, member: &str) -> Option<Type> {
        Some(self.types.get(view)?.members.get(member)?.ty.value.clone())
    }

    fn members(&self, view: &str) -> Option<Vec<&str>> {
        let view = self.types.get(view)?;
        Some(view.members.keys().chain(view.computed.keys()).map(String::as_str).collect())
    }

    fn elements(&self, view: &str) -> Option<&Expr> {
        self.types.get(view)?.elements.as_ref()
    }

    fn computed(&self, view: &str, name: &str) -> Option<&Expr> {
        self.types.get(view)?.computed.get(name)
    }

    fn view_of_object(&self, object: &str) -> Option<&str> {
        Some(self.objects.get(object)?.of.as_str())
    }

    fn object_of_view(&self, view: &str) -> Option<&str> {
        let mut candidates = self.objects.iter().filter(|(_, object)| object.of.value == view);
        match (candidates.next(), candidates.next()) {
            (Some((name, _)), None) => Some(name),
            _ => None,
        }
    }
}

impl Probeset {
    /// What an expression over the members of a view can use.
    pub fn scope_of<'a>(&'a self, view: &'a str) -> Scope<'a> {
        Scope {
            definitions: self,
            arguments: Vec::new(),
            enclosing: Vec::new(),
            returns: None,
            result_argument: None,
            object: Some(view),
            captures: 0,
        }
    }
}
