//! What parses, into what, and the problems of the rest.

use super::*;
use profinfer_diagnostics::Source;
use std::sync::Arc;

fn span(text: &str) -> Span {
    Span::new(&Arc::new(Source { name: "test.yaml".into(), text: text.into() }), 0..text.len())
}

fn ty(text: &str) -> Result<Type, Diagnostic> {
    parse_type(text, &span(text))
}

fn expr(text: &str) -> Result<Expr, Diagnostic> {
    parse_expr(text, &span(text))
}

#[test]
fn types_print_as_they_are_written() {
    let texts = [
        "i32",
        "u64",
        "f32",
        "bool",
        "void*",
        "tensor*[10]",
        "i64[4]",
        "char[64]",
        "enum op",
        "object node",
        "cstr(32)",
        "hex(16)",
        "std::string(64)",
        "std::vector<i64>",
        "ns::Thing*",
    ];
    for text in texts {
        assert_eq!(ty(text).map(|t| t.to_string()), Ok(text.to_owned()));
    }
}

#[test]
fn c_spellings_are_understood() {
    assert_eq!(ty("const struct tensor *"), ty("tensor*"));
    assert_eq!(ty("size_t"), ty("u64"));
    assert_eq!(ty("char*").unwrap(), Type::Pointer(Box::new(Type::Int { size: 1, signed: true })));
}

/// The expression with every operator's operands in brackets.
fn shape(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Binary { op, left, right } => format!("({} {op:?} {})", shape(left), shape(right)),
        ExprKind::Unary { op, operand } => format!("({op:?} {})", shape(operand)),
        ExprKind::Conditional { condition, then, otherwise } => {
            format!("({} ? {} : {})", shape(condition), shape(then), shape(otherwise))
        }
        ExprKind::Member { base, name, arrow } => {
            format!("{}{}{}", shape(base), if *arrow { "->" } else { "." }, name.value)
        }
        ExprKind::Alternative { base, number, arrow } => {
            format!("{}{}get<{}>", shape(base), if *arrow { "->" } else { "." }, number.value)
        }
        ExprKind::Contains { base, key, arrow } => {
            format!("{}{}contains({})", shape(base), if *arrow { "->" } else { "." }, shape(key))
        }
        ExprKind::Index { base, index } => format!("{}[{}]", shape(base), shape(index)),
        ExprKind::All { base } => format!("{}[*]", shape(base)),
        ExprKind::Slice { base, from, to, rows, max, until_null } => format!(
            "{}[{}..{}]{}{}{}",
            shape(base),
            from.as_ref().map_or(String::new(), |e| shape(e)),
            to.as_ref().map_or(String::new(), |e| shape(e)),
            rows.as_ref().map_or(String::new(), |r| format!(" rows {} stride {}", shape(&r.count), shape(&r.stride))),
            max.as_ref().map_or(String::new(), |m| format!(" max {}", m.value)),
            if *until_null { " until null" } else { "" }
        ),
        ExprKind::Cast { base, ty } => format!("<{}>{}", ty.value, shape(base)),
        ExprKind::Matches { base, pattern } => format!("{} ~ {:?}", shape(base), pattern.value),
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Float(x) => x.to_string(),
        ExprKind::Text(t) => format!("{t:?}"),
        ExprKind::Name(n) => n.clone(),
        ExprKind::Return => "return".into(),
        ExprKind::Tid => "tid".into(),
        ExprKind::Cpu => "cpu".into(),
        ExprKind::Match(n) => format!("match[{n}]"),
        ExprKind::List(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(", ")),
    }
}

#[test]
fn classes_that_may_be_empty_are_types_and_have_alternatives() {
    let shown = |text: &str| super::parse_type(text, &span(text)).map(|ty| ty.to_string());
    for text in ["std::optional<std::vector<i32>*>", "std::variant<std::monostate, char[3], std::variant<u8>>"] {
        assert_eq!(shown(text), Ok(text.to_owned()));
    }
    for text in ["std::optional<>", "std::variant<>", "std::variant<i32,>", "std::monostate*<>"] {
        assert!(shown(text).is_err(), "{text}");
    }
    let expr = |text: &str| super::parse_expr(text, &span(text)).map(|expr| shape(&expr));
    assert_eq!(expr("a->get<2>().b"), Ok("a->get<2>.b".into()));
    assert_eq!(expr("a.get < 0x1 > + 1"), Ok("(a.get<1> Add 1)".into()));
    // A member of that name, and comparisons.
    assert_eq!(expr("a.get < 2"), Ok("(a.get Lt 2)".into()));
    assert!(expr("a.getter<2>").is_err() && expr("a.get<b>").is_err());
}

#[test]
fn maps_and_sets_are_types_and_have_keys() {
    let shown = |text: &str| super::parse_type(text, &span(text)).map(|ty| ty.to_string());
    for text in [
        "std::map<std::string(64), std::vector<i32>*>",
        "std::unordered_multimap<enum kind, std::map<i32, u8>>",
        "std::multiset<i64>",
        "std::unordered_set<i8>",
    ] {
        assert_eq!(shown(text), Ok(text.to_owned()));
    }
    for text in ["std::map<i32>", "std::set<i32, i32>", "std::map<>", "std::map<i32, i32, i32>", "std::multi<i32>"] {
        assert!(shown(text).is_err(), "{text}");
    }
    let expr = |text: &str| super::parse_expr(text, &span(text)).map(|expr| shape(&expr));
    assert_eq!(expr(r#"a->b["key"].c"#), Ok(r#"a->b["key"].c"#.into()));
    assert_eq!(expr("a->contains(b + 1) ? 1 : 0"), Ok("(a->contains((b Add 1)) ? 1 : 0)".into()));
    // A member of that name.
    assert_eq!(expr("a.contains + 1"), Ok("(a.contains Add 1)".into()));
    assert!(expr("a.contains()").is_err() && expr("a.contains(1, 2)").is_err());
}

#[test]
fn a_field_may_be_read_at_the_return() {
    let field = |text: &str| super::parse_field(text, &span(text)).map(|(expr, late)| (shape(&expr), late));
    assert_eq!(field("a->b at return"), Ok(("a->b".into(), true)));
    assert_eq!(field("at + return"), Ok(("(at Add return)".into(), false)));
    for wrong in ["a at", "a at returned", "at return", "(a at return)"] {
        assert_eq!(field(wrong).map_err(|problem| problem.code), Err(Code::PathSyntax), "{wrong}");
    }
    assert!(expr("a at return").is_err(), "it is no expression");
}

#[test]
fn expressions_have_the_structure_of_c() {
    let cases = [
        ("a + b * c - d", "((a Add (b Mul c)) Sub d)"),
        ("a == 0 && b != 1 || !c", "(((a Eq 0) And (b Ne 1)) Or (Not c))"),
        ("a & 1 << 2", "(a BitAnd (1 Shl 2))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("tensor->src[2]->ne[0] * 2", "(tensor->src[2]->ne[0] Mul 2)"),
        ("t->data as i32[.. t->n * 2] max 512", "<i32*>t->data[..(t->n Mul 2)] max 512"),
        ("t->data as i32[..k] rows n stride s[1] max 9", "<i32*>t->data[..k] rows n stride s[1] max 9"),
        ("t->src[..] until null", "t->src[..] until null"),
        ("t->src[1..3]", "t->src[1..3]"),
        ("tensor as object tensor", "<object tensor>tensor"),
        ("name ~ \"-(\\d+)$\"", "name ~ \"-(\\\\d+)$\""),
        ("inputs[*].bytes + bytes", "(inputs[*].bytes Add bytes)"),
        ("-(a) - -1", "((Negate a) Sub (Negate 1))"),
        ("18 / 32.5", "(18 Div 32.5)"),
        ("match[1]", "match[1]"),
        ("returned + tidy", "(returned Add tidy)"),
        ("[a, b->c + 1, 2]", "[a, (b->c Add 1), 2]"),
        ("[a][0]", "[a][0]"),
    ];
    for (text, expected) in cases {
        assert_eq!(expr(text).map(|e| shape(&e)).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn attach_points_keep_every_part() {
    let text = "cpu:compute(params* p, tensor* t) -> i32 until [operator, graph] waiting from barrier";
    let attach = parse_attach(text, &span(text)).unwrap();
    let Place::Function { module, pattern, signature, offset } = &attach.place else { panic!("{attach:?}") };
    assert_eq!((module.as_str(), pattern.0.as_str(), *offset), ("cpu", "compute", 0));
    assert_eq!(signature.params.len(), 2);
    assert_eq!(signature.returns.as_ref().map(|t| t.value.to_string()).as_deref(), Some("i32"));
    assert_eq!(attach.until.iter().map(|u| u.as_str()).collect::<Vec<_>>(), ["operator", "graph"]);
    assert_eq!(attach.waiting_from.as_ref().map(|w| w.as_str()), Some("barrier"));
}

#[test]
fn names_have_operators_parameters_and_wildcards_in_braces() {
    let pattern = |text: &str| {
        let attach = parse_attach(text, &span(text)).unwrap();
        let Place::Function { pattern, signature, .. } = attach.place else { panic!("{text}") };
        (pattern.value, signature.params.len())
    };
    let (name, parameters) = pattern("m:ns::*::operator()(this, Foo& foo)");
    assert_eq!((name.0.as_str(), parameters, name.captures()), ("ns::*::operator()", 2, 1));
    assert_eq!(name.before_parameters(), None);
    let (name, parameters) = pattern("m:\"(anonymous namespace)::{A*,B*}::operator()(T*, {int,T&})\"(void* a)");
    assert_eq!((parameters, name.captures()), (1, 3));
    assert_eq!(name.before_parameters(), Some("(anonymous namespace)::{A*,B*}::operator()"));
    assert_eq!(name.to_regex(), r"^\(anonymous namespace\)::(A.*|B.*)::operator\(\)\(T(.*), (int|T\&)\)$");
    assert_eq!(pattern("m:myoperator(this)").0.0, "myoperator");
}

#[test]
fn attach_points_of_every_kind() {
    let kinds = [
        "m:ns::Class*::onExecute(this, …)",
        "m:backend_{cpu,blas}_compute(void* b, graph* g)",
        "m:f+0x10",
        "virtual m:ns::Layer[6](this, ...)",
        "usdt m:provider:name",
        "tracepoint sched:sched_switch",
        "probe operator",
        "m:f(Foo& foo, u32)",
        "m:ns::{A*,B?c,~D}::operator()(this, Foo& foo)",
        "m:ns::Set::operator<<(this)",
        "m:ns::Set::operator->",
        "m:\"ns::*::operator()(T const&, T&{,?*}) const\"(this, T& out) -> i32",
    ];
    for text in kinds {
        assert!(parse_attach(text, &span(text)).is_ok(), "{text}: {:?}", parse_attach(text, &span(text)));
    }
    let text = "m:ns::Class*::onExecute(this, …)";
    let Place::Function { signature, .. } = parse_attach(text, &span(text)).unwrap().place else { panic!() };
    assert!(signature.variadic);
    assert_eq!(signature.params[0].name.as_ref().map(|n| n.as_str()), Some("this"));
}

#[test]
fn an_error_points_at_the_character_and_says_what_fits() {
    let error = expr("tensor->[0]").unwrap_err();
    assert_eq!(error.code, Code::PathSyntax);
    assert_eq!(error.span.as_ref().unwrap().line_column(), (1, 9));
    assert!(error.hint.unwrap().contains("a name"));
}

#[test]
fn hostile_texts_are_refused_quickly() {
    for text in ["(".repeat(2000), "a?".repeat(800), "-".repeat(3000), "[".repeat(100), "9".repeat(40)] {
        assert!(expr(&text).is_err());
    }
}

#[test]
fn operators_before_a_value_and_brackets_between_comparisons_are_bounded() {
    assert!(expr(&format!("{}x", "-".repeat(8))).is_ok());
    assert!(expr(&format!("{}x", "-".repeat(2000))).is_err());
    // Each of these takes as long as the one within it, and not twice.
    assert!(expr(&format!("{}0{}", "a[".repeat(31), "]".repeat(31))).is_ok());
    let comparisons = format!("{}x{}", "1>(".repeat(500), ")".repeat(500));
    assert!(expr(&comparisons).is_err());
}

proptest::proptest! {
    #[test]
    fn any_text_ends_in_a_tree_or_a_diagnostic(text in "[a-z0-9\\[\\]()<>.*&|!~?:, \"=+-]{0,80}") {
        let _ = (ty(&text), expr(&text), parse_attach(&text, &span(&text)));
    }
}
