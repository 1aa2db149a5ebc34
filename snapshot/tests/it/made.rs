//! Images made from nothing, for tests that need every kind of value.

use std::collections::BTreeMap;

use mooncake_ha_snapshot::placement::shard_of;
use mooncake_ha_snapshot::table::{LiveNode, rebuild};
use mooncake_ha_snapshot::*;

const MIB: u64 = 1 << 20;
/// The one segment of [`Maker`].
pub const SEGMENT: Uuid = Uuid::new(33, 44);
/// Its client.
pub const CLIENT: Uuid = Uuid::new(11, 22);
const BASE: u64 = 0x7f00_0000_0000;

/// Lays objects out one after the other in one segment.
pub struct Maker {
    objects: Vec<ObjectImage>,
    live: Vec<LiveNode>,
    bytes: u64,
    next_offset: u32,
    next_id: u64,
}

impl Default for Maker {
    fn default() -> Self {
        Maker { objects: Vec::new(), live: Vec::new(), bytes: 0, next_offset: 0, next_id: 1 }
    }
}

impl Maker {
    /// A complete memory replica of this size.
    pub fn memory(&mut self, size: u64) -> ReplicaImage {
        let units = size_of_class(size_class_up(size as u32)) as u32;
        let (offset, node) = (self.next_offset, self.live.len() as u32);
        self.live.push(LiveNode { offset, size: units, node });
        self.next_offset += units;
        self.bytes += size;
        let address = BASE + u64::from(offset);
        let handle = Some(HandleImage { address, size, offset, node });
        self.replica(ReplicaPlace::Memory { size, address, segment: SEGMENT, handle })
    }

    /// A complete replica at this place.
    pub fn replica(&mut self, place: ReplicaPlace) -> ReplicaImage {
        self.next_id += 1;
        ReplicaImage { id: self.next_id - 1, status: ReplicaStatus::Complete, place }
    }

    /// Adds an object with one memory replica, a lease and maybe a pin.
    pub fn object(&mut self, tenant: &str, key: &[u8], size: u64) -> &mut ObjectImage {
        let replica = self.memory(size);
        self.objects.push(ObjectImage {
            name: ObjectName { tenant: tenant.into(), key: key.into() },
            writer: CLIENT,
            put_start_ms: 1_795_976_000_000,
            size,
            lease_ms: 1_795_976_860_000,
            soft_pin_ms: None,
            data_type: 0,
            replicas: vec![replica],
            hard_pinned: false,
            group: Box::default(),
            checksum: None,
        });
        self.objects.last_mut().unwrap()
    }

    /// The whole image.
    pub fn finish(self) -> Image {
        let mut shards: BTreeMap<u16, Vec<ObjectImage>> = BTreeMap::new();
        for object in self.objects {
            shards.entry(shard_of(&object)).or_default().push(object);
        }
        for objects in shards.values_mut() {
            objects.sort_by(|first, second| first.name.cmp(&second.name));
        }
        let size = u64::from(self.next_offset).next_multiple_of(MIB) + MIB;
        let segment = segment(size, &self.live, self.bytes);
        let segments = SegmentsImage {
            allocation_names: vec![segment.name.clone()],
            clients: vec![(CLIENT, vec![segment.id])],
            segments: vec![segment],
            local_disks: Vec::new(),
        };
        let replica_next_id = self.next_id;
        Image { shards, globals: Globals { segments, replica_next_id, ..Globals::default() } }
    }
}

fn segment(size: u64, live: &[LiveNode], bytes: u64) -> SegmentImage {
    let nodes = (2 * live.len() + 1).max(1024);
    let empty = NodeTableImage {
        size: size as u32,
        max_capacity: (MIB as u32).max(nodes as u32),
        free_storage: 0,
        top_bitmap: 0,
        leaf_bitmaps: [0; LEAF_BITMAP_COUNT],
        bin_heads: [NODE_NONE; BIN_COUNT],
        nodes: vec![NodeImage::VACANT; nodes],
        free_stack: Vec::new(),
        free_offset: 0,
    };
    let (name, endpoint) = ("127.0.0.1:23999".to_string(), "127.0.0.1:24000".to_string());
    let allocator = BufferAllocatorImage {
        segment_name: name.clone(),
        base: BASE,
        total_bytes: size,
        used_bytes: bytes,
        endpoint: endpoint.clone(),
        offset: OffsetAllocatorImage {
            base: BASE,
            multiplier_bits: multiplier_bits(size),
            capacity: size,
            allocated_bytes: bytes,
            allocation_count: live.len() as u64,
            table: rebuild(&empty, live).unwrap(),
        },
    };
    SegmentImage {
        id: SEGMENT,
        name,
        base: BASE,
        size,
        endpoint,
        status: SegmentStatus::Ok,
        allocator: Some(allocator),
        host_id: Some(String::new()),
    }
}
