//! What a block device is, whether it can be had alone, and who has it open. Only ever opens it for reading.

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use serde::Serialize;

use crate::machine::BlockDevice;

/// The answer of `strata-engine device`.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    device: BlockDevice,
    real_path: PathBuf,
    size_bytes: Option<u64>,
    exclusive: bool,
    exclusive_error: Option<&'static str>,
    openers: Vec<Opener>,
    /// Processes whose open files could not be listed, so that `openers` may lack them; 0 as root.
    unseen_processes: usize,
}

#[derive(Debug, Serialize)]
struct Opener {
    pid: i32,
    command: String,
}

/// Inspects the device behind `path`.
///
/// # Errors
/// A sentence, when it is not a block device.
pub fn inspect(path: &Path) -> Result<Report, String> {
    let device = BlockDevice::find(path)?;
    let real_path = fs::canonicalize(path)
        .map_err(|error| format!("{} cannot be followed ({error}); try again", path.display()))?;
    let exclusive_error = exclusive_error(&real_path);
    let (openers, unseen_processes) = openers(device.number);
    Ok(Report {
        size_bytes: device
            .attribute("size")
            .and_then(|text| text.trim().parse::<u64>().ok())
            .and_then(|sectors| sectors.checked_mul(512)),
        exclusive: exclusive_error.is_none(),
        exclusive_error: exclusive_error.map(Errno::desc),
        real_path,
        device,
        openers,
        unseen_processes,
    })
}

/// Opens the device as its only claimant, which fails while it is mounted, is swap, or has a holder such as LVM or md.
fn exclusive_error(path: &Path) -> Option<Errno> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL | libc::O_NONBLOCK)
        .open(path)
        .err()
        .map(|error| error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw))
}

/// Every other process that has the device with this number open, and how many processes did not let us look.
fn openers(number: u64) -> (Vec<Opener>, usize) {
    let mut found = Vec::new();
    let mut unseen = 0;
    let own = std::process::id() as i32;
    for pid in process_ids().filter(|&pid| pid != own) {
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(files) => {
                let opens = files.flatten().any(|file| {
                    fs::metadata(file.path())
                        .is_ok_and(|open| open.file_type().is_block_device() && open.rdev() == number)
                });
                if opens {
                    found.push(Opener { pid, command: command_of(pid) });
                }
            }
            // A process that ended meanwhile has nothing open.
            Err(error) => unseen += usize::from(error.kind() == std::io::ErrorKind::PermissionDenied),
        }
    }
    (found, unseen)
}

/// The processes that this one can see.
pub fn process_ids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The command line, or the kernel's name for it when it has none.
fn command_of(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    let command = words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    if command.is_empty() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        return format!("[{}]", name.trim_end());
    }
    command
}
