//! The file `task_manager`: copy and move tasks (snapshot format 8).
//!
//! A broken task costs that task; a broken file costs the candidate.

use super::compress::{FrameFault, Opener, Packer};
use super::msgpack::{Fault, Read, Reader, Writer};
use super::object::{read_string, read_uuid};
use crate::error::{SnapshotError, SnapshotFile};
use crate::finding::{Effect, Findings};
use crate::image::{TaskImage, TaskKind, TaskStatus};

const FILE: SnapshotFile = SnapshotFile::TaskManager;
/// Greatest size of the file after decompression; the peer's own limit.
pub const TASKS_BYTES_MAX: u64 = 1 << 30;

/// Reads the whole file.
pub(crate) fn read_tasks(
    frame: &[u8],
    opener: &mut Opener,
    findings: &mut Findings,
) -> Result<Vec<TaskImage>, SnapshotError> {
    let content = opener.open(frame, TASKS_BYTES_MAX).map_err(|fault| match fault {
        FrameFault::Damaged(what) => SnapshotError::damaged(FILE, "the file", what),
        FrameFault::TooLarge { bytes, limit } => {
            let place = "the file".to_string();
            SnapshotError::TooLarge { file: FILE, place, bytes, limit }
        }
    })?;
    let mut tasks = read_list(&content, findings)
        .map_err(|fault| SnapshotError::damaged(FILE, "the list of tasks", fault))?;
    tasks.sort_by_key(|task| task.id);
    tasks.dedup_by(|later, earlier| {
        let is_twice = later.id == earlier.id;
        if is_twice {
            findings.item(FILE, later.id, Effect::ItemDropped, "the task appears twice");
        }
        is_twice
    });
    Ok(tasks)
}

fn read_list(content: &[u8], findings: &mut Findings) -> Read<Vec<TaskImage>> {
    let mut reader = Reader::new(content);
    let count = reader.array()?;
    let mut tasks = Vec::new();
    for position in 0..count {
        let start = reader;
        match read_task(&mut reader) {
            Ok(task) => tasks.push(task),
            Err(fault) => {
                reader = start;
                reader.skip()?;
                let item = format!("task {position}");
                findings.item(FILE, item, Effect::ItemDropped, fault.to_string());
            }
        }
    }
    Ok(tasks)
}

fn read_task(reader: &mut Reader<'_>) -> Read<TaskImage> {
    reader.array_of(8, "a task")?;
    let id = read_uuid(reader, "the task's id")?;
    let kind = reader.int()?;
    let kind = TaskKind::from_number(kind)
        .ok_or_else(|| Fault::rule(format!("unknown task type {kind}")))?;
    let status = reader.int()?;
    let status = TaskStatus::from_number(status)
        .ok_or_else(|| Fault::rule(format!("unknown task status {status}")))?;
    Ok(TaskImage {
        id,
        kind,
        status,
        payload: read_string(reader, "the payload")?,
        created_ms: reader.int()?,
        updated_ms: reader.int()?,
        message: read_string(reader, "the message")?,
        client: read_uuid(reader, "the client's id")?,
    })
}

/// The whole file.
pub(crate) fn write_tasks(tasks: &[TaskImage], packer: &mut Packer) -> std::io::Result<Vec<u8>> {
    let mut writer = Writer::default();
    writer.array(tasks.len());
    for task in tasks {
        writer.array(8);
        writer.str(task.id.to_string().as_bytes());
        writer.uint(task.kind.number());
        writer.uint(task.status.number());
        writer.str(task.payload.as_bytes());
        writer.int(task.created_ms);
        writer.int(task.updated_ms);
        writer.str(task.message.as_bytes());
        writer.str(task.client.to_string().as_bytes());
    }
    packer.pack(&writer.into_bytes())
}
