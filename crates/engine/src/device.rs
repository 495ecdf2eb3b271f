//! What a block device is, whether it can be opened exclusively, and who has it open. Only ever opens it for reading.

use std::collections::HashSet;
use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use serde::Serialize;

use crate::content::{self, Content};
use crate::machine::BlockDevice;

/// The answer of `strata-engine device`.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    device: BlockDevice,
    real_path: PathBuf,
    size_bytes: Option<u64>,
    /// Of the disk; no other gets the same before the next boot. `None` before Linux 5.15.
    disk_sequence: Option<u64>,
    /// What `blank` compares.
    identity: String,
    exclusive: bool,
    exclusive_error: Option<&'static str>,
    openers: Vec<Opener>,
    /// Processes whose open files could not be listed, so that `openers` may lack them; 0 as root.
    unseen_processes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
}

#[derive(Debug, Serialize)]
struct Opener {
    pid: i32,
    command: String,
}

/// Inspects the device behind `path`, and what is on it when that is asked for.
///
/// # Errors
/// A sentence, when it is not a block device, or cannot be opened to read what is on it.
pub fn inspect(path: &Path, with_content: bool) -> Result<Report, String> {
    let device = BlockDevice::find(path)?;
    let real_path = fs::canonicalize(path)
        .map_err(|error| format!("{} cannot be followed ({error}); try again", path.display()))?;
    let (size_bytes, disk_sequence) = (device.size(), device.disk_sequence());
    let exclusive_error = exclusive_error(&real_path);
    let (openers, unseen_processes) = openers(device.number);
    let content = with_content.then(|| content::examine(&real_path)).transpose()?;
    Ok(Report {
        identity: device.identity(disk_sequence, size_bytes.unwrap_or(0)),
        size_bytes,
        disk_sequence,
        exclusive: exclusive_error.is_none(),
        exclusive_error: exclusive_error.map(Errno::desc),
        real_path,
        device,
        openers,
        unseen_processes,
        content,
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

/// Every other process that has the device with this number open or mapped, and how many processes did not let us look.
fn openers(number: u64) -> (Vec<Opener>, usize) {
    let mut found = Vec::new();
    let mut unseen = 0;
    let mut others = HashSet::new();
    let own = std::process::id() as i32;
    let is_it = |open: &fs::Metadata| open.file_type().is_block_device() && open.rdev() == number;
    let open_is_it = |file: fs::DirEntry| fs::metadata(file.path()).is_ok_and(|open| is_it(&open));
    for pid in process_ids().filter(|&pid| pid != own) {
        // A thread may have files of its own, and the first one may have ended, with the process's files and memory to
        // be seen at the others only. A process that ended meanwhile has nothing open.
        let threads: Vec<i32> = numbers_in(&format!("/proc/{pid}/task")).collect();
        let (mut has_it, mut hidden) = (false, false);
        for thread in &threads {
            match fs::read_dir(format!("/proc/{thread}/fd")) {
                Ok(files) => has_it |= files.flatten().any(open_is_it),
                Err(error) => hidden |= error.kind() == std::io::ErrorKind::PermissionDenied,
            }
        }
        has_it |= threads.iter().find_map(|&thread| maps(thread, &mut others, is_it)).unwrap_or(false);
        if has_it {
            found.push(Opener { pid, command: command_of(pid) });
        }
        unseen += usize::from(hidden);
    }
    (found, unseen)
}

/// Whether a thread's process has it mapped, which lasts when the file was closed; `None` where no memory is to be seen.
///
/// The list of mappings names the node that was opened, of which there may be many; the link to the mapped file leads to
/// the device. `others`: files that it was found not to be, as in the list: most are mapped by many processes.
fn maps(thread: i32, others: &mut HashSet<String>, is_it: impl Fn(&fs::Metadata) -> bool) -> Option<bool> {
    let list = fs::read(format!("/proc/{thread}/maps")).ok().filter(|list| !list.is_empty())?;
    for line in String::from_utf8_lossy(&list).lines() {
        let Some((range, file)) = mapped_file(line) else { continue };
        if others.contains(&file) {
            continue;
        }
        match fs::metadata(format!("/proc/{thread}/map_files/{range}")) {
            Ok(mapped) if is_it(&mapped) => return Some(true),
            Ok(_) => _ = others.insert(file),
            Err(_) => {} // not mapped any more; another process may still have it
        }
    }
    Some(false)
}

/// Range and file of a line of /proc/PID/maps: `7f00-7f10 rw-s 00000000 00:06 123 /dev/sdb`. `None` for memory alone.
fn mapped_file(line: &str) -> Option<(&str, String)> {
    let mut words = line.split_ascii_whitespace();
    let (range, device, inode) = (words.next()?, words.nth(2)?, words.next()?);
    (inode != "0").then(|| (range, format!("{device} {inode}")))
}

/// The processes that this one can see.
pub fn process_ids() -> impl Iterator<Item = i32> {
    numbers_in("/proc")
}

fn numbers_in(directory: &str) -> impl Iterator<Item = i32> {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_known_by_its_device_and_inode() {
        let line = "7f2a10000000-7f2a10100000 rw-s 00000000 00:06 123                        /dev/sd b";
        assert_eq!(mapped_file(line), Some(("7f2a10000000-7f2a10100000", "00:06 123".to_owned())));
        assert_eq!(mapped_file("7ffc0000-7ffd0000 rw-p 00000000 00:00 0    [stack]"), None);
        assert_eq!(mapped_file(""), None);
    }
}
