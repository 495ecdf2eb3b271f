//! Makes a block device empty: the very device that the caller looked at, and only while nobody else has it.
//!
//! A name may lead to another device by now, and so may a number. So the device is opened once, as its only claimant,
//! and what is compared, looked at and written is that open device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::libc;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};
use serde::Serialize;

use crate::content;
use crate::machine::BlockDevice;

/// `BLKGETDISKSEQ` of linux/fs.h; unknown before Linux 5.15.
const SEQUENCE: rustix::ioctl::Opcode = opcode::read::<u64>(0x12, 128);

/// `BLKDISCARD` of linux/fs.h; takes the start and the length in bytes.
const DISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

/// The answer of `strata-engine blank`.
#[derive(Debug, Serialize)]
pub struct Blanked {
    bytes_written: u64,
    bytes_discarded: u64,
}

/// How a device is made empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Write zeros to all that `content::examine` reads.
    Zeros,
    /// Remove every signature of the device and of its partitions, and the partitions; then as `Zeros`.
    Wipe,
    /// Discard all of the device, and write nothing.
    Discard,
}

/// Makes the device at `path` empty. One that carries a signature is left alone, unless it is to be wiped.
///
/// # Errors
/// A sentence, when it is in use, is not the device with this identity, carries something, or cannot be written or
/// discarded.
pub fn run(path: &Path, identity: &str, method: Method) -> Result<Blanked, String> {
    let shown = path.display();
    let cannot = |error: io::Error| format!("{shown} cannot be blanked ({error}); see dmesg");
    let flags = libc::O_DIRECT | libc::O_EXCL;
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path).map_err(cannot)?;
    let opened = file.metadata().map_err(cannot)?;
    if !opened.file_type().is_block_device() {
        return Err(format!("{shown} is not a block device; give one, such as /dev/loop0 or a link to it"));
    }
    let device = BlockDevice::numbered(path, opened.rdev());
    let found = device.identity(sequence(&file), content::size_of(&file).map_err(cannot)?);
    if found != identity {
        return Err(format!(
            "{shown} is not the device that was looked at and nothing was written to it (it was '{identity}' and is \
             '{found}'); see the kernel's log for what happened to it"
        ));
    }
    // Open, so that none of them can go and its number become another device.
    let parts = device.partitions().into_iter().map(open).collect::<io::Result<Vec<File>>>().map_err(cannot)?;
    if method == Method::Wipe {
        for each in parts.iter().rev().chain([&file]) {
            // Without force it would claim the device, which is claimed here.
            tool("wipefs", &["--all", "--force", "--quiet", "--"], each).map_err(cannot)?;
        }
        let partitioned = !parts.is_empty();
        drop(parts);
        if partitioned {
            // On a kernel that reads the table itself they are gone by now, and partx then has nothing to delete.
            let _ = Command::new("partx").args(["--delete", "--"]).arg(path).output();
        }
    } else {
        for each in parts.iter().chain([&file]) {
            let types =
                tool("wipefs", &["--no-act", "--noheadings", "--output", "TYPE", "--"], each).map_err(cannot)?;
            let types: Vec<&str> = types.split_whitespace().collect();
            if !types.is_empty() {
                return Err(format!(
                    "{shown} carries {} and nothing was written to it; remove it with wipefs if it is not needed any \
                     more",
                    types.join(" and ")
                ));
            }
        }
    }
    if method == Method::Discard {
        let bytes_discarded = content::size_of(&file).map_err(cannot)?;
        discard(&file, bytes_discarded).map_err(|error| {
            format!(
                "{shown} says that it can discard, and the discard failed ({error}); see dmesg, or switch its discards \
                 off: write 0 to its queue/discard_max_bytes in /sys/block"
            )
        })?;
        return Ok(Blanked { bytes_written: 0, bytes_discarded });
    }
    Ok(Blanked { bytes_written: content::clear(&file).map_err(cannot)?, bytes_discarded: 0 })
}

/// The first `length` bytes of the open device.
fn discard(file: &File, length: u64) -> io::Result<()> {
    // SAFETY: the kernel reads the two numbers of eight bytes that this opcode takes, and writes no memory.
    #[allow(unsafe_code)]
    unsafe {
        ioctl(file, Setter::<DISCARD, [u64; 2]>::new([0, length]))?;
    }
    Ok(())
}

/// Of the open disk, or of the one that it is a part of; `None` where the kernel has none.
fn sequence(file: &File) -> Option<u64> {
    // SAFETY: the kernel writes the number of eight bytes that the opcode names, and nothing else.
    #[allow(unsafe_code)]
    unsafe {
        ioctl(file, Getter::<SEQUENCE, u64>::new()).ok()
    }
}

/// The device with this number, to be read, by the name that the kernel gives it.
fn open(number: u64) -> io::Result<File> {
    let gone = || io::Error::other("a partition went away; try again");
    let name = BlockDevice::numbered(Path::new(""), number).kernel_name.ok_or_else(gone)?;
    let file = File::open(Path::new("/dev").join(name.replace('!', "/")))?;
    let found = file.metadata()?;
    if found.file_type().is_block_device() && found.rdev() == number { Ok(file) } else { Err(gone()) }
}

/// What a program says of an open device; it opens it again by this process, not by its name.
fn tool(program: &str, arguments: &[&str], device: &File) -> io::Result<String> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), device.as_raw_fd());
    let done = Command::new(program).args(arguments).arg(path).stdin(Stdio::null()).output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        return Err(io::Error::other(format!("{program}: {said}")));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
