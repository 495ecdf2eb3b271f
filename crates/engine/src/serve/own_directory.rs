//! The current directory of a command: empty and its own, so that a relative name in its arguments names nothing of
//! anybody's.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The places after the first are for a machine whose temporary folder is full or not there.
const PLACES: [&str; 2] = ["/run", "/dev/shm"];

/// Somebody may have taken a name: it can be foretold, for in the exact lab every run makes the same names.
const NAMES: u32 = 1000;

/// Removed with what a program left there, unless something is mounted below it.
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
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let below = format!(" {}/", self.0.display());
        if !mounts.is_empty() && !mounts.contains(&below) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
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
