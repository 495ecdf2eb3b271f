//! Where a served disk is written down, so that it can be found and removed.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "/run/strata-disks";

/// The name of a served disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.len() > 64 || text.starts_with('.') || !text.chars().all(fits) {
            return Err(format!("'{text}' is no name for a disk; use up to 64 letters, digits, '-', '_' and '.'"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is written down, before the kernel is asked for anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The device's number.
    pub number: u32,
    /// The server, while it holds the note's lock.
    pub server_pid: i32,
    /// The link that was asked for.
    pub link: Option<PathBuf>,
}

impl Name {
    fn path(&self) -> PathBuf {
        PathBuf::from(FOLDER).join(format!("{}.json", self.0))
    }

    /// Writes down; fails when there is a note of this name. What is returned holds the note's lock, by which others see
    /// that the server lives.
    ///
    /// # Errors
    /// A sentence.
    pub fn write(&self, note: &Note) -> Result<Flock<fs::File>, String> {
        let path = self.path();
        let write = || -> io::Result<Flock<fs::File>> {
            fs::create_dir_all(FOLDER)?;
            let file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
            let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)?;
            serde_json::to_writer(&*locked, note)?;
            Ok(locked)
        };
        write().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("there is a disk called '{self}'; take it away first: strata-engine disk stop {self}")
            }
            _ => format!("{} cannot be written ({error}); run this as root", path.display()),
        })
    }

    /// What is written down, if anything; half a note, from a machine that went down meanwhile, counts as nothing.
    ///
    /// # Errors
    /// A sentence.
    pub fn read(&self) -> Result<Option<Note>, String> {
        let path = self.path();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(serde_json::from_str(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} cannot be read ({error}); run this as root", path.display())),
        }
    }

    /// Whether the server of the disk lives.
    #[must_use]
    pub fn is_served(&self) -> bool {
        fs::File::open(self.path()).is_ok_and(|file| {
            matches!(Flock::lock(file, FlockArg::LockExclusiveNonblock), Err((_, Errno::EWOULDBLOCK)))
        })
    }

    /// Forgets what is written down.
    ///
    /// # Errors
    /// A sentence.
    pub fn forget(&self) -> Result<(), String> {
        let path = self.path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{} cannot be removed ({error}); run this as root", path.display()))
            }
            _ => {
                // Fails while there are others.
                let _ = fs::remove_dir(FOLDER);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        assert!(Name::from_str("vd-0.b_1").is_ok());
        for wrong in ["", ".", "..", "a/b", "/etc", "a b", "ü", &"x".repeat(65)] {
            assert!(Name::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
