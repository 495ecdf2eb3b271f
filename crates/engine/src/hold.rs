//! Claims devices for one run: whoever else wants to claim one of them is refused until the run ends.
//!
//! An exclusive open would keep the run's own mkfs out, and a lock on the device node itself is udev's and mkfs's
//! (systemd.io/BLOCK_DEVICE_LOCKING). So each device has a file below `/run/strata`, and the kernel's lock on that file
//! ends with the process that holds it, however that ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use nix::unistd::{getppid, setsid};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::machine::BlockDevice;
use crate::terminal;

const DIRECTORY: &str = "/run/strata";

/// A run that has just ended takes a moment to let go: asked for this often, with this pause.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// By it `strata clean` knows what a visit left running. This is to outlive visits and ends with its run.
const MARK: &str = "STRATA_RUN";

/// A device, or the disk that it is a partition of.
struct Claim {
    shown: PathBuf,
    /// Major and minor number.
    number: String,
    /// Partitions of one disk share it; nobody else may have the disk then.
    shared: bool,
}

/// Claims every device, in a process that stays until the one that started this ends; prints its number.
///
/// # Errors
/// A sentence, when another run claims one of them; none is claimed then.
pub fn start(devices: &[PathBuf]) -> Result<u8, String> {
    let cannot = |error: io::Error| format!("the devices cannot be claimed ({error}); try again");
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg("hold").arg("--until-end-of").arg(getppid().to_string()).arg("--").args(devices);
    command.env_remove(MARK).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: runs in the child between fork and exec: one system call, no lock, no allocation.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| setsid().map(|_| ()).map_err(io::Error::from));
    }
    let mut child = command.spawn().map_err(cannot)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(cannot)?;
    }
    if line.is_empty() {
        let mut message = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut message).map_err(cannot)?;
        }
        child.wait().map_err(cannot)?;
        return Err(message.trim().trim_start_matches("strata-engine: ").to_owned());
    }
    terminal::say(line.trim_end())?;
    Ok(0)
}

/// Claims every device, says so, and keeps the claims until process `owner` ends or this one is asked to.
///
/// # Errors
/// As `start`.
pub fn stay(devices: &[PathBuf], owner: i32) -> Result<u8, String> {
    let cannot = |error: io::Error| format!("the devices cannot be claimed ({error}); try again");
    let mut asked = SigSet::empty();
    asked.add(Signal::SIGTERM);
    asked.thread_block().map_err(|error| cannot(error.into()))?;
    let signals = SignalFd::new(&asked).map_err(|error| cannot(error.into()))?;
    let owner_end = Pid::from_raw(owner).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let owner_end = owner_end.ok_or("the run that claims the devices has ended already")?;
    let mut held = Vec::new();
    for claim in claims(devices)? {
        match take(&claim, owner) {
            Ok(file) => held.push((claim, file)),
            Err(message) => {
                release(held);
                return Err(message);
            }
        }
    }
    terminal::say(&std::process::id().to_string())?;
    // Whoever started this waits for the end of these streams no longer.
    let nothing = OpenOptions::new().write(true).open("/dev/null").map_err(cannot)?;
    rustix::stdio::dup2_stdout(&nothing).map_err(|error| cannot(error.into()))?;
    rustix::stdio::dup2_stderr(&nothing).map_err(|error| cannot(error.into()))?;
    let mut ends = [owner_end.as_fd(), signals.as_fd()].map(|end| PollFd::new(end, PollFlags::POLLIN));
    while poll(&mut ends, PollTimeout::NONE).is_err() {}
    release(held);
    Ok(0)
}

/// In the order of their numbers, each once.
fn claims(devices: &[PathBuf]) -> Result<Vec<Claim>, String> {
    let mut found: Vec<Claim> = Vec::new();
    for path in devices {
        let device = BlockDevice::find(path)?;
        if let Some(disk) = device.disk() {
            found.push(Claim { shown: path.clone(), number: disk, shared: true });
        }
        found.push(Claim { shown: path.clone(), number: device.major_minor, shared: false });
    }
    found.sort_by(|one, other| (&one.number, one.shared).cmp(&(&other.number, other.shared)));
    found.dedup_by(|next, kept| next.number == kept.number);
    Ok(found)
}

fn take(claim: &Claim, owner: i32) -> Result<File, String> {
    let path = file_of(claim);
    let cannot =
        |error: io::Error| format!("{} cannot be claimed ({}: {error})", claim.shown.display(), path.display());
    let operation =
        if claim.shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    for _ in 0..TRIES {
        directory().map_err(cannot)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        let mut file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // the directory was removed
            Err(error) => return Err(cannot(error)),
        };
        match flock(&file, operation) {
            // Its last holder may have removed it between our open and our lock.
            Ok(()) if is_still(&file, &path) => {
                if !claim.shared {
                    let noted = file.set_len(0).and_then(|()| file.write_all(owner.to_string().as_bytes()));
                    noted.map_err(cannot)?;
                }
                return Ok(file);
            }
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => sleep(PAUSE),
            Err(error) => return Err(cannot(error.into())),
        }
    }
    let owner = fs::read_to_string(&path).unwrap_or_default();
    let owner = owner.trim().parse::<i32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
    Err(format!("another run of Strata{owner} uses {} or a part of it; wait until it ends", claim.shown.display()))
}

fn file_of(claim: &Claim) -> PathBuf {
    Path::new(DIRECTORY).join(format!("device-{}", claim.number))
}

/// Nobody but its owner may put files there.
fn directory() -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(DIRECTORY)?;
    let found = fs::symlink_metadata(DIRECTORY)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write to this directory; remove it"));
    }
    Ok(())
}

fn is_still(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn release(held: Vec<(Claim, File)>) {
    for (claim, file) in held {
        // Of a disk that others share nothing is removed.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(file_of(&claim));
        }
    }
    let _ = fs::remove_dir(DIRECTORY);
}
