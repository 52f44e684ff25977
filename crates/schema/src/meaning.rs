//! The meaning of a field, by its reserved name: resolved once for each record type, so that no other code compares names.

/// What a field of a record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldMeaning {
    /// Tokens of a step, graph or region.
    Tokens,
    /// Name of the backend that computes a graph.
    Backend,
    /// Number of the thread among those that share an operator.
    Lane,
    /// Address of the object that an operator computes.
    Node,
    /// Address of a further object that a fused operator computes.
    Covers,
    /// Time that a span waited at its end, ns.
    Waiting,
    /// Numbers of the experts that were chosen.
    Ids,
    /// Experts chosen for each token.
    PerToken,
    /// Number of a sequence.
    Sequence,
    /// Sequences in a step.
    SequenceCount,
    /// Position of a step's first token in its sequence.
    Position,
    /// Sequences of the tokens of a batch.
    Sequences,
    /// Positions of the tokens of a batch in their sequences.
    Positions,
    /// 1 for each token of a batch whose result is wanted.
    Outputs,
    /// Number of a request.
    Request,
    /// Address or number of the model that a step computes.
    Instance,
    /// Type of an operator.
    Op,
    /// Name of an object or operator.
    Name,
    /// Type of an object's elements.
    Dtype,
    /// Extents of an object.
    Shape,
    /// Numbers that costs need beyond the shape, such as how many weights an operator has in itself.
    Parameters,
    /// Addresses of the objects that an object is computed from.
    Inputs,
    /// Address of an object, or of the memory that a fault touched.
    Address,
    /// Address of the object whose data this object shares.
    View,
    /// Address of an object's data.
    Data,
    /// Bytes of an object's data, or of a read.
    Bytes,
    /// Process of a thread.
    Pid,
    /// 1: the thread was created just then.
    Created,
    /// Processors that a thread may run on.
    CpusAllowed,
    /// Process that a fork created.
    ChildPid,
    /// Thread that a fork created.
    ChildTid,
    /// Process of the thread that leaves a processor.
    PrevPid,
    /// State bits of the thread that leaves a processor; 0: runnable.
    PrevState,
    /// Name of the thread that leaves a processor.
    PrevComm,
    /// Process of the thread that gets a processor.
    NextPid,
    /// Thread that gets a processor.
    NextTid,
    /// Name of the thread that gets a processor.
    NextComm,
    /// Processor that a woken thread waits for.
    TargetCpu,
    /// Device of a file.
    Device,
    /// Inode of a file.
    Inode,
    /// Offset in a file, bytes.
    Offset,
    /// Index of an operator in its graph.
    Index,
    /// Operators of the graph.
    GraphNodes,
    /// Address of the object that the operator before it in the graph computes.
    Previous,
    /// 0: nothing was given to the device, the operator is empty.
    Encoded,
    /// Address or number of a device's queue.
    Queue,
    /// Address or number of what the end of submitted work is recognised by.
    Fence,
    /// Address or number of what work that is done by then is recognised by: later work of the queue comes after it.
    After,
    /// Not 0: a call failed, or what was waited for did not come.
    Status,
    /// Where data is copied to or from.
    Direction,
    /// Times that a device took, in ticks.
    Timestamps,
    /// Nanoseconds of a device's tick.
    Period,
    /// Kind of a device.
    DeviceType,
    /// What memory was taken back for: a number of [`crate::ReclaimKind`].
    ReclaimKind,
    /// The driver of a device, or the device.
    Driver,
    /// When a job was given to the kernel's driver: ns, CLOCK_MONOTONIC.
    Queued,
    /// What the beginning of a job is: 1: it began to run, 2: it was given to the device, 3: it was made.
    JobSince,
    /// Address or number of work that was captured.
    Captured,
    /// That of the captured work that other one is made from.
    MadeFrom,
    /// Not 0: a queue ends, whatever work it has.
    Destroyed,
    /// Address of the object that data is copied from.
    Source,
    /// Address of the object that the last operator of a graph computes.
    GraphLast,
    /// Addresses of the objects that it and the operators after it in the graph compute.
    GraphMembers,
    /// Objects of other operators of the graph, recorded so that they are described.
    GraphOthers,
    /// Addresses of the data that an operator reads; those of its inputs, without it.
    Reads,
    /// Addresses of the data that an operator computes.
    Writes,
    /// An object's data is the same in every step: a weight. 0: it is not.
    Constant,
}

impl FieldMeaning {
    /// Every meaning, in the order of the variants.
    pub const ALL: [Self; 67] = [
        Self::Tokens,
        Self::Backend,
        Self::Lane,
        Self::Node,
        Self::Covers,
        Self::Waiting,
        Self::Ids,
        Self::PerToken,
        Self::Sequence,
        Self::SequenceCount,
        Self::Position,
        Self::Sequences,
        Self::Positions,
        Self::Outputs,
        Self::Request,
        Self::Instance,
        Self::Op,
        Self::Name,
        Self::Dtype,
        Self::Shape,
        Self::Parameters,
        Self::Inputs,
        Self::Address,
        Self::View,
        Self::Data,
        Self::Bytes,
        Self::Pid,
        Self::Created,
        Self::CpusAllowed,
        Self::ChildPid,
        Self::ChildTid,
        Self::PrevPid,
        Self::PrevState,
        Self::PrevComm,
        Self::NextPid,
        Self::NextTid,
        Self::NextComm,
        Self::TargetCpu,
        Self::Device,
        Self::Inode,
        Self::Offset,
        Self::Index,
        Self::GraphNodes,
        Self::Previous,
        Self::Encoded,
        Self::Queue,
        Self::Fence,
        Self::After,
        Self::Status,
        Self::Direction,
        Self::Timestamps,
        Self::Period,
        Self::DeviceType,
        Self::ReclaimKind,
        Self::Driver,
        Self::Queued,
        Self::JobSince,
        Self::Captured,
        Self::MadeFrom,
        Self::Destroyed,
        Self::Source,
        Self::GraphLast,
        Self::GraphMembers,
        Self::GraphOthers,
        Self::Reads,
        Self::Writes,
        Self::Constant,
    ];

    /// The meaning of a field of this name; `None` if the name is not reserved.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|meaning| meaning.name() == name)
    }

    /// The reserved name, as in traces and probesets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Backend => "backend",
            Self::Lane => "lane",
            Self::Node => "node",
            Self::Covers => "covers",
            Self::Waiting => "waiting",
            Self::Ids => "ids",
            Self::PerToken => "per_token",
            Self::Sequence => "sequence",
            Self::SequenceCount => "sequence_count",
            Self::Position => "position",
            Self::Sequences => "sequences",
            Self::Positions => "positions",
            Self::Outputs => "outputs",
            Self::Request => "request",
            Self::Instance => "instance",
            Self::Op => "op",
            Self::Name => "name",
            Self::Dtype => "dtype",
            Self::Shape => "shape",
            Self::Parameters => "parameters",
            Self::Inputs => "inputs",
            Self::Address => "address",
            Self::View => "view",
            Self::Data => "data",
            Self::Bytes => "bytes",
            Self::Pid => "pid",
            Self::Created => "created",
            Self::CpusAllowed => "cpus_allowed",
            Self::ChildPid => "child_pid",
            Self::ChildTid => "child_tid",
            Self::PrevPid => "prev_pid",
            Self::PrevState => "prev_state",
            Self::PrevComm => "prev_comm",
            Self::NextPid => "next_pid",
            Self::NextTid => "next_tid",
            Self::NextComm => "next_comm",
            Self::TargetCpu => "target_cpu",
            Self::Device => "device",
            Self::Inode => "inode",
            Self::Offset => "offset",
            Self::Index => "graph_index",
            Self::GraphNodes => "graph_nodes",
            Self::Previous => "previous",
            Self::Encoded => "encoded",
            Self::Queue => "queue",
            Self::Fence => "fence",
            Self::After => "after_fence",
            Self::Status => "status",
            Self::Direction => "direction",
            Self::Timestamps => "timestamps",
            Self::Period => "period",
            Self::DeviceType => "device_type",
            Self::ReclaimKind => "reclaim_kind",
            Self::Driver => "driver",
            Self::Queued => "queued",
            Self::JobSince => "job_since",
            Self::Captured => "captured",
            Self::MadeFrom => "made_from",
            Self::Destroyed => "destroyed",
            Self::Source => "source",
            Self::GraphLast => "graph_last",
            Self::GraphMembers => "graph_members",
            Self::GraphOthers => "graph_others",
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Constant => "constant",
        }
    }

    /// The field describes an operator; see also the probeset's `layer`.
    pub fn is_description(self) -> bool {
        matches!(self, Self::Op | Self::Name | Self::Dtype | Self::Shape | Self::Parameters | Self::Inputs)
    }

    /// The field places an event among others.
    pub fn is_placement(self) -> bool {
        matches!(
            self,
            Self::Lane
                | Self::Node
                | Self::Covers
                | Self::Waiting
                | Self::Tokens
                | Self::Backend
                | Self::Ids
                | Self::Sequence
                | Self::Reads
                | Self::Writes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_meaning() {
        for (index, meaning) in FieldMeaning::ALL.into_iter().enumerate() {
            assert_eq!(meaning as usize, index);
            assert_eq!(FieldMeaning::of(meaning.name()), Some(meaning));
        }
        assert_eq!(FieldMeaning::of("nodes"), None);
    }
}
