//! Costs of operators by the probeset's `costs`: floating-point operations and bytes, from the shapes and types in their
//! descriptions. Operators with equal descriptions, inputs included, have equal costs.

use super::kind::{Description, Kind};
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset as spec;
use profinfer_probeset::path::{Environment, Expr, ExprKind, Formula, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// What an operator costs; `None`: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: Option<f64>,
    /// Bytes read and written.
    pub bytes: Option<f64>,
    /// `flops` is of the most experts that can be used: which ones were is not recorded.
    pub flops_bound: bool,
    /// `bytes` is.
    pub bytes_bound: bool,
    /// Tokens that it attends to, those of the step included.
    pub context: Option<u64>,
    /// What of `bytes` is the model's weights.
    pub weights: Option<Weights>,
}

impl Cost {
    /// Of both together: unknown where one is.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        Self {
            flops: both(self.flops, other.flops),
            bytes: both(self.bytes, other.bytes),
            flops_bound: self.flops_bound || other.flops_bound,
            bytes_bound: self.bytes_bound || other.bytes_bound,
            context: None,
            weights: None,
        }
    }
}

/// Weights that an operator reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Bytes, no more than all that the operator moves.
    pub bytes: f64,
    /// Their type, by its place among the probeset's types; of weights of several types that of the most bytes.
    pub dtype: u16,
}

/// One cost expression, compiled.
#[derive(Debug, Clone)]
struct Amount {
    formula: Formula,
    by_experts: bool,
}

impl Amount {
    fn new(expr: Option<&Expr>, problems: &mut Diagnostics) -> Option<Self> {
        let expr = expr?;
        let formula = problems.keep(Formula::new(expr.clone()))?;
        Some(Self {
            formula,
            by_experts: expr.any(&|part| matches!(&part.kind, ExprKind::Name(name) if name == "experts")),
        })
    }
}

/// The costs of one operator type.
#[derive(Debug, Clone)]
struct CostRule {
    flops: Option<Amount>,
    bytes: Option<Amount>,
    most_experts: Option<Formula>,
}

/// The costs of a probeset, compiled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs {
    rules: HashMap<String, CostRule>,
    /// Those of all types that begin so, the longest beginning first.
    beginnings: Vec<(String, CostRule)>,
    contexts: HashMap<String, Formula>,
    element_sizes: HashMap<String, Value>,
    is_weight: Option<Formula>,
    /// Types of elements, in the probeset's order.
    dtypes: Vec<String>,
}

impl Costs {
    pub(crate) fn new(analysis: &spec::Analysis, problems: &mut Diagnostics) -> Self {
        let mut costs = Self::default();
        for (dtype, expr) in &analysis.dtypes {
            let size = problems.keep(Formula::new(expr.clone())).and_then(|formula| formula.eval(&Nothing));
            costs.element_sizes.extend(size.map(|size| (dtype.clone(), size)));
            costs.dtypes.push(dtype.clone());
        }
        for (op, cost) in &analysis.costs {
            let rule = CostRule {
                flops: Amount::new(cost.flops.as_ref(), problems),
                bytes: Amount::new(cost.bytes.as_ref(), problems),
                most_experts: cost.experts.as_ref().and_then(|e| problems.keep(Formula::new(e.clone()))),
            };
            match op.strip_suffix('*') {
                Some(beginning) => costs.beginnings.push((beginning.to_owned(), rule)),
                None => drop(costs.rules.insert(op.clone(), rule)),
            }
        }
        costs.beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        for (op, tokens) in &analysis.context {
            let formula = problems.keep(Formula::new(tokens.clone()));
            costs.contexts.extend(formula.map(|formula| (op.clone(), formula)));
        }
        let weights = analysis.weights.as_ref();
        costs.is_weight = weights.and_then(|weights| problems.keep(Formula::new(weights.of.clone())));
        costs
    }

    /// The types of elements, by the places that [`Weights`] name.
    pub(crate) fn dtypes(&self) -> &[String] {
        &self.dtypes
    }

    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.beginnings.is_empty()
    }

    /// There is neither a cost nor a context.
    pub(crate) fn has_no_rules(&self) -> bool {
        self.is_empty() && self.contexts.is_empty()
    }

    /// Tokens that an operator attends to.
    fn context(&self, fields: &OperatorFields<'_>) -> Option<u64> {
        let tokens = self.contexts.get(&*fields.kind.op)?.eval(fields)?.as_int()?;
        u64::try_from(tokens).ok().filter(|tokens| *tokens > 0)
    }

    /// Bytes of one element of a type.
    pub(crate) fn element_size(&self, dtype: &str) -> Option<&Value> {
        self.element_sizes.get(dtype)
    }

    /// There is a rule for operators of a type.
    pub(crate) fn applies_to(&self, op: &str) -> bool {
        self.rule(op).is_some() || self.contexts.contains_key(op)
    }

    /// The rule of a type: its own, else that of the longest beginning of its name.
    fn rule(&self, op: &str) -> Option<&CostRule> {
        let by_beginning = || self.beginnings.iter().find(|(beginning, _)| op.starts_with(beginning.as_str()));
        self.rules.get(op).or_else(|| Some(&by_beginning()?.1))
    }

    /// Operators of this type do no work, such as views of existing data: the probeset has them cost nothing.
    pub(crate) fn are_free(&self, op: &str) -> bool {
        let is_zero = |amount: &Option<Amount>| {
            amount.as_ref().and_then(|amount| amount.formula.eval(&Nothing)).and_then(|value| value.as_f64())
                == Some(0.0)
        };
        self.rule(op).is_some_and(|rule| is_zero(&rule.flops) && is_zero(&rule.bytes))
    }

    /// The cost of an operator with these inputs. `experts`: how many it used, where that is recorded.
    pub(crate) fn of(&self, kind: &Kind, inputs: Vec<Input<'_>>, experts: Option<u32>) -> Cost {
        let sizes = &self.element_sizes;
        let mut fields = OperatorFields { kind, inputs, experts: experts.map(i64::from), sizes };
        let rule = self.rule(&kind.op);
        let mut cost = rule.map_or_else(Cost::default, |rule| self.by_rule(rule, &mut fields));
        cost.context = self.context(&fields);
        cost
    }

    fn by_rule(&self, rule: &CostRule, fields: &mut OperatorFields<'_>) -> Cost {
        let recorded = fields.experts.is_some();
        if !recorded {
            let most = rule.most_experts.as_ref().and_then(|formula| formula.eval(fields));
            fields.experts = most.and_then(|most| most.as_int());
        }
        let amount = |amount: &Option<Amount>| {
            let value = amount.as_ref()?.formula.eval(fields)?.as_f64()?;
            (value >= 0.0).then_some(value)
        };
        let bound = |amount: &Option<Amount>| !recorded && amount.as_ref().is_some_and(|a| a.by_experts);
        let (flops, bytes) = (amount(&rule.flops), amount(&rule.bytes));
        Cost {
            flops,
            bytes,
            flops_bound: flops.is_some() && bound(&rule.flops),
            bytes_bound: bytes.is_some() && bound(&rule.bytes),
            context: None,
            weights: bytes.and_then(|bytes| self.weights(fields, bytes)),
        }
    }

    /// The inputs that are weights. Of a matrix of which rows or experts are picked, no more is read than the operator
    /// moves.
    fn weights(&self, fields: &OperatorFields<'_>, most: f64) -> Option<Weights> {
        let is_weight = self.is_weight.as_ref()?;
        let (mut bytes, mut largest): (f64, Option<(f64, u16)>) = (0.0, None);
        for input in fields.inputs.iter().filter_map(Input::described) {
            if is_weight.holds(&InputFields(input)) != Some(true) {
                continue;
            }
            let of = || fields.bytes(input.shape.as_deref()?, input.dtype.as_ref())?.as_f64();
            let place = || self.dtypes.iter().position(|name| Some(name.as_str()) == input.dtype.as_deref());
            let (Some(size), Some(dtype)) = (of(), place().and_then(|place| u16::try_from(place).ok())) else {
                continue;
            };
            bytes += size;
            if largest.is_none_or(|(most, _)| size > most) {
                largest = Some((size, dtype));
            }
        }
        largest.map(|(_, dtype)| Weights { bytes: bytes.min(most), dtype })
    }
}

/// An element's size is a number alone.
struct Nothing;

impl Environment for Nothing {
    fn field(&self, _: &str) -> Option<Value> {
        None
    }
}

/// What an operator was given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// Nothing: the place in its list is null.
    Null,
    /// Something of which nothing is known.
    Unknown,
    Described(&'a Description),
}

impl<'a> Input<'a> {
    fn described(&self) -> Option<&'a Description> {
        match self {
            Self::Described(description) => Some(description),
            Self::Null | Self::Unknown => None,
        }
    }
}

/// An operator as its costs see it.
struct OperatorFields<'a> {
    kind: &'a Kind,
    inputs: Vec<Input<'a>>,
    experts: Option<i64>,
    sizes: &'a HashMap<String, Value>,
}

impl OperatorFields<'_> {
    /// The result's shape, if it is known.
    fn shape(&self) -> Option<&[i64]> {
        (!self.kind.shape.is_empty() || self.kind.scalar).then_some(&self.kind.shape)
    }

    /// Elements by the size of one.
    fn bytes(&self, shape: &[i64], dtype: Option<&Arc<str>>) -> Option<Value> {
        let size = self.sizes.get(&**dtype?)?;
        let elements = elements(shape)?;
        match size {
            Value::Int(size) => elements.checked_mul(*size).map(Value::Int),
            #[allow(clippy::cast_precision_loss)]
            size => Some(Value::Float(elements as f64 * size.as_f64()?)),
        }
    }
}

impl Environment for OperatorFields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        let text = |text: &Arc<str>| Value::Text(Arc::clone(text));
        match name {
            "shape" => Some(list_value(&self.kind.shape)),
            "elements" => elements(self.shape()?).map(Value::Int),
            "bytes" => self.bytes(self.shape()?, self.kind.dtype.as_ref()),
            "dtype" => self.kind.dtype.as_ref().map(text),
            "parameters" => Some(list_value(&self.kind.parameters)),
            "op" => Some(text(&self.kind.op)),
            "name" => Some(text(&self.kind.name)),
            "layer" => self.kind.layer.as_ref().map(text),
            "inputs" => {
                let number = |(number, input): (u64, &Input<'_>)| match input {
                    Input::Null => Value::Object(0),
                    _ => Value::Object(number),
                };
                Some(Value::List((1..).zip(&self.inputs).map(number).collect()))
            }
            "experts" => self.experts.map(Value::Int),
            _ => None,
        }
    }

    /// Inputs are numbered from 1.
    fn member(&self, input: u64, name: &str) -> Option<Value> {
        let input = self.inputs.get(usize::try_from(input).ok()?.checked_sub(1)?)?.described()?;
        let text = |text: &Option<Arc<str>>| text.as_ref().map(|text| Value::Text(Arc::clone(text)));
        match name {
            "shape" => input.shape.as_deref().map(list_value),
            "elements" => elements(input.shape.as_deref()?).map(Value::Int),
            "bytes" => self.bytes(input.shape.as_deref()?, input.dtype.as_ref()),
            "dtype" => text(&input.dtype),
            "op" => text(&input.op),
            "name" => text(&input.name),
            "layer" => text(&input.layer),
            _ => None,
        }
    }
}

/// An input as the probeset's expressions on objects see it.
struct InputFields<'a>(&'a Description);

impl Environment for InputFields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        let text = |text: &Option<Arc<str>>| text.as_ref().map(|text| Value::Text(Arc::clone(text)));
        match name {
            "name" => text(&self.0.name),
            "op" => text(&self.0.op),
            "dtype" => text(&self.0.dtype),
            "layer" => text(&self.0.layer),
            "shape" => self.0.shape.as_deref().map(list_value),
            _ => None,
        }
    }
}

/// A shape without extents is one number's; of a negative extent nothing is known.
fn elements(shape: &[i64]) -> Option<i64> {
    let known = |extent: &i64| (*extent >= 0).then_some(*extent);
    shape.iter().try_fold(1_i64, |product, extent| product.checked_mul(known(extent)?))
}

fn list_value(numbers: &[i64]) -> Value {
    Value::List(numbers.iter().map(|extent| Value::Int(*extent)).collect())
}
