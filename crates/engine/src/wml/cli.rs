//! `strata-engine wml`: parse, call.

use std::path::PathBuf;

use clap::Subcommand;
use strata_wml::{Dialect, Options};

use super::content::Content;
use super::{Fix, Request, Stage, SystemCommands, check, environment, run};

/// The commands about programs in the Workload Model Language.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program; exits with 1 when the run ended early, with 2 when the program cannot run
    Run {
        /// A file, - for standard input, or builtin:fileserver and its like
        file: String,
        /// Where its files are; the program's $dir is this directory. What is there of its filesets is made again
        #[arg(long)]
        dir: PathBuf,
        /// How long it runs, whatever the program says
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        seconds: Option<u64>,
        /// Decides what is drawn while the program runs
        #[arg(long, value_name = "NUMBER")]
        seed: Option<u32>,
        /// Another layout of the files than that of filebench
        #[arg(long, value_name = "NUMBER")]
        layout_seed: Option<u32>,
        /// What to do of it
        #[arg(long, default_value = "all")]
        stage: Stage,
        /// A variable that the program sets, with the value that it keeps; may be given several times
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_set)]
        set: Vec<(String, String)>,
        /// What is written: zeros, random or compressible=PERCENT
        #[arg(long, default_value = "zeros", value_parser = Content::parse)]
        data: Content,
        /// 1.4.9 or 1.5; told from the program otherwise
        #[arg(long, value_parser = parse_dialect)]
        dialect: Option<Dialect>,
        /// A quirk of filebench to switch off; may be given several times
        #[arg(long = "fix", value_name = "QUIRK")]
        fixes: Vec<Fix>,
        /// A directory beside --dir in which filesets may be; may be given several times
        #[arg(long = "allow-path", value_name = "DIR")]
        allowed: Vec<PathBuf>,
        /// What to do with commands for the shell in the program
        #[arg(long, default_value = "refuse")]
        system: SystemCommands,
        /// Measure the CPU time of each flowop as well; takes two more system calls for each operation
        #[arg(long)]
        cpu_per_flowop: bool,
        /// End the run when nothing went on for so many seconds
        #[arg(long, value_name = "NUMBER", default_value = "300")]
        stuck_after: u64,
        /// The whole result, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what a program will do, or everything that is wrong with it
    Check {
        /// A file, - for standard input, or builtin:fileserver and its like
        file: String,
        /// Where its files are to be; the program's $dir is this directory. It need not be there
        #[arg(long)]
        dir: Option<PathBuf>,
        /// 1.4.9 or 1.5; told from the program otherwise
        #[arg(long, value_parser = parse_dialect)]
        dialect: Option<Dialect>,
        /// A variable that the program sets, with the value that it keeps; may be given several times
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_set)]
        set: Vec<(String, String)>,
        /// How long it is to run, whatever the program says
        #[arg(long, value_name = "NUMBER")]
        seconds: Option<u64>,
        /// What the run is to be told of commands for the shell: with refuse a program that has some is refused here
        #[arg(long)]
        system: Option<SystemCommands>,
    },
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim_start_matches('$').to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE, for example nfiles=50000".to_owned()),
    }
}

fn parse_dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "1.4.9" | "1.4.9.1" => Ok(Dialect::V1_4_9),
        "1.5" => Ok(Dialect::V1_5),
        _ => Err("write 1.4.9 or 1.5".to_owned()),
    }
}

/// Carries a command out; returns the exit code.
///
/// # Errors
/// A sentence with the next thing to do, when nothing could be run.
pub fn main(command: Command) -> Result<u8, String> {
    match command {
        Command::Check { file, dir, dialect, set, seconds, system } => {
            let directory = dir.map(|dir| dir.to_string_lossy().into_owned());
            check(&file, Options { dialect, set, seconds, directory, environment: environment() }, system)
        }
        Command::Run {
            file,
            dir,
            seconds,
            seed,
            layout_seed,
            stage,
            set,
            data,
            dialect,
            fixes,
            allowed,
            system,
            cpu_per_flowop,
            stuck_after,
            json,
        } => {
            let mut places = Vec::new();
            for place in allowed {
                places.push(place.canonicalize().map_err(|error| {
                    format!("--allow-path {}: there is no such directory ({error}); make it first.", place.display())
                })?);
            }
            run::run(&Request {
                file,
                dialect,
                set,
                directory: dir,
                seconds,
                seed,
                layout_seed,
                stage,
                content: data,
                fixes,
                allowed: places,
                system,
                cpu_per_flowop,
                stuck_after_s: stuck_after,
                json,
            })
        }
    }
}
