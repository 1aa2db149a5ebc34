//! Allocator states inside the file `segments` (snapshot format 7.3, 7.4).
//!
//! Reads shapes and sizes only; whether a node table makes sense is judged by `table::check`. The
//! table's length is compared with a limit before the packed table is opened.

use super::compress::{FrameFault, Opener, Packer};
use super::msgpack::{Fault, Read, Reader, Writer};
use super::object::read_string;
use crate::image::{
    BIN_COUNT, BufferAllocatorImage, LEAF_BITMAP_COUNT, NODE_NONE, NodeImage, NodeTableImage,
    OffsetAllocatorImage,
};

/// Bytes of a node: the flag and six links or sizes.
const NODE_BYTES: usize = 25;
/// Bytes of an entry of the free stack.
const STACK_ENTRY_BYTES: usize = 4;
/// The peer's own greatest node table, and so the default limit of a reader.
pub const NODE_ENTRIES_MAX: u32 = 1 << 26;

/// Reads the allocator of a segment.
pub(crate) fn read_buffer_allocator(
    reader: &mut Reader<'_>,
    opener: &mut Opener,
    node_entries_max: u32,
) -> Read<BufferAllocatorImage> {
    reader.array_of(6, "a segment's allocator")?;
    let segment_name = read_string(reader, "the segment's name")?;
    let (base, total_bytes, used_bytes) = (reader.uint()?, reader.uint()?, reader.uint()?);
    let endpoint = read_string(reader, "the endpoint")?;
    reader.array_of(6, "an offset allocator")?;
    let offset = OffsetAllocatorImage {
        base: reader.uint()?,
        multiplier_bits: reader.uint32("the multiplier")?,
        capacity: reader.uint()?,
        allocated_bytes: reader.uint()?,
        allocation_count: reader.uint()?,
        table: read_table(reader, opener, node_entries_max)?,
    };
    Ok(BufferAllocatorImage { segment_name, base, total_bytes, used_bytes, endpoint, offset })
}

fn read_table(
    reader: &mut Reader<'_>,
    opener: &mut Opener,
    entries_max: u32,
) -> Read<NodeTableImage> {
    reader.array_of(10, "a node table")?;
    let size = reader.uint32("the table's size")?;
    let capacity = reader.uint32("the table's capacity")?;
    let max_capacity = reader.uint32("the table's greatest capacity")?;
    if capacity > entries_max {
        let what = format!("a node table of {capacity} entries, the limit is {entries_max}");
        return Err(Fault::rule(what));
    }
    let free_storage = reader.uint32("the free storage")?;
    let top_bitmap = reader.uint32("the top bitmap")?;
    reader.array_of(LEAF_BITMAP_COUNT as u32, "the leaf bitmaps")?;
    let mut leaf_bitmaps = [0; LEAF_BITMAP_COUNT];
    for bitmap in &mut leaf_bitmaps {
        *bitmap = u8::try_from(reader.uint()?).map_err(|_| Fault::OutOfRange("a leaf bitmap"))?;
    }
    reader.array_of(BIN_COUNT as u32, "the bin heads")?;
    let mut bin_heads = [NODE_NONE; BIN_COUNT];
    for head in &mut bin_heads {
        *head = reader.uint32("a bin head")?;
    }
    let nodes = open_array::<NODE_BYTES, _>(reader.bin()?, capacity, opener, unpack_node)?;
    let entry = |bytes: &[u8; STACK_ENTRY_BYTES]| u32::from_le_bytes(*bytes);
    let free_stack = open_array::<STACK_ENTRY_BYTES, _>(reader.bin()?, capacity, opener, entry)?;
    Ok(NodeTableImage {
        size,
        max_capacity,
        free_storage,
        top_bitmap,
        leaf_bitmaps,
        bin_heads,
        nodes,
        free_stack,
        free_offset: reader.uint32("the free offset")?,
    })
}

/// A packed array of `count` entries of `N` bytes.
fn open_array<const N: usize, T>(
    frame: &[u8],
    count: u32,
    opener: &mut Opener,
    unpack: impl Fn(&[u8; N]) -> T,
) -> Read<Vec<T>> {
    let expected = u64::from(count) * N as u64;
    let content = opener.open_briefly(frame, expected).map_err(|fault| match fault {
        FrameFault::Damaged(what) => Fault::Rule(what),
        FrameFault::TooLarge { bytes, limit } => {
            Fault::rule(format!("{bytes} bytes for {count} entries, the limit is {limit}"))
        }
    })?;
    if content.len() as u64 != expected {
        return Err(Fault::rule(format!("{} bytes for {count} entries", content.len())));
    }
    let (entries, _) = content.as_chunks::<N>();
    Ok(entries.iter().map(unpack).collect())
}

fn unpack_node(bytes: &[u8; NODE_BYTES]) -> NodeImage {
    let (used, rest) = (bytes[0], &bytes[1..]);
    let (words, _) = rest.as_chunks::<4>();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or(NODE_NONE);
    NodeImage {
        used: used != 0,
        offset: next(),
        size: next(),
        bin_prev: next(),
        bin_next: next(),
        neighbor_prev: next(),
        neighbor_next: next(),
    }
}

/// Writes the allocator of a segment.
pub(crate) fn write_buffer_allocator(
    writer: &mut Writer,
    image: &BufferAllocatorImage,
    packer: &mut Packer,
) -> std::io::Result<()> {
    writer.array(6);
    writer.str(image.segment_name.as_bytes());
    writer.uint(image.base);
    writer.uint(image.total_bytes);
    writer.uint(image.used_bytes);
    writer.str(image.endpoint.as_bytes());
    writer.array(6);
    writer.uint(image.offset.base);
    writer.uint(u64::from(image.offset.multiplier_bits));
    writer.uint(image.offset.capacity);
    writer.uint(image.offset.allocated_bytes);
    writer.uint(image.offset.allocation_count);
    write_table(writer, &image.offset.table, packer)
}

fn write_table(
    writer: &mut Writer,
    table: &NodeTableImage,
    packer: &mut Packer,
) -> std::io::Result<()> {
    writer.array(10);
    writer.uint(u64::from(table.size));
    writer.uint(table.nodes.len() as u64);
    writer.uint(u64::from(table.max_capacity));
    writer.uint(u64::from(table.free_storage));
    writer.uint(u64::from(table.top_bitmap));
    writer.array(LEAF_BITMAP_COUNT);
    for bitmap in &table.leaf_bitmaps {
        writer.uint(u64::from(*bitmap));
    }
    writer.array(BIN_COUNT);
    for head in &table.bin_heads {
        writer.uint(u64::from(*head));
    }
    let mut nodes = Vec::with_capacity(table.nodes.len() * NODE_BYTES);
    for node in &table.nodes {
        nodes.push(u8::from(node.used));
        for word in [
            node.offset,
            node.size,
            node.bin_prev,
            node.bin_next,
            node.neighbor_prev,
            node.neighbor_next,
        ] {
            nodes.extend_from_slice(&word.to_le_bytes());
        }
    }
    writer.bin(packer.pack_briefly(&nodes)?);
    drop(nodes);
    let stack: Vec<u8> = table.free_stack.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    writer.bin(packer.pack_briefly(&stack)?);
    writer.uint(u64::from(table.free_offset));
    Ok(())
}
