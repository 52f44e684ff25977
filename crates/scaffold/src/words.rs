//! Generic words of inference, that classify names of functions and members. None is specific to an engine.

/// What a function may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallKind {
    /// One call for a token or a batch.
    Step,
    /// One computation of a graph.
    Graph,
    /// One operator.
    Operator,
}

const STEP: &[&str] =
    &["step", "decode", "encode", "infer", "inference", "invoke", "generate", "predict", "forward", "run", "eval"];
/// Words of steps that many other functions have, too.
const WEAK: &[&str] = &["forward", "run", "eval"];
const GRAPH: &[&str] = &["graph", "pipeline", "plan", "subgraph", "session"];
const OPERATOR: &[&str] = &[
    "operator",
    "op",
    "ops",
    "kernel",
    "kernels",
    "node",
    "nodes",
    "layer",
    "layers",
    "execute",
    "execution",
    "compute",
    "matmul",
    "conv",
    "attention",
    "gemm",
];
/// What a function of these does is seldom where the time goes.
const ASIDE: &[&str] = &[
    "print", "free", "init", "get", "set", "name", "size", "is", "has", "string", "alloc", "log", "dump", "create",
    "delete", "destroy", "parse", "load", "save", "add", "new", "debug", "error", "reserve", "build", "test",
];

/// What a function of these does is to let time pass.
const WAITS: &[&str] = &["barrier", "wait", "waits", "sync", "synchronize", "join", "poll", "sleep", "yield", "lock"];

/// Members and arguments that have a meaning, the likeliest word first.
pub(super) const NAME: &[&str] = &["name", "label", "id"];
pub(super) const OP: &[&str] = &["op", "optype", "opcode", "operator", "kind", "type"];
pub(super) const DTYPE: &[&str] = &["dtype", "type", "datatype", "elemtype", "format"];
pub(super) const SHAPE: &[&str] = &["shape", "dims", "dim", "extent", "extents", "sizes", "ne"];
pub(super) const INPUTS: &[&str] = &["inputs", "input", "src", "sources", "parents"];
pub(super) const LANE: &[&str] = &["lane", "ith", "thread", "threadid", "worker", "rank", "tid"];
pub(super) const TOKENS: &[&str] = &["tokens", "ntokens", "numtokens", "batchsize", "batch", "length", "len", "n"];

/// The likely role of a function, from the words in its name.
pub(super) fn kind(name: &str) -> Option<CallKind> {
    let words = words(last(name));
    let has = |of: &[&str]| words.iter().any(|word| of.contains(&word.as_str()));
    if has(GRAPH) {
        Some(CallKind::Graph)
    } else if has(OPERATOR) {
        Some(CallKind::Operator)
    } else if has(STEP) {
        Some(CallKind::Step)
    } else {
        None
    }
}

/// Whether a function of this name waits.
pub(super) fn waits(name: &str) -> bool {
    words(last(name)).iter().any(|word| WAITS.contains(&word.as_str()))
}

/// Whether a name is one word and nothing else, and no weak one: `invoke`, not `invokeLater` or `run`.
pub(super) fn is_plain(name: &str) -> bool {
    let words = words(last(name));
    words.len() == 1 && !words.iter().any(|word| WEAK.contains(&word.as_str()))
}

/// How likely a name is one that matters.
pub(super) fn score(name: &str) -> i64 {
    let words = words(last(name));
    let count = |of: &[&str]| words.iter().filter(|word| of.contains(&word.as_str())).count() as i64;
    let good = count(STEP).min(2) + count(GRAPH).min(1) + count(OPERATOR).min(2);
    // A long name is a special case of something.
    4 * good - 2 * count(WEAK).min(1) - 6 * count(ASIDE).min(2) - (words.len() as i64 - 3).max(0)
}

/// Whether a name is one of these words, without its underscores: `n_tokens`, `opType`, `name_`, `m_name`.
pub(super) fn place(name: &str, of: &[&str]) -> Option<usize> {
    // Before underscores go: `mname` is another word than `m_name`.
    let own = name.strip_prefix("m_").unwrap_or(name);
    let plain = own.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    of.iter().position(|word| *word == plain)
}

/// What stands after the last `::`. An operator of C++ says nothing: its class does. Before a method of many classes is
/// what these are.
fn last(name: &str) -> &str {
    let without = name.split('<').next().unwrap_or(name);
    let parts: Vec<&str> = without.split("::").collect();
    let from_end = |n: usize| parts.len().checked_sub(n).and_then(|at| parts.get(at)).copied().unwrap_or_default();
    let of_symbol = from_end(1).strip_prefix("operator").filter(|rest| !rest.is_empty());
    let is_symbol = of_symbol.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'));
    let end = if is_symbol && parts.len() > 1 { parts.len() - 1 } else { parts.len() };
    let is_of_many = |at: &usize| parts.get(*at) == Some(&"*");
    let start = match end.checked_sub(1) {
        Some(at) if is_of_many(&at) => at.saturating_sub(1),
        Some(at) if at.checked_sub(1).is_some_and(|before| is_of_many(&before)) => at.saturating_sub(2),
        Some(at) => at,
        None => 0,
    };
    let length = |parts: &[&str]| parts.iter().map(|part| part.len() + "::".len()).sum::<usize>();
    let (from, to) = (length(parts.get(..start).unwrap_or_default()), length(parts.get(..end).unwrap_or_default()));
    without.get(from..to.saturating_sub("::".len())).unwrap_or(without)
}

/// `compute_forward` and `computeForward` are two words each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before_lower) {
            words.push(String::new());
        }
        before_lower = c.is_ascii_lowercase();
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_by_their_words() {
        assert_eq!(words("computeForward_v2"), ["compute", "forward", "v2"]);
        assert_eq!(kind("toy_step"), Some(CallKind::Step));
        assert_eq!(kind("ns::Engine::computeGraph"), Some(CallKind::Graph));
        assert_eq!(kind("ns::Matmul::execute"), Some(CallKind::Operator));
        assert_eq!(kind("toy_barrier"), None);
        // What stands before says more.
        assert_eq!(kind("ns::Plan::operator()"), Some(CallKind::Graph));
        assert_eq!(kind("ns::kernels::*::run"), Some(CallKind::Operator));
        assert_eq!(last("ns::Gemm::operator()"), "Gemm");
        assert_eq!(last("ns::ops::*::operator()"), "ops::*");
        assert_eq!(kind("ns::Decoder::operator()"), None);
        assert_eq!(
            (last("*::run"), last("operator()"), last("ns::operator_of")),
            ("*::run", "operator()", "operator_of")
        );
        assert!(score("toy_step") > score("toy_step_print"));
        assert!(score("toy_step") > score("run"));
        assert!(score("run_graph") > score("helper"));
        assert_eq!(place("n_tokens", TOKENS), place("nTokens", TOKENS));
        assert_eq!(place("opType", OP), Some(1));
        assert_eq!(place("shape_", SHAPE), Some(0));
        assert_eq!((place("m_name", NAME), place("m_opType", OP)), (Some(0), Some(1)));
        assert_eq!((place("colour", NAME), place("mname", NAME)), (None, None));
    }
}
