//! Objects and replicas, bytes to values and back (snapshot format 4.2, 4.3, 5).
//!
//! Reads the layouts v1 to v5 and writes the layout of the current release (v4, or v5 if the object
//! has a checksum). Judges a record by itself only; whether its segment and allocation exist is
//! `settle`'s work.

use std::sync::Arc;

use super::ids::IdTexts;
use super::msgpack::{Fault, Kind, Read, Reader, Writer};
use crate::image::{
    DiscardedImage, HandleImage, ObjectImage, ObjectName, ReplicaImage, ReplicaPlace,
    ReplicaStatus, Uuid,
};
use crate::placement::DEFAULT_TENANT;

/// The greatest instant that the peer can represent, in milliseconds since the Unix epoch: it
/// counts nanoseconds in a signed 64-bit number.
pub const INSTANT_MS_MAX: u64 = 9_223_372_036_854;

/// Fields before the replicas in every layout.
const HEAD_FIELDS: u32 = 7;
/// Optional fields of the longest layout.
const OPTIONAL_FIELDS_MAX: u32 = 4;
/// Replicas for which room is made before they are read; nearly every object has fewer.
const REPLICAS_RESERVED_MAX: u32 = 3;

const TYPE_MEMORY: u64 = 0;
const TYPE_DISK: u64 = 1;
const TYPE_LOCAL_DISK: u64 = 2;
const TYPE_NOF: u64 = 3;
const TYPE_DFS: u64 = 100;

/// Hands out tenant names without a new string for each object.
pub(crate) struct TenantNames {
    last: Arc<str>,
}

impl Default for TenantNames {
    fn default() -> Self {
        TenantNames { last: Arc::from(DEFAULT_TENANT) }
    }
}

impl TenantNames {
    /// The tenant with this name; the empty name is the default tenant.
    pub fn get(&mut self, name: &str) -> Arc<str> {
        let name = if name.is_empty() { DEFAULT_TENANT } else { name };
        if *self.last != *name {
            self.last = Arc::from(name);
        }
        Arc::clone(&self.last)
    }
}

/// The name at the start of a shard's item: `[tenant, key, object]` or, older, `[key, object]`.
pub(crate) fn read_name(reader: &mut Reader<'_>, tenants: &mut TenantNames) -> Read<ObjectName> {
    let tenant = match reader.array()? {
        2 => tenants.get(DEFAULT_TENANT),
        3 => tenants.get(reader.text("the tenant")?),
        other => {
            return Err(Fault::rule(format!("an item of {other} fields, expected 2 or 3")));
        }
    };
    Ok(ObjectName { tenant, key: Box::from(reader.str_bytes()?) })
}

/// The object after its name. Version is told by length and types, in the order of the format.
pub(crate) fn read_object(
    reader: &mut Reader<'_>,
    name: ObjectName,
    ids: &mut IdTexts,
) -> Read<ObjectImage> {
    let fields = reader.array()?;
    let mut object = ObjectImage {
        name,
        writer: read_known_uuid(reader, "the writer's id", ids)?,
        put_start_ms: read_instant(reader, "the put start time")?,
        size: reader.uint()?,
        lease_ms: read_instant(reader, "the read lease")?,
        soft_pin_ms: None,
        data_type: 0,
        replicas: Vec::new(),
        hard_pinned: false,
        group: Box::default(),
        checksum: None,
    };
    let is_pinned = reader.boolean()?;
    let deadline_ms = reader.uint()?.min(INSTANT_MS_MAX);
    object.soft_pin_ms = is_pinned.then_some(deadline_ms);
    let replica_count = reader.uint32("the replica count")?;
    let rest = fields.checked_sub(HEAD_FIELDS).and_then(|rest| rest.checked_sub(replica_count));
    let mut optional = match rest {
        Some(optional) if optional <= OPTIONAL_FIELDS_MAX => optional,
        _ => {
            let what = format!("an object of {fields} fields with {replica_count} replicas");
            return Err(Fault::rule(what));
        }
    };
    if optional > 0 && reader.peek()? == Kind::Uint {
        let number = reader.uint()?;
        object.data_type = u8::try_from(number).map_err(|_| Fault::OutOfRange("the data type"))?;
        optional -= 1;
    }
    object.replicas.reserve_exact(replica_count.min(REPLICAS_RESERVED_MAX) as usize);
    for _ in 0..replica_count {
        object.replicas.push(read_replica(reader, ids)?);
    }
    optional = read_tail(reader, &mut object, optional)?;
    if optional == 0 {
        Ok(object)
    } else {
        Err(Fault::rule(format!("{optional} fields too many at the end of an object")))
    }
}

/// The optional fields after the replicas; returns how many are left unread.
fn read_tail(reader: &mut Reader<'_>, object: &mut ObjectImage, mut left: u32) -> Read<u32> {
    if left > 0 && reader.peek()? == Kind::Bool {
        object.hard_pinned = reader.boolean()?;
        left -= 1;
    }
    if left > 0 && reader.peek()? == Kind::Str {
        object.group = Box::from(reader.str_bytes()?);
        left -= 1;
    }
    if left > 0 && reader.peek()? == Kind::Uint {
        object.checksum = Some(reader.uint()?);
        left -= 1;
    }
    Ok(left)
}

/// A replica.
pub(crate) fn read_replica(reader: &mut Reader<'_>, ids: &mut IdTexts) -> Read<ReplicaImage> {
    reader.array_of(4, "a replica")?;
    let id = reader.uint()?;
    let status = reader.int()?;
    let status = ReplicaStatus::from_number(status)
        .ok_or_else(|| Fault::rule(format!("replica {id} has the unknown status {status}")))?;
    let place = match reader.uint()? {
        TYPE_MEMORY => read_memory(reader, ids)?,
        TYPE_DISK => {
            reader.array_of(2, "a disk replica")?;
            ReplicaPlace::Disk { path: read_string(reader, "the path")?, size: reader.uint()? }
        }
        TYPE_LOCAL_DISK => {
            reader.array_of(3, "a local-disk replica")?;
            ReplicaPlace::LocalDisk {
                client: read_known_uuid(reader, "the client's id", ids)?,
                size: reader.uint()?,
                endpoint: read_string(reader, "the endpoint")?,
            }
        }
        TYPE_DFS => {
            reader.array_of(5, "a file-system replica")?;
            ReplicaPlace::Dfs {
                path: read_string(reader, "the path")?,
                offset: reader.uint()?,
                size: reader.uint()?,
                aligned_size: reader.uint()?,
                shard: i32::try_from(reader.int()?)
                    .map_err(|_| Fault::OutOfRange("the file's shard"))?,
            }
        }
        TYPE_NOF => return Err(Fault::rule("an NVMe-oF replica, which the format cannot hold")),
        other => return Err(Fault::rule(format!("replica {id} has the unknown type {other}"))),
    };
    Ok(ReplicaImage { id, status, place })
}

fn read_memory(reader: &mut Reader<'_>, ids: &mut IdTexts) -> Read<ReplicaPlace> {
    reader.array_of(5, "a memory replica")?;
    let size = reader.uint()?;
    let address = reader.uint()?;
    let segment = read_known_uuid(reader, "the segment's id", ids)?;
    let handle = if reader.boolean()? {
        reader.array_of(3, "an allocation")?;
        let (address, size) = (reader.uint()?, reader.uint()?);
        reader.array_of(2, "an allocation's place")?;
        let offset = reader.uint32("the allocation's offset")?;
        let node = reader.uint32("the allocation's node")?;
        Some(HandleImage { address, size, offset, node })
    } else {
        reader.skip()?;
        None
    };
    Ok(ReplicaPlace::Memory { size, address, segment, handle })
}

/// An item of the list of discarded replicas.
pub(crate) fn read_discarded(reader: &mut Reader<'_>, ids: &mut IdTexts) -> Read<DiscardedImage> {
    let fields = reader.array()?;
    let mut item = DiscardedImage {
        release_at_ms: read_instant(reader, "the release time")?,
        memory_bytes: reader.uint()?,
        replicas: Vec::new(),
    };
    let count = reader.uint32("the replica count")?;
    if fields.checked_sub(3) != Some(count) {
        let what = format!("a discarded item of {fields} fields with {count} replicas");
        return Err(Fault::rule(what));
    }
    for _ in 0..count {
        item.replicas.push(read_replica(reader, ids)?);
    }
    Ok(item)
}

/// An id in its text form.
pub(crate) fn read_uuid(reader: &mut Reader<'_>, what: &'static str) -> Read<Uuid> {
    let text = reader.str_bytes()?;
    Uuid::parse_bytes(text).ok_or_else(|| no_id(text, what))
}

/// As [`read_uuid`], for ids that come again and again.
fn read_known_uuid(reader: &mut Reader<'_>, what: &'static str, ids: &mut IdTexts) -> Read<Uuid> {
    let text = reader.str_bytes()?;
    ids.read(text).ok_or_else(|| no_id(text, what))
}

fn no_id(text: &[u8], what: &'static str) -> Fault {
    let shown: String =
        text.iter().take(64).flat_map(|b| b.escape_ascii()).map(char::from).collect();
    Fault::rule(format!("{what} is not an id: {shown:?}"))
}

/// A string.
pub(crate) fn read_string(reader: &mut Reader<'_>, what: &'static str) -> Read<String> {
    reader.text(what).map(str::to_string)
}

fn read_instant(reader: &mut Reader<'_>, what: &'static str) -> Read<u64> {
    let instant_ms = reader.uint()?;
    if instant_ms <= INSTANT_MS_MAX { Ok(instant_ms) } else { Err(Fault::OutOfRange(what)) }
}

/// Writes objects.
#[derive(Default)]
pub(crate) struct ObjectWriter {
    ids: IdTexts,
}

impl ObjectWriter {
    /// A shard's item.
    pub fn item(&mut self, writer: &mut Writer, object: &ObjectImage) {
        writer.array(3);
        writer.str(object.name.tenant.as_bytes());
        writer.str(&object.name.key);
        writer.array(10 + object.replicas.len() + usize::from(object.checksum.is_some()));
        self.ids.write(writer, object.writer);
        writer.uint(object.put_start_ms);
        writer.uint(object.size);
        writer.uint(object.lease_ms);
        writer.boolean(object.soft_pin_ms.is_some());
        writer.uint(object.soft_pin_ms.unwrap_or(0));
        writer.uint(object.replicas.len() as u64);
        writer.uint(u64::from(object.data_type));
        for replica in &object.replicas {
            self.replica(writer, replica);
        }
        writer.boolean(object.hard_pinned);
        writer.str(&object.group);
        if let Some(checksum) = object.checksum {
            writer.uint(checksum);
        }
    }

    /// An item of the list of discarded replicas.
    pub fn discarded(&mut self, writer: &mut Writer, item: &DiscardedImage) {
        writer.array(3 + item.replicas.len());
        writer.uint(item.release_at_ms);
        writer.uint(item.memory_bytes);
        writer.uint(item.replicas.len() as u64);
        for replica in &item.replicas {
            self.replica(writer, replica);
        }
    }

    fn replica(&mut self, writer: &mut Writer, replica: &ReplicaImage) {
        let head = |writer: &mut Writer, kind: u64, fields: usize| {
            writer.array(4);
            writer.uint(replica.id);
            writer.uint(replica.status.number());
            writer.uint(kind);
            writer.array(fields);
        };
        match &replica.place {
            ReplicaPlace::Memory { size, address, segment, handle } => {
                head(writer, TYPE_MEMORY, 5);
                writer.uint(*size);
                writer.uint(*address);
                self.ids.write(writer, *segment);
                write_handle(writer, handle.as_ref());
            }
            ReplicaPlace::Disk { path, size } => {
                head(writer, TYPE_DISK, 2);
                writer.str(path.as_bytes());
                writer.uint(*size);
            }
            ReplicaPlace::LocalDisk { client, size, endpoint } => {
                head(writer, TYPE_LOCAL_DISK, 3);
                self.ids.write(writer, *client);
                writer.uint(*size);
                writer.str(endpoint.as_bytes());
            }
            ReplicaPlace::Dfs { path, offset, size, aligned_size, shard } => {
                head(writer, TYPE_DFS, 5);
                writer.str(path.as_bytes());
                writer.uint(*offset);
                writer.uint(*size);
                writer.uint(*aligned_size);
                writer.int(i64::from(*shard));
            }
        }
    }
}

fn write_handle(writer: &mut Writer, handle: Option<&HandleImage>) {
    writer.boolean(handle.is_some());
    let Some(handle) = handle else { return writer.nil() };
    writer.array(3);
    writer.uint(handle.address);
    writer.uint(handle.size);
    writer.array(2);
    writer.uint(u64::from(handle.offset));
    writer.uint(u64::from(handle.node));
}
