//! How nodes talk.
use std::future::Future;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, RaftNetworkFactory, RaftNetworkV2};

use crate::adapter::RaftSnapshot;
use crate::snapshot_file::SnapshotFile;
use crate::types::{NodeId, TypeConfig, Vote};

/// Connections to peers.
pub(crate) struct Peers;
/// Connection to one peer.
pub(crate) struct Connection;

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Connection;
    async fn new_client(&mut self, _target: NodeId, _node: &BasicNode) -> Connection {
        Connection
    }
}

fn unreachable() -> Unreachable<TypeConfig> {
    Unreachable::new(&std::io::Error::other("a single node has no peers"))
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreachable().into())
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote,
        _snapshot: RaftSnapshot,
        _cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(unreachable().into())
    }
}
