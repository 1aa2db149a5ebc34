//! A snapshot at a glance: what an operator asks before trusting it.
//!
//! Counts only; it judges nothing. Text for people by `Display`, JSON by `Serialize`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::finding::Tally;
use crate::image::{
    Image, ObjectImage, ReplicaImage, ReplicaPlace, ReplicaStatus, SegmentStatus, TaskKind,
    TaskStatus, Uuid,
};

/// Limits of the time classes of soft pins: name and milliseconds from now.
const PIN_CLASSES: [(&str, u64); 5] = [
    ("under 1 min", 60_000),
    ("under 10 min", 600_000),
    ("under 1 h", 3_600_000),
    ("under 6 h", 21_600_000),
    ("under 24 h", 86_400_000),
];

/// Counts of one image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The instant to which leases and pins are compared, milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// All objects.
    pub objects: Tally,
    /// Objects whose read lease is not over.
    pub leased: Tally,
    /// Objects with an active soft pin.
    pub pinned: Tally,
    /// Soft pins by how long they still run, soonest class first.
    pub pins_by_rest: Vec<(String, u64)>,
    /// Soft pins whose deadline has passed.
    pub pins_expired: u64,
    /// The earliest and the latest active deadline.
    pub pin_deadlines_ms: Option<(u64, u64)>,
    /// Objects never to be evicted.
    pub hard_pinned: u64,
    /// Objects in a group.
    pub grouped: u64,
    /// Objects by tenant.
    pub tenants: BTreeMap<String, Tally>,
    /// Replicas by place and status, e.g. `memory complete`.
    pub replicas: BTreeMap<String, u64>,
    /// Segments.
    pub segments: Vec<SegmentSummary>,
    /// Clients that have segments.
    pub clients: u64,
    /// Tasks by kind and status, e.g. `copy pending`.
    pub tasks: BTreeMap<String, u64>,
    /// Discarded replicas and their bytes.
    pub discarded: Tally,
    /// The replica counter.
    pub replica_next_id: u64,
    /// What our extension says; absent in the peer's snapshots.
    pub extension: Option<ExtensionSummary>,
}

/// Counts of one segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentSummary {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: &'static str,
    /// Its client, if one is known.
    pub client: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Bytes in use.
    pub used: u64,
    /// Live allocations.
    pub allocations: u64,
}

/// Counts of our extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtensionSummary {
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Its term.
    pub applied_term: u64,
    /// The state clock, milliseconds since the Unix epoch.
    pub state_clock_ms: u64,
    /// Soft-pin requests that wait for their write.
    pub pending_pins: u64,
    /// Writes under way.
    pub writes: u64,
    /// Transfers under way.
    pub transfers: u64,
    /// Pairs of the HTTP metadata server.
    pub http_metadata: u64,
    /// Tenants with a quota.
    pub tenant_policies: u64,
}

impl Summary {
    /// The counts of an image, with leases and pins compared to `now_ms`.
    pub fn of(image: &Image, now_ms: u64) -> Self {
        let mut summary = Summary { now_ms, ..Summary::default() };
        let names = PIN_CLASSES.iter().map(|(name, _)| *name).chain(["longer"]);
        summary.pins_by_rest = names.map(|name| (name.to_string(), 0)).collect();
        for (_, object) in image.objects() {
            summary.add_object(object);
        }
        summary.add_globals(image);
        summary
    }

    fn add_object(&mut self, object: &ObjectImage) {
        self.objects.add(object.size);
        if object.lease_ms > self.now_ms {
            self.leased.add(object.size);
        }
        if let Some(deadline_ms) = object.soft_pin_ms {
            self.add_pin(deadline_ms, object.size);
        }
        self.hard_pinned += u64::from(object.hard_pinned);
        self.grouped += u64::from(!object.group.is_empty());
        match self.tenants.get_mut(&*object.name.tenant) {
            Some(tally) => tally.add(object.size),
            None => {
                let tally = Tally { objects: 1, bytes: object.size };
                self.tenants.insert(object.name.tenant.to_string(), tally);
            }
        }
        for replica in &object.replicas {
            *self.replicas.entry(replica_words(replica)).or_default() += 1;
        }
    }

    fn add_pin(&mut self, deadline_ms: u64, bytes: u64) {
        let Some(rest_ms) = deadline_ms.checked_sub(self.now_ms).filter(|rest_ms| *rest_ms > 0)
        else {
            self.pins_expired += 1;
            return;
        };
        self.pinned.add(bytes);
        let class = PIN_CLASSES.iter().take_while(|(_, limit_ms)| rest_ms >= *limit_ms).count();
        if let Some((_, count)) = self.pins_by_rest.get_mut(class) {
            *count += 1;
        }
        self.pin_deadlines_ms = Some(match self.pin_deadlines_ms {
            Some((first, last)) => (first.min(deadline_ms), last.max(deadline_ms)),
            None => (deadline_ms, deadline_ms),
        });
    }

    fn add_globals(&mut self, image: &Image) {
        let globals = &image.globals;
        let clients = &globals.segments.clients;
        let client_of = |id: Uuid| {
            let owner = clients.iter().find(|(_, ids)| ids.contains(&id));
            owner.map(|(client, _)| client.to_string())
        };
        let segments = globals.segments.segments.iter().map(|segment| SegmentSummary {
            id: segment.id.to_string(),
            name: segment.name.clone(),
            status: segment_words(segment.status),
            client: client_of(segment.id),
            size: segment.size,
            used: segment.allocator.as_ref().map_or(0, |allocator| allocator.used_bytes),
            allocations: segment
                .allocator
                .as_ref()
                .map_or(0, |allocator| allocator.offset.allocation_count),
        });
        self.segments = segments.collect();
        self.clients = clients.len() as u64;
        for task in &globals.tasks {
            *self.tasks.entry(task_words(task.kind, task.status)).or_default() += 1;
        }
        for item in &globals.discarded {
            self.discarded.objects += item.replicas.len() as u64;
            self.discarded.bytes = self.discarded.bytes.saturating_add(item.memory_bytes);
        }
        self.replica_next_id = globals.replica_next_id;
        self.extension = globals.extension.as_ref().map(|extension| ExtensionSummary {
            applied_index: extension.applied_index,
            applied_term: extension.applied_term,
            state_clock_ms: extension.state_clock_ms,
            pending_pins: extension.pending_pins.len() as u64,
            writes: extension.writes.len() as u64,
            transfers: extension.transfers.len() as u64,
            http_metadata: extension.http_metadata.len() as u64,
            tenant_policies: extension.tenant_policies.len() as u64,
        });
    }
}

fn replica_words(replica: &ReplicaImage) -> String {
    let place = match replica.place {
        ReplicaPlace::Memory { .. } => "memory",
        ReplicaPlace::Disk { .. } => "disk",
        ReplicaPlace::LocalDisk { .. } => "local_disk",
        ReplicaPlace::Dfs { .. } => "dfs",
    };
    let status = match replica.status {
        ReplicaStatus::Undefined => "undefined",
        ReplicaStatus::Initialized => "initialized",
        ReplicaStatus::Processing => "processing",
        ReplicaStatus::Complete => "complete",
        ReplicaStatus::Removed => "removed",
        ReplicaStatus::Failed => "failed",
    };
    format!("{place} {status}")
}

fn segment_words(status: SegmentStatus) -> &'static str {
    match status {
        SegmentStatus::Undefined => "undefined",
        SegmentStatus::Ok => "ok",
        SegmentStatus::Draining => "draining",
        SegmentStatus::Drained => "drained",
        SegmentStatus::GracefullyUnmounting => "gracefully_unmounting",
        SegmentStatus::Unmounting => "unmounting",
    }
}

fn task_words(kind: TaskKind, status: TaskStatus) -> String {
    let kind = match kind {
        TaskKind::Copy => "copy",
        TaskKind::Move => "move",
    };
    let status = match status {
        TaskStatus::Pending => "pending",
        TaskStatus::Processing => "processing",
        TaskStatus::Failed => "failed",
        TaskStatus::Success => "success",
    };
    format!("{kind} {status}")
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = |tally: Tally| format!("{} ({} bytes)", tally.objects, tally.bytes);
        writeln!(f, "objects        {}", tally(self.objects))?;
        writeln!(f, "  leased       {}", tally(self.leased))?;
        writeln!(f, "  soft pinned  {}, {} expired", tally(self.pinned), self.pins_expired)?;
        for (class, count) in self.pins_by_rest.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "    {class:<12} {count}")?;
        }
        writeln!(f, "  hard pinned  {}", self.hard_pinned)?;
        writeln!(f, "  grouped      {}", self.grouped)?;
        for (tenant, objects) in &self.tenants {
            writeln!(f, "  tenant {}  {}", tenant.escape_debug(), tally(*objects))?;
        }
        for (words, count) in &self.replicas {
            writeln!(f, "replicas       {words}: {count}")?;
        }
        for segment in &self.segments {
            let SegmentSummary { id, name, status, size, used, .. } = segment;
            writeln!(f, "segment        {id} {} {status}: {used} of {size}", name.escape_debug())?;
        }
        writeln!(f, "clients        {}", self.clients)?;
        for (words, count) in &self.tasks {
            writeln!(f, "tasks          {words}: {count}")?;
        }
        writeln!(f, "discarded      {}", tally(self.discarded))?;
        match &self.extension {
            Some(extension) => write!(
                f,
                "extension      entry {} of term {}, clock {}, {} pending pins, {} writes",
                extension.applied_index,
                extension.applied_term,
                extension.state_clock_ms,
                extension.pending_pins,
                extension.writes
            ),
            None => f.write_str("extension      none (written by the peer)"),
        }
    }
}
