//! RPC-level scenarios over the real wire, named by their number in the scenario list: F eviction, H copies,
//! moves and tasks, the rows of C and D that belong to them, and public reports on the peer.

mod eviction;
mod order;
mod reports;
mod tasks;
mod transfers;

use mooncake_ha::model::{ErrorCode, TaskId, Uuid};
use mooncake_ha::wire::Answer;
use mooncake_ha::wire::calls as c;
use mooncake_ha::wire::requests as r;
use mooncake_ha::wire::types::{
    CopyStartResponse, MoveStartResponse, QueryTaskResponse, TaskAssignment, TaskCompleteRequest,
    TaskStatus,
};

use crate::support::node::{Caller, place};

type Owned = Box<[u8]>;
const TENANT: &[u8] = b"default";

fn bytes<'a>(names: &[&'a str]) -> Vec<&'a [u8]> {
    names.iter().map(|name| name.as_bytes()).collect()
}

/// A refusal as a client gets it.
fn refused<T>(code: ErrorCode) -> Answer<T> {
    Err(code.into())
}

impl Caller {
    async fn copy_start(
        &self,
        key: &str,
        source: &str,
        targets: &[&str],
    ) -> Answer<CopyStartResponse<Owned>> {
        let request = r::CopyStartRequest {
            client_id: self.id,
            key: key.as_bytes(),
            tenant_id: TENANT,
            src_segment: source.as_bytes(),
            tgt_segments: bytes(targets),
        };
        self.call::<c::CopyStart>(&request).await
    }

    async fn move_start(
        &self,
        key: &str,
        source: &str,
        target: &str,
    ) -> Answer<MoveStartResponse<Owned>> {
        let request = r::MoveStartRequest {
            client_id: self.id,
            key: key.as_bytes(),
            tenant_id: TENANT,
            src_segment: source.as_bytes(),
            tgt_segment: target.as_bytes(),
        };
        self.call::<c::MoveStart>(&request).await
    }

    fn of_key<'a>(&self, key: &'a str) -> r::ClientKeyRequest<&'a [u8]> {
        r::ClientKeyRequest { client_id: self.id, key: key.as_bytes(), tenant_id: TENANT }
    }

    async fn copy_end(&self, key: &str) -> Answer<()> {
        self.call::<c::CopyEnd>(&self.of_key(key)).await
    }

    async fn copy_revoke(&self, key: &str) -> Answer<()> {
        self.call::<c::CopyRevoke>(&self.of_key(key)).await
    }

    async fn move_end(&self, key: &str) -> Answer<()> {
        self.call::<c::MoveEnd>(&self.of_key(key)).await
    }

    async fn move_revoke(&self, key: &str) -> Answer<()> {
        self.call::<c::MoveRevoke>(&self.of_key(key)).await
    }

    async fn copy_task(&self, key: &str, targets: &[&str]) -> Answer<TaskId> {
        let (key, targets) = (key.as_bytes(), bytes(targets));
        let request = r::CreateCopyTaskRequest { key, tenant_id: TENANT, targets };
        self.call::<c::CreateCopyTask>(&request).await
    }

    async fn move_task(&self, key: &str, source: &str, target: &str) -> Answer<TaskId> {
        let request = r::CreateMoveTaskRequest {
            key: key.as_bytes(),
            tenant_id: TENANT,
            source: source.as_bytes(),
            target: target.as_bytes(),
        };
        self.call::<c::CreateMoveTask>(&request).await
    }

    async fn fetch(&self, batch_size: u64) -> Vec<TaskAssignment<Owned>> {
        let request = r::FetchTasksRequest { client_id: self.id, batch_size };
        self.call::<c::FetchTasks>(&request).await.unwrap()
    }

    async fn complete(&self, id: TaskId, status: TaskStatus, message: &str) -> Answer<()> {
        let request = TaskCompleteRequest { id, status, message: message.as_bytes() };
        let request = r::MarkTaskToCompleteRequest { client_id: self.id, request };
        self.call::<c::MarkTaskToComplete>(&request).await
    }

    async fn query(&self, id: TaskId) -> Answer<QueryTaskResponse<Owned>> {
        self.call::<c::QueryTask>(&id).await
    }

    /// Segments that a reader is told of, in order.
    async fn places(&self, key: &str) -> Vec<String> {
        let Ok(found) = self.replicas(key).await else { return Vec::new() };
        found.replicas.iter().map(|replica| place(replica).0).collect()
    }
}

fn unknown_task() -> TaskId {
    TaskId(Uuid { first: 1, second: 2 })
}
