use super::*;
use profinfer_diagnostics::{Source, Span};
use proptest::prelude::*;

struct Fields;

impl Environment for Fields {
    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "tokens" => Value::Int(5),
            "name" => Value::Text("blk-12-out-7".into()),
            "op" => Value::Constant { number: 29, name: "MUL_MAT".into() },
            "shape" => Value::List(vec![Value::Int(64), Value::Int(2), Value::Int(0), Value::Int(9)]),
            "inputs" => Value::List(vec![Value::Object(1), Value::Object(2)]),
            "holes" => Value::List(vec![Value::Object(1), Value::Object(9)]),
            "given" => Value::List(vec![Value::Object(1), Value::Object(0), Value::Object(2)]),
            _ => return None,
        })
    }

    fn member(&self, object: u64, name: &str) -> Option<Value> {
        match (object, name) {
            (1 | 2, "bytes") => Some(Value::Int(i64::try_from(object).ok()? * 100)),
            (1, "shape") => Some(Value::List(vec![Value::Int(3)])),
            _ => None,
        }
    }
}

fn at<T>(value: T) -> Spanned<T> {
    let source = Arc::new(Source { name: "test".into(), text: String::new() });
    Spanned::new(value, Span::new(&source, 0..0))
}

fn e(kind: ExprKind) -> Box<Expr> {
    Box::new(Expr { kind, span: at(()).span })
}

fn int(n: i64) -> Box<Expr> {
    e(ExprKind::Int(n))
}

fn name(name: &str) -> Box<Expr> {
    e(ExprKind::Name(name.into()))
}

fn member(base: Box<Expr>, name: &str) -> Box<Expr> {
    e(ExprKind::Member { base, name: at(name.into()), arrow: false })
}

fn index(base: Box<Expr>, n: i64) -> Box<Expr> {
    e(ExprKind::Index { base, index: int(n) })
}

fn all(base: Box<Expr>) -> Box<Expr> {
    e(ExprKind::All { base })
}

fn bin(op: BinaryOp, left: Box<Expr>, right: Box<Expr>) -> Box<Expr> {
    e(ExprKind::Binary { op, left, right })
}

fn matches(base: Box<Expr>, pattern: &str) -> Box<Expr> {
    e(ExprKind::Matches { base, pattern: at(pattern.into()) })
}

#[allow(clippy::boxed_local)] // The makers above give boxes.
fn eval(expr: Box<Expr>) -> Option<Value> {
    Formula::new(*expr).unwrap().eval(&Fields)
}

#[test]
fn fields_and_members_are_read_through_lists() {
    assert_eq!(eval(member(index(name("inputs"), 1), "bytes")), Some(Value::Int(200)));
    assert_eq!(eval(index(member(index(name("inputs"), 0), "shape"), 0)), Some(Value::Int(3)));
    let both = Value::List(vec![Value::Int(100), Value::Int(200)]);
    assert_eq!(eval(member(all(name("inputs")), "bytes")), Some(both.clone()));
    // A null has no members, and is none of all.
    assert_eq!(eval(member(index(name("given"), 1), "bytes")), None);
    assert_eq!(eval(member(index(name("given"), 2), "bytes")), Some(Value::Int(200)));
    assert_eq!(eval(member(all(name("given")), "bytes")), Some(both));
}

#[test]
fn negative_indices_count_from_the_end() {
    assert_eq!(eval(index(name("inputs"), 7)), Some(Value::Object(0)), "there is no such input");
    assert_eq!(eval(member(index(name("inputs"), 7), "bytes")), None);
    assert_eq!(eval(index(name("shape"), -1)), Some(Value::Int(9)));
    assert_eq!(eval(index(name("shape"), -4)), Some(Value::Int(64)));
    assert_eq!(eval(index(name("shape"), -5)), None);
    assert_eq!(eval(index(name("shape"), i64::MIN)), None);
}

#[test]
fn a_list_used_as_a_number_is_its_sum() {
    let bytes = bin(BinaryOp::Add, member(all(name("inputs")), "bytes"), int(4));
    assert_eq!(eval(bytes), Some(Value::Int(304)));
}

#[test]
fn an_absent_operand_makes_the_result_absent() {
    assert_eq!(eval(name("nothing")), None);
    assert_eq!(eval(bin(BinaryOp::Add, name("nothing"), int(1))), None);
    assert_eq!(eval(index(name("shape"), 4)), None);
    assert_eq!(eval(member(all(name("holes")), "bytes")), None);
    assert_eq!(eval(e(ExprKind::Unary { op: UnaryOp::Not, operand: name("nothing") })), None);
    let choice = e(ExprKind::Conditional { condition: name("nothing"), then: int(1), otherwise: int(2) });
    assert_eq!(eval(choice), None);
    let list = |items: Vec<Box<Expr>>| e(ExprKind::List(items.into_iter().map(|item| *item).collect()));
    assert_eq!(eval(list(vec![int(1), name("nothing")])), None);
    assert_eq!(eval(list(vec![int(1), int(2)])), Some(Value::List(vec![Value::Int(1), Value::Int(2)])));
}

#[test]
fn what_is_decided_without_the_absent_side_is_there() {
    assert_eq!(eval(bin(BinaryOp::And, int(0), name("nothing"))), Some(Value::Int(0)));
    assert_eq!(eval(bin(BinaryOp::Or, int(7), name("nothing"))), Some(Value::Int(1)));
    let choice = e(ExprKind::Conditional { condition: name("tokens"), then: int(1), otherwise: name("nothing") });
    assert_eq!(eval(choice), Some(Value::Int(1)));
}

#[test]
fn regular_expressions_give_their_first_group() {
    assert_eq!(eval(matches(name("name"), r"-(\d+)$")), Some(Value::Text("7".into())));
    assert_eq!(eval(matches(name("name"), r"^blk-\d+")), Some(Value::Text("blk-12".into())));
    assert_eq!(eval(matches(name("name"), "zzz")), None);
    assert_eq!(eval(matches(name("tokens"), "5")), None, "a number is no text");
    // What was matched can be counted with.
    let next = bin(BinaryOp::Add, matches(name("name"), r"-(\d+)$"), int(1));
    assert_eq!(eval(next), Some(Value::Int(8)));
}

#[test]
fn constants_are_numbers_and_names() {
    let text = e(ExprKind::Text("MUL_MAT".into()));
    assert_eq!(eval(bin(BinaryOp::Eq, name("op"), text)), Some(Value::Int(1)));
    assert_eq!(eval(bin(BinaryOp::Eq, name("op"), int(29))), Some(Value::Int(1)));
    assert_eq!(eval(bin(BinaryOp::Ne, name("op"), int(29))), Some(Value::Int(0)));
}

#[test]
fn integers_are_cs_and_fractions_spread() {
    assert_eq!(eval(bin(BinaryOp::Div, int(-7), int(2))), Some(Value::Int(-3)));
    assert_eq!(eval(bin(BinaryOp::Rem, int(-7), int(2))), Some(Value::Int(-1)));
    let half = e(ExprKind::Float(0.5));
    assert_eq!(eval(bin(BinaryOp::Mul, int(3), half)), Some(Value::Float(1.5)));
    assert_eq!(eval(bin(BinaryOp::Gt, name("tokens"), int(1))), Some(Value::Int(1)));
    let ty = at(Type::Int { size: 1, signed: true });
    assert_eq!(eval(e(ExprKind::Cast { base: int(0x1ff), ty })), Some(Value::Int(-1)));
}

#[test]
fn no_arithmetic_panics() {
    for (op, left, right) in [
        (BinaryOp::Div, 1, 0),
        (BinaryOp::Rem, 1, 0),
        (BinaryOp::Div, i64::MIN, -1),
        (BinaryOp::Mul, i64::MAX, 2),
        (BinaryOp::Add, i64::MAX, 1),
        (BinaryOp::Sub, i64::MIN, 1),
        (BinaryOp::Shl, 1, 64),
        (BinaryOp::Shr, 1, -1),
    ] {
        assert_eq!(eval(bin(op, int(left), int(right))), None, "{op:?}");
    }
    assert_eq!(eval(e(ExprKind::Unary { op: UnaryOp::Negate, operand: int(i64::MIN) })), None);
    assert_eq!(eval(bin(BinaryOp::Div, e(ExprKind::Float(1.0)), int(0))), None);
}

#[test]
fn slices_are_bounded_by_the_list() {
    let slice = |from, to, max: Option<u64>, until_null| {
        let base = name("shape");
        let (from, to) = (Some(int(from)), Some(int(to)));
        let Some(Value::List(items)) =
            eval(e(ExprKind::Slice { base, from, to, max: max.map(at), until_null, rows: None }))
        else {
            return None;
        };
        Some(items.len())
    };
    assert_eq!(slice(0, 2, None, false), Some(2));
    assert_eq!(slice(1, 100, None, false), Some(3));
    assert_eq!(slice(0, 100, Some(1), false), Some(1));
    assert_eq!(slice(0, 100, None, true), Some(2));
    assert_eq!(slice(5, 6, None, false), None);
    assert_eq!(slice(3, 1, None, false), None);
}

#[test]
fn depth_and_work_are_bounded() {
    let mut deep = int(1);
    for _ in 0..1000 {
        deep = e(ExprKind::Unary { op: UnaryOp::Not, operand: deep });
    }
    assert_eq!(eval(deep), None);

    struct Endless;
    impl Environment for Endless {
        fn field(&self, _: &str) -> Option<Value> {
            Some(Value::List(vec![Value::Object(0); 100]))
        }
        fn member(&self, _: u64, name: &str) -> Option<Value> {
            self.field(name)
        }
    }
    let mut wide = name("inputs");
    for _ in 0..50 {
        wide = member(wide, "inputs");
    }
    assert_eq!(Formula::new(*wide).unwrap().eval(&Endless), None);
}

#[test]
fn a_malformed_pattern_is_a_diagnostic() {
    let problems = Formula::new(*matches(name("name"), "(")).unwrap_err();
    assert_eq!(problems.0[0].code, Code::BadPattern);
    assert!(Formula::new(*matches(name("name"), r"\w{1000}{1000}")).is_err(), "too large");
}

fn any_expr() -> impl Strategy<Value = Box<Expr>> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(int),
        any::<f64>().prop_map(|x| e(ExprKind::Float(x))),
        prop_oneof!["tokens", "name", "op", "shape", "inputs", "holes", "none"].prop_map(|n| name(&n)),
    ];
    leaf.prop_recursive(8, 64, 3, |inner| {
        let op = prop_oneof![
            Just(BinaryOp::Mul),
            Just(BinaryOp::Div),
            Just(BinaryOp::Rem),
            Just(BinaryOp::Add),
            Just(BinaryOp::Sub),
            Just(BinaryOp::Shl),
            Just(BinaryOp::Shr),
            Just(BinaryOp::Lt),
            Just(BinaryOp::Eq),
            Just(BinaryOp::BitXor),
            Just(BinaryOp::And),
            Just(BinaryOp::Or),
        ];
        prop_oneof![
            (op, inner.clone(), inner.clone()).prop_map(|(op, a, b)| bin(op, a, b)),
            inner.clone().prop_map(|b| member(b, "bytes")),
            inner.clone().prop_map(all),
            inner.clone().prop_map(|b| matches(b, r"(\d+)")),
            (inner.clone(), inner.clone()).prop_map(|(base, index)| e(ExprKind::Index { base, index })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(condition, then, otherwise)| e(ExprKind::Conditional { condition, then, otherwise })),
            (inner.clone(), inner).prop_map(|(base, to)| e(ExprKind::Slice {
                base,
                from: None,
                to: Some(to),
                max: None,
                until_null: true,
                rows: None
            })),
        ]
    })
}

proptest! {
    #[test]
    fn evaluation_is_total(expr in any_expr()) {
        if let Some(Value::Float(x)) = eval(expr) {
            prop_assert!(x.is_finite());
        }
    }
}
