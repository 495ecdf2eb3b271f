//! The command line: parse, call, print.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::blank::Method;
use crate::duration::parse_duration;
use crate::{age, batch, blank, device, disk, fill, hold, keys, sample, serve, terminal, wml};

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
        /// The file to write, made again
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Time between two samples
        #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
        interval: Duration,
        /// End the command when it has run this long: SIGTERM, then SIGKILL 5 s later
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<Duration>,
        /// A block device to sample and the name it gets in the file; may be given several times
        #[arg(long = "device", value_name = "NAME=PATH", value_parser = parse_named)]
        devices: Vec<(String, PathBuf)>,
        /// A file with the number of a process whose processor time is sampled, and the name it gets; may be given
        /// several times
        #[arg(long = "process", value_name = "NAME=PIDFILE", value_parser = parse_named)]
        processes: Vec<(String, PathBuf)>,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Tell what a block device is and who has it open, as JSON; opens it read-only and never writes
    Device {
        /// The device node, or a symbolic link to one
        path: PathBuf,
        /// Tell whether it holds anything too, by reading at most 64 MiB of it within 2 s
        #[arg(long)]
        content: bool,
    },
    /// Write zeros to all that `device --content` reads of a block device that nobody uses, and say how much, as JSON
    ///
    /// Writes nothing when the device is another one than named, or carries a signature that --wipe does not give up.
    Blank {
        /// Which device it has to be, as `device` says
        #[arg(long, value_name = "IDENTITY")]
        identity: String,
        /// Remove every signature of the device and of its partitions, and the partitions
        #[arg(long)]
        wipe: bool,
        /// Discard all of the device instead of writing zeros
        #[arg(long, conflicts_with = "wipe")]
        discard: bool,
        /// The device node, or a symbolic link to one
        path: PathBuf,
    },
    /// Claim block devices until the process that started this ends, and print the number of the process that holds the
    /// claims; exits with 2 when another run of Strata claims one of them
    Hold {
        /// Stay until this process ends, instead of starting a process that does
        #[arg(long, value_name = "PID", hide = true)]
        until_end_of: Option<i32>,
        /// Device nodes, or symbolic links to them
        #[arg(required = true)]
        devices: Vec<PathBuf>,
    },
    /// Become a command that has none of root's keys: in a session keyring of its own, which is empty
    WithoutKeys {
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Run phases of commands, some at a time, and write how long each took, as JSON; exits with 1 when one failed
    Batch {
        /// The plan: {"phases": [{"name": "start", "parallel": 2, "commands": [["program", "argument"]]}]}
        plan: PathBuf,
        /// The file to write, made again
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Modelled disks: block devices whose every completion a model says
    #[command(subcommand)]
    Disk(disk::Command),
    /// Execute on this machine what a controller asks; Strata starts this itself
    #[command(group(clap::ArgGroup::new("transport").required(true)))]
    Serve {
        /// Speak by the standard streams, until they are closed
        #[arg(long, group = "transport")]
        stdio: bool,
        /// Speak through the memory of a lab machine on a virtual clock
        #[arg(long, group = "transport")]
        mailbox: bool,
    },
    /// Fill a directory or a block device with seeded content that does not compress, and say how much, as JSON
    Fill {
        /// An empty directory, or a block device, which is overwritten from its start on
        path: PathBuf,
        /// How full the file system or device is to be
        #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
        share: u64,
        /// How much of what is written repeats what was written before
        #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_percent)]
        duplicates: u64,
        /// Decides the content
        #[arg(long, value_name = "NUMBER", default_value = "1")]
        seed: u64,
    },
    /// Create, change and delete files in a directory, in a sequence that depends on the seed alone; counts as JSON
    ///
    /// Round 0 creates the files; every later one makes as many changes as there are files.
    Age {
        /// A directory that exists: empty for round 0, and for later rounds as those before left it
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Decides the sequence
        #[arg(long, value_name = "NUMBER", default_value = "1")]
        seed: u64,
        /// How many files
        #[arg(long, value_name = "NUMBER")]
        files: u64,
        /// How many bytes all files may have together
        #[arg(long, value_name = "NUMBER")]
        bytes: u64,
        /// The first round to carry out
        #[arg(long, value_name = "NUMBER", default_value = "0")]
        first: u64,
        /// How many rounds to carry out
        #[arg(long, value_name = "NUMBER")]
        rounds: u64,
    },
    /// Run and check programs in the Workload Model Language of filebench
    Wml {
        #[command(subcommand)]
        command: wml::cli::Command,
    },
}

/// Parts per million.
fn parse_percent(text: &str) -> Result<u64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok((percent * 1e4).round() as u64),
        _ => Err(format!("'{text}' is not a percentage; write it as 80%")),
    }
}

fn parse_named(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("write it as NAME=PATH, for example top=/dev/loop0".to_owned()),
    }
}

/// Runs the program; returns its exit code.
pub fn main() -> u8 {
    let asked = match Cli::try_parse() {
        Ok(asked) => asked,
        Err(answer) => return answered(&answer),
    };
    let outcome = match asked.command {
        Command::Sample { out, interval, timeout, devices, processes, command } => {
            sample::run(&sample::Request { out, interval, timeout, devices, processes, command })
        }
        Command::WithoutKeys { command } => keys::without(&command),
        Command::Batch { plan, out } => batch::run(&plan, &out),
        Command::Disk(command) => disk::run(command),
        Command::Device { path, content } => said(device::inspect(&path, content)),
        Command::Blank { path, identity, wipe, discard } => {
            let method = match (wipe, discard) {
                (true, _) => Method::Wipe,
                (false, true) => Method::Discard,
                (false, false) => Method::Zeros,
            };
            said(blank::run(&path, &identity, method))
        }
        Command::Hold { until_end_of: None, devices } => hold::start(&devices),
        Command::Hold { until_end_of: Some(owner), devices } => hold::stay(&devices, owner),
        Command::Serve { mailbox, .. } => {
            serve::run(if mailbox { serve::Transport::Mailbox } else { serve::Transport::Stdio })
        }
        Command::Fill { path, share, duplicates, seed } => {
            said(fill::run(&fill::Request { path, share_ppm: share, duplicates_ppm: duplicates, seed }))
        }
        Command::Age { dir, seed, files, bytes, first, rounds } => {
            let rounds = first..first.saturating_add(rounds);
            said(age::run(&age::Request { directory: dir, seed, files, bytes, rounds }))
        }
        Command::Wml { command } => wml::cli::main(command),
    };
    outcome.unwrap_or_else(|message| {
        terminal::warn(&format!("strata-engine: {message}"));
        BAD_INPUT
    })
}

/// Help, the version, or what is wrong with the command line, which may be a file name of a stranger.
fn answered(answer: &clap::Error) -> u8 {
    let text = answer.to_string();
    if answer.use_stderr() {
        terminal::warn(text.trim_end());
        return BAD_INPUT;
    }
    terminal::say(text.trim_end()).map_or(BAD_INPUT, |()| 0)
}

fn said(outcome: Result<impl serde::Serialize, String>) -> Result<u8, String> {
    terminal::say_json(&outcome?).map(|()| 0)
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
    fn a_percentage_has_its_sign() {
        assert_eq!(parse_percent("80%"), Ok(800_000));
        assert_eq!(parse_percent("0.1%"), Ok(1000));
        for wrong in ["80", "", "%", "101%", "-1%", "NaN%", "80 %"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_sampled_is_a_name_and_a_path() {
        assert_eq!(parse_named("top=/dev/by-id/a=b"), Ok(("top".to_owned(), PathBuf::from("/dev/by-id/a=b"))));
        for wrong in ["", "top", "=/dev/loop0", "top="] {
            assert!(parse_named(wrong).is_err(), "{wrong}");
        }
    }
}
