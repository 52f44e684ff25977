//! Patterns of functions' names. Those of C++ have characters of patterns in them: `operator*`, `{lambda(int)#1}`.

/// A symbol name in which `*` stands for any text, `?` for one character and `{a*,b}` for one of several patterns; each
/// `*` outside of braces and each `{}` is captured as `match[n]`, from 1. Of `operator*`, and of the braces of a lambda,
/// the characters are the name's. `refers_to("…", "…")` and `before_switch("…", "…")` stand for functions [by
/// texts](ByTexts) instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamePattern(pub String);

/// A function by the texts that a function refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByTexts<'a> {
    /// Whole, or up to a `*`.
    pub texts: Vec<&'a str>,
    /// The function is not the one that refers to them: it is called last before the largest switch there, or in functions
    /// called from there.
    pub is_before_switch: bool,
}

/// What a pattern consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Literal(char),
    /// `*`; outside of braces it is captured.
    Any {
        captured: bool,
    },
    One,
    Begin,
    Or,
    End,
}

/// How the names begin that compilers give to what has none.
const UNNAMED: [&str; 3] = ["{lambda(", "{unnamed type#", "{default arg#"];

impl NamePattern {
    /// Whether it can match more than one name.
    pub fn is_glob(&self) -> bool {
        self.pieces().iter().any(|piece| !matches!(piece, Piece::Literal(_)))
    }

    /// Whether it has wildcards: functions that it is not meant for may match it.
    pub fn has_wildcards(&self) -> bool {
        self.by_texts().is_none() && self.0.contains(['*', '?'])
    }

    /// What `refers_to("…", "…")` and `before_switch("…", "…")` stand for.
    pub fn by_texts(&self) -> Option<ByTexts<'_>> {
        let (form, texts) = self.0.strip_suffix("\")")?.split_once("(\"")?;
        let is_before_switch = match form {
            "refers_to" => false,
            "before_switch" => true,
            _ => return None,
        };
        Some(ByTexts { texts: texts.split('"').step_by(2).collect(), is_before_switch })
    }

    /// As a message has it: of a choice of many, the first two. The line of the probeset has them all.
    pub fn in_short(&self) -> String {
        const MOST: usize = 4;
        let mut short = String::new();
        for part in self.0.split_inclusive('}') {
            let choice = part.rsplit_once('{').map(|(before, choice)| (before, choice.split(',').collect::<Vec<_>>()));
            match choice {
                Some((before, choice)) if part.ends_with('}') && choice.len() > MOST => {
                    short += &format!("{before}{{{},{},…}}", choice[0], choice[1]);
                }
                _ => short += part,
            }
        }
        short
    }

    /// How many captures it has.
    pub fn captures(&self) -> usize {
        let is_capture = |piece: &&Piece| matches!(piece, Piece::Any { captured: true } | Piece::Begin);
        self.pieces().iter().filter(is_capture).count()
    }

    /// Whether it means what is within a function, such as a lambda: `go::{lambda(int)#1}::operator()`, `go(int)::*`.
    pub fn is_within_function(&self) -> bool {
        let is_named = UNNAMED.iter().any(|begin| self.0.contains(begin));
        is_named || self.0.replace("(anonymous namespace)::", "").contains(")::")
    }

    /// What stands before the parameters, if the pattern has any: then it is compared with a demangled name as a whole.
    pub fn before_parameters(&self) -> Option<&str> {
        let mut from = 0;
        while let Some(at) = self.0.get(from..)?.find('(').map(|at| from + at) {
            let (before, rest) = self.0.split_at(at);
            let brace = before.rfind('{').filter(|brace| lambda(&self.0[*brace..]).is_some_and(|end| brace + end > at));
            if rest.starts_with("(anonymous namespace)") {
                from = at + 1;
            } else if rest.starts_with("()") && before.ends_with("operator") {
                from = at + 2;
            } else if let Some(end) = brace.and_then(|brace| Some(brace + lambda(&self.0[brace..])?)) {
                from = end;
            } else {
                return Some(before);
            }
        }
        None
    }

    /// Patterns without a choice in braces that mean together what this one means; itself where these would be too many, or
    /// where a brace is open.
    pub fn choices(&self) -> Vec<String> {
        const MOST: usize = 64;
        // What stands before the braces, and the choices so far with it.
        let (mut all, mut before, mut chosen) = (vec![String::new()], Vec::new(), Vec::new());
        let mut is_open = false;
        for piece in self.pieces() {
            let text = match piece {
                Piece::Literal(c) => c,
                Piece::Any { .. } => '*',
                Piece::One => '?',
                Piece::Begin => {
                    is_open = true;
                    before.clone_from(&all);
                    continue;
                }
                Piece::Or => {
                    chosen.append(&mut all);
                    all.clone_from(&before);
                    continue;
                }
                Piece::End => {
                    is_open = false;
                    chosen.append(&mut all);
                    std::mem::swap(&mut all, &mut chosen);
                    continue;
                }
            };
            if all.len() > MOST {
                return vec![self.0.clone()];
            }
            all.iter_mut().for_each(|choice| choice.push(text));
        }
        // What stands before parameters may be cut within braces.
        if all.len() > MOST || is_open { vec![self.0.clone()] } else { all }
    }

    /// The anchored regular expression it stands for, with one group a capture.
    pub fn to_regex(&self) -> String {
        let mut regex = String::from("^");
        for piece in self.pieces() {
            match piece {
                Piece::Literal(c) => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
                Piece::Any { captured: true } => regex.push_str("(.*)"),
                Piece::Any { captured: false } => regex.push_str(".*"),
                Piece::One => regex.push('.'),
                Piece::Begin => regex.push('('),
                Piece::Or => regex.push('|'),
                Piece::End => regex.push(')'),
            }
        }
        regex.push('$');
        regex
    }

    fn pieces(&self) -> Vec<Piece> {
        if self.by_texts().is_some() {
            return self.0.chars().map(Piece::Literal).collect();
        }
        let (mut pieces, mut in_braces, mut lambda_until) = (Vec::new(), false, 0);
        for (at, c) in self.0.char_indices() {
            if c == '{' && at >= lambda_until && !in_braces {
                lambda_until = lambda(&self.0[at..]).map_or(0, |end| at + end);
            }
            let in_lambda = at < lambda_until;
            pieces.push(match c {
                '*' if is_operator(&self.0, at) => Piece::Literal('*'),
                '*' => Piece::Any { captured: !in_braces && !in_lambda },
                '?' => Piece::One,
                c if in_lambda => Piece::Literal(c),
                '{' => {
                    in_braces = true;
                    Piece::Begin
                }
                '}' => {
                    in_braces = false;
                    Piece::End
                }
                ',' if in_braces => Piece::Or,
                c => Piece::Literal(c),
            });
        }
        pieces
    }
}

/// Whether the `*` at a place is that of `operator*`, `operator*=` or `operator->*`, and nothing else begins with it.
fn is_operator(text: &str, at: usize) -> bool {
    let (before, after) = (&text[..at], &text[at + 1..]);
    let before = before.strip_suffix("->").unwrap_or(before);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_named = before.strip_suffix("operator").is_some_and(|before| !before.ends_with(is_word));
    is_named && (after.is_empty() || after.starts_with(['(', '<', '=', ',', '}']))
}

/// The bytes of the name in braces that a text begins with, as compilers give it to what has none: `{lambda(int)#1}`.
fn lambda(text: &str) -> Option<usize> {
    let is_named = UNNAMED.iter().any(|begin| text.starts_with(begin));
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().take_while(|_| is_named) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let number = text[..at].rsplit_once('#').map(|(_, number)| number);
            let is_numbered = number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            return is_numbered.then_some(at + 1);
        }
    }
    None
}

/// A demangled name without the type that is before it: of templates it is printed, and it is no part of the name.
pub(super) fn without_result(name: String) -> String {
    let pattern = NamePattern(name);
    let Some(before) = pattern.before_parameters() else { return pattern.0 };
    // `operator bool` has a space in its name.
    let before = before.find("operator").map_or(before, |at| &before[..at]);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in before.char_indices() {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    pattern.0[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        regex::Regex::new(&NamePattern(pattern.to_owned()).to_regex()).unwrap().is_match(name)
    }

    #[test]
    fn names_of_operators_and_lambdas_are_themselves() {
        for name in ["ns::T::operator*", "ns::T::operator*=", "ns::T::operator->*", "operator*"] {
            assert!(!NamePattern(name.to_owned()).is_glob() && matches(name, name), "{name}");
        }
        assert!(!matches("T::operator*", "T::operator*=") && !matches("T::operator*", "T::operator+"));
        assert!(!matches("T::operator*=", "T::operator+="));
        assert!(matches("T::operator*(T const&)", "T::operator*(T const&)"));
        assert!(matches("T::{operator*,operator+}", "T::operator*") && !matches("T::{operator*,run}", "T::operator-"));
        // All operators, and names that only end like it.
        assert!(matches("T::operator{*}", "T::operator+=") && matches("T::operator*const", "T::operator+ const"));
        assert!(matches("my_operator*", "my_operator_of"));
        let lambda = "go()::{lambda(int, int)#1}::operator()(int, int) const";
        let pattern = NamePattern(lambda.to_owned());
        assert!(!pattern.is_glob() && matches(lambda, lambda));
        assert_eq!(pattern.before_parameters(), Some("go"));
        let pattern = NamePattern("ns::{lambda(int)#1}::operator()(int) const".to_owned());
        assert_eq!(pattern.before_parameters(), Some("ns::{lambda(int)#1}::operator()"));
        assert_eq!(NamePattern("ns::{lambda(int)#1}::operator()".to_owned()).before_parameters(), None);
        assert!(matches("{lambda(*)#1}", "{lambda(int, int)#1}") && !matches("{lambda(*)#1}", "{lambda(int, int)#2}"));
        assert_eq!(NamePattern("*::{lambda(*)#1}::{a*,b}".to_owned()).captures(), 2);
        assert!(matches("{lambda({lambda()#1})#2}", "{lambda({lambda()#1})#2}"));
        // These are alternatives.
        assert!(matches("{lambda,other}", "other") && matches("{lambda(int),run}", "run"));
    }

    #[test]
    fn texts_are_no_name() {
        for (form, is_before_switch) in [("refers_to", false), ("before_switch", true)] {
            let pattern = NamePattern(format!(r#"{form}("decode", "%s: failed (%d)*", "{{a,b}}")"#));
            let texts = vec!["decode", "%s: failed (%d)*", "{a,b}"];
            assert_eq!(pattern.by_texts(), Some(ByTexts { texts, is_before_switch }));
            assert!(!pattern.is_glob() && !pattern.has_wildcards() && pattern.captures() == 0);
        }
        for name in ["refers_to", "refers_to(int)", "refers_to(char const*)", "T::refers_to", "before_switch(int)"] {
            assert_eq!(NamePattern(name.to_owned()).by_texts(), None);
        }
    }

    #[test]
    fn a_choice_of_many_is_short_in_messages() {
        let short = |pattern: &str| NamePattern(pattern.to_owned()).in_short();
        assert_eq!(short("ns::{a,b,c,d}::run"), "ns::{a,b,c,d}::run");
        assert_eq!(short("ns::{a*,b,c,d,e}::{f,g,h,i,j}_run"), "ns::{a*,b,…}::{f,g,…}_run");
        assert_eq!(short("run{"), "run{");
        assert_eq!(short("a}b,c,d,e,f"), "a}b,c,d,e,f");
    }

    #[test]
    fn a_choice_is_taken_apart() {
        let choices = |pattern: &str| NamePattern(pattern.to_owned()).choices();
        assert_eq!(choices("a::{b,c*}::{d,e}"), ["a::b::d", "a::c*::d", "a::b::e", "a::c*::e"]);
        assert_eq!(choices("run*"), ["run*"]);
        assert_eq!(choices("{lambda(int, int)#1}::operator*"), ["{lambda(int, int)#1}::operator*"]);
        assert_eq!(choices("a{,b}"), ["a", "ab"]);
        let many = "{a,b,c,d,e}{a,b,c,d,e}{a,b,c,d,e}";
        assert_eq!(choices(many), [many]);
        assert_eq!((choices("a{b,"), choices("{a")), (vec!["a{b,".to_owned()], vec!["{a".to_owned()]));
        let _ = (choices("a}b"), choices("{"));
    }

    #[test]
    fn a_result_is_no_part_of_a_name() {
        let plain = |text: &str| without_result(text.to_owned());
        assert_eq!(plain("void f<int>(int)"), "f<int>(int)");
        assert_eq!(plain("unsigned long ns::f<A<int, 2> >(int) const"), "ns::f<A<int, 2> >(int) const");
        assert_eq!(plain("std::vector<int, A> ns::T::operator+<int>(T)"), "ns::T::operator+<int>(T)");
        for own in [
            "f(int)",
            "(anonymous namespace)::f<int>(int)",
            "T::operator bool() const",
            "operator new(unsigned long)",
            "ns::*::operator()(int, int) const",
            "f<A<int, 2> >(int)",
            "a name without",
        ] {
            assert_eq!(plain(own), own);
        }
    }
}
