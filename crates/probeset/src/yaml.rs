//! YAML text to a tree in which each value has its place. It is independent of the language: numbers, booleans and
//! nulls are texts here. Anchors, aliases, tags, directives and further documents are refused (docs/decisions/0002).

use super::limits;
use super::problems::{Problems, shown};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Source, Span};
use std::sync::Arc;

/// A YAML value.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A text.
    Scalar(Scalar),
    /// `[a, b]` or `- a`.
    List(List),
    /// `{a: b}` or `a: b`.
    Map(Map),
}

/// A text.
#[derive(Debug, Clone)]
pub(super) struct Scalar {
    /// After unquoting, unescaping and folding.
    pub(super) text: String,
    /// All of it, quotes included.
    pub(super) span: Span,
    /// The text as it stands in the file, without quotes, where that differs from `text` in white space only (no
    /// escapes). Offsets into it are places in the file.
    pub(super) verbatim: Option<Span>,
    /// Nothing stands there: `key:`.
    pub(super) absent: bool,
}

/// A list.
#[derive(Debug, Clone)]
pub(super) struct List {
    /// Its items.
    pub(super) items: Vec<Node>,
    /// Where it starts.
    pub(super) span: Span,
}

/// A map.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// Its entries in order, each key once.
    pub(super) entries: IndexMap<String, Entry>,
    /// Where it starts.
    pub(super) span: Span,
}

/// One entry of a map.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The key.
    pub(super) key: Scalar,
    /// Its value.
    pub(super) value: Node,
}

impl Node {
    /// Where it is, or starts.
    pub(super) fn span(&self) -> &Span {
        match self {
            Self::Scalar(scalar) => &scalar.span,
            Self::List(list) => &list.span,
            Self::Map(map) => &map.span,
        }
    }

    /// Whether two values say the same, wherever they stand.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(a), Self::Scalar(b)) => a.text == b.text,
            (Self::List(a), Self::List(b)) => {
                a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| a.same(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                a.entries.len() == b.entries.len()
                    && a.entries
                        .iter()
                        .all(|(key, entry)| b.entries.get(key).is_some_and(|other| entry.value.same(&other.value)))
            }
            _ => false,
        }
    }
}

/// Parses a file's only document. `None`, with a problem, where it cannot be parsed or is empty; a key that is given
/// twice or is no text is a problem, but the rest of the tree is there.
pub(super) fn parse(source: &Arc<Source>, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder { source, problems, stack: Vec::new(), root: None };
    let mut nodes = 0_usize;
    for event in parser(&source.text) {
        let outcome = match event {
            Ok((event, span)) => {
                nodes += 1;
                let span = builder.span(span.byte_range());
                if nodes > limits::NODES { Err(too_large(&span)) } else { builder.event(event, &span) }
            }
            Err(error) => Err(syntax_error(source, &error)),
        };
        if let Err(problem) = outcome {
            builder.problems.push(problem);
            return None;
        }
    }
    let root = builder.root;
    if root.is_none() {
        let start = Span::new(source, 0..0);
        problems.error_hint(Code::YamlSyntax, &start, "the file is empty", "a probeset starts with `profinfer: 1`");
    }
    root
}

fn parser(text: &str) -> Parser<'_, granit_parser::StrInput<'_>> {
    let mut options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        flow_nesting_limit: limits::NESTING,
        block_nesting_limit: limits::NESTING,
    };
    options.set_emit_comments(false);
    Parser::new_from_str_with_options(text, options)
}

/// A collection that is not closed yet.
enum Open {
    List(List),
    Map { map: Map, key: Key },
}

/// What the next value in a map is.
enum Key {
    /// A key.
    Next,
    /// The value of this key.
    Known(Scalar),
    /// The value of a key that was refused.
    Refused,
}

struct Builder<'a> {
    source: &'a Arc<Source>,
    problems: &'a mut Problems,
    stack: Vec<Open>,
    root: Option<Node>,
}

impl Builder<'_> {
    fn span(&self, range: Option<std::ops::Range<usize>>) -> Span {
        Span::new(self.source, range.unwrap_or(0..0))
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Diagnostic> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                return Err(Diagnostic::error(Code::YamlSyntax, "a second document")
                    .at(span)
                    .hint("remove the `---`; a file contains one probeset"));
            }
            Event::Scalar(text, style, anchor, tag) => {
                plain_node(anchor, tag.is_some(), span)?;
                self.value(Node::Scalar(scalar(text.into_owned(), style, span)));
            }
            Event::SequenceStart(_, anchor, tag) => {
                plain_node(anchor, tag.is_some(), span)?;
                self.stack.push(Open::List(List { items: Vec::new(), span: span.clone() }));
            }
            Event::MappingStart(_, anchor, tag) => {
                plain_node(anchor, tag.is_some(), span)?;
                let map = Map { entries: IndexMap::new(), span: span.clone() };
                self.stack.push(Open::Map { map, key: Key::Next });
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Open::List(list)) => self.value(Node::List(list)),
                Some(Open::Map { map, .. }) => self.value(Node::Map(map)),
                None => {}
            },
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return Err(Diagnostic::error(Code::YamlSyntax, "aliases (`*name`) are not supported")
                    .at(span)
                    .hint("if this starts a text, quote the text"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn value(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(list)) => list.items.push(node),
            Some(Open::Map { map, key }) => match std::mem::replace(key, Key::Next) {
                Key::Next => *key = new_key(map, node, self.problems),
                Key::Known(scalar) => {
                    map.entries.insert(scalar.text.clone(), Entry { key: scalar, value: node });
                }
                Key::Refused => {}
            },
        }
    }
}

fn new_key(map: &Map, node: Node, problems: &mut Problems) -> Key {
    match node {
        Node::Scalar(key) => match map.entries.get(&key.text) {
            None => Key::Known(key),
            Some(first) => {
                let (line, _) = first.key.span.line_column();
                let message = format!("`{}` is given twice", shown(&key.text));
                let problem = Diagnostic::error(Code::Duplicate, message).at(&key.span);
                problems.push(problem.hint(format!("remove one; the first is on line {line}")));
                Key::Refused
            }
        },
        other => {
            let hint = "quote a text with brackets";
            problems.error_hint(Code::WrongShape, other.span(), "a key must be a text", hint);
            Key::Refused
        }
    }
}

/// Refuses what YAML can say about a value beyond the value.
fn plain_node(anchor: usize, tagged: bool, span: &Span) -> Result<(), Diagnostic> {
    let what = match (anchor, tagged) {
        (0, false) => return Ok(()),
        (0, true) => "tags (`!name`)",
        _ => "anchors (`&name`)",
    };
    Err(Diagnostic::error(Code::YamlSyntax, format!("{what} are not supported"))
        .at(&line_of(span))
        .hint("if this starts a text, quote the text"))
}

/// From the first character of a span's line to the span's end: a tag or anchor stands before its value.
fn line_of(span: &Span) -> Span {
    let text = span.source.text.get(..span.range.start).unwrap_or("");
    let start = text.rfind('\n').map_or(0, |at| at + 1);
    let indent = text.get(start..).map_or(0, |line| line.len() - line.trim_start().len());
    Span::new(&span.source, start + indent..span.range.end)
}

fn scalar(text: String, style: ScalarStyle, span: &Span) -> Scalar {
    let raw = span.text();
    let absent = style == ScalarStyle::Plain && raw.is_empty();
    let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted) && raw.len() >= 2;
    let inside = trim(&if quoted { span.slice(1..raw.len() - 1) } else { span.clone() });
    let same = inside.text().split_whitespace().eq(text.split_whitespace());
    // A block scalar's span takes in the line break after it; the trimmed one is what a person sees.
    let span = if quoted { span.clone() } else { trim(span) };
    Scalar {
        text: if absent { String::new() } else { text },
        span,
        verbatim: (same || absent).then_some(inside),
        absent,
    }
}

/// A span without the white space at its ends.
fn trim(span: &Span) -> Span {
    let text = span.text();
    let start = text.len() - text.trim_start().len();
    span.slice(start..text.trim_end().len().max(start))
}

fn too_large(span: &Span) -> Diagnostic {
    Diagnostic::error(Code::YamlSyntax, format!("the file has more than {} values", limits::NODES)).at(span)
}

fn syntax_error(source: &Arc<Source>, error: &ScanError) -> Diagnostic {
    let start = error.marker().byte_offset().unwrap_or(0).min(source.text.len());
    let rest = source.text.get(start..).unwrap_or("");
    let length = rest.chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8);
    let span = Span::new(source, start..start + length);
    let diagnostic = Diagnostic::error(Code::YamlSyntax, format!("not YAML: {}", error.info())).at(&span);
    match hint(error.kind()) {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

/// The remedy, for people who do not know all of YAML.
fn hint(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::MisplacedFlowCollectionEnd
        | ErrorKind::MismatchedFlowCollectionEnd { .. }
        | ErrorKind::UnclosedFlowCollection { .. } => {
            "inside `{ }` and `[ ]`, quote a text with brackets, braces or commas, or write one entry per line"
        }
        ErrorKind::MappingValueNotAllowed => "quote a text that contains `: `",
        ErrorKind::UnexpectedCharacter { .. } => "quote a text that starts with this character",
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => "indent with spaces",
        ErrorKind::RecursionLimitExceeded => "reduce the number of levels",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Node>, Vec<String>) {
        let source = Arc::new(Source { name: "t".into(), text: text.into() });
        let mut problems = Problems::default();
        let node = parse(&source, &mut problems);
        (node, problems.into_diagnostics().0.into_iter().map(|d| d.message).collect())
    }

    fn at(text: &str, key: &str) -> Scalar {
        let (node, problems) = read(text);
        assert_eq!(problems, Vec::<String>::new());
        let Some(Node::Map(map)) = node else { panic!("no map") };
        let Node::Scalar(scalar) = &map.entries[key].value else { panic!("no scalar") };
        scalar.clone()
    }

    #[test]
    fn a_scalar_is_verbatim_unless_it_has_escapes() {
        for (text, inside) in [
            ("k: tensor->ne[0]  # comment", "tensor->ne[0]"),
            ("é: 1\nk: 'a ~ \"(\\d+)\"'", "a ~ \"(\\d+)\""),
            ("k: \"a ? b : c\"", "a ? b : c"),
            ("k: {k: x}\nl: y", ""),
            ("k: a &&\n   b", "a &&\n   b"),
            ("k: |\n  a &&\n  b\nl: c", "a &&\n  b"),
            ("k: >-\n  a &&\n  b\n", "a &&\n  b"),
        ] {
            let (node, _) = read(text);
            let Some(Node::Map(map)) = node else { panic!("no map in {text}") };
            if let Node::Scalar(scalar) = &map.entries["k"].value {
                let verbatim = scalar.verbatim.as_ref().expect("verbatim");
                assert_eq!(verbatim.text(), inside, "{text}");
            }
        }
        assert!(at("k: 'it''s'", "k").verbatim.is_none());
        assert!(at(r#"k: "a\tb""#, "k").verbatim.is_none());
        assert_eq!(at(r#"k: "a\tb""#, "k").text, "a\tb");
    }

    #[test]
    fn nothing_after_a_key_is_absent_and_not_a_tilde() {
        assert!(at("k:\nl: 1", "k").absent);
        assert!(!at("k: ''", "k").absent);
        assert_eq!(at("k:", "k").text, "");
    }

    #[test]
    fn duplicate_keys_are_problems_and_the_first_one_stays() {
        let (node, problems) = read("a: 1\nb: 2\na: 3\na: [4]");
        assert_eq!(problems, ["`a` is given twice", "`a` is given twice"]);
        let Some(Node::Map(map)) = node else { panic!("no map") };
        assert!(matches!(&map.entries["a"].value, Node::Scalar(s) if s.text == "1"));
        assert_eq!(map.entries.len(), 2);
    }

    #[test]
    fn what_yaml_has_beyond_values_is_refused() {
        for text in ["a: &x 1", "a: *x", "a: !x 1", "%YAML 1.2\n---\na: 1", "a: 1\n---\nb: 2", "", "# only"] {
            let (node, problems) = read(text);
            assert!(node.is_none(), "{text:?}");
            assert_eq!(problems.len(), 1, "{text:?}: {problems:?}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        for text in
            ["[".repeat(10_000), "a: ".repeat(5_000), "- ".repeat(10_000), "[1,".repeat(10) + &"1,".repeat(200_000)]
        {
            assert!(read(&text).0.is_none());
        }
    }

    #[test]
    fn sameness_ignores_places_and_the_order_of_keys() {
        let (a, _) = read("x: {a: 1, b: [c, d]}");
        let (b, _) = read("x:\n  b:\n    - c\n    - 'd'\n  a: 1");
        let (c, _) = read("x: {a: 1, b: [d, c]}");
        let (Some(a), Some(b), Some(c)) = (a, b, c) else { panic!("trees") };
        assert!(a.same(&b));
        assert!(!a.same(&c));
    }
}
