//! What the kernel is asked, recorded; and kernels that fail or hang.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Barrier, Mutex};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::files::locked;
use super::super::system::{Kernel, System};

/// The kernel, with a note of each call and, where asked for, a failure in its place.
#[derive(Default)]
pub struct Recorder {
    pub calls: Mutex<Vec<String>>,
    /// The same for who no longer has the recorder.
    pub seen: Option<Arc<Mutex<Vec<String>>>>,
    pub fail: Option<(&'static str, Errno)>,
    pub hang: Option<&'static str>,
    /// A call that goes on when as many are being made as the barrier asks for.
    pub meet: Option<(&'static str, Barrier)>,
    /// Writes no more than so many bytes at a time.
    pub most: Option<usize>,
}

impl Recorder {
    fn note<T>(&self, call: &str, detail: String, go: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let calls = self.seen.as_deref().unwrap_or(&self.calls);
        locked(calls).push(format!("{call}{detail}"));
        if let Some((_, barrier)) = self.meet.as_ref().filter(|(which, _)| *which == call) {
            barrier.wait();
        }
        if self.hang == Some(call) {
            std::thread::sleep(std::time::Duration::from_secs(3));
        }
        match self.fail {
            Some((which, errno)) if which == call => Err(errno),
            _ => go(),
        }
    }

    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.calls))
    }
}

impl System for Recorder {
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
        let kind = match flags & (OFlags::RDONLY | OFlags::WRONLY | OFlags::RDWR) {
            OFlags::RDWR => " rw",
            OFlags::WRONLY => " w",
            _ => " r",
        };
        let extra: String = [
            (OFlags::CREATE, " create"),
            (OFlags::SYNC, " sync"),
            (OFlags::DIRECT, " direct"),
            (OFlags::TRUNC, " trunc"),
            (OFlags::EXCL, " excl"),
        ]
        .iter()
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, name)| *name)
        .collect();
        self.note("open", format!("{kind}{extra}"), || Kernel.open(path, flags, mode))
    }

    fn close(&self, fd: OwnedFd) -> Result<(), Errno> {
        self.note("close", String::new(), || Kernel.close(fd))
    }

    fn read(&self, fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        self.note("read", format!(" {}", into.len()), || Kernel.read(fd, into))
    }

    fn pread(&self, fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let detail = format!(" {} at {offset}", into.len());
        self.note("pread", detail, || Kernel.pread(fd, into, offset))
    }

    fn write(&self, fd: BorrowedFd<'_>, from: &[u8]) -> Result<usize, Errno> {
        self.note("write", format!(" {}", from.len()), || {
            Kernel.write(fd, &from[..from.len().min(self.most.unwrap_or(usize::MAX))])
        })
    }

    fn pwrite(&self, fd: BorrowedFd<'_>, from: &[u8], offset: u64) -> Result<usize, Errno> {
        self.note("pwrite", format!(" {} at {offset}", from.len()), || Kernel.pwrite(fd, from, offset))
    }

    fn seek_start(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.note("lseek", " start".to_owned(), || Kernel.seek_start(fd))
    }

    fn seek_end(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.note("lseek", " end".to_owned(), || Kernel.seek_end(fd))
    }

    fn seek_here(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.note("lseek", " here".to_owned(), || Kernel.seek_here(fd))
    }

    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("fsync", String::new(), || Kernel.fsync(fd))
    }

    fn advise_random(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("fadvise", String::new(), || Kernel.advise_random(fd))
    }

    fn stat(&self, path: &CStr) -> Result<(), Errno> {
        self.note("stat", String::new(), || Kernel.stat(path))
    }

    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("fstat", String::new(), || Kernel.fstat(fd))
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        self.note("unlink", String::new(), || Kernel.unlink(path))
    }

    fn mkdir(&self, path: &CStr, mode: u32) -> Result<(), Errno> {
        self.note("mkdir", String::new(), || Kernel.mkdir(path, mode))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        self.note("rmdir", String::new(), || Kernel.rmdir(path))
    }

    fn list(&self, path: &CStr) -> Result<u64, Errno> {
        self.note("list", String::new(), || Kernel.list(path))
    }
}
