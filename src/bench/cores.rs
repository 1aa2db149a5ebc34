//! Cores: one for the server under test, another for the load, so that neither takes time from the other.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::BenchError;

/// This thread.
const SELF: Pid = Pid::from_raw(0);

/// Who runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Number of the server's core.
    pub server: usize,
    /// Number of the load's core.
    pub load: usize,
}

impl Cores {
    /// Those asked for, else the first two that this process may use; `None` if it may use only one.
    ///
    /// Errors: a core asked for may not be used, or both are the same.
    pub fn choose(server: Option<usize>, load: Option<usize>) -> Result<Option<Self>, BenchError> {
        let allowed = allowed()?;
        for core in [server, load].into_iter().flatten() {
            if !allowed.contains(&core) {
                let why = format!("core {core} may not be used here; there are {allowed:?}");
                return Err(BenchError::Usage(why));
            }
        }
        let server = server.or_else(|| allowed.iter().copied().find(|core| Some(*core) != load));
        let load = load.or_else(|| allowed.iter().copied().find(|core| Some(*core) != server));
        match server.zip(load) {
            Some((server, load)) if server == load => {
                Err(BenchError::Usage("server and load need cores of their own".into()))
            }
            Some((server, load)) => Ok(Some(Cores { server, load })),
            None => Ok(None),
        }
    }
}

/// Cores that this thread may use.
fn allowed() -> Result<Vec<usize>, BenchError> {
    let set = sched_getaffinity(SELF).map_err(unable)?;
    Ok((0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true)).collect())
}

fn unable(error: nix::errno::Errno) -> BenchError {
    BenchError::Internal(format!("cores cannot be chosen: {error}"))
}

/// Binds this thread, and the threads and processes that it starts from now on, to one core.
///
/// Errors: the core may not be used.
pub fn bind(core: usize) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    set.set(core).map_err(unable)?;
    sched_setaffinity(SELF, &set).map_err(unable)
}

/// Runs `start` bound to `core`, so that what it starts is bound to it from its first instruction.
///
/// Errors: the core may not be used.
pub fn bound<R>(core: Option<usize>, start: impl FnOnce() -> R) -> Result<R, BenchError> {
    let Some(core) = core else { return Ok(start()) };
    let before = sched_getaffinity(SELF).map_err(unable)?;
    bind(core)?;
    let done = start();
    sched_setaffinity(SELF, &before).map_err(unable)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_bound_may_use_that_core_only_and_this_thread_all_of_its_own_again() {
        let before = allowed().unwrap();
        let core = before.last().copied();
        let started = || std::thread::spawn(|| allowed().unwrap());
        let inside = bound(core, started).unwrap().join().unwrap();
        assert_eq!(inside, Vec::from_iter(core));
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn server_and_load_never_share_a_core() {
        let all = allowed().unwrap();
        let first = all.first().copied();
        assert!(Cores::choose(first, first).is_err());
        assert!(Cores::choose(Some(usize::MAX), None).is_err());
        match Cores::choose(None, first).unwrap() {
            Some(cores) => assert!(cores.server != cores.load && Some(cores.load) == first),
            None => assert_eq!(all.len(), 1),
        }
    }
}
