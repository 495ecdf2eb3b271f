//! The command line: parse, call, print.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::duration::parse_duration;
use crate::{device, sample};

/// What the user wrote cannot be done; nothing was started.
const BAD_INPUT: u8 = 2;

#[derive(Parser)]
#[command(name = "strata-engine", version, about = "Runs workloads and samples the machine, for Strata")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command and write what the machine did meanwhile, as JSON lines
    ///
    /// Exits with the command's exit code; 128+N when a signal N ended it, 127 when it cannot be started, 124 when it
    /// ran into --timeout. SIGTERM and SIGINT are passed on to the command as SIGTERM, once; the exit code is then 128+N.
    Sample {
        /// The file to write, made anew
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Time between two samples
        #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
        interval: Duration,
        /// End the command when it has run this long: SIGTERM, then SIGKILL 5 s later
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<Duration>,
        /// A block device to sample and the name it gets in the file; may be given several times
        #[arg(long = "device", value_name = "NAME=PATH", value_parser = parse_device)]
        devices: Vec<(String, PathBuf)>,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Tell what a block device is and who has it open, as JSON; opens it read-only and never writes
    Device {
        /// The device node, or a symbolic link to one
        path: PathBuf,
    },
}

fn parse_device(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("write it as NAME=PATH, for example top=/dev/loop0".to_owned()),
    }
}

/// Runs the program; returns its exit code.
pub fn main() -> u8 {
    let outcome = match Cli::parse().command {
        Command::Sample { out, interval, timeout, devices, command } => {
            sample::run(&sample::Request { out, interval, timeout, devices, command })
        }
        Command::Device { path } => device::inspect(&path).map(|report| {
            println!("{}", serde_json::json!(report));
            0
        }),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("strata-engine: {message}");
        BAD_INPUT
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_device_is_a_name_and_a_path() {
        assert_eq!(parse_device("top=/dev/by-id/a=b"), Ok(("top".to_owned(), PathBuf::from("/dev/by-id/a=b"))));
        for wrong in ["", "top", "=/dev/loop0", "top="] {
            assert!(parse_device(wrong).is_err(), "{wrong}");
        }
    }
}
