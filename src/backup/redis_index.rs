//! The index of snapshots in Redis, under the peer's keys (snapshot format 2.4).
//!
//! `mooncake-store/{<cluster>}/snapshot/latest` holds the newest id, `.../index` all of them, sorted by the number
//! that their digits make. A change is one script, so the two keys never disagree. Every call opens a connection of
//! its own: there is one every few minutes, and an idle one would have died by then.

use std::time::Duration;

use mooncake_ha_snapshot::store::StoreError;
use mooncake_ha_snapshot::{SnapshotId, SnapshotIndex};
use redis::{Client, Connection, ConnectionInfo, FromRedisValue, IntoConnectionInfo, RedisError};

use super::BackupError;

/// How long connecting and each answer may take.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Ids that are asked for at once.
const IDS_MAX: isize = 100_000;
const ADVICE: &str =
    "check that the Redis of snapshot_catalog_store_connstring runs and lets this program in";

/// Adds an id and makes it the latest.
const PUBLISH: &str = "redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1]) \
                       redis.call('SET', KEYS[1], ARGV[1]) return 1";

/// Takes an id out; if it was the latest, the greatest of the others is.
const REMOVE: &str = "redis.call('ZREM', KEYS[2], ARGV[1]) \
                      if redis.call('GET', KEYS[1]) == ARGV[1] then \
                      local left = redis.call('ZREVRANGE', KEYS[2], 0, 0) \
                      if left[1] then redis.call('SET', KEYS[1], left[1]) \
                      else redis.call('DEL', KEYS[1]) end end return 1";

/// An index in one Redis.
pub struct RedisIndex {
    client: Client,
    /// For people, without the password.
    place: String,
    latest: String,
    index: String,
}

impl RedisIndex {
    /// An index at `redis://[user:password@]host:port[/db]`, the same with `rediss://` for TLS, or `host:port`; what
    /// the address leaves out comes from MC_REDIS_USERNAME, MC_REDIS_PASSWORD and MC_REDIS_DB_INDEX, which `get`
    /// looks up. Nothing is sent yet.
    ///
    /// Errors: the address or a variable cannot be read.
    pub fn open(
        address: &str,
        cluster_id: &str,
        get: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, BackupError> {
        let url = match address.contains("://") {
            true => address.to_owned(),
            false => format!("redis://{address}"),
        };
        let host = url.rsplit_once('@').map_or(url.as_str(), |(_, host)| host);
        let host = host.trim_start_matches("redis://").trim_start_matches("rediss://");
        let place = format!("Redis at {host}");
        let refused = |why: &dyn std::fmt::Display| {
            BackupError(format!("{place}: {why}; write redis://[user:password@]host:port[/db]"))
        };
        let info: ConnectionInfo =
            url.as_str().into_connection_info().map_err(|error| refused(&error))?;
        let mut login = info.redis_settings().clone();
        if let (None, Some(user)) = (login.username(), get("MC_REDIS_USERNAME")) {
            login = login.set_username(user);
        }
        if let (None, Some(password)) = (login.password(), get("MC_REDIS_PASSWORD")) {
            login = login.set_password(password);
        }
        if let (0, Some(db)) = (login.db(), get("MC_REDIS_DB_INDEX")) {
            let number = db.parse().map_err(|_| refused(&format!("MC_REDIS_DB_INDEX={db:?}")))?;
            login = login.set_db(number);
        }
        // TLS needs one; a second call finds one in place, which is this or as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client =
            Client::open(info.set_redis_settings(login)).map_err(|error| refused(&error))?;
        let cluster = namespace(cluster_id, get);
        let key = |name: &str| format!("mooncake-store/{{{cluster}}}/snapshot/{name}");
        Ok(RedisIndex { client, place, latest: key("latest"), index: key("index") })
    }

    fn ask<T: FromRedisValue>(
        &self,
        ask: impl FnOnce(&mut Connection) -> Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        let asked = || {
            let mut connection = self.client.get_connection_with_timeout(WAIT_MAX)?;
            connection.set_read_timeout(Some(WAIT_MAX))?;
            connection.set_write_timeout(Some(WAIT_MAX))?;
            ask(&mut connection)
        };
        asked().map_err(|error| StoreError::Remote {
            place: self.place.clone(),
            cause: error.to_string(),
            advice: ADVICE,
        })
    }

    fn script(&self, script: &str, id: SnapshotId) -> Result<(), StoreError> {
        let (id, score) = (id.to_string(), score(id));
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(2).arg(&self.latest).arg(&self.index).arg(id).arg(score);
        self.ask(|connection| command.query::<i64>(connection)).map(|_| ())
    }
}

/// The name of a cluster in keys: without the slash at its end, and without braces, which would end Redis's own
/// brackets for keys that belong together.
fn namespace(cluster_id: &str, get: &dyn Fn(&str) -> Option<String>) -> String {
    let own = Some(cluster_id.to_owned()).filter(|id| !id.is_empty());
    let id = own.or_else(|| get("MC_STORE_CLUSTER_ID"));
    let id = id.unwrap_or_else(|| mooncake_ha_snapshot::catalog::CLUSTER_ID_DEFAULT.to_owned());
    id.strip_suffix('/').unwrap_or(&id).replace(['{', '}'], "_")
}

/// The number that the digits of an id make; Redis rounds it to a few milliseconds.
fn score(id: SnapshotId) -> String {
    id.to_string().replace('_', "")
}

impl SnapshotIndex for RedisIndex {
    fn latest(&self) -> Result<Option<SnapshotId>, StoreError> {
        let get = redis::cmd("GET").arg(&self.latest).to_owned();
        let text: Option<String> = self.ask(|connection| get.query(connection))?;
        Ok(text.and_then(|text| SnapshotId::parse(text.trim_ascii())))
    }

    fn ids(&self) -> Result<Vec<SnapshotId>, StoreError> {
        let mut range = redis::cmd("ZREVRANGE");
        range.arg(&self.index).arg(0).arg(IDS_MAX - 1);
        let ids: Vec<String> = self.ask(|connection| range.query(connection))?;
        Ok(ids.iter().filter_map(|id| SnapshotId::parse(id)).collect())
    }

    fn publish(&self, id: SnapshotId) -> Result<(), StoreError> {
        self.script(PUBLISH, id)
    }

    fn remove(&self, id: SnapshotId) -> Result<(), StoreError> {
        self.script(REMOVE, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_peers() {
        let index = RedisIndex::open("h:1", "a{b}/", &|_| None).unwrap();
        assert_eq!(index.latest, "mooncake-store/{a_b_}/snapshot/latest");
        assert_eq!(index.index, "mooncake-store/{a_b_}/snapshot/index");
        let id = SnapshotId::parse("20261129_182740_639").unwrap();
        assert_eq!(score(id), "20261129182740639");
        let named = RedisIndex::open("h:1", "", &|name| {
            (name == "MC_STORE_CLUSTER_ID").then(|| "other".into())
        });
        assert_eq!(named.unwrap().latest, "mooncake-store/{other}/snapshot/latest");
    }

    #[test]
    fn a_password_is_not_shown() {
        let index = RedisIndex::open("redis://u:secret@h:1/3", "c", &|_| None).unwrap();
        assert_eq!(index.place, "Redis at h:1/3");
        let refused = RedisIndex::open("http://u:secret@h", "c", &|_| None);
        assert!(refused.is_err_and(|error| !error.to_string().contains("secret")));
    }
}
