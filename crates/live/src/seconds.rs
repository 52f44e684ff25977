//! A slot for each of the last seconds of the target's time, reused in turn.

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Seconds after which all steps that ended in one are in: where steps contain steps, each waits for one around it.
pub(crate) const LATEST: u64 = 32;

/// What each of the last `SLOTS` seconds has.
#[derive(Debug, Clone)]
pub(crate) struct Seconds<T, const SLOTS: usize> {
    slots: [(u64, T); SLOTS],
}

impl<T: Copy + Default, const SLOTS: usize> Default for Seconds<T, SLOTS> {
    fn default() -> Self {
        Self { slots: [(0, T::default()); SLOTS] }
    }
}

impl<T: Default, const SLOTS: usize> Seconds<T, SLOTS> {
    /// What a second has; `None` where that is older than what is in memory.
    pub(crate) fn at(&mut self, second: u64) -> Option<&mut T> {
        let (of, value) = self.slots.get_mut((second % SLOTS as u64) as usize)?;
        if *of > second {
            return None;
        }
        if *of < second {
            (*of, *value) = (second, T::default());
        }
        Some(value)
    }

    /// What a second has, if it has anything.
    pub(crate) fn get(&self, second: u64) -> Option<&T> {
        let slot = self.slots.get((second % SLOTS as u64) as usize);
        slot.filter(|(of, _)| *of == second).map(|(_, value)| value)
    }

    /// All that is in memory, by second, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(u64, T)> {
        self.slots.iter()
    }
}
