//! Runs a command and writes what the machine did meanwhile, as JSON lines: a header, samples, an end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::Usage;
use nix::sys::time::TimeValLike;
use serde::Serialize;

use crate::machine::{BlockDevice, Machine, Snapshot};
use crate::supervise::{Ended, Supervised, shell_code};
use crate::terminal;

const CANNOT_START: u8 = 127;
const TIMED_OUT: u8 = 124;

/// What `strata-engine sample` was asked to do.
pub struct Request {
    pub out: PathBuf,
    pub interval: Duration,
    pub timeout: Option<Duration>,
    pub devices: Vec<(String, PathBuf)>,
    /// Files that hold the number of a process.
    pub processes: Vec<(String, PathBuf)>,
    /// Never empty.
    pub command: Vec<OsString>,
}

#[derive(Serialize)]
struct Header<'a> {
    version: u32,
    interval_s: f64,
    started_unix_s: f64,
    cpus: Option<usize>,
    devices: &'a BTreeMap<String, BlockDevice>,
}

#[derive(Serialize)]
struct Sample<'a> {
    /// Since the command was started; 0 for the sample taken right before.
    t_s: f64,
    #[serde(flatten)]
    snapshot: Snapshot<'a>,
}

#[derive(Serialize, Default)]
struct End {
    end: bool,
    wall_s: Option<f64>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    user_s: Option<f64>,
    system_s: Option<f64>,
    max_rss_bytes: Option<u64>,
    timed_out: bool,
}

/// Runs the command; returns the exit code for this program.
///
/// # Errors
/// A sentence, when nothing could be started because of what was asked.
pub fn run(request: &Request) -> Result<u8, String> {
    let machine = Machine::new(&request.devices, &request.processes)?;
    let shown = request.out.display();
    let cannot_write = |error: io::Error| {
        format!("the samples cannot be written to {shown} ({error}); make room there or name another file with --out")
    };
    let mut out = File::create(&request.out).map_err(cannot_write)?;
    let header = Header {
        version: 1,
        interval_s: request.interval.as_secs_f64(),
        started_unix_s: unix_time_s(),
        cpus: machine.cpus(),
        devices: machine.devices(),
    };
    write_line(&mut out, &header).map_err(cannot_write)?;
    write_line(&mut out, &Sample { t_s: 0.0, snapshot: machine.snapshot() }).map_err(cannot_write)?;

    let supervised = match Supervised::start(&request.command) {
        Ok(supervised) => supervised,
        Err(error) => {
            let program = request.command[0].to_string_lossy();
            terminal::warn(&format!(
                "strata-engine: {program} cannot be started ({error}); check that it is installed and may be executed"
            ));
            let end = End { end: true, exit_code: Some(CANNOT_START.into()), ..End::default() };
            write_line(&mut out, &end).map_err(cannot_write)?;
            return Ok(CANNOT_START);
        }
    };
    let started = supervised.started();
    let (ended, written) = thread::scope(|scope| {
        let (stop, stopped) = channel();
        let sampler = scope.spawn(|| write_samples(&machine, &mut out, started, request.interval, stopped));
        let ended = supervised.wait(request.timeout);
        drop(stop);
        (ended, sampler.join())
    });
    let ended = ended.map_err(|error| format!("the command cannot be waited for ({error}); please report this"))?;
    // A panic of the sampler is a bug of ours: say so, but the command's own outcome stands.
    let written = written.unwrap_or_else(|_| Err(io::Error::other("the sampler failed")));
    if let Err(error) = written.and_then(|()| {
        write_line(&mut out, &Sample { t_s: started.elapsed().as_secs_f64(), snapshot: machine.snapshot() })?;
        write_line(&mut out, &end_line(&ended))
    }) {
        // The file lacks its end line, by which a reader tells that it is not whole.
        terminal::warn(&format!("strata-engine: {}", cannot_write(error)));
    }
    Ok(exit_code(&ended))
}

/// Writes a sample each `interval` until the other end of `stopped` is dropped. A tick that is missed is left out.
fn write_samples(
    machine: &Machine,
    out: &mut File,
    started: Instant,
    interval: Duration,
    stopped: Receiver<()>,
) -> io::Result<()> {
    loop {
        let ticks = started.elapsed().as_nanos() / interval.as_nanos() + 1;
        let next = u32::try_from(ticks).ok().and_then(|ticks| interval.checked_mul(ticks)).unwrap_or(Duration::MAX);
        match stopped.recv_timeout(next.saturating_sub(started.elapsed())) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        write_line(out, &Sample { t_s: started.elapsed().as_secs_f64(), snapshot: machine.snapshot() })?;
    }
}

/// One write per line, so that a reader, or a crash, finds whole lines only.
fn write_line(out: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    out.write_all(&bytes)
}

fn end_line(ended: &Ended) -> End {
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    End {
        end: true,
        wall_s: Some(ended.wall.as_secs_f64()),
        exit_code: ended.status.code(),
        signal: ended.status.signal(),
        user_s: ended.usage.map(|usage| seconds(usage.user_time())),
        system_s: ended.usage.map(|usage| seconds(usage.system_time())),
        max_rss_bytes: ended
            .usage
            .as_ref()
            .map(Usage::max_rss)
            .and_then(|kib| u64::try_from(kib).ok())
            .map(|kib| kib * 1024),
        timed_out: ended.timed_out,
    }
}

fn exit_code(ended: &Ended) -> u8 {
    match ended.stopped_by {
        Some(signal) => shell_code(std::process::ExitStatus::from_raw(signal as i32)),
        None if ended.timed_out => TIMED_OUT,
        None => shell_code(ended.status),
    }
}

fn unix_time_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
