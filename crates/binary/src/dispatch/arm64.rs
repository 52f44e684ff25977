//! arm64.

use super::{Code, Flow};
use crate::references::arm64::{Branch, bits, branch, words};

/// The instructions of a function.
pub(super) fn code(bytes: &[u8], start: u64) -> Code {
    let places = (0..).map(|number: u64| start.wrapping_add(4 * number));
    places.zip(words(bytes)).map(|(here, word)| (here, flow(word, here))).collect()
}

fn flow(word: u32, here: u64) -> Flow {
    if let Some((to, kind)) = branch(word, here) {
        return match kind {
            Branch::Call => Flow::Call(Some(to)),
            Branch::Jump => Flow::Jump(to),
            Branch::Conditional => Flow::Branch(to),
        };
    }
    match word & 0xffff_fc1f {
        // `br`, `blr` and `ret`
        0xd61f_0000 => Flow::Switch,
        0xd63f_0000 => Flow::Call(None),
        0xd65f_0000 => Flow::Leave,
        // `cmp` with a number, which is a `subs`.
        _ if word & 0x7f80_0000 == 0x7100_0000 => {
            Flow::Compare((bits(word, 10, 12) as u64) << (12 * bits(word, 22, 1)))
        }
        _ => Flow::Next,
    }
}
