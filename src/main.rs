//! The program: hands the command line to `cli` and turns its answer into an exit code.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    mooncake_ha::cli::main(std::env::args_os())
}
