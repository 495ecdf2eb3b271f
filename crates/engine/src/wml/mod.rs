//! Runs programs in the Workload Model Language of filebench.
//!
//! The same tree, the same choice of files and the same system calls as filebench makes; each of its quirks that shapes the
//! load is kept unless a switch turns it off, and the result says which were.

mod aio;
mod builtin;
pub mod cli;
mod content;
mod files;
mod place;
mod report;
mod run;
mod shared;
mod system;
mod tally;
#[cfg(test)]
mod tests;
mod worker;

use std::path::PathBuf;

use strata_wml::{Dialect, Options, Program, Severity, parse, render, resolve};

use crate::terminal;
use content::Content;

/// A quirk of filebench that shapes the load, and that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Fix {
    /// aiowait waits until every write is done
    #[value(name = "aiowait")]
    AioWait,
    /// random offsets reach the last block
    LastBlock,
    /// writewholefile writes the size of the file and not whole pieces only
    #[value(name = "writewhole")]
    WriteWhole,
    /// a sequential write begins again at the end of the file
    Wrap,
    /// deletefile takes the next file when one is open elsewhere
    Delete,
    /// fsyncset leaves out slots that are closed
    #[value(name = "fsyncset")]
    FsyncSet,
    /// dsync opens with O_DSYNC and not with O_SYNC
    Dsync,
}

impl Fix {
    /// As on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::AioWait => "aiowait",
            Self::LastBlock => "last-block",
            Self::WriteWhole => "writewhole",
            Self::Wrap => "wrap",
            Self::Delete => "delete",
            Self::FsyncSet => "fsyncset",
            Self::Dsync => "dsync",
        }
    }
}

/// What every run does otherwise than filebench, whatever is switched.
pub const DIFFERENCES: &[&str] = &[
    "times come from a clock that is never set, in nanoseconds",
    "counters have 64 bits",
    "memory is allocated and zeroed before the window",
    "the window ends to the moment; what completes later does not count",
    "a failed system call ends the run, that of close, unlink, fsync and mkdir too",
    "each thread has its own stream of random numbers",
    "processes are groups of threads in one process",
    "asynchronous writes are carried out by up to 20 threads for each thread that asks for them (filebench: for each process), with at most 64 MiB on their way, each counted as 512 bytes at least (filebench: without a limit)",
    "each write has new random data; making them takes the thread's time and is no part of the latency (filebench writes what its buffer holds)",
    "buffers begin 2 KiB after a page's start, where copying is faster: 3 % to 9 % less processor time in fileserver (filebench: where malloc places them, 16 bytes after)",
    "every process draws offsets of its own (filebench never seeds its generator, so the processes of oltp draw the same ones and find more in the cache)",
    "a limit that asks for more events than the queue ever holds takes them in parts (filebench waits for ever)",
    "leaf directories are numbered on after the files and directories beside them (filebench counts from 1 again, so that names may be there twice)",
    "a tree with reuse is kept however short its path is",
    "a fileset's own directory is not made again when it vanishes while the program runs",
    "composite flowops have working local variables",
    "a file to be synced that is closed counts as an error, and descriptor 0 is left alone",
];

/// What to run, and how.
pub struct Request {
    /// A path, `-` for standard input, or `builtin:NAME`.
    pub file: String,
    pub dialect: Option<Dialect>,
    pub set: Vec<(String, String)>,
    pub directory: PathBuf,
    pub seconds: Option<u64>,
    /// Of what is drawn while the program runs.
    pub seed: Option<u32>,
    /// Of the files; None: those of filebench.
    pub layout_seed: Option<u32>,
    pub stage: Stage,
    pub content: Content,
    pub fixes: Vec<Fix>,
    pub allowed: Vec<PathBuf>,
    pub system: SystemCommands,
    pub cpu_per_flowop: bool,
    pub stuck_after_s: u64,
    pub json: bool,
}

/// What part of a run is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Create the files and run
    All,
    /// Create the files only, and force them to the disk
    Create,
    /// Run on files that were created with the same program, variables and layout seed, and not used since
    Run,
}

/// What is done with `system "..."` in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SystemCommands {
    /// Nothing runs, and this is why
    Refuse,
    /// Leave them out
    Skip,
    /// Let the shell carry them out
    Run,
}

/// A program that can run, with the text of its warnings.
struct Checked {
    program: Program,
    warnings: Vec<String>,
}

/// The text of a program: a built-in one or that of a file.
fn source(file: &str) -> Result<String, String> {
    if file == "-" {
        return std::io::read_to_string(std::io::stdin())
            .map_err(|error| format!("The program cannot be read from standard input ({error}); name a file."));
    }
    match file.strip_prefix(builtin::PREFIX) {
        Some(name) => builtin::text(name).map(str::to_owned),
        None => {
            let bytes =
                std::fs::read(file).map_err(|error| format!("{file} cannot be read ({error}); check its name."))?;
            // what is no text is wrong in every line, and saying so of each helps nobody
            if bytes.contains(&0) {
                return Err(format!("{file} holds no text; name a program in filebench's language."));
            }
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}

/// The environment, as far as it is text.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn check_text(name: &str, text: &str, options: &Options) -> Result<Checked, String> {
    let (script, findings) = parse(text);
    let resolved = resolve(&script, findings, options);
    let shown = render(name, text, &resolved.findings);
    match resolved.program {
        Some(program) => {
            let warnings = resolved.findings.iter().filter(|finding| finding.severity == Severity::Warning);
            Ok(Checked { program, warnings: warnings.map(|finding| finding.message.clone()).collect() })
        }
        None => Err(format!("{name} cannot run; change these places.\n{}", shown.trim_end())),
    }
}

/// Says what a program will do, or everything that is wrong with it.
///
/// # Errors
/// Everything that is wrong, each with its line, column and a caret.
pub fn check(file: &str, options: Options, system: Option<SystemCommands>) -> Result<u8, String> {
    let text = source(file)?;
    let (script, findings) = parse(&text);
    let warnings = render(file, &text, &resolve(&script, findings, &options).findings);
    let checked = check_text(file, &text, &options)?;
    if let Some(system) = system {
        run::commands_allowed(&checked.program, system)?;
    }
    let about = if file.starts_with(builtin::PREFIX) { builtin::about(&text) } else { String::new() };
    terminal::say(&(warnings + &about + &run::described(file, &checked.program)?))?;
    Ok(0)
}
