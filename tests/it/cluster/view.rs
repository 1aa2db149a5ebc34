//! What clients are told of who leads, from every node alike.

use mooncake_ha::model::{ClientId, Uuid};
use mooncake_ha::rpc::client::RpcClient;
use mooncake_ha::wire::calls;

use super::trio::Trio;

/// The version of the view in the answer to a ping.
async fn pinged(address: &str) -> i64 {
    let client = RpcClient::connect(address).await.unwrap();
    let id = ClientId(Uuid { first: 7, second: 7 });
    client.call::<calls::Ping>(&id).await.unwrap().unwrap().view_version_id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_at_any_node_tells_the_revision_of_discovery_and_it_grows_with_the_leader() {
    let mut trio = tokio::task::block_in_place(|| Trio::start(&[]));
    let mut before = 0;
    for _ in 0..2 {
        let (leader, told) = tokio::task::block_in_place(|| (trio.settled(), trio.view_version()));
        assert!(told > before, "view {told} after {before}");
        for at in 0..3 {
            assert_eq!(pinged(&trio.plain(at)).await, told, "node {}", at + 1);
        }
        before = told;
        tokio::task::block_in_place(|| {
            trio.kill(leader);
            trio.leader();
            trio.start_again(leader);
        });
    }
}
