//! An image to the bytes of the log and, at the same time, to the state that these bytes make.
//!
//! The node that restores needs both. Each shard is encoded, then moved into the state, so the objects are in
//! memory once, and nothing is decoded that was encoded a moment ago. Guards: the state is handed out only if all
//! of the image went into the bytes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mooncake_ha_snapshot as snapshot;
use snapshot::{Globals, Image, Limits, ObjectImage, SnapshotEncoder, SnapshotError};

use crate::state::State;
use crate::state::image::{ImageError, Loader};

/// Shards that are encoded and not yet in the state at most.
const SHARDS_AHEAD_MAX: usize = 8;

/// What the encoder hands over.
enum Step {
    Shard(u16, Vec<ObjectImage>),
    End,
}

/// Makes the bytes. Without it, or if it fails, there is no state either.
pub(super) struct ImageEncoder {
    image: Image,
    globals: Arc<Globals>,
    encoded: SyncSender<Step>,
}

/// Makes the state, on another thread than the bytes are made on.
pub(super) struct ImageLoader {
    globals: Arc<Globals>,
    encoded: Receiver<Step>,
}

/// Both ends of an image.
pub(super) fn both_ways(mut image: Image) -> (ImageEncoder, ImageLoader) {
    let globals = Arc::new(std::mem::take(&mut image.globals));
    let (sender, encoded) = sync_channel(SHARDS_AHEAD_MAX);
    let loader = ImageLoader { globals: Arc::clone(&globals), encoded };
    (ImageEncoder { image, globals, encoded: sender }, loader)
}

impl ImageEncoder {
    /// The image as a raft snapshot; blocking.
    ///
    /// Errors: it cannot be written in the format, or not so that it could be read.
    pub fn encode(self) -> Result<Vec<u8>, SnapshotError> {
        let mut encoder = SnapshotEncoder::new()?;
        for (number, objects) in self.image.shards {
            encoder.shard(number, &objects)?;
            // Whoever loads may have failed; the bytes are still wanted, to fail alike elsewhere.
            let _ = self.encoded.send(Step::Shard(number, objects));
        }
        let payloads = encoder.finish(&self.globals)?;
        payloads.require_size(&Limits::default())?;
        let mut bytes = Vec::with_capacity(payloads.container_bytes());
        snapshot::write_container(&payloads, &mut bytes)?;
        let _ = self.encoded.send(Step::End);
        Ok(bytes)
    }
}

impl ImageLoader {
    /// The state; blocking.
    ///
    /// Errors: the parts of the image do not agree, or it was not encoded.
    pub fn load(self) -> Result<State, ImageError> {
        let mut loader = Loader::new(&self.globals)?;
        loop {
            match self.encoded.recv() {
                Ok(Step::Shard(number, objects)) => loader.shard(number, objects)?,
                Ok(Step::End) => return loader.finish(&self.globals),
                Err(_) => {
                    let why = "its bytes could not be made";
                    return Err(ImageError::Inconsistent(why.into()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use snapshot::{ObjectName, ReplicaImage, ReplicaPlace, ReplicaStatus, Uuid};

    use super::*;
    use crate::model::Millis;
    use crate::state::image::prepare;

    fn object(key: &[u8]) -> ObjectImage {
        let place = ReplicaPlace::Disk { path: "file".into(), size: 1 };
        ObjectImage {
            name: ObjectName { tenant: Arc::from("default"), key: key.into() },
            writer: Uuid::default(),
            put_start_ms: 0,
            size: 1,
            lease_ms: 0,
            soft_pin_ms: None,
            data_type: 0,
            replicas: vec![ReplicaImage { id: 1, status: ReplicaStatus::Complete, place }],
            hard_pinned: false,
            group: Box::default(),
            checksum: None,
        }
    }

    fn ends(keys: &[&[u8]]) -> (Result<Vec<u8>, SnapshotError>, Result<State, ImageError>) {
        let mut image = Image::default();
        image.shards.insert(0, keys.iter().map(|key| object(key)).collect());
        let image = prepare(image, Millis(1)).unwrap().image;
        let (encoder, loader) = both_ways(image);
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| loader.load());
            (encoder.encode(), loading.join().unwrap())
        })
    }

    #[test]
    fn the_state_is_the_one_that_the_bytes_make() {
        let (bytes, state) = ends(&[b"a", b"b"]);
        let loaded = State::load(&mut bytes.unwrap().as_slice()).unwrap();
        let saved = |state: State| {
            let mut bytes = Vec::new();
            state.freeze().save(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(saved(state.unwrap()), saved(loaded));
    }

    #[test]
    fn an_image_that_cannot_be_encoded_makes_no_state() {
        let (bytes, state) = ends(&[b"b", b"a"]);
        assert!(bytes.is_err());
        assert!(state.is_err());
    }
}
