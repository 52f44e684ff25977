//! Functions of the kernel, as far as `/proc/kallsyms` shows them to this user.

use profinfer_schema::KernelFunction;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

/// Bytes of a line that is read.
const MAX_LINE: usize = 1024;

/// The functions that addresses are in; none where the kernel hides its addresses.
pub(super) fn functions(addresses: &BTreeSet<u64>) -> Vec<KernelFunction> {
    if addresses.is_empty() {
        return Vec::new();
    }
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return Vec::new() };
    let lines = BufReader::with_capacity(1 << 16, file).split(b'\n').map_while(Result::ok);
    of_symbols(lines.filter(|line| line.len() < MAX_LINE), addresses)
}

fn of_symbols(lines: impl Iterator<Item = Vec<u8>>, addresses: &BTreeSet<u64>) -> Vec<KernelFunction> {
    let mut symbols: Vec<(u64, String)> = lines.filter_map(|line| symbol(&line)).collect();
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
        let lines = text.split('\n').map(|line| line.as_bytes().to_vec());
        let addresses = BTreeSet::from([0xffff_ffff_8100_0190, 0xffff_ffff_8100_01ff, 1, 0xffff_ffff_8100_0300]);
        let found = of_symbols(lines, &addresses);
        let expected =
            KernelFunction { start: 0xffff_ffff_8100_0100, end: 0xffff_ffff_8100_0200, name: "helper".into() };
        assert_eq!(found, [expected], "the last function has no end");
    }
}
