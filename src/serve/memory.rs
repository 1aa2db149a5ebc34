//! Memory goes back to the operating system when a node has come to rest.
//!
//! The allocator puts what was freed aside, to be given back after a while, but does so only on the way of a later
//! call of its own: a store that was emptied and is left alone would keep everything. And what one thread took and
//! another one gave back is seen only by the first. So each worker looks after what is its own when it has nothing
//! to do, and a thread that does nothing else gives back what all of them have put aside.

use std::cell::Cell;
use std::time::Duration;

use mimalloc as _;
use tokio::runtime::Builder;
use tokio::time::Instant;

/// Between two looks of a thread at what is its own.
const LOOK_EVERY: Duration = Duration::from_millis(500);

thread_local! {
    static LOOKED_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

mod allocator {
    #![expect(unsafe_code, reason = "the only way to the allocator's own function")]

    unsafe extern "C" {
        fn mi_collect(is_forced: bool);
    }

    /// Hands back empty pages of this thread, and what all threads have put aside long enough.
    pub(super) fn collect() {
        // Safe: `void mi_collect(bool)` of the mimalloc that is linked in may be called at any time by any thread. It
        // touches the calling thread's heap, which nothing else is in the midst of using, and what is freed already.
        unsafe { mi_collect(false) }
    }
}

/// Has the workers of a runtime look after their memory when they fall idle.
pub(crate) fn tended(builder: &mut Builder) -> &mut Builder {
    builder.on_thread_park(|| {
        LOOKED_AT.with(|looked_at| {
            let now = Instant::now();
            let is_due = looked_at.get().is_none_or(|at| now.duration_since(at) >= LOOK_EVERY);
            if is_due {
                looked_at.set(Some(now));
                allocator::collect();
            }
        });
    })
}

/// Starts the thread that gives back what all threads have put aside. It ends with the process.
///
/// Errors: it cannot be started.
pub(super) fn start() -> std::io::Result<()> {
    let look = || loop {
        std::thread::sleep(LOOK_EVERY);
        allocator::collect();
    };
    std::thread::Builder::new().name("mooncake-memory".to_owned()).spawn(look).map(drop)
}
