//! strata-engine: runs a command and samples the machine while it runs; tells what a block device is and who has it.
//!
//! One static binary without Python or configuration, the same on a host, in a lab machine and in a guest.

// `terminal` writes.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod age;
mod batch;
mod blank;
mod cli;
mod content;
mod device;
mod disk;
mod duration;
mod fill;
mod gate;
mod hold;
mod keys;
mod machine;
mod procfs;
mod random;
mod sample;
mod serve;
mod supervise;
mod terminal;
mod wml;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cli::main())
}
