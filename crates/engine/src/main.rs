//! strata-engine: runs a command and samples the machine while it runs; tells what a block device is and who has it.
//!
//! One static binary without Python or configuration, the same on a host, in a lab machine and in a guest.

mod cli;
mod device;
mod duration;
mod machine;
mod procfs;
mod sample;
mod supervise;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::main())
}
