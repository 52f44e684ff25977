//! Types of paths, and the problems of those without one.

use super::{Checked, Definitions, Node, Scope, check, check_within};
use crate::path::c::{Symbols, value};
use crate::path::{Budget, ClassPart, Count, Expr, Type, parse_expr, parse_type};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Source, Span};
use std::sync::{Arc, LazyLock};

/// The `elements` of a view, in place or elsewhere.
static SIZES: LazyLock<Expr> = LazyLock::new(|| {
    let text = "(dims > 5 ? far : near)[..dims]";
    parse_expr(text, &span(text)).unwrap()
});
/// Names of a view's `let`.
static FIRST_TWO: LazyLock<Expr> = LazyLock::new(|| {
    let text = "[ne[0], ne[1] * (flags == 1 ? 2 : 1)]";
    parse_expr(text, &span(text)).unwrap()
});
static BOTH: LazyLock<Expr> = LazyLock::new(|| {
    let text = "[cpu, tid]";
    parse_expr(text, &span(text)).unwrap()
});
static DOUBLED: LazyLock<Expr> = LazyLock::new(|| {
    let text = "src[0]->doubled + src[1]->doubled";
    parse_expr(text, &span(text)).unwrap()
});
/// One whose number of elements is that of the next.
static ENDLESS: LazyLock<Expr> = LazyLock::new(|| {
    let text = "far[..next[dims * dims].size]";
    parse_expr(text, &span(text)).unwrap()
});

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

const PLACED: &[(&str, &str)] = &[("tid", "i64"), ("cpu", "i16")];
const LISTED: &[(&str, &str)] = &[("dims", "u64"), ("near", "i64[5]"), ("far", "i64*")];
const UNENDING: &[(&str, &str)] = &[("dims", "u64"), ("far", "i64*"), ("next", "endless*")];

fn span(text: &str) -> Span {
    Span::new(&Arc::new(Source { name: "test.yaml".into(), text: text.into() }), 0..text.len())
}

fn members_of(view: &str) -> Option<&'static [(&'static str, &'static str)]> {
    match view {
        "node" => Some(NODE),
        "box" => Some(BOX),
        "sizes" => Some(LISTED),
        "endless" => Some(UNENDING),
        "placed" => Some(PLACED),
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

    fn elements(&self, view: &str) -> Option<&Expr> {
        match view {
            "sizes" => Some(&SIZES),
            "endless" => Some(&ENDLESS),
            _ => None,
        }
    }

    fn computed(&self, view: &str, name: &str) -> Option<&Expr> {
        match (view, name) {
            ("node", "first_two") => Some(&FIRST_TWO),
            ("node", "doubled") => Some(&DOUBLED),
            ("placed", "both") => Some(&BOTH),
            _ => None,
        }
    }

    fn view_of_object(&self, object: &str) -> Option<&str> {
        (object == "node").then_some("node")
    }

    fn object_of_view(&self, view: &str) -> Option<&str> {
        (view == "node").then_some("node")
    }
}

fn scope() -> Scope<'static> {
    let argument = |name: &str, ty: &str| (Some(name.to_owned()), parse_type(ty, &span(ty)).unwrap());
    Scope {
        definitions: &Views,
        arguments: vec![
            argument("n", "node*"),
            argument("count", "i32"),
            argument("b", "box"),
            argument("x", "f32"),
            argument("o", "std::optional<box>&"),
            argument("po", "std::optional<i32>*"),
            argument("v", "std::variant<std::monostate, i32, box>&"),
            argument("s", "sizes*"),
            argument("t", "sizes&"),
            argument("e", "endless&"),
            argument("placed", "placed*"),
        ],
        enclosing: vec![("within".to_owned(), parse_type("node*", &span("node*")).unwrap())],
        returns: Some(Type::Int { size: 4, signed: true }),
        result_argument: None,
        object: None,
        captures: 1,
    }
}

fn checked(text: &str) -> Result<Checked, Diagnostic> {
    check(&parse_expr(text, &span(text)).unwrap(), &scope())
}

/// Names of constants, where it does not matter which.
struct Unnamed;

impl Symbols for Unnamed {
    fn offset(&mut self, _view: &str, _member: &str) -> String {
        "offset".to_owned()
    }

    fn size(&mut self, _view: &str) -> String {
        "size".to_owned()
    }

    fn constant(&mut self, _enumeration: &str, name: &str) -> String {
        name.to_owned()
    }

    fn argument(&mut self, index: usize) -> String {
        index.to_string()
    }

    fn enclosing(&mut self, index: usize) -> String {
        index.to_string()
    }

    fn shift(&mut self, _view: &str, _member: &str) -> String {
        "shift".to_owned()
    }

    fn strings(&mut self) -> String {
        "strings".to_owned()
    }

    fn class(&mut self, _of: &Type, _part: ClassPart) -> String {
        "class".to_owned()
    }

    fn saved(&mut self, _argument: usize) -> Option<String> {
        Some("argument".to_owned())
    }
}

fn type_of(text: &str) -> String {
    checked(text).map_or_else(|d| format!("{}: {}", d.code.as_str(), d.message), |c| c.ty.to_string())
}

fn code_of(text: &str) -> Code {
    checked(text).expect_err(text).code
}

#[test]
fn deep_expressions_are_refused_before_the_stack_ends() {
    assert!(checked(&format!("1{}", "+1".repeat(200))).is_ok());
    assert_eq!(code_of(&format!("1{}", "+1".repeat(1000))), Code::OutOfRange);
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
        ("o.has_value()", "i64"),
        ("o.value.width", "i32"),
        ("o->width", "i32"),
        ("o->has_value", "i64"),
        ("po->value", "i32"),
        ("(n->data as std::optional<i8>).value", "i8"),
        ("v.index", "i64"),
        ("v.get<1>", "i32"),
        ("v.get<2>().label", "cstr(16)"),
        ("s->size", "u64"),
        ("t.size()", "u64"),
        ("t[count]", "i64"),
        ("s[0][1]", "i64"),
        ("t[..] max 8", "i64"),
        ("t[1..count] max 8", "i64"),
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
    let Node::Binary(_, left, _) = checked("\"Mul (ND, F32)\" == n->kind").unwrap().node else { panic!() };
    assert_eq!(left.node, Node::Constant { enumeration: "kind".into(), name: "Mul (ND, F32)".into() });
    assert_eq!(code_of("n->flags == \"MUL\""), Code::TypeMismatch);
}

#[test]
fn arguments_of_the_enclosing_call_come_after_those_of_the_function() {
    assert_eq!(type_of("within->ne"), "i64[4]");
    assert_eq!(checked("within").unwrap().node, Node::Enclosing(0));
    assert_eq!(checked("n").unwrap().node, Node::Argument(0));
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
    assert_eq!(code_of("v.get<3>"), Code::IndexOutOfBounds);
    assert_eq!(code_of("v.get<0>"), Code::TypeMismatch);
    assert_eq!(code_of("v.value"), Code::UnknownMember);
    assert_eq!(code_of("o.index"), Code::UnknownMember);
    assert_eq!(code_of("o.get<0>"), Code::TypeMismatch);
    assert_eq!(code_of("o == 1"), Code::TypeMismatch);
    assert_eq!(code_of("t[..]"), Code::Unbounded);
    assert_eq!(code_of("b[0]"), Code::TypeMismatch);
    // Elements whose number is that of other elements, and so on, with more of it each time.
    assert_eq!(code_of("e.size"), Code::OutOfRange);
    assert_eq!(code_of("e[0]"), Code::OutOfRange);
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
    assert_eq!(code_of("n->ne[..6] max 8"), Code::IndexOutOfBounds);
    let numbers = |text: &str| {
        let Node::Slice { max, count: Count::Number(count), .. } = checked(text).unwrap().node else {
            panic!("{text}")
        };
        (max, value(&count, &mut Unnamed))
    };
    assert_eq!(numbers("n->ne[..] max 8"), (4, "4LL".into()));
    assert_eq!(numbers("n->ne[1..] max 8"), (3, "3LL".into()));
    let count = "(__s64)(__s32)argument";
    assert_eq!(numbers("n->ne[count..]"), (4, format!("4LL - ({count})")));
    assert_eq!(numbers("n->ne[..count] max 8"), (4, format!("(({count}) < 4LL) ? (__s64)({count}) : 4LL")));
    assert_eq!(numbers("n->name[..count] max 64").0, 8);
    assert_eq!(numbers("n->ne[..count] rows 2 stride 32 max 64").0, 64, "its rows are where they are written to be");
    let until_null = |text: &str| match checked(text).unwrap().node {
        Node::Slice { max, count, .. } => (max, count),
        other => panic!("{text}: {other:?}"),
    };
    // At the end of the array there is nothing to look for.
    assert_eq!(until_null("n->src[..] until null max 8"), (3, Count::UntilNull { more: false }));
    assert_eq!(until_null("n->src[1..] until null"), (2, Count::UntilNull { more: false }));
    assert_eq!(until_null("n->src[..] until null max 2"), (2, Count::UntilNull { more: true }));
    assert_eq!(code_of("n->ne[-1]"), Code::IndexOutOfBounds);
    assert_eq!(code_of("n->data as i32[.. count]"), Code::Unbounded);
    assert_eq!(code_of("n->data as i32[.. count] max 100000"), Code::Unbounded);
    assert_eq!(type_of("n->data as i32[.. count] max 64"), "i32");
    assert_eq!(type_of("n->data as i32[.. count] rows 4 stride 32 max 64"), "i32");
}

#[test]
fn numbers_have_64_bits_in_c() {
    let c = |text: &str| value(&checked(text).unwrap(), &mut Unnamed);
    assert_eq!(c("4 * 1024 * 1024 * 1024"), "((4LL * 1024LL) * 1024LL) * 1024LL");
    assert_eq!(c("(count < 2) >> 40"), "(__s64)(((__s64)(__s32)argument) < 2LL) >> (40LL & 63)");
    assert_eq!(c("n->ne[1]"), "PF_GET(__s64, (__s64)(__u64)argument + offset + 1LL * 8)");
}

#[test]
fn numbers_are_converted_to_other_types_as_in_c() {
    let c = |text: &str| value(&checked(text).unwrap(), &mut Unnamed);
    // What is narrower than a register is read as it is, then widened.
    assert_eq!(c("count as i64"), "(__s64)(__s32)argument");
    assert_eq!(c("return as u64"), "(__s64)(__s32)pf_result(call)");
    assert_eq!(c("count as u32"), "(__s64)(__u32)argument");
    assert_eq!(c("count as u8"), "(__s64)(__u8)argument");
    assert_eq!(c("n->flags as i32"), "(__s64)(__s32)PF_GET(__u8, (__s64)(__u64)argument + offset)");
    assert_eq!(c("n->ne[0] as u32"), "PF_GET(__u32, (__s64)(__u64)argument + offset)");
    assert_eq!(c("(count >> 8) as u8 == 2"), "((__s64)(__u8)((__s64)((__s64)(__s32)argument) >> (8LL & 63))) == 2LL");
    assert_eq!(c("count as bool"), "((__s64)(__s32)argument) != 0LL");
    assert_eq!(checked("300 as u8").unwrap().node, Node::Int(44));
    assert_eq!(code_of("(count >> 8) as u8 == 300"), Code::ConstantCondition);
    assert_eq!(code_of("n->ne[..count] as u8"), Code::TypeMismatch);
}

#[test]
fn numbers_of_64_bits_without_a_sign_are_none_with_one() {
    let c = |text: &str| value(&checked(text).unwrap(), &mut Unnamed);
    let dims = "PF_GET(__u64, (__s64)(__u64)argument + offset)";
    assert_eq!(c("s->dims > 5"), format!("(__u64){dims} > (__u64)5LL"));
    assert_eq!(c("5 < s->dims"), format!("(__u64)5LL < (__u64){dims}"));
    assert_eq!(c("s->dims >> 60"), format!("(__s64)((__u64){dims} >> (60LL & 63))"));
    assert_eq!(c("s->dims / 2"), format!("PF_DIVIDE_UNSIGNED({dims}, 2LL)"));
    assert_eq!(c("s->dims % n->flags").split('(').next(), Some("PF_REMAINDER_UNSIGNED"));
    // Beside a number that may be negative both have a sign.
    assert_eq!(c("s->dims > count"), format!("{dims} > ((__s64)(__s32)argument)"));
    assert_eq!(c("s->dims / count").split('(').next(), Some("PF_DIVIDE"));
    for text in ["s->dims + 1", "s->dims & 0xff", "s->dims >> 1", "count > 0 ? s->dims : 0", "s->dims * 2 / 4"] {
        assert_eq!(type_of(text), "u64", "{text}");
    }
    for text in ["s->dims - 1", "s->dims > 1", "s->dims + count", "n->flags + 1"] {
        assert_eq!(type_of(text), "i64", "{text}");
    }
    assert_eq!(code_of("s->dims < 0"), Code::ConstantCondition);
    assert_eq!(type_of("s->dims == -1"), "i64");
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

#[test]
fn names_of_a_view_s_expressions_are_like_members() {
    let places = regex::Regex::new(r"test\.yaml:\d+:\d+").unwrap();
    let plain = |text: &str| places.replace_all(&format!("{:?}", checked(text)), "").into_owned();
    let same = |one: &str, other: &str| assert_eq!(plain(one), plain(other), "{one}");
    same("n->first_two", "[n->ne[0], n->ne[1] * (n->flags == 1 ? 2 : 1)]");
    same(
        "n->src[count]->first_two",
        "[n->src[count]->ne[0], n->src[count]->ne[1] * (n->src[count]->flags == 1 ? 2 : 1)]",
    );
    // One that needs itself has no end.
    assert_eq!(code_of("n->doubled"), Code::OutOfRange);
    assert_eq!(code_of("n->first_two + 1"), code_of("[n->ne[0]] + 1"));
    assert_eq!(code_of("n->last_two"), Code::UnknownMember);
}

#[test]
fn a_member_may_be_called_as_the_thread_or_the_processor() {
    assert_eq!(checked("cpu").unwrap().node, Node::Cpu);
    assert_eq!(type_of("placed->cpu"), "i16");
    let plain = |text: &str| value(&checked(text).unwrap(), &mut Unnamed);
    let Node::List(both) = checked("placed->both").unwrap().node else { panic!() };
    let both: Vec<String> = both.iter().map(|item| value(item, &mut Unnamed)).collect();
    assert_eq!(both, [plain("placed->cpu"), plain("placed->tid")]);
    let (definitions, object) = (&Views, Some("placed"));
    let scope = Scope {
        definitions,
        arguments: Vec::new(),
        enclosing: Vec::new(),
        returns: None,
        result_argument: None,
        object,
        captures: 0,
    };
    let of_object = |text: &str| check(&parse_expr(text, &span(text)).unwrap(), &scope).unwrap().ty.to_string();
    assert_eq!((of_object("cpu"), of_object("tid")), ("i16".to_owned(), "i64".to_owned()));
}

#[test]
fn expressions_are_bounded_together() {
    let budget = Budget::default();
    let text = format!("count{}", " + count".repeat(100));
    let expr = parse_expr(&text, &span(&text)).unwrap();
    let scope = scope();
    let problems: Vec<Diagnostics> = (0..4000).filter_map(|_| check_within(&expr, &scope, &budget).err()).collect();
    assert_eq!(problems[0].0[0].code, Code::OutOfRange);
    // It is reported once.
    assert!(problems.len() > 1 && problems[1..].iter().all(|found| found.0.is_empty()));
}
