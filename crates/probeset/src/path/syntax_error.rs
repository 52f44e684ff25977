//! What is told of a text that the grammar does not have.

use super::grammar::Rule;
use pest::error::{ErrorVariant, InputLocation};
use profinfer_diagnostics::{Code, Diagnostic, Span};

/// The problem, at the first character that does not fit, with what could stand there.
pub(super) fn syntax_error(error: &pest::error::Error<Rule>, text: &str, span: &Span, what: &str) -> Diagnostic {
    let start = match error.location {
        InputLocation::Pos(at) | InputLocation::Span((at, _)) => at.min(text.len()),
    };
    let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
    let found = if start == text.len() { "it ends here".to_owned() } else { format!("found `{}`", &text[start..end]) };
    let mut diagnostic =
        Diagnostic::error(Code::PathSyntax, format!("this is not {what}: {found}")).at(&span.slice(start..end));
    if let ErrorVariant::ParsingError { positives, .. } = &error.variant {
        let mut expected: Vec<&str> = positives.iter().filter_map(|rule| rule_name(*rule)).collect();
        expected.sort_unstable();
        expected.dedup();
        if !expected.is_empty() {
            diagnostic = diagnostic.hint(format!("expected {}", expected.join(", ")));
        }
    }
    diagnostic
}

/// What a rule is called in a message; rules that say nothing to a person have none.
fn rule_name(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::identifier | Rule::qualified => "a name",
        Rule::integer | Rule::real => "a number",
        Rule::text | Rule::text_inner => "a text in quotes",
        Rule::r#type | Rule::type_base | Rule::scalar => "a type",
        Rule::type_suffix | Rule::pointer | Rule::reference | Rule::array => "`*` or `[n]`",
        Rule::place | Rule::function_place => "`module:function(…)`",
        Rule::name_pattern | Rule::demangled_pattern => "a function's name",
        Rule::signature => "`(arguments)`",
        Rule::param => "an argument",
        Rule::until | Rule::word_until => "`until`",
        Rule::waiting | Rule::word_waiting => "`waiting from PROBE`",
        Rule::expression | Rule::binary | Rule::operand | Rule::postfix | Rule::primary => "an expression",
        Rule::step | Rule::get | Rule::contains | Rule::arrow | Rule::dot | Rule::bracket | Rule::slice | Rule::all => {
            "`->member`, `.member` or `[…]`"
        }
        Rule::cast | Rule::word_as => "`as TYPE`",
        Rule::at_return | Rule::word_at => "`at return`",
        Rule::maximum | Rule::word_max => "`max N`",
        Rule::until_null => "`until null`",
        Rule::EOI => "the end",
        Rule::add | Rule::subtract | Rule::multiply | Rule::equal | Rule::and => "an operator",
        _ => return None,
    })
}
