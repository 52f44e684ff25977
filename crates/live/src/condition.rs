//! Conditions over live figures, such as `time_per_output_token > 100ms for 5s`: comparisons, `&&`, `||` and
//! parentheses, written as in a probeset's expressions, and numbers with units.

use super::moments::Second;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Source, Span, did_you_mean, printable};
use profinfer_report::Bound;
use std::sync::Arc;

/// Bytes of a condition.
const MOST_BYTES: usize = 1024;
/// Parentheses in each other.
const DEEPEST: usize = 32;
/// The longest time that a condition has to hold, seconds.
pub(crate) const LONGEST: u64 = 60;

/// What a condition compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    TimeToFirstToken,
    TimePerOutputToken,
    RequestDuration,
    TokensPerSecond,
    RunningRequests,
    QueuedRequests,
    /// A part of the verdict.
    Share(Bound),
}

/// What a figure's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Time,
    Number,
    Share,
}

impl Figure {
    const NAMED: [(&'static str, Self); 6] = [
        ("time_to_first_token", Self::TimeToFirstToken),
        ("time_per_output_token", Self::TimePerOutputToken),
        ("request_duration", Self::RequestDuration),
        ("tokens_per_second", Self::TokensPerSecond),
        ("running_requests", Self::RunningRequests),
        ("queued_requests", Self::QueuedRequests),
    ];

    fn all() -> impl Iterator<Item = (&'static str, Self)> {
        Self::NAMED.into_iter().chain(Bound::ALL.map(|bound| (bound.as_str(), Self::Share(bound))))
    }

    fn quantity(self) -> Quantity {
        match self {
            Self::TimeToFirstToken | Self::TimePerOutputToken | Self::RequestDuration => Quantity::Time,
            Self::TokensPerSecond | Self::RunningRequests | Self::QueuedRequests => Quantity::Number,
            Self::Share(_) => Quantity::Share,
        }
    }
}

impl Quantity {
    /// What its numbers are written with, and what that is in seconds, or in parts of 1.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Time => &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0)],
            Self::Number => &[("", 1.0)],
            Self::Share => &[("%", 0.01)],
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Time => "write a time with us, ms, s or m: `100ms`",
            Self::Number => "write a number without a unit: `20`",
            Self::Share => "write a share as a percentage: `20%`",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Compare(Figure, Relation, f64),
    And(Vec<Node>),
    Or(Vec<Node>),
}

/// A condition, and how long it has to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    root: Node,
    /// Whole seconds.
    seconds: u64,
}

impl Condition {
    /// Reads a condition; `name` is what messages call the text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostics> {
        let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
        if text.len() > MOST_BYTES {
            let message = format!("the condition is longer than {MOST_BYTES} bytes");
            return Err(Diagnostic::error(Code::OutOfRange, message).hint("shorten it").into());
        }
        let mut parser = Parser { words: words(&source), at: 0, source };
        let root = parser.either(0)?;
        let seconds = parser.duration()?;
        match parser.peek() {
            Some(_) => Err(parser.unexpected("`&&`, `||`, `for` or the end")),
            None => Ok(Self { text: text.trim().to_owned(), root, seconds }),
        }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// For how many seconds it has to hold.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Whether it asks for a part of the verdict, which takes time to judge.
    pub(crate) fn needs_verdict(&self) -> bool {
        let mut nodes = vec![&self.root];
        while let Some(node) = nodes.pop() {
            match node {
                Node::Compare(Figure::Share(_), ..) => return true,
                Node::Compare(..) => {}
                Node::And(of) | Node::Or(of) => nodes.extend(of),
            }
        }
        false
    }

    /// Whether it held in a second. A figure that is not known then is neither large nor small.
    pub(crate) fn holds(&self, second: &Second) -> bool {
        holds(&self.root, second)
    }
}

fn holds(node: &Node, second: &Second) -> bool {
    match node {
        Node::And(all) => all.iter().all(|node| holds(node, second)),
        Node::Or(any) => any.iter().any(|node| holds(node, second)),
        Node::Compare(figure, relation, limit) => second.figure(*figure).is_some_and(|value| match relation {
            Relation::Greater => value > *limit,
            Relation::GreaterEqual => value >= *limit,
            Relation::Less => value < *limit,
            Relation::LessEqual => value <= *limit,
        }),
    }
}

/// The condition's words: names, numbers with what follows them, signs.
fn words(source: &Arc<Source>) -> Vec<Span> {
    let text = source.text.as_str();
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '%');
        let rest = text.get(at..).unwrap_or_default();
        let length = match first {
            c if is_of_word(c) => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            '&' | '|' | '=' | '<' | '>' => {
                rest.find(|c| !matches!(c, '&' | '|' | '=' | '<' | '>')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        if !first.is_whitespace() {
            words.push(Span::new(source, at..at + length));
        }
        at += length;
    }
    words
}

struct Parser {
    source: Arc<Source>,
    words: Vec<Span>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(Span::text)
    }

    fn take(&mut self, word: &str) -> bool {
        let is_it = self.peek() == Some(word);
        self.at += usize::from(is_it);
        is_it
    }

    /// Where the next word is, or the end.
    fn place(&self) -> Span {
        let end = self.source.text.len();
        self.words.get(self.at).cloned().unwrap_or_else(|| Span::new(&self.source, end..end))
    }

    fn unexpected(&self, wanted: &str) -> Diagnostics {
        let found = self.peek().map_or_else(|| "the end".to_owned(), |word| format!("`{}`", printable(word)));
        let problem = Diagnostic::error(Code::PathSyntax, format!("found {found}, expected {wanted}"));
        problem.at(&self.place()).hint("write a condition such as `time_per_output_token > 100ms for 5s`").into()
    }

    fn either(&mut self, depth: usize) -> Result<Node, Diagnostics> {
        let mut any = vec![self.both(depth)?];
        while self.take("||") {
            any.push(self.both(depth)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Node::Or(any) })
    }

    fn both(&mut self, depth: usize) -> Result<Node, Diagnostics> {
        let mut all = vec![self.single(depth)?];
        while self.take("&&") {
            all.push(self.single(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::And(all) })
    }

    fn single(&mut self, depth: usize) -> Result<Node, Diagnostics> {
        if self.peek() == Some("(") {
            if depth >= DEEPEST {
                let message = format!("more than {DEEPEST} parentheses in each other");
                return Err(Diagnostic::error(Code::OutOfRange, message).at(&self.place()).into());
            }
            self.at += 1;
            let node = self.either(depth + 1)?;
            return if self.take(")") { Ok(node) } else { Err(self.unexpected("`)`")) };
        }
        let figure = self.figure()?;
        let relation = match self.peek() {
            Some(">") => Relation::Greater,
            Some(">=") => Relation::GreaterEqual,
            Some("<") => Relation::Less,
            Some("<=") => Relation::LessEqual,
            _ => return Err(self.unexpected("`>`, `>=`, `<` or `<=`")),
        };
        self.at += 1;
        Ok(Node::Compare(figure, relation, self.number(figure.quantity())?))
    }

    fn figure(&mut self) -> Result<Figure, Diagnostics> {
        let place = self.place();
        let is_name = |word: &&str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let Some(name) = self.peek().filter(is_name) else { return Err(self.unexpected("a figure")) };
        if let Some((_, figure)) = Figure::all().find(|(of, _)| *of == name) {
            self.at += 1;
            return Ok(figure);
        }
        let all: Vec<&str> = Figure::all().map(|(name, _)| name).collect();
        let hint = did_you_mean(name, all.iter().copied()).unwrap_or_else(|| format!("available: {}", all.join(", ")));
        let message = format!("unknown figure `{}`", printable(name));
        Err(Diagnostic::error(Code::PathUnknownName, message).at(&place).hint(hint).into())
    }

    fn number(&mut self, quantity: Quantity) -> Result<f64, Diagnostics> {
        let place = self.place();
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let Some(word) = self.peek().filter(is_number) else { return Err(self.unexpected("a number")) };
        let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (number, unit) = word.split_at(digits);
        let Ok(number) = number.parse::<f64>() else { return Err(self.unexpected("a number")) };
        let Some((_, factor)) = quantity.units().iter().find(|(of, _)| *of == unit) else {
            let message = match unit {
                "" => "the number has no unit".to_owned(),
                unit => format!("`{}` is not a unit of this figure", printable(unit)),
            };
            return Err(Diagnostic::error(Code::Unit, message).at(&place).hint(quantity.hint()).into());
        };
        self.at += 1;
        Ok(number * factor)
    }

    /// `for 5s`, if it is there; else a second.
    fn duration(&mut self) -> Result<u64, Diagnostics> {
        if !self.take("for") {
            return Ok(1);
        }
        let place = self.place();
        let seconds = self.number(Quantity::Time)?;
        if !(1.0..=LONGEST as f64).contains(&seconds) {
            let problem = Diagnostic::error(Code::OutOfRange, "the time is out of range").at(&place);
            return Err(problem.hint(format!("a condition is judged second by second: give 1s to {LONGEST}s")).into());
        }
        // Within the range of the comparison above.
        Ok(seconds.ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Condition, Diagnostics> {
        Condition::parse("--when", text)
    }

    fn problem(text: &str) -> (Code, usize, String) {
        let problems = parse(text).unwrap_err();
        let first = &problems.0[0];
        let column = first.span.as_ref().map_or(0, |span| span.line_column().1);
        (first.code, column, first.hint.clone().unwrap_or_default())
    }

    #[test]
    fn a_condition_is_a_comparison_and_a_time() {
        let condition = parse(" time_per_output_token > 100ms for 5s ").unwrap();
        assert_eq!((condition.text(), condition.seconds()), ("time_per_output_token > 100ms for 5s", 5));
        assert_eq!(condition.root, Node::Compare(Figure::TimePerOutputToken, Relation::Greater, 0.1));
        for (text, limit) in [("1.5s", 1.5), ("250us", 250e-6), ("2m", 120.0)] {
            let condition = parse(&format!("time_to_first_token>={text}")).unwrap();
            assert_eq!(condition.root, Node::Compare(Figure::TimeToFirstToken, Relation::GreaterEqual, limit));
            assert_eq!(condition.seconds(), 1);
        }
        assert_eq!(parse("starved > 20% for 1.2s").unwrap().seconds(), 2);
    }

    #[test]
    fn and_binds_closer_than_or() {
        let of = |text| Node::Compare(Figure::QueuedRequests, Relation::Greater, text);
        let condition = parse("queued_requests > 1 || queued_requests > 2 && queued_requests > 3").unwrap();
        assert_eq!(condition.root, Node::Or(vec![of(1.0), Node::And(vec![of(2.0), of(3.0)])]));
        let condition = parse("(queued_requests > 1 || queued_requests > 2) && queued_requests > 3").unwrap();
        assert_eq!(condition.root, Node::And(vec![Node::Or(vec![of(1.0), of(2.0)]), of(3.0)]));
        assert!(parse("disk > 5% || running_requests < 3").unwrap().needs_verdict());
        assert!(!condition.needs_verdict());
    }

    #[test]
    fn what_is_not_known_holds_nothing() {
        let nothing = Second::default();
        assert!(!parse("time_to_first_token > 0s").unwrap().holds(&nothing));
        assert!(!parse("time_to_first_token < 9s").unwrap().holds(&nothing));
        assert!(!parse("starved <= 100%").unwrap().holds(&nothing));
    }

    #[test]
    fn what_is_wrong_has_a_code_a_place_and_a_hint() {
        for (text, code, column, hint) in [
            ("", Code::PathSyntax, 1, "write a condition such as"),
            ("time_per_output_tokens > 1s", Code::PathUnknownName, 1, "did you mean `time_per_output_token`?"),
            ("xyzzy > 1s", Code::PathUnknownName, 1, "available: time_to_first_token, "),
            ("time_per_output_token = 1s", Code::PathSyntax, 23, "such as"),
            ("time_per_output_token > 100", Code::Unit, 25, "`100ms`"),
            ("time_per_output_token > 5%", Code::Unit, 25, "`100ms`"),
            ("starved > 0.2", Code::Unit, 11, "`20%`"),
            ("queued_requests > 5s", Code::Unit, 19, "without a unit"),
            ("starved > 20% for 1ms", Code::OutOfRange, 19, "1s to 60s"),
            ("starved > 20% for 2m", Code::OutOfRange, 19, "1s to 60s"),
            ("starved > 20% for", Code::PathSyntax, 18, "such as"),
            ("starved > 20% and disk > 1%", Code::PathSyntax, 15, "such as"),
            ("(starved > 20%", Code::PathSyntax, 15, "such as"),
            ("starved > 1.2.3%", Code::PathSyntax, 11, "such as"),
            ("starved > -1%", Code::PathSyntax, 11, "such as"),
        ] {
            let found = problem(text);
            assert_eq!((found.0, found.1), (code, column), "{text}");
            assert!(found.2.contains(hint), "{text}: {}", found.2);
        }
        assert_eq!(problem(&"(".repeat(500)).0, Code::OutOfRange);
        assert_eq!(problem(&"x".repeat(2000)).0, Code::OutOfRange);
    }

    proptest! {
        /// Whatever the text is, there is a condition or a problem.
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_order_of_words_is_too_strange(words in prop::collection::vec(prop::sample::select(vec![
            "time_to_first_token", "starved", "tokens_per_second", ">", ">=", "<", "&&", "||", "(", ")",
            "for", "5s", "20%", "7", "é", "=>", "1e9s",
        ]), 0..20)) {
            if let Ok(condition) = parse(&words.join(" ")) {
                prop_assert!((1..=LONGEST).contains(&condition.seconds()));
                condition.holds(&Second::default());
            }
        }
    }
}
