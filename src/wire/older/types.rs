//! The structs that looked otherwise in 0.3.12.

use crate::model::ids::{ClientId, ReplicaId};
use crate::wire::pack::literal::code;
use crate::wire::pack::{
    Literal, Pack, Reader, Text, Unpack, UnpackError, Wire, Writer, wire_struct,
};
use crate::wire::types::{
    self, Descriptor, DiskDescriptor, LocalDiskDescriptor, MemoryDescriptor, NoFDescriptor,
    ObjectDataType, ReplicaStatus,
};

wire_struct! {
    /// How an object is to be written.
    pub struct ReplicateConfig<S> {
        /// Memory replicas wanted.
        replica_num: u64,
        /// NVMe-oF replicas wanted.
        nof_replica_num: u64,
        /// Start a soft pin of the master's default length; false keeps what is.
        with_soft_pin: bool,
        /// Never evict.
        with_hard_pin: bool,
        /// Segments to try first.
        preferred_segments: Vec<S>,
        /// The older, single form of it; empty = none.
        preferred_segment: S,
        /// The same for NVMe-oF replicas.
        preferred_nof_segments: Vec<S>,
        /// Prefer segments of the writer's host.
        prefer_alloc_in_same_node: bool,
        /// What the object holds.
        data_type: ObjectDataType,
        /// The writer's host; empty for loopback names.
        host_id: S,
        /// A group for each key of the call.
        group_ids: Option<Vec<S>>,
    }

    /// PutStart, UpsertStart.
    pub struct PutStartRequest<S> {
        /// The caller.
        client_id: ClientId,
        /// The object.
        key: S,
        /// Bytes.
        slice_length: u64,
        /// How it is to be written.
        config: ReplicateConfig<S>,
        /// Name space of the key.
        tenant_id: S,
    }

    /// BatchPutStart, BatchUpsertStart. One length a key, or the handler refuses all.
    pub struct BatchPutStartRequest<S> {
        /// The caller.
        client_id: ClientId,
        /// The objects.
        keys: Vec<S>,
        /// Bytes of each.
        slice_lengths: Vec<u64>,
        /// How they are to be written.
        config: ReplicateConfig<S>,
        /// Name space of the keys.
        tenant_id: S,
    }

    /// Where an object is, and for how long that holds.
    pub struct GetReplicaListResponse<S> {
        /// Its readable replicas.
        replicas: Vec<ReplicaDescriptor<S>>,
        /// Remaining validity of the read lease in milliseconds.
        lease_ttl_ms: u64,
    }

    /// From where to where to copy.
    pub struct CopyStartResponse<S> {
        /// The replica to read.
        source: ReplicaDescriptor<S>,
        /// The replicas to write; empty if every target has one already.
        targets: Vec<ReplicaDescriptor<S>>,
    }

    /// From where to where to move.
    pub struct MoveStartResponse<S> {
        /// The replica to read.
        source: ReplicaDescriptor<S>,
        /// The replica to write; absent if the target has one already.
        target: Option<ReplicaDescriptor<S>>,
    }

    /// Where a promoted object goes.
    pub struct PromotionAllocStartResponse<S> {
        /// The replica to write.
        memory_descriptor: ReplicaDescriptor<S>,
    }
}

/// A replica that is not in a distributed file system; this master has no such replica.
///
/// Its bytes are those of today's form, its literal has one alternative less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaDescriptor<S>(pub types::ReplicaDescriptor<S>);

/// Index of the alternative that 0.3.12 does not know.
const DISTRIBUTED_FS: u8 = 4;

impl<S: Text> Wire for ReplicaDescriptor<S> {
    const LITERAL: &'static Literal = &Literal::of(code::STRUCT)
        .then(<ReplicaId as Wire>::LITERAL)
        .push(code::VARIANT)
        .then(<MemoryDescriptor<S> as Wire>::LITERAL)
        .then(<NoFDescriptor<S> as Wire>::LITERAL)
        .then(<DiskDescriptor<S> as Wire>::LITERAL)
        .then(<LocalDiskDescriptor<S> as Wire>::LITERAL)
        .push(code::END)
        .then(<ReplicaStatus as Wire>::LITERAL)
        .push(code::END);
    const LEN_MIN: usize = <types::ReplicaDescriptor<S> as Wire>::LEN_MIN;
}

impl<S: Text> Pack for ReplicaDescriptor<S> {
    fn pack(&self, out: &mut Writer<'_>) {
        self.0.pack(out);
    }

    #[cfg(test)]
    fn to_json(&self) -> serde_json::Value {
        self.0.to_json()
    }
}

impl<'a, S: Text + Unpack<'a>> Unpack<'a> for ReplicaDescriptor<S> {
    fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
        let replica = types::ReplicaDescriptor::unpack(reader)?;
        match replica.descriptor {
            Descriptor::DistributedFS(_) => Err(UnpackError::Variant(DISTRIBUTED_FS)),
            _ => Ok(ReplicaDescriptor(replica)),
        }
    }

    #[cfg(test)]
    fn sample(dice: &mut crate::wire::pack::Dice) -> Self {
        loop {
            let replica = types::ReplicaDescriptor::sample(dice);
            if !matches!(replica.descriptor, Descriptor::DistributedFS(_)) {
                return ReplicaDescriptor(replica);
            }
        }
    }
}
