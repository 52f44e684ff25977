//! How a path is read, step by step: each part of it with its type, what it adds to the address, and the source of
//! that. Works from a plan and its placement, and reads nothing itself.

use super::abi::place_text;
use super::constants::relocations_of;
use super::model::{PlacedSite, Placement, ProbePlan, Provenance, RelocationKind};
use super::record_layout::field_type;
use super::scopes::scope_of;
use profinfer_diagnostics::Spanned;
use profinfer_probeset::Probeset;
use profinfer_probeset::path::{
    Base, Checked, ClassPart, Expr, ExprKind, Held, Memory, Node, Scope, Term, Type, check, fixed_size,
};
use profinfer_schema::bpf::{ABSENT_VALUE, MAP_ENTRIES, map_bits};

/// One step of a path.
#[derive(Debug, Clone)]
pub struct PathStep {
    /// What is read up to here.
    pub expr: Expr,
    /// Its type.
    pub ty: String,
    /// Where it is, seen from the step before: a register, an offset, an element.
    pub place: String,
    /// Where that comes from; `None` where it needs no source, or has none.
    pub provenance: Option<Provenance>,
    /// Its value can be put into a record by itself.
    pub recordable: bool,
    /// Its length is determined only when it is read.
    pub is_list: bool,
}

/// The steps of an expression at one of the plan's programs, the first read first. With a placement, offsets have their
/// values; `site` says which of the program's sites is meant, where its arguments are elsewhere than at others.
pub fn explain_at(
    plan: &ProbePlan,
    probeset: &Probeset,
    placement: Option<&Placement>,
    (program, site): (usize, Option<&PlacedSite>),
    expr: &Expr,
) -> Vec<PathStep> {
    let Some((root, signature)) = plan.programs.get(program).and_then(|program| {
        Some((probeset.probes.get(program.probes.first()?)?, program.signature().cloned().unwrap_or_default()))
    }) else {
        return Vec::new();
    };
    let scope = scope_of(probeset, plan.arch, root, &signature);
    Explainer { plan, probeset, placement, site, program: Some(program), scope }.steps(expr)
}

/// The steps of an expression in the description of an object.
pub fn explain_in_object(
    plan: &ProbePlan,
    probeset: &Probeset,
    placement: Option<&Placement>,
    view: &str,
    expr: &Expr,
) -> Vec<PathStep> {
    let scope = probeset.scope_of(view);
    Explainer { plan, probeset, placement, site: None, program: None, scope }.steps(expr)
}

/// Where a probe meets an object: the alternative's program, its first site, and the pointer to the object there.
#[derive(Debug)]
pub struct Meeting<'a> {
    /// The probe.
    pub probe: &'a str,
    /// Its program.
    pub program: usize,
    /// Its first site.
    pub site: &'a PlacedSite,
    /// What is the object's address.
    pointer: &'a Expr,
}

/// Where a target's probes meet an object of this name.
pub fn meetings<'a>(
    plan: &ProbePlan,
    probeset: &'a Probeset,
    placement: &'a Placement,
    object: &str,
) -> Vec<Meeting<'a>> {
    let mut found = Vec::new();
    for site in &placement.sites {
        if found.iter().any(|meeting: &Meeting<'_>| meeting.program == site.program) {
            continue;
        }
        let probes = plan.programs.get(site.program).into_iter().flat_map(|program| &program.probes);
        let probes = probes.filter_map(|name| probeset.probes.get(name));
        let pointer = |expr: &'a Expr| match &expr.kind {
            ExprKind::Cast { base, ty: Spanned { value: Type::Object(name), .. } } if name == object => Some(&**base),
            _ => None,
        };
        let mut met = probes.flat_map(|probe| probe.fields.values().map(move |field| (probe, &field.value)));
        let met = met.find_map(|(probe, value)| Some((probe, pointer(value)?)));
        if let Some((probe, pointer)) = met {
            found.push(Meeting { probe: &probe.name.value, program: site.program, site, pointer });
        }
    }
    found
}

/// The steps of an expression in the description of an object, where a probe meets it.
pub fn explain_met(
    plan: &ProbePlan,
    probeset: &Probeset,
    placement: Option<&Placement>,
    (meeting, view): (&Meeting<'_>, &str),
    expr: &Expr,
) -> Vec<PathStep> {
    let Some(of) = probeset.types.get(view) else { return Vec::new() };
    let ty = Type::Pointer(Box::new(Type::View(view.to_owned())));
    let span = meeting.pointer.span.clone();
    let pointer = ExprKind::Cast { base: Box::new(meeting.pointer.clone()), ty: Spanned::new(ty, span.clone()) };
    let mut seen = expr.clone();
    seen.see_from(&Expr { kind: pointer, span }, true, &|name| of.members.contains_key(name));
    explain_at(plan, probeset, placement, (meeting.program, Some(meeting.site)), &seen)
}

struct Explainer<'a> {
    plan: &'a ProbePlan,
    probeset: &'a Probeset,
    placement: Option<&'a Placement>,
    site: Option<&'a PlacedSite>,
    program: Option<usize>,
    scope: Scope<'a>,
}

impl Explainer<'_> {
    fn steps(&self, expr: &Expr) -> Vec<PathStep> {
        let mut parts = Vec::new();
        in_order(expr, &mut parts);
        let mut steps: Vec<PathStep> = Vec::new();
        for part in parts {
            if steps.iter().any(|step| step.expr.span.text() == part.span.text()) {
                continue;
            }
            // An array on its way to an element may be more than a step can be by itself: then it has no line.
            let Ok(checked) = check(part, &self.scope) else { continue };
            steps.push(self.step(part, &checked));
        }
        steps
    }

    fn step(&self, expr: &Expr, checked: &Checked) -> PathStep {
        let before = base_of(expr).and_then(|base| check(base, &self.scope).ok());
        let module = self.program.and_then(|program| self.plan.programs.get(program)?.module());
        let mut kinds = relocations_of(checked, self.program, module);
        // What the step before needed is shown there.
        for earlier in before.iter().flat_map(|before| relocations_of(before, self.program, module)) {
            if matches!(expr.kind, ExprKind::Slice { .. }) {
                // Its elements and their number are both read from there.
                kinds.retain(|kind| *kind != earlier);
            } else if let Some(at) = kinds.iter().position(|kind| *kind == earlier) {
                kinds.remove(at);
            }
        }
        if matches!(
            expr.kind,
            ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Conditional { .. } | ExprKind::List(_)
        ) {
            kinds.retain(|kind| matches!(kind, RelocationKind::Constant { .. }));
        }
        let mut places = Vec::new();
        let mut provenance = None;
        let mut of_types = 0;
        for kind in kinds {
            let found = self.value(&kind);
            provenance = match (provenance, found.map(|(_, from)| from)) {
                (Some(Provenance::ByHand), _) => Some(Provenance::ByHand),
                (before, None) => before,
                (_, from) => from,
            };
            if let Some(text) = self.place(&kind, found.map(|(value, _)| value)) {
                of_types += usize::from(!matches!(kind, RelocationKind::Argument { .. }));
                // What a view has a name for may read a member several times.
                if !places.contains(&text) {
                    places.push(text);
                }
            }
        }
        if of_types == 0 {
            places.extend(element(checked, expr));
        }
        let ty = match &checked.node {
            Node::Slice { max, .. } => format!("{}[≤ {max}]", checked.ty),
            _ => checked.ty.to_string(),
        };
        PathStep {
            expr: expr.clone(),
            ty,
            place: if places.is_empty() { of_itself(expr).to_owned() } else { places.join(", ") },
            provenance,
            recordable: field_type(checked, self.probeset).is_ok(),
            is_list: matches!(checked.node, Node::Slice { .. }),
        }
    }

    fn value(&self, kind: &RelocationKind) -> Option<(u64, Provenance)> {
        let symbol = self.plan.symbol(kind)?;
        // An inlined copy has its arguments where its debug information places them.
        if let Some(value) = self.site.and_then(|site| site.values.get(symbol)) {
            return Some((*value, Provenance::Dwarf));
        }
        let value = self.placement?.values.iter().find(|value| value.symbol == symbol)?;
        Some((value.value, value.provenance))
    }

    fn place(&self, kind: &RelocationKind, value: Option<u64>) -> Option<String> {
        let value = value.filter(|value| *value < ABSENT_VALUE);
        let shown = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        Some(match kind {
            RelocationKind::Argument { argument, .. } => match value {
                Some(value) => place_text(self.plan.arch, value),
                None => format!("argument {}", argument + 1),
            },
            RelocationKind::Offset { view, member } => format!("{view}.{member} at +{}", shown(value)),
            RelocationKind::Size { view } => format!("{view} has {} bytes", shown(value)),
            RelocationKind::Constant { name, .. } => format!("{name} = {}", shown(value)),
            RelocationKind::Shift { member, .. } => format!("{member} begins at bit {}", shown(value)),
            RelocationKind::Class { part: ClassPart::Tag, of, .. } => {
                // A variant's has the size of the number in its lowest bits.
                let offset = value.map(|value| if matches!(of, Type::Variant(_)) { value >> 3 } else { value });
                format!("its tag at +{}", shown(offset))
            }
            RelocationKind::Class { part: ClassPart::Size, of, .. } => format!("{of} has {} bytes", shown(value)),
            RelocationKind::Class { part: ClassPart::Walk, of, .. } => walk(of, value),
            RelocationKind::Strings { .. } => "by its library's layout of strings".to_owned(),
            RelocationKind::BlockStart { .. } | RelocationKind::BlockLength { .. } | RelocationKind::Absent { .. } => {
                return None;
            }
        })
    }
}

/// The expression that a step goes on from.
fn base_of(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Member { base, .. }
        | ExprKind::Alternative { base, .. }
        | ExprKind::Index { base, .. }
        | ExprKind::Contains { base, .. }
        | ExprKind::Slice { base, .. }
        | ExprKind::Cast { base, .. } => Some(base),
        _ => None,
    }
}

/// How the elements of a map are reached.
fn walk(of: &Type, value: Option<u64>) -> String {
    let shape = if matches!(of, Type::Map { sorted: true, .. }) { "tree" } else { "list" };
    let visited = format!("the first {MAP_ENTRIES} elements of its {shape} are visited");
    match value {
        Some(value) => {
            let at = |bit: u32| value >> bit & 0xff;
            let (first, count, element) = (at(map_bits::FIRST), at(map_bits::COUNT), at(map_bits::ELEMENT));
            let of_value = match of {
                Type::Map { value: Some(_), .. } => format!(", its value at +{}", element + (value >> map_bits::VALUE)),
                _ => String::new(),
            };
            format!("{visited}, from +{first}, counted at +{count}, each at +{element} of its node{of_value}")
        }
        None => visited,
    }
}

/// Each part of an expression after what it is read from.
fn in_order<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    for child in expr.children() {
        in_order(child, into);
    }
    if !matches!(expr.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Text(_)) {
        into.push(expr);
    }
}

/// What an index adds where its element has a size of its own, and where a vector's number of elements is from.
fn element(checked: &Checked, expr: &Expr) -> Option<String> {
    if matches!(checked.node, Node::VectorSize { .. }) {
        return Some("by the vector's begin and end".to_owned());
    }
    let what = match &checked.node {
        Node::Held { what, .. } => Some(*what),
        Node::Memory(Memory { base: Base::Pointer(pointer), terms }) if terms.is_empty() => match &pointer.node {
            Node::Held { what, .. } => Some(*what),
            _ => None,
        },
        _ => None,
    };
    match what {
        Some(Held::HasValue) => return Some("the flag after the value".to_owned()),
        Some(Held::Value) if matches!(&expr.kind, ExprKind::Member { name, .. } if name.value == "value") => {
            return Some("its value, if it has one".to_owned());
        }
        Some(Held::Index) => return Some("the number after the alternatives".to_owned()),
        Some(Held::Alternative(number)) if matches!(expr.kind, ExprKind::Alternative { .. }) => {
            return Some(format!("alternative {number}, if it has that one"));
        }
        _ => {}
    }
    let (Node::Memory(Memory { base, terms }), ExprKind::Index { index, .. }) = (&checked.node, &expr.kind) else {
        return None;
    };
    if let (Base::Pointer(pointer), []) = (base, terms.as_slice())
        && let Node::VectorElement { of, index: Some(_), .. } | Node::Element { of, .. } = &pointer.node
    {
        let size = fixed_size(of).map_or_else(String::new, |size| format!(", {size} bytes each"));
        return Some(format!("element {} of the vector{size}", index.span.text()));
    }
    let Some(Term::Element { of, .. }) = terms.last() else { return None };
    let size = fixed_size(of).map_or_else(|| "?".to_owned(), |size| size.to_string());
    let through = if matches!(base, Base::Pointer(_)) && terms.len() == 1 { "of what it points to, " } else { "" };
    Some(format!("element {} {through}{size} bytes each", index.span.text()))
}

/// What a step is that adds no place.
fn of_itself(expr: &Expr) -> &'static str {
    match &expr.kind {
        ExprKind::Return => "the function's result",
        ExprKind::Tid => "the thread's number",
        ExprKind::Cpu => "the processor's number",
        ExprKind::Match(_) => "of the function's name",
        ExprKind::Cast { .. } => "the same, seen as another type",
        ExprKind::Slice { .. } | ExprKind::List(_) => "its elements",
        ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Conditional { .. } => "worked out",
        _ => "",
    }
}
