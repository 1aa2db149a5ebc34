//! Files: those under the shared directory, which every write gets where one is set (behaviour 2.1), and the
//! dropping of files that are gone (behaviour 10.3).

use crate::alloc::Rng;
use crate::model::ids::key_hash;
use crate::model::replica::DiskPlace;
use crate::model::{
    ErrorCode, Object, ObjectRef, Place, Replica, ReplicaId, ReplicaKind, ReplicaStatus,
};
use crate::state::State;
use crate::state::command::Key;
use crate::state::put::KeyAt;
use crate::state::reply::Started;

use super::command::{EvictFiles, PutWithFile};

/// Characters that no file name has.
const FORBIDDEN: &[u8] = b"/\\:*?\"<>|\0";

/// The file of a key, as the peer names it: two directories by the hash, then the key. `None` for a key that
/// is not UTF-8: two of them could not be told apart.
fn path(directory: &str, key: &[u8]) -> Option<String> {
    let key_text = std::str::from_utf8(key).ok()?;
    let letter = |nibble: u64| char::from(b'a' + (nibble & 0xf) as u8);
    let hash = key_hash(key);
    let is_forbidden = |c: char| u8::try_from(c).is_ok_and(|byte| FORBIDDEN.contains(&byte));
    let name: String = key_text.chars().map(|c| if is_forbidden(c) { '_' } else { c }).collect();
    Some(format!("{directory}/{}/{}/{name}", letter(hash), letter(hash >> 4)))
}

fn is_file(replica: &Replica) -> bool {
    replica.place.kind() == ReplicaKind::Disk
}

impl State {
    pub(super) fn put_start_with_file(&mut self, put: &PutWithFile, rng: &mut Rng) -> Vec<Started> {
        let start = &put.start;
        let started = match put.is_upsert {
            true => self.upsert_start(start, rng),
            false => self.put_start(start, rng),
        };
        let tenant = start.tenant.clone().unwrap_or_default();
        let add_file = |(item, started): (&crate::state::command::StartItem, Started)| {
            let mut descriptors = started?;
            let object = self.open_for_write(KeyAt::new(&tenant, &item.key.0));
            if let Some(object) = object
                && let Some(id) = self.add_file(object, &put.directory, &item.key)
            {
                let added = self.describe_all(object).into_iter().find(|found| found.id == id);
                descriptors.extend(added);
            }
            Ok(descriptors)
        };
        start.items.iter().zip(started).map(add_file).collect()
    }

    /// Adds the file of a started write, unless it has one; it can commit the write's pin as memory can.
    fn add_file(&mut self, object: ObjectRef, directory: &str, key: &Key) -> Option<ReplicaId> {
        let has_file = |object: &Object| object.replicas.iter().any(is_file);
        if self.view.table.peek(object, has_file)? {
            return None;
        }
        let path = path(directory, &key.0)?;
        let id = self.new_replica_id();
        self.edit(object, |object| {
            let place = Place::Disk(Box::new(DiskPlace { path, size: object.size }));
            let status = ReplicaStatus::Processing;
            object.replicas.push(Replica { id, place, references: 0, status });
            if let Some(pending) = object.pending_mut() {
                pending.eligible.push(id);
            }
        });
        Some(id)
    }

    /// Drops the files that a client says are gone; one result a key. Leases do not count: the bytes are gone
    /// in any case.
    ///
    /// Errors: `ObjectNotFound`.
    pub(super) fn evict_files(&mut self, evict: &EvictFiles) -> Vec<Result<(), ErrorCode>> {
        let tenant = evict.tenant.clone().unwrap_or_default();
        let evict_one = |key: &Key| {
            let object = self.open_for_write(KeyAt::new(&tenant, &key.0));
            let object = object.ok_or(ErrorCode::ObjectNotFound)?;
            self.drop_replicas(object, |replica| match &replica.place {
                Place::Memory { .. } => false,
                Place::Disk(_) => evict.kind == ReplicaKind::Disk,
                Place::LocalDisk(disk) => {
                    evict.kind == ReplicaKind::LocalDisk && disk.client == evict.client
                }
            });
            self.erase_if_gone(object);
            Ok(())
        };
        evict.keys.iter().map(evict_one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn files_are_named_as_the_peer_names_them() {
        for (key, name) in [
            ("a", "l/g/a"),
            ("key-0", "p/l/key-0"),
            ("a/b:c*d?e", "j/e/a_b_c_d_e"),
            ("x<y>|\"z\\", "e/c/x_y___z_"),
            ("k2", "h/a/k2"),
        ] {
            assert_eq!(path("/r/cid", key.as_bytes()), Some(format!("/r/cid/{name}")));
        }
        assert_eq!(path("/r/cid", &[0xff]), None);
    }
}
