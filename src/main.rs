//! The program: hands the command line to `cli` and turns its answer into an exit code.

use std::process::ExitCode;

#[cfg(not(feature = "heap-profile"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(feature = "heap-profile")]
#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() -> ExitCode {
    // Writes its file when it is dropped, at the end of an orderly stop.
    #[cfg(feature = "heap-profile")]
    let _profile = dhat::Profiler::new_heap();
    mooncake_ha::cli::main(std::env::args_os())
}
