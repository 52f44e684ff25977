//! Types of paths, and the problems of those without one.

use super::{Checked, Definitions, Node, Scope, check};
use crate::path::{Type, parse_expr, parse_type};
use profinfer_diagnostics::{Code, Diagnostic, Source, Span};
use std::sync::Arc;

/// `node { kind: enum kind, ne: i64[4], src: node*[3], name: char[8], flags: u8, data: void*, box: box }`, an object.
struct Views;

const NODE: &[(&str, &str)] = &[
    ("kind", "enum kind"),
    ("ne", "i64[4]"),
    ("src", "node*[3]"),
    ("name", "char[8]"),
    ("flags", "u8"),
    ("data", "void*"),
    ("box", "box"),
];
const BOX: &[(&str, &str)] = &[("width", "i32"), ("label", "cstr(16)")];

fn span(text: &str) -> Span {
    Span::new(&Arc::new(Source { name: "test.yaml".into(), text: text.into() }), 0..text.len())
}

fn members_of(view: &str) -> Option<&'static [(&'static str, &'static str)]> {
    match view {
        "node" => Some(NODE),
        "box" => Some(BOX),
        _ => None,
    }
}

impl Definitions for Views {
    fn member(&self, view: &str, member: &str) -> Option<Type> {
        let (_, ty) = members_of(view)?.iter().find(|(name, _)| *name == member)?;
        parse_type(ty, &span(ty)).ok()
    }

    fn members(&self, view: &str) -> Option<Vec<&str>> {
        Some(members_of(view)?.iter().map(|(name, _)| *name).collect())
    }

    fn view_of_object(&self, object: &str) -> Option<&str> {
        (object == "node").then_some("node")
    }

    fn object_of_view(&self, view: &str) -> Option<&str> {
        (view == "node").then_some("node")
    }
}

fn checked(text: &str) -> Result<Checked, Diagnostic> {
    let argument = |name: &str, ty: &str| (Some(name.to_owned()), parse_type(ty, &span(ty)).unwrap());
    let scope = Scope {
        definitions: &Views,
        arguments: vec![argument("n", "node*"), argument("count", "i32"), argument("b", "box"), argument("x", "f32")],
        returns: Some(Type::Int { size: 4, signed: true }),
        result_argument: None,
        object: None,
        captures: 1,
    };
    check(&parse_expr(text, &span(text)).unwrap(), &scope)
}

fn type_of(text: &str) -> String {
    checked(text).map_or_else(|d| format!("{}: {}", d.code.as_str(), d.message), |c| c.ty.to_string())
}

fn code_of(text: &str) -> Code {
    checked(text).expect_err(text).code
}

#[test]
fn paths_have_the_type_of_what_they_end_at() {
    let cases = [
        ("n", "node*"),
        ("n->ne", "i64[4]"),
        ("n->ne[3]", "i64"),
        ("n->src[1]->name", "char[8]"),
        ("n->box.width", "i32"),
        ("b.label", "cstr(16)"),
        ("n->ne[1..3]", "i64[2]"),
        ("n->src[..]", "node*[3]"),
        ("(n->data as box*)[..2].width", "i32"),
        ("n as object node", "object node"),
        ("n->data as i32[4]", "i32[4]"),
        ("n->data as box*", "box*"),
        ("(n->data as box*)->width", "i32"),
        ("n->kind == ADD", "i64"),
        ("return", "i32"),
        ("n->ne[count]", "i64"),
        ("[count, count]", "i32[2]"),
        ("[count, n->ne[0], 1]", "i64[3]"),
        ("[n->src[0], n]", "node*[2]"),
    ];
    for (text, expected) in cases {
        assert_eq!(type_of(text), expected, "{text}");
    }
}

#[test]
fn a_name_beside_an_enumeration_is_its_constant() {
    let Node::Binary(_, _, right) = checked("n->kind == MUL").unwrap().node else { panic!() };
    assert_eq!(right.node, Node::Constant { enumeration: "kind".into(), name: "MUL".into() });
    assert_eq!(code_of("n->flags == MUL"), Code::PathUnknownName);
}

#[test]
fn slips_are_named_with_the_nearest_thing() {
    let problem = checked("n->nme").unwrap_err();
    assert_eq!((problem.code, problem.message.as_str()), (Code::UnknownMember, "no member `nme` in node"));
    assert_eq!(problem.hint.as_deref(), Some("did you mean `name`?"));
    let problem = checked("conut").unwrap_err();
    assert_eq!(problem.hint.as_deref(), Some("did you mean `count`?"));
    assert!(checked("n.ne").unwrap_err().hint.unwrap().contains("`->`"));
}

#[test]
fn what_the_types_do_not_allow_is_refused() {
    assert_eq!(code_of("(n->data as box*)[..] until null max 2"), Code::NotAField);
    assert_eq!(code_of("count->ne"), Code::TypeMismatch);
    assert_eq!(code_of("count[0]"), Code::TypeMismatch);
    assert_eq!(code_of("n->data[0]"), Code::TypeMismatch);
    assert_eq!(code_of("n + 1"), Code::TypeMismatch);
    assert_eq!(code_of("n->name == 1"), Code::TypeMismatch);
    assert_eq!(code_of("count as object node"), Code::TypeMismatch);
    assert_eq!(code_of("x"), Code::ArgumentPlace);
    assert_eq!(code_of("\"text\""), Code::TypeMismatch);
    assert_eq!(code_of("match[2]"), Code::IndexOutOfBounds);
    for text in ["[count][0]", "[count][..1]", "[count].n", "[count] as i64", "[n->name]", "[[count]]", "[count] == 1"]
    {
        assert_eq!(code_of(text), Code::TypeMismatch, "{text}");
    }
}

#[test]
fn indices_and_slices_stay_within_their_arrays() {
    assert_eq!(code_of("n->ne[4]"), Code::IndexOutOfBounds);
    assert_eq!(code_of("n->ne[2..5]"), Code::IndexOutOfBounds);
    assert_eq!(code_of("n->ne[2..2]"), Code::IndexOutOfBounds);
    assert_eq!(code_of("n->data as i32[.. count]"), Code::Unbounded);
    assert_eq!(code_of("n->data as i32[.. count] max 100000"), Code::Unbounded);
    assert_eq!(type_of("n->data as i32[.. count] max 64"), "i32");
    assert_eq!(type_of("n->data as i32[.. count] rows 4 stride 32 max 64"), "i32");
}

#[test]
fn comparisons_that_the_types_decide_are_errors() {
    for text in ["n->flags > 255", "n->flags >= 0", "n->flags == 256", "n->flags < 0", "1 == 1", "count / 0"] {
        assert_eq!(code_of(text), Code::ConstantCondition, "{text}");
    }
    for text in ["n->flags > 254", "n->flags == 255", "count < 0", "n->ne[0] == 256"] {
        assert_eq!(type_of(text), "i64", "{text}");
    }
}
