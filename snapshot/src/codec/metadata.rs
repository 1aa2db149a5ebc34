//! The file `metadata`: shards of objects, discarded replicas, the replica counter (snapshot format
//! 4).
//!
//! Works shard by shard in both directions, so that the objects never exist twice. A record that
//! breaks the format costs that object; a file or shard that does costs the candidate.

use std::borrow::Borrow;

use super::compress::{FrameFault, Opener, Packer};
use super::ids::IdTexts;
use super::msgpack::{Fault, Read, Reader, Writer};
use super::object::{ObjectWriter, TenantNames, read_discarded, read_name, read_object};
use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{DropReason, Findings};
use crate::image::{DiscardedImage, ObjectImage, SHARD_COUNT};

const FILE: SnapshotFile = SnapshotFile::Metadata;
/// Greatest size of one shard before compression. A group's members share a shard, so this also
/// bounds a group: some five million objects.
pub const RAW_SHARD_BYTES_MAX: u64 = 1 << 30;

/// Bytes that an item is expected to take at least; only for making room in time.
const ITEM_BYTES_LIKELY: usize = 64;

/// Bytes of what comes before the items of a shard at most: a map, a short key, an array.
const SHARD_HEAD_BYTES_MAX: usize = 16;

/// Bytes beside the frames that the file is expected to take at most, discarded replicas apart.
const FILE_HEAD_BYTES: usize = 64;
/// Bytes of a shard beside its frame at most: its number and the head of the frame.
const FRAME_HEAD_BYTES_MAX: usize = 8;

/// The file's top level: shards still packed, the rest read.
pub(crate) struct MetadataFile<'a> {
    /// Shards in file order: number and frame.
    pub shards: Vec<(u16, &'a [u8])>,
    /// Discarded replicas.
    pub discarded: Vec<DiscardedImage>,
    /// The replica counter.
    pub replica_next_id: u64,
    /// Bytes after the value; the peer ignores them, so do we.
    pub trailing_bytes: usize,
}

impl<'a> MetadataFile<'a> {
    /// Reads the top level.
    pub fn open(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        let mut shards = None;
        let mut discarded = None;
        let mut replica_next_id = None;
        let mut reader = Reader::new(bytes);
        let at =
            |place: &'static str| move |fault: Fault| SnapshotError::damaged(FILE, place, fault);
        for _ in 0..reader.map().map_err(at("top level"))? {
            match reader.str_bytes().map_err(at("top level"))? {
                b"shards" => shards = Some(index_shards(&mut reader).map_err(at("shards"))?),
                b"discarded_replicas" => {
                    let items = read_discarded_list(&mut reader);
                    discarded = Some(items.map_err(at("discarded_replicas"))?);
                }
                b"replica_next_id" => {
                    replica_next_id = Some(reader.uint().map_err(at("replica_next_id"))?);
                }
                _ => reader.skip().map_err(at("an unknown key"))?,
            }
        }
        let missing = |key| SnapshotError::damaged(FILE, "top level", format!("{key} is missing"));
        Ok(MetadataFile {
            shards: shards.ok_or_else(|| missing("shards"))?,
            discarded: discarded.ok_or_else(|| missing("discarded_replicas"))?,
            replica_next_id: replica_next_id.ok_or_else(|| missing("replica_next_id"))?,
            trailing_bytes: reader.remaining(),
        })
    }
}

fn index_shards<'a>(reader: &mut Reader<'a>) -> Read<Vec<(u16, &'a [u8])>> {
    let count = reader.map()?;
    let mut shards = Vec::new();
    let mut is_seen = vec![false; usize::from(SHARD_COUNT)];
    for _ in 0..count {
        let number = reader.uint()?;
        let shard = u16::try_from(number).ok().filter(|&shard| shard < SHARD_COUNT);
        let shard = shard.ok_or_else(|| Fault::rule(format!("there is no shard {number}")))?;
        match is_seen.get_mut(usize::from(shard)) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(Fault::rule(format!("shard {shard} appears twice"))),
        }
        shards.push((shard, reader.bin()?));
    }
    Ok(shards)
}

fn read_discarded_list(reader: &mut Reader<'_>) -> Read<Vec<DiscardedImage>> {
    let count = reader.array()?;
    let mut items = Vec::new();
    let mut ids = IdTexts::default();
    for _ in 0..count {
        items.push(read_discarded(reader, &mut ids)?);
    }
    Ok(items)
}

/// Names that come again and again.
#[derive(Default)]
struct Names {
    tenants: TenantNames,
    ids: IdTexts,
}

/// Opens shards. One per thread; each shard is independent of the others.
pub(crate) struct ShardReader {
    opener: Opener,
    /// Greatest size of one shard after decompression.
    limit: u64,
    names: Names,
}

impl ShardReader {
    /// A reader of shards of at most `limit` bytes.
    pub fn new(opener: Opener, limit: u64) -> Self {
        ShardReader { opener, limit, names: Names::default() }
    }

    /// Makes readers for other threads. They are within the budget together if
    /// [`ShardReader::has_budget_for`] says so of all shards.
    pub fn twin(&self) -> impl Fn() -> Result<Self, SnapshotError> + Sync + use<> {
        let (budget, limit) = (self.opener.budget(), self.limit);
        move || {
            let opener = Opener::new(budget);
            let opener = opener.map_err(|source| SnapshotError::Io { file: FILE, source })?;
            Ok(ShardReader::new(opener, limit))
        }
    }

    /// Whether these shards together are within the budget.
    pub fn has_budget_for(&self, shards: &[(u16, &[u8])]) -> bool {
        self.opener.has_budget_for(shards.iter().map(|(_, frame)| *frame))
    }

    /// Opens one shard. Objects whose record is broken become findings and are left out.
    pub fn read(
        &mut self,
        shard: u16,
        frame: &[u8],
        findings: &mut Findings,
    ) -> Result<Vec<ObjectImage>, SnapshotError> {
        let content = self.opener.open_briefly(frame, self.limit).map_err(|fault| match fault {
            FrameFault::Damaged(what) => SnapshotError::damaged(FILE, place_of(shard), what),
            FrameFault::TooLarge { bytes, limit } => {
                SnapshotError::TooLarge { file: FILE, place: place_of(shard), bytes, limit }
            }
        })?;
        read_items(shard, content, &mut self.names, findings)
            .map_err(|fault| SnapshotError::damaged(FILE, place_of(shard), fault))
    }
}

fn place_of(shard: u16) -> String {
    format!("shard {shard}")
}

fn read_items(
    shard: u16,
    content: &[u8],
    names: &mut Names,
    findings: &mut Findings,
) -> Read<Vec<ObjectImage>> {
    let mut reader = Reader::new(content);
    let mut objects = None;
    for _ in 0..reader.map()? {
        match reader.str_bytes()? {
            b"metadata" => objects = Some(read_item_list(shard, &mut reader, names, findings)?),
            _ => reader.skip()?,
        }
    }
    objects.ok_or_else(|| Fault::rule("metadata is missing"))
}

fn read_item_list(
    shard: u16,
    reader: &mut Reader<'_>,
    names: &mut Names,
    findings: &mut Findings,
) -> Read<Vec<ObjectImage>> {
    let count = reader.array()?;
    // Bounded by what is left of the file, whatever the count says.
    let expected = (count as usize).min(reader.remaining() / ITEM_BYTES_LIKELY);
    let mut objects = Vec::with_capacity(expected);
    for position in 0..count {
        let start = *reader;
        match read_item(reader, names) {
            Ok(object) => objects.push(object),
            Err(fault) => {
                // Pass over the whole item; if even that fails, the shard cannot be read further.
                *reader = start;
                let name = read_name(&mut reader.clone(), &mut names.tenants).ok();
                reader.skip()?;
                let what = format!("item {position}: {fault}");
                findings.lost(shard, name.as_ref(), 0, DropReason::DamagedRecord, what);
            }
        }
    }
    Ok(objects)
}

fn read_item(reader: &mut Reader<'_>, names: &mut Names) -> Read<ObjectImage> {
    let name = read_name(reader, &mut names.tenants)?;
    read_object(reader, name, &mut names.ids)
}

/// One shard's objects as a packed frame.
#[derive(Debug)]
pub struct EncodedShard {
    shard: u16,
    frame: Vec<u8>,
    objects: u64,
}

impl EncodedShard {
    /// Number of objects in it.
    pub fn object_count(&self) -> u64 {
        self.objects
    }
}

/// Packs shards. One per thread; each shard is independent of the others.
pub struct ShardEncoder {
    packer: Packer,
    texts: ObjectWriter,
    /// The items of the shard under way, behind room for its head.
    items: Writer,
}

impl ShardEncoder {
    /// An encoder that compresses at this zstd level.
    ///
    /// Errors: the compression library refuses the level or has no memory.
    pub fn new(level: i32) -> Result<Self, SnapshotError> {
        let packer =
            Packer::new(level).map_err(|source| SnapshotError::Io { file: FILE, source })?;
        Ok(ShardEncoder { packer, texts: ObjectWriter::default(), items: Writer::default() })
    }

    /// Packs the objects of one shard, which must come ascending by name (snapshot format 4.1).
    ///
    /// Errors: [`SnapshotError::Unwritable`] if the shard number does not exist, the order is
    /// broken, a name comes twice or the shard is too large.
    pub fn encode<O: Borrow<ObjectImage>>(
        &mut self,
        shard: u16,
        objects: impl IntoIterator<Item = O>,
    ) -> Result<EncodedShard, SnapshotError> {
        let refuse = |what: String| SnapshotError::Unwritable { file: FILE, what };
        if shard >= SHARD_COUNT {
            return Err(refuse(format!("there is no shard {shard}")));
        }
        self.items.begin_behind(SHARD_HEAD_BYTES_MAX);
        let mut last: Option<O> = None;
        let mut count = 0_usize;
        for given in objects {
            let object = given.borrow();
            if last.as_ref().is_some_and(|last| last.borrow().name >= object.name) {
                return Err(refuse(format!("shard {shard}: {} is out of order", object.name)));
            }
            self.texts.item(&mut self.items, object);
            if self.items.len() as u64 > RAW_SHARD_BYTES_MAX {
                return Err(refuse(format!("shard {shard} exceeds {RAW_SHARD_BYTES_MAX} bytes")));
            }
            last = Some(given);
            count += 1;
        }
        let mut head = Writer::default();
        head.map(1);
        head.str(b"metadata");
        head.array(count);
        let content = self.items.behind_head(SHARD_HEAD_BYTES_MAX, &head.into_bytes());
        let frame = self.packer.pack(content);
        let frame = frame.map_err(|source| SnapshotError::Io { file: FILE, source })?;
        Ok(EncodedShard { shard, frame, objects: count as u64 })
    }
}

/// The whole file from its packed shards; shards without objects are left out, as the peer does.
pub(crate) fn write_metadata(
    mut shards: Vec<EncodedShard>,
    discarded: &[DiscardedImage],
    replica_next_id: u64,
) -> Result<Vec<u8>, SnapshotError> {
    shards.retain(|shard| shard.objects > 0);
    shards.sort_by_key(|shard| shard.shard);
    let is_twice = shards.windows(2).any(|pair| match pair {
        [first, second] => first.shard == second.shard,
        _ => false,
    });
    if is_twice {
        let what = "a shard was given twice".to_string();
        return Err(SnapshotError::Unwritable { file: FILE, what });
    }
    let frames = shards.iter().map(|shard| shard.frame.len() + FRAME_HEAD_BYTES_MAX);
    let mut writer = Writer::with_capacity(frames.sum::<usize>() + FILE_HEAD_BYTES);
    writer.map(3);
    writer.str(b"shards");
    writer.map(shards.len());
    // Each is let go of when it is written, so that they are not in memory twice.
    for shard in shards {
        writer.uint(u64::from(shard.shard));
        writer.bin(&shard.frame);
    }
    writer.str(b"discarded_replicas");
    writer.array(discarded.len());
    let mut texts = ObjectWriter::default();
    for item in discarded {
        texts.discarded(&mut writer, item);
    }
    writer.str(b"replica_next_id");
    writer.uint(replica_next_id);
    Ok(writer.into_bytes())
}
