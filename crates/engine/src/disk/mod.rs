//! Modelled disks: block devices of this machine whose every completion a model says, with their bytes in memory.

mod cost;
#[cfg(test)]
pub mod header;
mod live;
mod memory;
mod place;
mod queue;
mod record;
mod server;
mod ublk;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use strata_disks::{Device, Model, bounds, builtin, claims};

use crate::terminal;
use place::Name;

/// Less than this holds too few of the largest requests to count.
const LEAST_SPAN: u64 = 64 << 20;

/// Commands about modelled disks.
#[derive(Subcommand)]
pub enum Command {
    /// Serve a modelled disk in the background; prints its device node once it is live. Needs root and the module ublk_drv
    Serve(Serve),
    /// Take a served disk away and leave nothing of it; does nothing when there is none
    Stop {
        /// The name that it was served under
        name: Name,
    },
    /// Show the models that come with the program, or check one: parameters, and what the model itself claims
    Models {
        /// A file with a model, or - for standard input; without it every built-in model
        #[arg(long, value_name = "FILE")]
        model: Option<PathBuf>,
        /// The device's size for which the claims hold
        #[arg(long, value_name = "BYTES", default_value_t = 2 << 30)]
        size: u64,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Compute the most that a model can do under plain loads, as JSON: no figure may exceed it unless a cache served it
    Bounds {
        /// A built-in model by name, a file with a model, or - for standard input
        #[arg(long, value_name = "MODEL")]
        model: String,
        /// Size of the device
        #[arg(long, value_name = "BYTES", default_value_t = 2 << 30)]
        size: u64,
        /// Part of it that is used, from its start (default: all of it)
        #[arg(long, value_name = "BYTES")]
        span: Option<u64>,
    },
    /// Say what is wrong with a model, a line each; nothing where nothing is
    Check {
        /// A file with a model, or - for standard input
        #[arg(long, value_name = "FILE")]
        model: PathBuf,
        /// Size of the device that it is to be
        #[arg(long, value_name = "BYTES")]
        size: u64,
    },
    /// Measure what serving costs in itself on this machine, as JSON. Needs root, ublk_drv and, to compare, null_blk
    Cost,
}

/// What is to be served, and how.
#[derive(Args)]
pub struct Serve {
    /// A built-in model by name, a file with a model, or - for standard input
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// Size of the device
    #[arg(long, value_name = "BYTES")]
    size: u64,
    /// Where the model's own randomness starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to call it, for `disk stop`
    #[arg(long)]
    name: Name,
    /// A symbolic link to make to the device node; it must not exist
    #[arg(long, value_name = "PATH")]
    link: Option<PathBuf>,
    /// What serving costs here, from `disk cost`; without it, it is measured first
    #[arg(long, value_name = "NANOSECONDS")]
    cost_ns: Option<u64>,
    /// How many times the cost the model's least service time must be; 0 accepts every model and measures nothing
    #[arg(long, value_name = "TIMES", default_value_t = 10)]
    least_times_cost: u64,
    /// Write the requests and when each was answered to this new file when the disk is removed, for tests
    #[arg(long, value_name = "PATH")]
    record: Option<PathBuf>,
    /// Stay in the foreground; ends when the disk is removed or at SIGTERM
    #[arg(long)]
    foreground: bool,
}

/// Runs a command; returns the exit code.
///
/// # Errors
/// A sentence.
pub fn run(command: Command) -> Result<u8, String> {
    match command {
        Command::Serve(serve) => server::serve(&serve),
        Command::Stop { name } => server::stop(&name),
        Command::Models { model, size, json } => models(model.as_deref(), size, json),
        Command::Bounds { model, size, span } => {
            let span = span.unwrap_or(size);
            if span < LEAST_SPAN || span > size {
                return Err(format!("--span is {span}; give a number from {LEAST_SPAN} to the size, {size}"));
            }
            let rows = bounds(&find_model(&model)?, size, span)?;
            terminal::say_json(&serde_json::json!({"size_bytes": size, "span_bytes": span, "bounds": rows}))?;
            Ok(0)
        }
        Command::Check { model, size } => {
            let model = read_model(&model)?;
            let mut problems = model.problems(size);
            if problems.is_empty() {
                // what only shows when it is laid out: flash that is too small for its blocks
                problems.extend(Device::new(&model, size, 1).err());
            }
            problems.iter().try_for_each(|problem| terminal::say(problem))?;
            Ok(0)
        }
        Command::Cost => {
            terminal::say_json(&cost::measure()?)?;
            Ok(0)
        }
    }
}

fn models(file: Option<&Path>, size: u64, json: bool) -> Result<u8, String> {
    let models = match file {
        Some(path) => vec![read_model(path)?],
        None => builtin(),
    };
    let mut shown = Vec::new();
    for model in models {
        shown.push((claims(&model, size)?, model));
    }
    if json {
        let entries = shown.iter().map(|(claims, model)| serde_json::json!({"model": model, "claims": claims}));
        terminal::say_json(&serde_json::Value::Array(entries.collect()))?;
        return Ok(0);
    }
    for (claims, model) in shown {
        terminal::say(&model.name)?;
        let rows = [
            ("random reads, one at a time", claims.random_reads_per_s, "/s"),
            ("random reads, full queue", claims.random_reads_deep_per_s, "/s"),
            ("random writes, one at a time", claims.random_writes_per_s, "/s"),
            ("random writes, full queue", claims.random_writes_deep_per_s, "/s"),
            ("random writes, each flushed", claims.flushed_writes_per_s, "/s"),
            ("sequential reads, start", claims.sequential_read_bytes_per_s / 1e6, " MB/s"),
            ("sequential reads, end", claims.sequential_read_end_bytes_per_s / 1e6, " MB/s"),
            ("sequential writes", claims.sequential_write_bytes_per_s / 1e6, " MB/s"),
            ("least service time", claims.least_service_us, " us"),
        ];
        for (what, figure, unit) in rows {
            terminal::say(&format!("  {what:30} {figure:>10.1}{unit}"))?;
        }
        if let Some(worn) = claims.worn_random_writes_deep_per_s {
            terminal::say(&format!("  {:30} {worn:>10.1}/s", "random writes, full, worn in"))?;
        }
    }
    Ok(0)
}

/// A built-in model, or one from a file.
fn find_model(name: &str) -> Result<Model, String> {
    if let Some(model) = builtin().into_iter().find(|model| model.name == name) {
        return Ok(model);
    }
    let path = Path::new(name);
    if name != "-" && !path.exists() {
        let known: Vec<String> = builtin().into_iter().map(|model| model.name).collect();
        return Err(format!("no model is called '{name}' and no such file exists; there are {}", known.join(", ")));
    }
    read_model(path)
}

fn read_model(path: &Path) -> Result<Model, String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        fs::read_to_string(path).map(|read| text = read)
    };
    read.map_err(|error| format!("{} cannot be read ({error}); give a file with a model", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a model ({error}); see docs/disk-models.md", path.display()))
}
