//! Colours of cards: which step of a scale an operator is at, what the scale means, and the style of a picture in light
//! and dark.

use super::Colour;
use super::view::{Card, View};
use crate::numbers::units::{quantity, share};
use std::collections::BTreeSet;

/// Steps of a scale.
pub(super) const STEPS: usize = 8;

/// Colours of shares and of bandwidths, from low to high, in light mode; and of backends.
const SHARES: [&str; STEPS] = ["#fff3dc", "#fee3b4", "#fdcb84", "#fbab5e", "#f4843e", "#e25c27", "#c23b1a", "#962411"];
const BANDWIDTHS: [&str; STEPS] =
    ["#e3f4ee", "#c4e8dd", "#98d6c8", "#66bfb2", "#3aa39c", "#1f8487", "#13666f", "#0b4a56"];
const BACKENDS: [&str; STEPS] =
    ["#4477aa", "#ee8866", "#44bb99", "#aa4499", "#bbaa33", "#66ccee", "#ee6677", "#999933"];

/// How the cards of a picture are coloured.
#[derive(Debug)]
pub(super) struct Paint {
    colour: Colour,
    /// The highest value.
    most: f64,
    backends: Vec<String>,
    metric: Option<String>,
}

/// The legend of a picture.
#[derive(Debug, PartialEq)]
pub(super) enum Legend {
    /// A scale from 0 to a value.
    Scale { title: String, most: String, missing: Option<&'static str> },
    /// A colour for each.
    Names { title: String, names: Vec<String> },
}

impl Paint {
    pub(super) fn new(view: &View<'_>, colour: Colour) -> Self {
        let backends: BTreeSet<&str> = view.cards.iter().flat_map(|card| view.backends(card)).collect();
        let mut paint = Self {
            colour,
            most: 0.0,
            backends: backends.into_iter().map(str::to_owned).collect(),
            metric: view.report.bandwidth.as_ref().map(|bandwidth| bandwidth.metric.clone()),
        };
        paint.most = view.cards.iter().filter_map(|card| paint.value(view, card)).fold(0.0, f64::max);
        paint
    }

    fn value(&self, view: &View<'_>, card: &Card) -> Option<f64> {
        match self.colour {
            Colour::Time => Some(view.sum(card, |node| node.cost.as_ref().map_or(0.0, |cost| cost.share))),
            Colour::Bandwidth => view.metric(card, self.metric.as_deref()?),
            Colour::Backend => None,
        }
    }

    /// Its place on the scale; `None` where that is unknown.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    fn step(&self, view: &View<'_>, card: &Card) -> Option<usize> {
        if self.colour == Colour::Backend {
            let [one] = view.backends(card)[..] else { return None };
            return Some(self.backends.iter().position(|backend| backend == one).unwrap_or(0) % STEPS);
        }
        let value = self.value(view, card).filter(|_| self.most > 0.0)?;
        let step = ((value / self.most).clamp(0.0, 1.0) * STEPS as f64) as usize;
        Some(step.min(STEPS - 1))
    }

    fn letter(&self) -> char {
        match self.colour {
            Colour::Time => 't',
            Colour::Bandwidth => 'w',
            Colour::Backend => 'b',
        }
    }

    /// The class of a card.
    pub(super) fn class(&self, view: &View<'_>, card: &Card) -> String {
        self.step(view, card).map_or_else(|| "none".to_owned(), |step| format!("{}{step}", self.letter()))
    }

    /// The colour of a card where there are no classes, and whether it needs a light font.
    pub(super) fn fill(&self, view: &View<'_>, card: &Card) -> (&'static str, bool) {
        let Some(step) = self.step(view, card) else { return ("white", false) };
        match self.colour {
            Colour::Time => (SHARES[step], step + 2 >= STEPS),
            Colour::Bandwidth => (BANDWIDTHS[step], step + 3 >= STEPS),
            Colour::Backend => (BACKENDS[step], false),
        }
    }

    pub(super) fn legend(&self, view: &View<'_>) -> Legend {
        match self.colour {
            Colour::Time => Legend::Scale {
                title: "colour: share of the step's lane time".to_owned(),
                most: share(self.most),
                missing: None,
            },
            Colour::Bandwidth => match &view.report.bandwidth {
                Some(of) => Legend::Scale {
                    title: format!("colour: {} = {}", of.metric, of.expression),
                    most: quantity(self.most, "B/s"),
                    missing: Some("grey: not recorded"),
                },
                None => Legend::Scale {
                    title: "colour: no metric in bytes a second is available".to_owned(),
                    most: String::new(),
                    missing: Some("grey: not recorded"),
                },
            },
            Colour::Backend => Legend::Names { title: "colour: backend".to_owned(), names: self.backends.clone() },
        }
    }

    /// The classes of the legend's scale, from low to high.
    pub(super) fn scale(&self) -> impl Iterator<Item = String> + use<> {
        let scale = self.letter();
        (0..STEPS).map(move |step| format!("{scale}{step}"))
    }
}

/// The style of a picture: of this picture alone, wherever it stands. A page may set the variables itself.
pub(super) fn style() -> String {
    let variables = |letter: char, colours: [&str; STEPS]| -> String {
        colours.iter().enumerate().map(|(step, colour)| format!("--pf-{letter}{step}:{colour};")).collect()
    };
    let light = format!("{}\n{}\n", variables('t', SHARES), variables('w', BANDWIDTHS));
    let mut css = String::from(
        "
.pf-graph{--pf-ink:#1f2328;--pf-soft:#59636e;--pf-page:#ffffff;--pf-card:#ffffff;--pf-edge:#d1d9e0;--pf-frame:#f6f8fa;--pf-line:#a3adb8;--pf-none:#d1d9e0;--pf-tint:.30;
{light}font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;background:var(--pf-page)}
@media (prefers-color-scheme:dark){.pf-graph{--pf-ink:#e6edf3;--pf-soft:#9da7b3;--pf-page:#0d1117;--pf-card:#161b22;--pf-edge:#3d444d;--pf-frame:#11161d;--pf-line:#5b6570;--pf-none:#3d444d;--pf-tint:.34;
--pf-t0:#3a2a1c;--pf-t1:#553519;--pf-t2:#744217;--pf-t3:#955017;--pf-t4:#b9601c;--pf-t5:#da762c;--pf-t6:#f0954f;--pf-t7:#ffb980;
--pf-w0:#16302f;--pf-w1:#184443;--pf-w2:#1b5957;--pf-w3:#20706c;--pf-w4:#2a8981;--pf-w5:#3fa497;--pf-w6:#66bfae;--pf-w7:#9adbc8}}
.pf-graph text{fill:var(--pf-ink);font-size:11px}
.pf-graph .page{fill:var(--pf-page)}
.pf-graph .title{font-size:19px;font-weight:650}
.pf-graph .soft{fill:var(--pf-soft)}
.pf-graph .frame{fill:var(--pf-frame);stroke:var(--pf-edge)}
.pf-graph .layer{font-size:13px;font-weight:650}
.pf-graph .name{font-size:13px;font-weight:600}
.pf-graph .number{font-size:12px;font-variant-numeric:tabular-nums}
.pf-graph .back{fill:var(--pf-card)}
.pf-graph .tint{fill:var(--c);fill-opacity:var(--pf-tint)}
.pf-graph .full{fill:var(--c)}
.pf-graph .rest{fill:var(--pf-edge);fill-opacity:.6}
.pf-graph .rim{fill:none;stroke:var(--pf-edge)}
.pf-graph .critical .rim{stroke:var(--pf-ink);stroke-width:2}
.pf-graph .card:hover .rim,.pf-graph .card:focus .rim{stroke:var(--pf-ink);stroke-width:2}
.pf-graph .card:focus{outline:none}
.pf-graph .line{fill:none;stroke:var(--pf-line);stroke-width:1.3}
.pf-graph .line.memory{stroke-dasharray:5 4}
.pf-graph .line.critical{stroke:var(--pf-ink);stroke-width:2.4}
.pf-graph .head{fill:var(--pf-line)}
.pf-graph .head-critical{fill:var(--pf-ink)}
.pf-graph .weight{fill:var(--pf-soft)}
.pf-graph .cache{fill:none;stroke:var(--pf-soft);stroke-width:1.4}
.pf-graph .input{fill:var(--pf-soft)}
.pf-graph .none{--c:var(--pf-none)}
@media print{.pf-graph{--pf-page:#ffffff}}
",
    )
    .replace("{light}", &light);
    for (step, backend) in BACKENDS.iter().enumerate() {
        css.push_str(&format!(
            ".pf-graph .t{step}{{--c:var(--pf-t{step})}}.pf-graph .w{step}{{--c:var(--pf-w{step})}}.pf-graph .b{step}{{--c:{backend}}}\n"
        ));
    }
    css
}
