//! x86-64.

use super::{Code, Flow};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// The instructions of a function, up to what is none.
pub(super) fn code(bytes: &[u8], start: u64) -> Code {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let instructions = decoder.iter().take_while(|instruction| !instruction.is_invalid());
    instructions.map(|instruction| (instruction.ip(), flow(&instruction))).collect()
}

fn flow(instruction: &Instruction) -> Flow {
    match instruction.flow_control() {
        // Without optimisation, some compilers subtract.
        FlowControl::Next if matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Sub) => {
            instruction.try_immediate(1).map_or(Flow::Next, Flow::Compare)
        }
        FlowControl::Next => Flow::Next,
        FlowControl::Call => Flow::Call(Some(instruction.near_branch_target())),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::UnconditionalBranch => Flow::Jump(instruction.near_branch_target()),
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::IndirectBranch => Flow::Switch,
        _ => Flow::Leave,
    }
}
