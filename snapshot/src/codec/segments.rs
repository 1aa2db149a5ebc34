//! The file `segments`: segments, allocators, clients, local-disk state (snapshot format 7).
//!
//! Any fault here costs the candidate: objects cannot be judged without it. Reads segments of
//! eight, nine and more fields (a later release may append some; the first nine are used), refuses
//! cachelib.

use super::alloc::{read_buffer_allocator, write_buffer_allocator};
use super::compress::{FrameFault, Opener, Packer};
use super::msgpack::{Fault, Kind, Read, Reader, Writer};
use super::object::{TenantNames, read_string, read_uuid};
use crate::error::{SnapshotError, SnapshotFile};
use crate::image::{
    BufferAllocatorImage, LocalDiskImage, LocalDiskTaskImage, ObjectName, SegmentImage,
    SegmentStatus, SegmentsImage, Uuid,
};

const FILE: SnapshotFile = SnapshotFile::Segments;
/// Greatest size of the file after decompression, node tables still packed.
pub const SEGMENTS_BYTES_MAX: u64 = 1 << 30;
/// Number of the offset allocator, the only one of which a snapshot can hold the state.
const ALLOCATOR_OFFSET: i64 = 1;

/// What reading the file depends on.
pub(crate) struct SegmentsReader<'o> {
    /// Opens the file and the node tables in it.
    pub opener: &'o mut Opener,
    /// Greatest number of nodes of one table.
    pub node_entries_max: u32,
}

impl SegmentsReader<'_> {
    /// Reads the whole file.
    pub fn read(&mut self, frame: &[u8]) -> Result<SegmentsImage, SnapshotError> {
        let content = self.opener.open(frame, SEGMENTS_BYTES_MAX).map_err(|fault| match fault {
            FrameFault::Damaged(what) => SnapshotError::damaged(FILE, "the file", what),
            FrameFault::TooLarge { bytes, limit } => {
                let place = "the file".to_string();
                SnapshotError::TooLarge { file: FILE, place, bytes, limit }
            }
        })?;
        let mut reader = Reader::new(&content);
        let at = |place: &str, fault: Fault| SnapshotError::damaged(FILE, place, fault);
        let mut image = SegmentsImage::default();
        let mut has_segments = false;
        for _ in 0..reader.map().map_err(|fault| at("top level", fault))? {
            let key = reader.str_bytes().map_err(|fault| at("top level", fault))?;
            match key {
                b"ma" => {
                    let number = reader.int().map_err(|fault| at("ma", fault))?;
                    require_offset_allocator(number)?;
                }
                b"an" => {
                    image.allocation_names = read_names(&mut reader).map_err(|f| at("an", f))?
                }
                b"ms" => {
                    image.segments = self.read_segments(&mut reader)?;
                    has_segments = true;
                }
                b"cs" => image.clients = read_clients(&mut reader).map_err(|f| at("cs", f))?,
                b"ld" => image.local_disks = read_disks(&mut reader).map_err(|f| at("ld", f))?,
                _ => reader.skip().map_err(|fault| at("an unknown key", fault))?,
            }
        }
        if has_segments {
            Ok(image)
        } else {
            // The peer takes such a file for "no segments", drops every object and calls it
            // success.
            Err(SnapshotError::damaged(FILE, "top level", "ms (the segments) is missing"))
        }
    }

    fn read_segments(
        &mut self,
        reader: &mut Reader<'_>,
    ) -> Result<Vec<SegmentImage>, SnapshotError> {
        let at = |place: String, fault: Fault| SnapshotError::damaged(FILE, place, fault);
        let count = reader.map().map_err(|fault| at("ms".into(), fault))?;
        let mut segments: Vec<SegmentImage> = Vec::new();
        for _ in 0..count {
            let id = read_uuid(reader, "the segment's id").map_err(|f| at("ms".into(), f))?;
            let segment = self.read_segment(reader, id).map_err(|fault| at(place_of(id), fault))?;
            segments.push(segment);
        }
        segments.sort_by_key(|segment| segment.id);
        let twice = segments.windows(2).find_map(|pair| match pair {
            [first, second] if first.id == second.id => Some(first.id),
            _ => None,
        });
        match twice {
            Some(id) => {
                Err(SnapshotError::damaged(FILE, place_of(id), "the segment appears twice"))
            }
            None => Ok(segments),
        }
    }

    fn read_segment(&mut self, reader: &mut Reader<'_>, id: Uuid) -> Read<SegmentImage> {
        let fields = reader.array()?;
        if fields < 8 {
            return Err(Fault::rule(format!("a segment of {fields} fields, expected at least 8")));
        }
        if read_uuid(reader, "the segment's id")? != id {
            return Err(Fault::rule("the segment's id differs from its map key"));
        }
        let name = read_string(reader, "the name")?;
        let (base, size) = (reader.uint()?, reader.uint()?);
        let endpoint = read_string(reader, "the endpoint")?;
        let number = reader.int()?;
        let status = SegmentStatus::from_number(number)
            .ok_or_else(|| Fault::rule(format!("unknown segment status {number}")))?;
        let allocator = if reader.boolean()? {
            Some(read_buffer_allocator(reader, self.opener, self.node_entries_max)?)
        } else {
            reader.skip()?;
            None
        };
        let host_id = if fields > 8 { Some(read_string(reader, "the host id")?) } else { None };
        for _ in 9..fields {
            reader.skip()?;
        }
        Ok(SegmentImage { id, name, base, size, endpoint, status, allocator, host_id })
    }
}

fn place_of(id: Uuid) -> String {
    format!("segment {id}")
}

fn require_offset_allocator(number: i64) -> Result<(), SnapshotError> {
    let what = match number {
        ALLOCATOR_OFFSET => return Ok(()),
        0 => "the memory allocator is cachelib, whose state no snapshot holds".to_string(),
        other => format!("unknown memory allocator {other}"),
    };
    Err(SnapshotError::Unsupported { file: FILE, what })
}

fn read_names(reader: &mut Reader<'_>) -> Read<Vec<String>> {
    let count = reader.array()?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(read_string(reader, "a segment name")?);
    }
    Ok(names)
}

fn read_clients(reader: &mut Reader<'_>) -> Read<Vec<(Uuid, Vec<Uuid>)>> {
    let count = reader.map()?;
    let mut clients = Vec::new();
    for _ in 0..count {
        let client = read_uuid(reader, "the client's id")?;
        let mut segments = Vec::new();
        for _ in 0..reader.array()? {
            segments.push(read_uuid(reader, "the segment's id")?);
        }
        clients.push((client, segments));
    }
    clients.sort_by_key(|(client, _)| *client);
    Ok(clients)
}

fn read_disks(reader: &mut Reader<'_>) -> Read<Vec<(Uuid, LocalDiskImage)>> {
    let count = reader.map()?;
    let mut disks = Vec::new();
    for _ in 0..count {
        let client = read_uuid(reader, "the client's id")?;
        disks.push((client, read_disk(reader)?));
    }
    Ok(disks)
}

fn read_disk(reader: &mut Reader<'_>) -> Read<LocalDiskImage> {
    let fields = u64::from(reader.array()?);
    let mut disk = LocalDiskImage { offloading: reader.boolean()?, ..LocalDiskImage::default() };
    let queued = u64::from(reader.uint32("the queue length")?);
    let used = 2 + 2 * queued;
    if fields < used || fields > used + 1 {
        let what = format!("a local-disk state of {fields} fields with {queued} queued objects");
        return Err(Fault::rule(what));
    }
    let mut tenants = TenantNames::default();
    for _ in 0..queued {
        let scoped_key = reader.str_bytes()?;
        disk.queue.push(read_disk_task(reader, scoped_key, &mut tenants)?);
    }
    if fields > used {
        disk.capacity_bytes = Some(reader.int()?);
    }
    Ok(disk)
}

/// A queued object: `[tenant, key, size]`, or in the old form only a size, the rest being in the
/// map key.
fn read_disk_task(
    reader: &mut Reader<'_>,
    scoped_key: &[u8],
    tenants: &mut TenantNames,
) -> Read<LocalDiskTaskImage> {
    if reader.peek()? == Kind::Array {
        reader.array_of(3, "a queued object")?;
        let tenant = tenants.get(reader.text("the tenant")?);
        let key = Box::from(reader.str_bytes()?);
        return Ok(LocalDiskTaskImage { name: ObjectName { tenant, key }, size: reader.int()? });
    }
    let mut parts = scoped_key.splitn(2, |&byte| byte == 0);
    let (tenant, key) = match (parts.next(), parts.next()) {
        (Some(tenant), Some(key)) => {
            let tenant = std::str::from_utf8(tenant);
            (tenant.map_err(|_| Fault::rule("the tenant is not UTF-8"))?, key)
        }
        _ => ("", scoped_key),
    };
    let name = ObjectName { tenant: tenants.get(tenant), key: Box::from(key) };
    Ok(LocalDiskTaskImage { name, size: reader.int()? })
}

/// Makes the allocator of a segment whose image has none.
pub type AllocatorOf<'a> = &'a dyn Fn(Uuid) -> Option<BufferAllocatorImage>;

/// The whole file. An allocator that is made for it lives only until it is written.
pub(crate) fn write_segments(
    image: &SegmentsImage,
    packer: &mut Packer,
    allocator_of: AllocatorOf<'_>,
) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::default();
    writer.map(5);
    writer.str(b"ma");
    writer.int(ALLOCATOR_OFFSET);
    writer.str(b"an");
    writer.array(image.allocation_names.len());
    for name in &image.allocation_names {
        writer.str(name.as_bytes());
    }
    writer.str(b"ms");
    writer.map(image.segments.len());
    for segment in &image.segments {
        write_uuid(&mut writer, segment.id);
        write_segment(&mut writer, segment, packer, allocator_of)?;
    }
    writer.str(b"cs");
    writer.map(image.clients.len());
    for (client, segments) in &image.clients {
        write_uuid(&mut writer, *client);
        writer.array(segments.len());
        for segment in segments {
            write_uuid(&mut writer, *segment);
        }
    }
    writer.str(b"ld");
    writer.map(image.local_disks.len());
    for (client, disk) in &image.local_disks {
        write_uuid(&mut writer, *client);
        write_disk(&mut writer, disk);
    }
    packer.pack(&writer.into_bytes())
}

fn write_uuid(writer: &mut Writer, id: Uuid) {
    writer.str(id.to_string().as_bytes());
}

fn write_segment(
    writer: &mut Writer,
    segment: &SegmentImage,
    packer: &mut Packer,
    allocator_of: AllocatorOf<'_>,
) -> std::io::Result<()> {
    writer.array(8 + usize::from(segment.host_id.is_some()));
    write_uuid(writer, segment.id);
    writer.str(segment.name.as_bytes());
    writer.uint(segment.base);
    writer.uint(segment.size);
    writer.str(segment.endpoint.as_bytes());
    writer.uint(segment.status.number());
    let made = segment.allocator.is_none().then(|| allocator_of(segment.id)).flatten();
    let allocator = segment.allocator.as_ref().or(made.as_ref());
    writer.boolean(allocator.is_some());
    match allocator {
        Some(allocator) => write_buffer_allocator(writer, allocator, packer)?,
        None => writer.nil(),
    }
    if let Some(host_id) = &segment.host_id {
        writer.str(host_id.as_bytes());
    }
    Ok(())
}

fn write_disk(writer: &mut Writer, disk: &LocalDiskImage) {
    let capacity = usize::from(disk.capacity_bytes.is_some());
    writer.array(2 + 2 * disk.queue.len() + capacity);
    writer.boolean(disk.offloading);
    writer.uint(disk.queue.len() as u64);
    for task in &disk.queue {
        let (tenant, key) = (task.name.tenant.as_bytes(), &*task.name.key);
        writer.str(&[tenant, &[0], key].concat());
        writer.array(3);
        writer.str(tenant);
        writer.str(key);
        writer.int(task.size);
    }
    if let Some(capacity) = disk.capacity_bytes {
        writer.int(capacity);
    }
}
