//! The messages of libbpf and of the kernel's verifier as diagnostics at the probeset's lines.

use super::compile::line_span;
use super::features::missing_privilege;
use profinfer_compiler::codegen::origin_of;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Source, Span};
use std::sync::Arc;

/// Lines of the verifier's log that are shown.
const LINES_SHOWN: usize = 12;

/// Why an object did not load.
pub(super) fn load_problems(error: &libbpf_rs::Error, messages: &str, sources: &[Arc<Source>]) -> Diagnostics {
    match VerifierLog::find(messages) {
        Some(log) => log.diagnostic(sources).into(),
        None if messages.contains("-EPERM") || messages.contains("Operation not permitted") => {
            missing_privilege("loading the BPF programs").into()
        }
        None => {
            let message = format!("the kernel did not load the BPF programs: {error}");
            let mut problem = Diagnostic::error(Code::KernelFeature, message).hint("see `profinfer doctor`");
            let lines: Vec<&str> = messages.lines().map(|line| line.trim_start_matches("libbpf: ")).collect();
            problem.notes = lines[lines.len().saturating_sub(LINES_SHOWN)..].iter().map(|l| (*l).to_owned()).collect();
            problem.into()
        }
    }
}

/// The verifier's last words about one program.
struct VerifierLog<'a> {
    program: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> VerifierLog<'a> {
    /// Finds the last log that libbpf printed, if it has something in it.
    fn find(messages: &'a str) -> Option<Self> {
        let begin = messages.rfind("-- BEGIN PROG LOAD LOG --");
        let start = begin.map_or(0, |at| messages.get(at..).and_then(|m| m.find('\n')).map_or(at, |n| at + n + 1));
        let end = messages.rfind("-- END PROG LOAD LOG --").filter(|end| *end >= start)?;
        let body = messages.get(start..end)?;
        let lines: Vec<&str> = body.lines().filter(|line| !line.trim().is_empty()).collect();
        let any_message: bool = lines.iter().any(|line| !line.starts_with("processed "));
        let program = messages.get(..end)?.rsplit("prog '").next().and_then(|rest| rest.split('\'').next())?;
        any_message.then_some(Self { program, lines })
    }

    fn diagnostic(&self, sources: &[Arc<Source>]) -> Diagnostic {
        let last = self.lines.iter().rev().find(|line| !line.starts_with("processed ") && !line.starts_with("-- "));
        let why = last.copied().unwrap_or("no reason given");
        let message = format!("the kernel's verifier refused the program `{}`: {}", self.program, why.trim());
        let mut problem = Diagnostic::error(Code::VerifierRefused, message)
            .hint("please report it with the probeset, `uname -r` and the output of `profinfer gen`");
        if let Some(span) = self.place(sources) {
            problem = problem.at(&span);
        }
        let from = self.lines.len().saturating_sub(LINES_SHOWN);
        problem.notes = self.lines.iter().skip(from).map(|line| line.trim_end().to_owned()).collect();
        problem
    }

    /// The line of the probeset nearest before the refusal. The log quotes lines of the program, which end with their
    /// place in the probeset; from Linux 6.10 as `; CODE @ FILE:LINE`.
    fn place(&self, sources: &[Arc<Source>]) -> Option<Span> {
        self.lines.iter().rev().filter_map(|line| line.strip_prefix("; ")).find_map(|comment| {
            let named = origin_of(comment, sources).and_then(|(source, line)| line_span(source, line));
            named.or_else(|| {
                sources.iter().find_map(|source| match comment.rsplit_once(" @ ") {
                    Some((_, place)) => {
                        let (file, line) = place.rsplit_once(':')?;
                        (file == source.name || source.name.ends_with(&format!("/{file}")))
                            .then(|| line_span(source, line.trim().parse().ok()?))?
                    }
                    None => quoted_line(source, comment),
                })
            })
        })
    }
}

/// The only line of a source that is this one.
fn quoted_line(source: &Arc<Source>, quote: &str) -> Option<Span> {
    let quote = quote.trim();
    let mut matching = source.text.lines().enumerate().filter(|(_, line)| line.trim() == quote);
    let (number, _) = matching.next().filter(|_| quote.len() > 3)?;
    matching.next().is_none().then(|| line_span(source, number + 1))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> [Arc<Source>; 1] {
        let text = "profinfer: 1\nprobes:\n  step:\n    fields: { n: batch.n_tokens }\n";
        [Arc::new(Source { name: "toy.yaml".into(), text: text.into() })]
    }

    fn error() -> libbpf_rs::Error {
        libbpf_rs::Error::from_raw_os_error(13)
    }

    fn refused(comment: &str) -> Diagnostic {
        let messages = format!(
            "libbpf: prog 'other': failed\nlibbpf: prog 'step': BPF program load failed: -EACCES\n\
             libbpf: prog 'step': -- BEGIN PROG LOAD LOG --\n0: R1=ctx() R10=fp0\n{comment}\n\
             0: (79) r0 = *(u64 *)(r1 +9999)\ninvalid bpf_context access off=9999 size=8\n\
             processed 1 insns (limit 1000000)\n-- END PROG LOAD LOG --\nlibbpf: prog 'step': failed to load: -EACCES\n"
        );
        load_problems(&error(), &messages, &sources()).0.remove(0)
    }

    #[test]
    fn a_refusal_names_program_reason_and_line() {
        let generated = "; PF_FIELD(0, n, PF_GET(__s32, x)); /* toy.yaml:4: batch.n_tokens */";
        let numbered = format!("{generated} @ toy.bpf.c:77");
        for comment in ["; whatever @ toy.yaml:4", "; fields: { n: batch.n_tokens }", generated, &numbered] {
            let problem = refused(comment);
            assert_eq!(problem.code, Code::VerifierRefused);
            assert!(problem.message.contains("`step`: invalid bpf_context access"), "{}", problem.message);
            assert_eq!(problem.span.expect("a place").text(), "fields: { n: batch.n_tokens }");
            assert!(problem.notes.iter().any(|note| note.contains("r1 +9999")), "{:?}", problem.notes);
        }
        assert_eq!(refused("; r = runtime(); @ runtime.h:10").span, None);
    }

    #[test]
    fn a_missing_privilege_is_not_the_verifiers_fault() {
        let messages = "libbpf: map 'pf_ring': failed to create: -EPERM\n";
        assert_eq!(load_problems(&error(), messages, &sources()).0[0].code, Code::Privilege);
    }

    #[test]
    fn an_unknown_fault_shows_what_libbpf_said() {
        let problems = load_problems(&error(), "libbpf: extern 'gone': not resolved\n", &sources());
        assert_eq!(problems.0[0].notes, ["extern 'gone': not resolved"]);
    }
}
