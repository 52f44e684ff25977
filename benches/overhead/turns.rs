//! One model: blocks of pairs of turns, in random order, and what comes of them.

use crate::arguments::Arguments;
use crate::conditions::{CONDITIONS, Condition, Tool};
use crate::copies::{Copy, Turn};
use crate::engines::Build;
use crate::limit;
use crate::statistics::{Estimate, Random, median, ratio};
use crate::tracer::{Evidence, Tracer};
use std::thread::sleep;
use std::time::Duration;

/// Blocks that a condition's pairs are divided into: half of them with the one copy traced, half with the other.
const BLOCKS: usize = 4;
/// Between turns, so that a tool reads what the last one left while nobody is timed.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// What was measured on one model.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) model: String,
    /// Of the copy that is not traced; median.
    pub(crate) token_ns: Clocks<f64>,
    pub(crate) operators: f64,
    pub(crate) rows: Vec<Row>,
    pub(crate) limits: Vec<limit::Level>,
}

/// By the clock on the wall, and by the time that the thread ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks<T> {
    pub(crate) wall: T,
    pub(crate) cpu: T,
}

/// One condition.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) condition: &'static Condition,
    /// Traced by bare.
    pub(crate) ratio: Clocks<Estimate>,
    /// Of what there was to see.
    pub(crate) seen: Option<f64>,
    pub(crate) lost: u64,
}

/// Two turns of the same work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) traced: Turn,
    pub(crate) bare: Turn,
}

/// What the blocks of one condition gave: pairs by the copy that was traced.
#[derive(Debug, Default)]
struct Blocks {
    pairs: [Vec<Pair>; 2],
    evidence: Evidence,
    tokens: u64,
}

pub(crate) fn measure(
    build: &Build,
    model: &str,
    conditions: &[&'static Condition],
    arguments: &Arguments,
    random: &mut Random,
) -> Measured {
    let mut copies = [0, 1].map(|copy| build.start(copy, model, &arguments.cpus()));
    let tokens = tokens_a_turn(&mut copies[0], arguments.turn_ms);
    let operators = operators_a_token(&mut copies[0], build);
    eprintln!("overhead: {model}: {tokens} tokens a turn, {operators:.1} operators a token");
    let mut order: Vec<(usize, usize)> =
        (0..conditions.len()).flat_map(|condition| (0..BLOCKS).map(move |block| (condition, block % 2))).collect();
    random.shuffle(&mut order);
    let mut blocks: Vec<Blocks> = conditions.iter().map(|_| Blocks::default()).collect();
    for (done, &(condition, traced)) in order.iter().enumerate() {
        eprintln!("overhead: {model}: block {} of {}: {}", done + 1, order.len(), conditions[condition].name);
        let pairs = arguments.pairs.div_ceil(BLOCKS);
        block(conditions[condition], (&mut copies, traced), (tokens, pairs), build, &mut blocks[condition], random);
    }
    let bare: Vec<Turn> = blocks.iter().flat_map(|of| of.pairs.iter().flatten().map(|pair| pair.bare)).collect();
    let token = |of: &dyn Fn(&Turn) -> f64| median(bare.iter().map(of).collect()) / tokens as f64;
    let token_ns = Clocks { wall: token(&|turn| turn.wall_ns), cpu: token(&|turn| turn.cpu_ns) };
    let rows = conditions.iter().zip(&blocks).map(|(condition, of)| of.row(condition, operators, random)).collect();
    // What several threads' traps cost together depends on which of them the others wait for.
    let limits = if arguments.threads == 1 { limit::levels(&mut copies[0], build) } else { Vec::new() };
    Measured { model: model.to_owned(), token_ns, operators, rows, limits }
}

/// Attaches the tool to one copy, and has both take turns.
fn block(
    condition: &'static Condition,
    (copies, traced): (&mut [Copy; 2], usize),
    (tokens, pairs): (u64, usize),
    build: &Build,
    blocks: &mut Blocks,
    random: &mut Random,
) {
    let probes = copies.each_ref().map(Copy::probes);
    assert_eq!(probes, [0, 0], "probes in copies that nobody traces; is another tool at work?");
    let [first, second] = copies;
    let (one, other) = if traced == 0 { (first, second) } else { (second, first) };
    let tracer = Tracer::attach(condition, one, build.scratch());
    let before = one.tokens;
    blocks.pairs[traced].extend(take_turns(one, other, (tokens, pairs), random));
    assert_eq!(other.probes(), 0, "{}: probes in the copy that must be bare", condition.title);
    // The tool's last look comes before its end, whatever its period.
    sleep(Duration::from_millis(100));
    if let Some(tracer) = tracer {
        let evidence = tracer.detach(build.scratch());
        blocks.evidence.steps += evidence.steps;
        blocks.evidence.operators += evidence.operators;
        blocks.evidence.lost += evidence.lost;
    }
    blocks.tokens += one.tokens - before;
}

/// Pairs of turns, each in random order; one more pair before them is not counted.
fn take_turns(traced: &mut Copy, bare: &mut Copy, (tokens, pairs): (u64, usize), random: &mut Random) -> Vec<Pair> {
    let turn = |copy: &mut Copy| {
        sleep(PAUSE);
        copy.turn(tokens)
    };
    let taken = (0..=pairs).map(|_| {
        if random.below(2) == 0 {
            let traced = turn(traced);
            Pair { traced, bare: turn(bare) }
        } else {
            let bare = turn(bare);
            Pair { bare, traced: turn(traced) }
        }
    });
    taken.skip(1).collect()
}

/// The ratios of pairs in groups, by both clocks.
pub(crate) fn ratios(groups: &[Vec<Pair>], random: &mut Random) -> Clocks<Estimate> {
    let mut by = |clock: &dyn Fn(&Turn) -> f64| {
        let of = |pair: &Pair| clock(&pair.traced) / clock(&pair.bare);
        let groups: Vec<Vec<f64>> = groups.iter().map(|group| group.iter().map(of).collect()).collect();
        ratio(&groups, random)
    };
    Clocks { wall: by(&|turn| turn.wall_ns), cpu: by(&|turn| turn.cpu_ns) }
}

impl Blocks {
    fn row(&self, condition: &'static Condition, operators: f64, random: &mut Random) -> Row {
        let tokens = self.tokens as f64;
        let seen = match condition.tool {
            // Every token is a step, at every level; a budget leaves none of them out.
            Tool::Profinfer(options) if options.contains(&"graph") => Some(self.evidence.steps as f64 / tokens),
            Tool::Profinfer(_) => Some(self.evidence.operators as f64 / (tokens * operators)),
            Tool::Bpftrace(_) | Tool::PerfProbe if self.evidence.operators > 0 => {
                Some(self.evidence.operators as f64 / (tokens * operators))
            }
            Tool::None | Tool::Serve(_) | Tool::Bpftrace(_) | Tool::Perf(_) | Tool::PerfProbe => None,
        };
        let ratio = ratios(&self.pairs, random);
        Row { condition, ratio, seen, lost: self.evidence.lost }
    }
}

/// As many tokens as take a turn's time, and at least two.
pub(crate) fn tokens_a_turn(copy: &mut Copy, turn_ms: f64) -> u64 {
    copy.turn(4);
    // A neighbour's time is not the engine's.
    let few = (0..3).map(|_| copy.turn(4).cpu_ns / 4.0).fold(f64::INFINITY, f64::min);
    // No model decodes a billion tokens in a turn, so the number is a small one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    let tokens = (turn_ms * 1e6 / few).round() as u64;
    tokens.max(2)
}

/// Counted in a trace of some tokens.
pub(crate) fn operators_a_token(copy: &mut Copy, build: &Build) -> f64 {
    const TOKENS: u64 = 20;
    let recorded = CONDITIONS.iter().find(|condition| condition.name == "operator").expect("there is one");
    let tracer = Tracer::attach(recorded, copy, build.scratch()).expect("it is a tool");
    copy.turn(TOKENS);
    sleep(Duration::from_millis(100));
    let evidence = tracer.detach(build.scratch());
    assert_eq!((evidence.steps, evidence.lost), (TOKENS, 0), "a step a token, and nothing lost");
    evidence.operators as f64 / TOKENS as f64
}
