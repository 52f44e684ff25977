//! `/proc/PID/stat`: the numbers behind a process's name.

/// What is read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// One letter: `R`, `S`, `D`, `T`, `Z`…
    pub state: char,
    /// The process group.
    pub group: i32,
    /// The session.
    pub session: i32,
    /// The process group in the foreground of its terminal; -1: it has none.
    pub foreground: i32,
    /// Page faults without reading, of all threads.
    pub minor: u64,
    /// Page faults that read from a file or swap.
    pub major: u64,
    /// Processor time in user code, in ticks.
    pub user: u64,
    /// The same in the kernel.
    pub system: u64,
    /// When it began, in ticks since the machine was started.
    pub started: u64,
}

impl ProcessStat {
    /// Reads a process's; `None` where there is none.
    pub fn read(pid: u32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// Reads it from the file's text. The name may have anything in it: what follows its last parenthesis counts.
    pub fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let signed = |index: usize| fields.get(index)?.parse::<i32>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            group: signed(2)?,
            session: signed(3)?,
            foreground: signed(5)?,
            minor: number(7)?,
            major: number(9)?,
            user: number(11)?,
            system: number(12)?,
            started: number(19)?,
        })
    }
}
