//! The rules of probesets, compiled once for all recordings that have the same.

use profinfer_analysis::Rules;
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset as spec;
use profinfer_schema::Origin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The rules that recordings share, as long as one of them has them.
#[derive(Debug, Default)]
pub struct SharedRules(Mutex<Vec<Compiled>>);

/// A probeset's files, and what they were compiled to.
#[derive(Debug)]
struct Compiled {
    sources: Vec<(String, String)>,
    rules: Weak<Rules>,
}

impl SharedRules {
    /// The `analysis:` of the probeset that a trace carries.
    pub(crate) fn of(&self, origin: &Origin) -> (Arc<Rules>, Diagnostics) {
        // Locked while they are compiled: several recordings begin at once.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|compiled| compiled.rules.strong_count() > 0);
        let same = all.iter().find(|compiled| compiled.sources == origin.sources);
        if let Some(rules) = same.and_then(|compiled| compiled.rules.upgrade()) {
            return (rules, Diagnostics::new());
        }
        match compile(origin) {
            Ok(rules) => {
                let rules = Arc::new(rules);
                all.push(Compiled { sources: origin.sources.clone(), rules: Arc::downgrade(&rules) });
                (rules, Diagnostics::new())
            }
            Err(problems) => (Arc::default(), problems),
        }
    }
}

fn compile(origin: &Origin) -> Result<Rules, Diagnostics> {
    if origin.sources.is_empty() {
        return Ok(Rules::default());
    }
    let (probeset, _) = spec::from_sources(&origin.sources)?;
    Rules::new(&probeset.analysis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(engine: &str) -> Origin {
        let text = format!(
            "profinfer: 1\nengine: {engine}\nmodules: {{ m: libm.so }}\nprobes:\n  step: {{ at: 'm:decode(i32 n)', role: step, \
             fields: {{ tokens: n }} }}\n"
        );
        Origin { sources: vec![("a.yaml".into(), text)], ..Origin::default() }
    }

    #[test]
    fn recordings_of_one_probeset_share_its_rules_as_long_as_there_are_any() {
        let shared = SharedRules::default();
        let [(first, problems), (second, _), (other, _)] =
            [origin("a"), origin("a"), origin("b")].map(|of| shared.of(&of));
        assert!(problems.0.is_empty(), "{problems:?}");
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        drop((first, second));
        let again = shared.of(&origin("b"));
        assert!(Arc::ptr_eq(&again.0, &other));
        assert_eq!(shared.0.lock().unwrap().len(), 1);
        // What is wrong with a probeset is told of each recording.
        let wrong = Origin { sources: vec![("a.yaml".into(), "probes: 1".into())], ..Origin::default() };
        assert!(shared.of(&wrong).1.has_errors() && shared.of(&wrong).1.has_errors());
    }
}
