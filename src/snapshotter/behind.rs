//! Work that takes a core for seconds, on a thread that gives way to all others.
//!
//! Guards that no call waits for a core that encodes a snapshot: the scheduler prefers every other thread to these.
//! So nothing is done on them for which anybody waits, such as holding a lock that entries need.
//! Not on tokio's blocking threads, which would stay so for whoever gets them next.

use tokio::sync::oneshot;

/// How far such a thread stands back. Linux counts it by thread, and threads that it starts inherit it.
const NICENESS: i32 = 10;

/// Lets this thread stand back from now on. Refused at worst, and then it shares as before.
pub(super) fn stand_back() {
    let _ = rustix::process::nice(NICENESS);
}

/// Runs work on a new thread that stands back.
///
/// Errors: as a sentence, those of the work, of a thread that cannot be started or has died.
pub(super) async fn behind<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    let (done, finished) = oneshot::channel();
    let thread = move || {
        stand_back();
        // Nobody waits any more only if the process is stopping.
        let _ = done.send(work());
    };
    let named = std::thread::Builder::new().name("mooncake-ha-write".into());
    named.spawn(thread).map_err(|error| format!("no thread for it can be started: {error}"))?;
    let done = finished.await.map_err(|_| "its thread has panicked".to_owned())?;
    done.map_err(|error| error.to_string())
}
