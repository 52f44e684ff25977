//! Functions of the kernel, as far as `/proc/kallsyms` shows them to this user.

use profinfer_schema::KernelFunction;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// Bytes of a line that is read.
const MAX_LINE: usize = 1024;

/// All names are read, whichever are wanted: that may take this part of the time.
const READING_PART: u32 = 100;

/// Functions that addresses are in, each found once.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// In none that was found so far.
    wanted: BTreeSet<u64>,
    /// The end of each function, by its start.
    found: BTreeMap<u64, u64>,
    new: Vec<KernelFunction>,
    /// When names were read last, and how long that took.
    read: Option<(Instant, Duration)>,
    /// The kernel hides its addresses.
    is_hidden: bool,
}

impl Functions {
    /// Adds addresses whose functions are to be found.
    pub(super) fn look_for(&mut self, addresses: Vec<u64>) {
        let is_found = |found: &BTreeMap<u64, u64>, address: u64| {
            found.range(..=address).next_back().is_some_and(|(_, end)| address < *end)
        };
        self.wanted.extend(addresses.into_iter().filter(|address| !is_found(&self.found, *address)));
    }

    /// Reads the names if they were not read for long.
    pub(super) fn read_if_due(&mut self) {
        if self.read.is_none_or(|(last, took)| last.elapsed() >= took * READING_PART) {
            self.read();
        }
    }

    /// Reads the names, if any is wanted.
    pub(super) fn read(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        if wanted.is_empty() || self.is_hidden {
            return;
        }
        let began = Instant::now();
        let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return };
        let lines = BufReader::with_capacity(1 << 16, file).split(b'\n').map_while(Result::ok);
        self.find(lines.filter(|line| line.len() < MAX_LINE), &wanted);
        self.read = Some((began, began.elapsed()));
    }

    fn find(&mut self, lines: impl Iterator<Item = Vec<u8>>, wanted: &BTreeSet<u64>) {
        let symbols: Vec<(u64, String)> = lines.filter_map(|line| symbol(&line)).collect();
        self.is_hidden = symbols.is_empty();
        let functions = of_symbols(symbols, wanted);
        self.found.extend(functions.iter().map(|function| (function.start, function.end)));
        self.new.extend(functions);
    }

    /// Those found since this was last asked.
    pub(super) fn take_news(&mut self) -> Vec<KernelFunction> {
        std::mem::take(&mut self.new)
    }
}

fn of_symbols(mut symbols: Vec<(u64, String)>, addresses: &BTreeSet<u64>) -> Vec<KernelFunction> {
    symbols.sort();
    // Several names of one address: the first.
    symbols.dedup_by_key(|(address, _)| *address);
    let mut found: Vec<KernelFunction> = Vec::new();
    for address in addresses {
        if found.last().is_some_and(|last| (last.start..last.end).contains(address)) {
            continue;
        }
        let after = symbols.partition_point(|(start, _)| start <= address);
        let (Some((start, name)), Some((end, _))) =
            (after.checked_sub(1).and_then(|i| symbols.get(i)), symbols.get(after))
        else {
            continue;
        };
        found.push(KernelFunction { start: *start, end: *end, name: name.clone() });
    }
    found
}

/// `ffffffff81000000 T name [module]`, of code alone.
fn symbol(line: &[u8]) -> Option<(u64, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
    let is_code = matches!(words.next()?, "T" | "t" | "W" | "w");
    let name = words.next()?.to_owned();
    is_code.then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_function_before_them() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t helper\nffffffff81000180 D data\n\
                    ffffffff81000200 T next [module]\n0000000000000000 T hidden\nnonsense";
        let lines = || text.split('\n').map(|line| line.as_bytes().to_vec());
        let addresses = vec![0xffff_ffff_8100_0190, 0xffff_ffff_8100_01ff, 1, 0xffff_ffff_8100_0300];
        let mut functions = Functions::default();
        functions.look_for(addresses.clone());
        let wanted = std::mem::take(&mut functions.wanted);
        functions.find(lines(), &wanted);
        let found = functions.take_news();
        let expected =
            KernelFunction { start: 0xffff_ffff_8100_0100, end: 0xffff_ffff_8100_0200, name: "helper".into() };
        assert_eq!(found, [expected], "the last function has no end");
        functions.look_for(addresses);
        assert_eq!(functions.wanted.len(), 2, "what was found is not looked for again");
        assert!(functions.take_news().is_empty() && !functions.is_hidden);
    }
}
