//! Objects as clients see them: where their replicas are, how they are to be written.

use super::enums::{ObjectDataType, ReplicaStatus, SoftPinAction};
use crate::model::ids::{ClientId, ReplicaId};
use crate::wire::pack::literal::code;
use crate::wire::pack::{
    Literal, Pack, Reader, Text, Unpack, UnpackError, Wire, Writer, wire_struct,
};

wire_struct! {
    /// A range of a client's memory.
    pub struct BufferDescriptor<S> {
        /// Bytes of the object, not rounded up.
        size: u64,
        /// Absolute address in the owner's process.
        buffer_address: u64,
        /// The segment's protocol.
        protocol: S,
        /// The segment's endpoint, byte for byte; readers connect to it.
        transport_endpoint: S,
    }

    /// A replica in a memory segment.
    pub struct MemoryDescriptor<S> {
        /// Where.
        buffer_descriptor: BufferDescriptor<S>,
    }

    /// A replica on an NVMe-oF segment.
    pub struct NoFDescriptor<S> {
        /// Where.
        buffer_descriptor: BufferDescriptor<S>,
    }

    /// A replica in a file under the shared root directory.
    pub struct DiskDescriptor<S> {
        /// The file.
        file_path: S,
        /// Bytes.
        object_size: u64,
    }

    /// A replica on a client's own disk.
    pub struct LocalDiskDescriptor<S> {
        /// Whose disk.
        client_id: ClientId,
        /// Bytes.
        object_size: u64,
        /// Where that client listens.
        transport_endpoint: S,
    }

    /// A replica in a distributed file system.
    pub struct DistributedFSDescriptor<S> {
        /// The file.
        file_path: S,
        /// Where in the file.
        offset: u64,
        /// Bytes.
        object_size: u64,
        /// Bytes taken.
        aligned_size: u64,
        /// Which shard of the file.
        shard_idx: i32,
    }

    /// A replica: what a reader or a writer needs to reach it.
    pub struct ReplicaDescriptor<S> {
        /// Unique among replicas.
        id: ReplicaId,
        /// Where.
        descriptor: Descriptor<S>,
        /// How far it has come.
        status: ReplicaStatus,
    }

    /// How an object is to be written.
    pub struct ReplicateConfig<S> {
        /// Memory replicas wanted.
        replica_num: u64,
        /// NVMe-oF replicas wanted.
        nof_replica_num: u64,
        /// Distributed file system replicas wanted.
        dfs_replica_num: u64,
        /// What to do with the soft pin.
        soft_pin_action: SoftPinAction,
        /// Length of the pin; absent = the master's default.
        soft_pin_ttl_ms: Option<u64>,
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

    /// What ends a write.
    pub struct ObjectMeta<S> {
        /// The object.
        key: S,
        /// Opaque; stored and given back.
        object_checksum: Option<u64>,
    }

    /// Where an object is, and for how long that holds.
    pub struct GetReplicaListResponse<S> {
        /// Its readable replicas.
        replicas: Vec<ReplicaDescriptor<S>>,
        /// Remaining validity of the read lease in milliseconds.
        lease_ttl_ms: u64,
        /// As the writer gave it.
        object_checksum: Option<u64>,
    }
}

impl<S: Default> Default for ReplicateConfig<S> {
    /// What the peer's client sends unless told otherwise: one memory replica, no wishes.
    fn default() -> Self {
        ReplicateConfig {
            replica_num: 1,
            nof_replica_num: 0,
            dfs_replica_num: 0,
            soft_pin_action: SoftPinAction::PRESERVE,
            soft_pin_ttl_ms: None,
            with_hard_pin: false,
            preferred_segments: Vec::new(),
            preferred_segment: S::default(),
            preferred_nof_segments: Vec::new(),
            prefer_alloc_in_same_node: false,
            data_type: ObjectDataType::UNKNOWN,
            host_id: S::default(),
            group_ids: None,
        }
    }
}

macro_rules! descriptor {
    ($($(#[$doc:meta])* $name:ident = $index:literal, $type:ident;)+) => {
        /// Where a replica is: one alternative a kind.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Descriptor<S> { $($(#[$doc])* $name($type<S>),)+ }

        impl<S: Text> Wire for Descriptor<S> {
            const LITERAL: &'static Literal = &Literal::of(code::VARIANT)
                $(.then(<$type<S> as Wire>::LITERAL))+
                .push(code::END);
            /// The index; every alternative has more.
            const LEN_MIN: usize = 1;
        }

        impl<S: Text> Pack for Descriptor<S> {
            fn pack(&self, out: &mut Writer<'_>) {
                match self { $(Descriptor::$name(place) => {
                    out.byte($index);
                    place.pack(out);
                })+ }
            }

            #[cfg(test)]
            fn to_json(&self) -> serde_json::Value {
                match self { $(Descriptor::$name(place) => serde_json::json!({
                    "tag": $index, "type": stringify!($type), "value": place.to_json(),
                }),)+ }
            }
        }

        impl<'a, S: Text + Unpack<'a>> Unpack<'a> for Descriptor<S> {
            fn unpack(reader: &mut Reader<'a>) -> Result<Self, UnpackError> {
                match reader.byte()? {
                    $($index => Unpack::unpack(reader).map(Descriptor::$name),)+
                    index => Err(UnpackError::Variant(index)),
                }
            }

            #[cfg(test)]
            fn sample(dice: &mut crate::wire::pack::Dice) -> Self {
                match rand::Rng::random_range(dice, 0..5) {
                    $($index => Descriptor::$name(Unpack::sample(dice)),)+
                    _ => unreachable!(),
                }
            }
        }
    };
}

descriptor! {
    /// In a memory segment.
    Memory = 0, MemoryDescriptor;
    /// On an NVMe-oF segment.
    NoF = 1, NoFDescriptor;
    /// In a shared file.
    Disk = 2, DiskDescriptor;
    /// On a client's disk.
    LocalDisk = 3, LocalDiskDescriptor;
    /// In a distributed file system.
    DistributedFS = 4, DistributedFSDescriptor;
}
