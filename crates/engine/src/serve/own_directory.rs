//! The current directory of a command: empty and its own, so that a relative name in its arguments names nothing of
//! anybody's.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The places after the first are for a machine whose temporary folder is full or not there.
const PLACES: [&str; 2] = ["/run", "/dev/shm"];

/// Somebody may have taken a name: it can be foretold, for in the exact lab every run makes the same names.
const NAMES: u32 = 1000;

/// Removed with what a program left there, unless something is mounted on it or below it.
pub struct OwnDirectory(PathBuf);

impl OwnDirectory {
    /// # Errors
    /// When no place takes a directory.
    pub fn new() -> io::Result<Self> {
        let first = make_in(&std::env::temp_dir());
        PLACES.iter().fold(first, |found, place| found.or_else(|_| make_in(Path::new(place)))).map(Self)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // The common case, and the only one that needs no look at what is mounted.
        if fs::remove_dir(&self.0).is_ok() {
            return;
        }
        if !holds_mount(&self.0) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Whether something is mounted on `path` or below it, or what is mounted cannot be read.
fn holds_mount(path: &Path) -> bool {
    // The kernel shows mount points without links. The last name is a directory of ours; a link in its place is not
    // followed by the removal either.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return true };
    let (Ok(parent), Ok(mounts)) = (parent.canonicalize(), fs::read("/proc/self/mountinfo")) else { return true };
    let directory = parent.join(name);
    mounts
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .any(|point| Path::new(OsStr::from_bytes(&unescaped(point))).starts_with(&directory))
}

/// A mount point without the octal numbers that stand for blanks, line ends and backslashes (proc(5), mountinfo).
fn unescaped(point: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(point.len());
    let mut rest = point;
    while let [first, after @ ..] = rest {
        let number = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => (plain.push(byte), rest = &after[3..]),
            _ => (plain.push(*first), rest = after),
        };
    }
    plain
}

fn make_in(place: &Path) -> io::Result<PathBuf> {
    for number in 0..NAMES {
        let path = place.join(format!("strata-cwd-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            result => return result.map(|()| path),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
#[path = "own_directory_tests.rs"]
mod tests;
