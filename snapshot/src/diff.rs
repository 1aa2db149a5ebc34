//! What differs between two images, name by name.
//!
//! For people who compare two snapshots, and for drills that compare two nodes. The list is
//! bounded, the counts are not.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::image::{Image, ObjectImage, ObjectName, SegmentImage, TaskImage, Uuid};

/// How many differences a list keeps in words.
pub const DIFFERENCES_MAX: usize = 1000;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs: `object`, `segment`, `task` or the name of a field outside of them.
    pub kind: &'static str,
    /// Its name or id.
    pub name: String,
    /// How it differs.
    pub change: Change,
}

/// How a thing differs between a first and a second image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only in the second.
    Added,
    /// Only in the first.
    Removed,
    /// In both, with these fields different.
    Changed(Vec<&'static str>),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            Change::Added => write!(f, "+ {} {}", self.kind, self.name),
            Change::Removed => write!(f, "- {} {}", self.kind, self.name),
            Change::Changed(fields) => {
                write!(f, "~ {} {}: {}", self.kind, self.name, fields.join(", "))
            }
        }
    }
}

/// All differences of two images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// The first [`DIFFERENCES_MAX`] of them.
    pub list: Vec<Difference>,
    /// How many there are.
    pub total: u64,
}

impl Differences {
    /// Compares two images. Read leases and the extension's position in the log are compared, too.
    pub fn between(first: &Image, second: &Image) -> Self {
        let mut differences = Differences::default();
        differences.compare("object", by_name(first), by_name(second), object_fields);
        differences.compare("segment", segments(first), segments(second), segment_fields);
        differences.compare("task", tasks(first), tasks(second), task_fields);
        let fields = global_fields(first, second);
        if !fields.is_empty() {
            differences.add("image", String::new(), Change::Changed(fields));
        }
        differences
    }

    fn add(&mut self, kind: &'static str, name: String, change: Change) {
        self.total += 1;
        if self.list.len() < DIFFERENCES_MAX {
            self.list.push(Difference { kind, name, change });
        }
    }

    fn compare<K: Ord + fmt::Display, V: PartialEq>(
        &mut self,
        kind: &'static str,
        first: BTreeMap<K, &V>,
        second: BTreeMap<K, &V>,
        fields: fn(&V, &V) -> Vec<&'static str>,
    ) {
        for (name, value) in &first {
            match second.get(name) {
                None => self.add(kind, name.to_string(), Change::Removed),
                Some(other) if other != value => {
                    let change = Change::Changed(fields(value, other));
                    self.add(kind, name.to_string(), change);
                }
                Some(_) => {}
            }
        }
        for name in second.keys().filter(|name| !first.contains_key(name)) {
            self.add(kind, name.to_string(), Change::Added);
        }
    }
}

fn by_name(image: &Image) -> BTreeMap<&ObjectName, &ObjectImage> {
    image.objects().map(|(_, object)| (&object.name, object)).collect()
}

fn segments(image: &Image) -> BTreeMap<Uuid, &SegmentImage> {
    image.globals.segments.segments.iter().map(|segment| (segment.id, segment)).collect()
}

fn tasks(image: &Image) -> BTreeMap<Uuid, &TaskImage> {
    image.globals.tasks.iter().map(|task| (task.id, task)).collect()
}

/// The names of the fields that differ.
fn differing<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|(_, is_equal)| !is_equal).map(|(name, _)| name).collect()
}

fn object_fields(first: &ObjectImage, second: &ObjectImage) -> Vec<&'static str> {
    differing([
        ("writer", first.writer == second.writer),
        ("put start", first.put_start_ms == second.put_start_ms),
        ("size", first.size == second.size),
        ("read lease", first.lease_ms == second.lease_ms),
        ("soft pin", first.soft_pin_ms == second.soft_pin_ms),
        ("data type", first.data_type == second.data_type),
        ("replicas", first.replicas == second.replicas),
        ("hard pin", first.hard_pinned == second.hard_pinned),
        ("group", first.group == second.group),
        ("checksum", first.checksum == second.checksum),
    ])
}

fn segment_fields(first: &SegmentImage, second: &SegmentImage) -> Vec<&'static str> {
    differing([
        ("name", first.name == second.name),
        ("base", first.base == second.base),
        ("size", first.size == second.size),
        ("endpoint", first.endpoint == second.endpoint),
        ("status", first.status == second.status),
        ("allocator", first.allocator == second.allocator),
        ("host id", first.host_id == second.host_id),
    ])
}

fn task_fields(first: &TaskImage, second: &TaskImage) -> Vec<&'static str> {
    differing([
        ("kind", first.kind == second.kind),
        ("status", first.status == second.status),
        ("payload", first.payload == second.payload),
        ("created", first.created_ms == second.created_ms),
        ("updated", first.updated_ms == second.updated_ms),
        ("message", first.message == second.message),
        ("client", first.client == second.client),
    ])
}

fn global_fields(first: &Image, second: &Image) -> Vec<&'static str> {
    let (first, second) = (&first.globals, &second.globals);
    differing([
        ("allocation order", first.segments.allocation_names == second.segments.allocation_names),
        ("clients", first.segments.clients == second.segments.clients),
        ("local disks", first.segments.local_disks == second.segments.local_disks),
        ("discarded replicas", first.discarded == second.discarded),
        ("replica counter", first.replica_next_id == second.replica_next_id),
        ("extension", first.extension == second.extension),
    ])
}
