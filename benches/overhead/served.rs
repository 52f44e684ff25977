//! What `serve` itself needs, at its defaults, while engines decode all the time: CPU time and memory of all its processes.

use crate::arguments::Arguments;
use crate::copies::Copy;
use crate::engines::Build;
use crate::statistics::median;
use crate::tracer::{cpu_of, memory_of};
use crate::turns::tokens_a_turn;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Before it is measured: engines are found, and the first windows are over.
const WARM_UP: Duration = Duration::from_secs(60);
const TIME: Duration = Duration::from_secs(60);
/// As a Prometheus does.
const SCRAPED: Duration = Duration::from_secs(5);
/// Engines at once, each with the first of the models; and one engine with each of the models.
const MANY: usize = 10;

/// What it gave.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) engines: usize,
    pub(crate) model: String,
    /// A token's time while they run, ns.
    pub(crate) token_ns: f64,
    /// Of one core.
    pub(crate) share: f64,
    /// The sum of proportional shares.
    pub(crate) memory_bytes: u64,
}

pub(crate) fn measure(build: &Build, arguments: &Arguments) -> Vec<Served> {
    let each = arguments.models.iter().map(|model| (1, model));
    let many = arguments.models.first().map(|model| (MANY, model));
    each.chain(many).map(|(engines, model)| served(build, arguments, engines, model)).collect()
}

fn served(build: &Build, arguments: &Arguments, engines: usize, model: &str) -> Served {
    eprintln!("overhead: serve, {engines} of {model}");
    let mut copies: Vec<Copy> = (0..engines).map(|copy| build.start(copy % 2, model, &arguments.cpus())).collect();
    let tokens = tokens_a_turn(&mut copies[0], arguments.turn_ms);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let decode = |mut copy: Copy| {
            scope.spawn(move || {
                let mut turns = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    turns.push(copy.turn(tokens).wall_ns / tokens as f64);
                }
                turns
            })
        };
        let decoding: Vec<_> = copies.into_iter().map(decode).collect();
        let serve = Serve::start();
        serve.scrape_for(WARM_UP);
        let (before, started) = (serve.cpu(), Instant::now());
        serve.scrape_for(TIME);
        let share = (serve.cpu() - before).as_secs_f64() / started.elapsed().as_secs_f64();
        let memory_bytes = serve.memory_bytes();
        stop.store(true, Ordering::Relaxed);
        let turns = decoding.into_iter().flat_map(|thread| thread.join().expect("it decodes")).collect();
        let token_ns = median(turns);
        Served { engines, model: model.to_owned(), token_ns, share, memory_bytes }
    })
}

/// The command, which finds all engines.
struct Serve {
    process: Child,
    address: String,
}

impl Serve {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().expect("profinfer runs");
        let mut log = BufReader::new(process.stderr.take().expect("its messages are piped"));
        let mut line = String::new();
        log.read_line(&mut line).expect("it writes lines");
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("serve does not listen: {line}")).to_owned();
        // What it writes later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { process, address }
    }

    fn scrape_for(&self, time: Duration) {
        let started = Instant::now();
        while started.elapsed() < time {
            sleep(SCRAPED);
            let mut answer = String::new();
            let mut stream = TcpStream::connect(&self.address).expect("it listens");
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
            stream.read_to_string(&mut answer).expect("it answers");
            assert!(answer.contains("profinfer_recording"), "{answer}");
        }
    }

    /// Itself, and its recorders with their guardians.
    fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.process.id()];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            next += 1;
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
            for pids in children {
                found.extend(pids.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        found
    }

    fn cpu(&self) -> Duration {
        self.processes().into_iter().filter_map(cpu_of).sum()
    }

    fn memory_bytes(&self) -> u64 {
        self.processes().into_iter().filter_map(|pid| memory_of(pid, "smaps_rollup", "Pss:")).sum()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).expect("a process number");
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}
