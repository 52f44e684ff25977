//! How much data stays in the last cache. A virtual machine reports the whole cache of its host, and may have a small
//! part of it: what is read over and over from more than that comes from memory.

use super::kernels::{GRAIN, Sweep};
use super::machine::Machine;
use super::schedule::memory_bytes;
use super::workers::{Job, Workers, pages};
use std::io;
use std::sync::atomic::AtomicU64;

/// The least data: this multiple of the level before, which then has no large part in it.
const BEYOND_LEVEL_BEFORE: u64 = 4;
/// The most data, in bytes. A cache that is not much smaller than this is taken to be as large as reported.
const MOST_BYTES: u64 = 512 << 20;
/// The last cache has to be faster than memory by this factor, or no size can be found.
const FASTER: f64 = 1.5;
/// Data stays in the cache if this part of what is read comes from there.
const HITS: f64 = 0.9;
/// Passes over data; the best one counts.
const PASSES: u64 = 3;
/// A pass is over no less than this, so that it can be timed.
const LEAST_BYTES: u64 = 16 << 20;
/// Steps by which the size is narrowed down, from a factor of two.
const STEPS: u32 = 2;

/// Bytes of the last cache that data of one processor stays in, where they are less than half of what is reported.
///
/// # Errors
/// The thread cannot be started or bound, or there is no memory for it.
pub(super) fn usable(machine: &Machine, cpu: u32, read: &Sweep) -> io::Result<Option<u64>> {
    let [.., before, last] = machine.caches_of(Some(cpu)) else { return Ok(None) };
    let sizes = Sizes {
        least: before.bytes.saturating_mul(BEYOND_LEVEL_BEFORE),
        reported: last.bytes,
        most: memory_bytes(machine, &[cpu]).min(MOST_BYTES),
    };
    if !sizes.can_tell() {
        return Ok(None);
    }
    let arrived = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers = Workers::start(scope, &[cpu], pages(sizes.most), &arrived)?;
        sizes.find(|bytes| best_rate(&workers, *read, bytes))
    })
}

/// The rate at which as much data is read, bytes a second.
fn best_rate(workers: &Workers, read: Sweep, bytes: u64) -> io::Result<f64> {
    let count = pages(bytes);
    let of_pass = count as u64 * GRAIN as u64;
    let times = LEAST_BYTES.div_ceil(of_pass);
    let mut best: f64 = 0.0;
    // The first pass brings the data there.
    for pass in 0..=PASSES {
        let seconds = workers.run(Job::Sweep(read, 0, count, times))?.busiest.as_secs_f64();
        if pass > 0 && seconds > 0.0 {
            best = best.max(of_pass.saturating_mul(times) as f64 / seconds);
        }
    }
    Ok(best)
}

/// Bytes.
struct Sizes {
    /// Of data that certainly stays in no level before, and in the last one if in any.
    least: u64,
    /// Of the cache, as reported.
    reported: u64,
    /// Of data that is in memory.
    most: u64,
}

impl Sizes {
    fn can_tell(&self) -> bool {
        self.least > 0 && self.least < self.reported / 2 && self.most > self.reported / 2
    }

    /// The size by the rate at which data of some size is read.
    fn find(&self, mut rate: impl FnMut(u64) -> io::Result<f64>) -> io::Result<Option<u64>> {
        let (cache, memory) = (rate(self.least)?, rate(self.most)?);
        if cache < FASTER * memory || memory <= 0.0 {
            return Ok(None);
        }
        let in_cache = 1.0 / (HITS / cache + (1.0 - HITS) / memory);
        let mut stays = self.reported / 2;
        if rate(stays)? >= in_cache {
            return Ok(None);
        }
        let mut beyond = stays;
        while stays > self.least {
            (beyond, stays) = (stays, (stays / 2).max(self.least));
            if rate(stays)? >= in_cache {
                break;
            }
        }
        for _ in 0..STEPS {
            let middle = stays.midpoint(beyond);
            if rate(middle)? >= in_cache { stays = middle } else { beyond = middle }
        }
        Ok(Some(stays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A machine with so much of its cache: 30 GB/s from it, 10 from memory.
    fn found(has: u64, reported: u64, most: u64) -> Option<u64> {
        let rate = |bytes: u64| {
            let hits = (has as f64 / bytes as f64).min(1.0);
            Ok(1.0 / (hits / 30e9 + (1.0 - hits) / 10e9))
        };
        let sizes = Sizes { least: 8 * MIB, reported, most };
        if sizes.can_tell() { sizes.find(rate).unwrap() } else { None }
    }

    #[test]
    fn a_part_of_the_host_s_cache_is_found() {
        for has in [9, 20, 40, 64, 100, 200] {
            let size = found(has * MIB, 480 * MIB, 512 * MIB).unwrap();
            assert!((0.8..1.2).contains(&(size as f64 / (has * MIB) as f64)), "{has} MiB: {size}");
        }
    }

    #[test]
    fn a_whole_cache_is_as_reported() {
        assert_eq!(found(480 * MIB, 480 * MIB, 512 * MIB), None, "no memory to compare with");
        assert_eq!(found(32 * MIB, 32 * MIB, 128 * MIB), None);
        assert_eq!(found(30 * MIB, 32 * MIB, 128 * MIB), None);
        assert_eq!(found(4 * MIB, 12 * MIB, 128 * MIB), None, "the level before is too large for a size in between");
        assert_eq!(found(4 * MIB, 600 * MIB, 128 * MIB), None, "too little memory");
        let even = Sizes { least: 8 * MIB, reported: 64 * MIB, most: 512 * MIB }.find(|_| Ok(10e9));
        assert_eq!(even.unwrap(), None, "a cache as fast as memory");
    }
}
