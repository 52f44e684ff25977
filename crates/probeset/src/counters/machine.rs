//! A machine's counting units, as the kernel describes them in `/sys/bus/event_source/devices`.

use std::collections::BTreeMap;

/// What a machine can count with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// Its units by name.
    pub pmus: BTreeMap<String, Pmu>,
    /// The processors that are online.
    pub cpus: Vec<u32>,
}

/// A unit that counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pmu {
    /// The kernel's number for it.
    pub number: u32,
    /// The processors that have it; all, where the kernel gives none.
    pub cpus: Option<Vec<u32>>,
    /// It counts for a whole package or system, and not for what runs on one processor.
    pub is_shared: bool,
    /// Where the values of terms go, by term.
    pub formats: BTreeMap<String, Format>,
    /// Terms by the name of an event, as the kernel writes them.
    pub events: BTreeMap<String, String>,
}

/// The bits of an event's description that a term fills, from its lowest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// Which of the three words: `config`, `config1` or `config2`.
    pub word: usize,
    /// First and last bit of each piece.
    pub bits: Vec<(u32, u32)>,
}

impl Format {
    /// Reads `config1:0-7,32-35`.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, bits) = text.trim().split_once(':')?;
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            _ => return None,
        };
        let piece = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        };
        let bits: Option<Vec<(u32, u32)>> = bits.split(',').map(piece).collect();
        Some(Self { word, bits: bits? })
    }

    /// Bits that a value may have.
    pub fn width(&self) -> u32 {
        self.bits.iter().map(|(first, last)| last - first + 1).sum::<u32>().min(64)
    }

    /// Puts a value where it belongs; `None` where it has more bits than there are.
    pub fn put(&self, value: u64, words: &mut [u64; 3]) -> Option<()> {
        if self.width() < 64 && value >> self.width() != 0 {
            return None;
        }
        let mut left = value;
        for (first, last) in &self.bits {
            let width = last - first + 1;
            let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
            *words.get_mut(self.word)? |= (left & mask) << first;
            left = left.checked_shr(width).unwrap_or(0);
        }
        Some(())
    }
}

impl Machine {
    /// The processors' units: one, or one for each type of them.
    pub fn core_pmus(&self) -> Vec<(&str, &Pmu)> {
        let is_core = |name: &str, pmu: &Pmu| name == "cpu" || pmu.cpus.is_some() && !pmu.is_shared;
        self.pmus.iter().filter(|(name, pmu)| is_core(name, pmu)).map(|(name, pmu)| (name.as_str(), pmu)).collect()
    }

    /// The units that a name means: the one of that name, or those of which it is the name without its number.
    pub fn named(&self, name: &str) -> Vec<(&str, &Pmu)> {
        if let Some((name, pmu)) = self.pmus.get_key_value(name) {
            return vec![(name, pmu)];
        }
        let numbered = |pmu: &str| {
            let number = pmu.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        };
        self.pmus.iter().filter(|(pmu, _)| numbered(pmu)).map(|(name, pmu)| (name.as_str(), pmu)).collect()
    }

    /// The processors that are online and have a unit.
    pub fn cpus_of(&self, pmu: &Pmu) -> Vec<u32> {
        let has = |cpu: &u32| pmu.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        self.cpus.iter().copied().filter(has).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_their_format_says() {
        let format = Format::parse("config1:0-7,32-35\n").unwrap();
        assert_eq!((format.word, format.width()), (1, 12));
        let mut words = [0; 3];
        assert_eq!(format.put(0xabc, &mut words), Some(()));
        assert_eq!(words, [0, 0xa_0000_00bc, 0]);
        assert_eq!(format.put(0x1000, &mut words), None, "a bit too many");
        let all = Format::parse("config:0-63").unwrap();
        assert_eq!(all.put(u64::MAX, &mut words), Some(()));
        assert_eq!(words[0], u64::MAX);
        for wrong in ["", "config", "config:", "config:7-0", "config:0-64", "config3:0-7", "config:a-b"] {
            assert_eq!(Format::parse(wrong), None, "{wrong}");
        }
    }
}
