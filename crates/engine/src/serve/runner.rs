//! Does what one request asks.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::execute::{self, Controller, said};
use super::message::{Answer, Request};
use super::strays;

/// A larger file is refused: the controller reads texts.
const FILE_LIMIT_BYTES: u64 = 512 << 20;

/// The answer to a request.
pub fn answer(message: &[u8], controller: &mut dyn Controller) -> Answer {
    match Request::parse(message) {
        Err(why) => Answer::Failed(why),
        Ok(Request::Hello) => hello(),
        Ok(Request::Run(order)) => execute::run(&order, controller),
        Ok(Request::Write { path, content }) => {
            fs::write(path, content).map_or_else(|error| Answer::Failed(said(&error)), |()| Answer::Done)
        }
        Ok(Request::Read { path }) => match read(&path) {
            Ok(Some(content)) => Answer::Content(content),
            Ok(None) => Answer::Failed(format!("it is larger than {} MiB", FILE_LIMIT_BYTES >> 20)),
            Err(error) if error.kind() == ErrorKind::NotFound => Answer::Missing,
            Err(error) => Answer::Failed(said(&error)),
        },
        Ok(Request::Strays { marker }) => strays::end(&marker),
        Ok(Request::Spin { duration }) => {
            spin(duration);
            Answer::Done
        }
    }
}

/// Who this is; also what the mailbox begins with.
pub fn hello() -> Answer {
    let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    let engine = std::env::current_exe().unwrap_or_default();
    Answer::Hello { pid: std::process::id(), monotonic, engine }
}

/// As the first process of a machine this is given every orphan, and buries them.
pub fn bury_orphans() {
    if Pid::this().as_raw() == 1 {
        while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {}
    }
}

/// `None` when it is too large.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    File::open(path)?.take(FILE_LIMIT_BYTES + 1).read_to_end(&mut content)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= FILE_LIMIT_BYTES))
}

fn spin(duration: Duration) {
    let started = Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::encode;
    use super::*;
    use std::os::fd::BorrowedFd;

    struct Absent;

    impl Controller for Absent {
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }
        fn hear(&mut self) {}
        fn beat(&mut self) -> Option<Instant> {
            None
        }
        fn stops(&mut self) -> bool {
            false
        }
    }

    fn asked(fields: &[&[u8]]) -> Answer {
        answer(&encode(fields), &mut Absent)
    }

    #[test]
    fn files_are_written_and_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        let path = path.to_str().expect("a text").as_bytes();
        assert_eq!(asked(&[b"read", path]), Answer::Missing);
        assert_eq!(asked(&[b"write", path, b"longer"]), Answer::Done);
        assert_eq!(asked(&[b"write", path, b"a\0\xff"]), Answer::Done);
        assert_eq!(asked(&[b"read", path]), Answer::Content(b"a\0\xff".to_vec()));
        let inside = [path, b"/x"].concat();
        assert_eq!(asked(&[b"write", &inside, b""]), Answer::Failed("Not a directory".to_owned()));
        assert_eq!(asked(&[b"read", b"/"]), Answer::Failed("Is a directory".to_owned()));
    }

    #[test]
    fn it_says_who_it_is() {
        let Answer::Hello { pid, monotonic, engine } = asked(&[b"hello"]) else { panic!("no greeting") };
        assert_eq!(pid, std::process::id());
        assert!(monotonic > Duration::ZERO && engine.is_absolute());
    }

    #[test]
    fn what_it_does_not_know_is_said() {
        assert!(matches!(asked(&[b"dance"]), Answer::Failed(why) if why.contains("does not know")));
        assert_eq!(asked(&[b"spin", b"1"]), Answer::Done);
    }
}
