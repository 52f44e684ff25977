//! A live copy of an engine, which works when it is told to and says how long that took.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How long one turn took, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) wall_ns: f64,
    /// Of the thread that works.
    pub(crate) cpu_ns: f64,
}

/// A process that answers a number of tokens, on its input, by the time they took.
#[derive(Debug)]
pub(crate) struct Copy {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The folder of its own files.
    pub(crate) folder: PathBuf,
    /// Tokens decoded so far.
    pub(crate) tokens: u64,
}

impl Copy {
    /// Starts it on these processors, and waits until its model is loaded.
    pub(crate) fn start(command: &mut Command, folder: &Path, cpus: &[usize]) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the engine starts");
        pin(process.id(), cpus);
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("its output is piped"));
        let mut copy = Self { process, input, output, folder: folder.to_owned(), tokens: 0 };
        assert_eq!(copy.line(), "ready", "the engine did not start");
        copy
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Has it decode.
    pub(crate) fn turn(&mut self, tokens: u64) -> Turn {
        writeln!(self.input.as_mut().expect("it takes turns"), "{tokens}").expect("the engine is there");
        self.tokens += tokens;
        let line = self.line();
        let mut words = line.split_whitespace().map(|word| word.parse().expect("a number of nanoseconds"));
        Turn { wall_ns: words.next().expect("wall time"), cpu_ns: words.next().expect("CPU time") }
    }

    /// Ends its input; gives what it says at last.
    pub(crate) fn end(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it writes text");
        rest
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes lines");
        line.trim().to_owned()
    }

    /// In how many places its code is not what its files hold: the probes in it, whoever put them there.
    pub(crate) fn probes(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("it is there");
        let mut memory = File::open(format!("/proc/{}/mem", self.pid())).expect("its memory may be read");
        maps.lines().filter_map(|line| self.code(line)).map(|code| code.changes(&mut memory)).sum()
    }

    /// A line of the mappings, if it is of code in the copy's own files.
    fn code(&self, line: &str) -> Option<Code> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = words.as_slice() else { return None };
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let code = Code { start: number(start)?, end: number(end)?, offset: number(offset)?, file: path.into() };
        code.file.starts_with(&self.folder).then_some(code)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Code of a file in a process's memory.
struct Code {
    start: u64,
    end: u64,
    offset: u64,
    file: PathBuf,
}

impl Code {
    /// Bytes that differ, neighbours counted once: a probe replaces one to five.
    fn changes(&self, memory: &mut File) -> usize {
        let read = |file: &mut File, from: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(from)).expect("a place in the file");
            let _ = file.take(self.end - self.start).read_to_end(&mut bytes);
            bytes
        };
        let loaded = read(memory, self.start);
        let stored = read(&mut File::open(&self.file).expect("its file is there"), self.offset);
        let mut changed: Vec<usize> =
            (0..loaded.len().min(stored.len())).filter(|&at| loaded[at] != stored[at]).collect();
        changed.dedup_by(|at, before| *at - *before < 5);
        changed.len()
    }
}

/// Keeps a process on these processors.
fn pin(pid: u32, cpus: &[usize]) {
    let mut set = nix::sched::CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu).expect("a processor's number"));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a process number"));
    nix::sched::sched_setaffinity(pid, &set).expect("the processors are there");
}
