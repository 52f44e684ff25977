//! What being recorded costs an engine, beside what other tools cost it.
//!
//! Two live copies of the engine share one processor and take turns of some 0.1 s; the tool is attached to one of them.
//! `docs/decisions/0021-two-live-copies.md` has the method, `docs/benchmarks.md` the figures. Needs root, Debian's
//! `bpftrace` and `linux-perf` for the rows that name them, g++ and Python.
//!
//! `cargo bench --bench overhead -- --write docs/benchmarks.md`; `--help` has the rest.

// What fails here ends the benchmark.
#![allow(clippy::expect_used, clippy::panic)]

mod arguments;
mod conditions;
mod copies;
mod engines;
mod limit;
mod machine;
mod on_device;
mod own_profiler;
mod page;
mod recorder;
mod served;
mod statistics;
mod tracer;
mod turns;

use arguments::Arguments;
use clap::Parser;
use conditions::Condition;
use engines::Build;
use statistics::Random;
use std::time::Instant;

fn main() {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.write {
        // Known now, not after a quarter of an hour.
        page::around(file, arguments.threads);
    }
    let (started, load) = (Instant::now(), machine::load());
    let (conditions, absent) = conditions::available(&arguments.conditions());
    for why in &absent {
        eprintln!("overhead: {why}");
    }
    let build = Build::make();
    let mut random = Random::new(arguments.seed);
    let mut page = page::Page::new(&arguments, &build, load, absent);
    for model in &arguments.models {
        let here: Vec<&Condition> = conditions
            .iter()
            .copied()
            .filter(|condition| arguments.names(condition) || condition.on(model, arguments.threads))
            .collect();
        if here.is_empty() {
            continue;
        }
        page.add(turns::measure(&build, model, &here, &arguments, &mut random));
    }
    if arguments.measures_recorder() {
        page.recorder = recorder::measure(&build, &arguments.models[0], &arguments.cpus());
    }
    if arguments.measures_own_profiler() {
        page.own_profiler = own_profiler::measure(&arguments, &mut random);
    }
    if arguments.measures_on_device() {
        page.on_device = Some(on_device::measure(&arguments, &mut random));
    }
    if arguments.measures_served() {
        page.served = served::measure(&build, &arguments);
    }
    page.finish();
    print!("{}", page.text());
    eprintln!("overhead: measured in {:.0} s", started.elapsed().as_secs_f64());
    if let Some(file) = &arguments.write {
        page.write(file);
    }
}
