//! What functions of an engine do (`analysis.functions`), compiled.

use profinfer_diagnostics::Diagnostics;
use profinfer_probeset as spec;
use profinfer_probeset::FunctionClass;
use profinfer_probeset::path::{Environment, Formula, Value};

/// The probeset's conditions on functions.
#[derive(Debug, Clone, Default)]
pub struct FunctionClasses {
    conditions: Vec<(FunctionClass, Formula)>,
}

/// A function as a condition sees it.
struct NamedFunction<'a> {
    name: &'a str,
    module: &'a str,
}

impl Environment for NamedFunction<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "name" => Some(Value::Text(self.name.into())),
            "module" => Some(Value::Text(self.module.into())),
            _ => None,
        }
    }
}

impl FunctionClasses {
    pub(super) fn new(analysis: &spec::Analysis, problems: &mut Diagnostics) -> Self {
        let compiled = |(class, of): &(FunctionClass, profinfer_probeset::path::Expr)| {
            Some((*class, problems.keep(Formula::new(of.clone()))?))
        };
        Self { conditions: analysis.functions.iter().filter_map(compiled).collect() }
    }

    /// What a function of that name in a file of that name does: by the first condition that holds.
    pub fn of(&self, name: &str, module: &str) -> Option<FunctionClass> {
        let function = NamedFunction { name, module };
        let holds = |(_, condition): &&(FunctionClass, Formula)| condition.holds(&function) == Some(true);
        self.conditions.iter().find(holds).map(|(class, _)| *class)
    }
}
