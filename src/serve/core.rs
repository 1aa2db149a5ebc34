//! The threads on which a node replicates and applies, apart from those that serve calls.
//!
//! Guards that a read waits for no entry: an entry holds its thread until it is applied, and a runtime that
//! had both would let a call wait behind it. Memory of objects is also given back by threads that took it.

use tokio::runtime::{Builder, Runtime};

/// Threads, if there are more cores than two; one goes on with the log while another applies.
const THREADS: usize = 2;

/// The threads. They end with this value, together with what still runs on them.
pub(super) struct Core(Option<Runtime>);

impl Core {
    /// Starts them; `cores` are those of the machine.
    ///
    /// Errors: no thread can be started.
    pub fn start(cores: usize) -> std::io::Result<Self> {
        let threads = if cores > THREADS { THREADS } else { 1 };
        let runtime = super::memory::tended(&mut Builder::new_multi_thread())
            .worker_threads(threads)
            .thread_name("mooncake-raft")
            .enable_all()
            .build()?;
        Ok(Core(Some(runtime)))
    }

    /// Runs a future on them; whatever it spawns stays there.
    ///
    /// Errors: as a sentence; it panicked, or the threads have ended.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let runtime = self.0.as_ref().ok_or("its threads have ended")?;
        runtime.spawn(work).await.map_err(|error| error.to_string())
    }
}

impl Drop for Core {
    /// Without waiting, which a task may not do.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
