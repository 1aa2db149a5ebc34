//! Work that takes a core for seconds, on a thread that gives way to all others.
//!
//! Guards that nobody waits for a core that encodes a snapshot: the scheduler prefers every other thread to these.
//! So nothing is done on them for which anybody waits, such as holding a lock that entries need.
//! Not on one of tokio's threads, which would stay so for whoever gets them next.

use tokio::sync::oneshot;

/// How far such a thread stands back. Linux counts it by thread, and threads that it starts inherit it.
const NICENESS: i32 = 10;

/// Lets this thread stand back from now on. Refused at worst, and then it shares as before.
pub fn stand_back() {
    let _ = rustix::process::nice(NICENESS);
}

/// Runs work on a new thread of that name, which stands back.
///
/// # Errors
/// No thread could be started, or it panicked; as a sentence.
pub async fn behind<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, finished) = oneshot::channel();
    let thread = move || {
        stand_back();
        // Nobody waits any more only if the process is stopping.
        let _ = done.send(work());
    };
    let named = std::thread::Builder::new().name(name.to_owned());
    named.spawn(thread).map_err(|e| format!("no thread for it can be started: {e}"))?;
    finished.await.map_err(|_| "its thread has panicked".to_owned())
}
