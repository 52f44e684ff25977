//! What the recorder itself needs while records come at a steady 50,000 a second.

use crate::conditions::CONDITIONS;
use crate::engines::Build;
use crate::tracer::Tracer;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The rate that is aimed at, records a second.
const RATE: f64 = 50_000.0;
/// How long.
const TIME: Duration = Duration::from_secs(15);
/// Work is given out so often.
const PERIOD: Duration = Duration::from_millis(50);

/// The recorder's own needs.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) records_a_second: f64,
    /// Of one core.
    pub(crate) share: f64,
    pub(crate) memory_bytes: u64,
    pub(crate) bytes_an_operator: f64,
    pub(crate) lost: u64,
}

/// Records the model's operators at that rate; slower where the engine is.
pub(crate) fn measure(build: &Build, model: &str, cpus: &[usize]) -> Option<Recorder> {
    let recorded = CONDITIONS.iter().find(|condition| condition.name == "operator")?;
    eprintln!("overhead: the recorder's own needs");
    let mut copy = build.start(0, model, cpus);
    // How many records a token gives is seen in a short trace first.
    let tracer = Tracer::attach(recorded, &copy, build.scratch())?;
    copy.turn(50);
    sleep(Duration::from_millis(100));
    let a_token = tracer.detach(build.scratch()).events as f64 / 50.0;

    let tracer = Tracer::attach(recorded, &copy, build.scratch())?;
    let (before, started) = (tracer.needs()?, Instant::now());
    let first = copy.tokens;
    while started.elapsed() < TIME {
        let due = RATE / a_token * started.elapsed().as_secs_f64();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let tokens = (due as u64).saturating_sub(copy.tokens - first);
        // Half a second's work at once at most, so that an engine that is too slow is not asked for ever more.
        let most = RATE / a_token / 2.0;
        if tokens > 0 {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
            copy.turn(tokens.min(most as u64 + 1));
        }
        sleep(PERIOD);
    }
    let (after, took) = (tracer.needs()?, started.elapsed());
    let evidence = tracer.detach(build.scratch());
    Some(Recorder {
        records_a_second: evidence.events as f64 / took.as_secs_f64(),
        share: (after.cpu - before.cpu).as_secs_f64() / took.as_secs_f64(),
        memory_bytes: after.memory_bytes,
        bytes_an_operator: evidence.bytes as f64 / evidence.operators as f64,
        lost: evidence.lost,
    })
}
