//! The system calls of a workload, behind a trait so that a test can see them.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Advice, AtFlags, CWD, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

/// What a flowop asks of the kernel: one method is one system call, but for [`System::list`].
pub trait System: Send + Sync + 'static {
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno>;
    fn close(&self, fd: OwnedFd) -> Result<(), Errno>;
    fn read(&self, fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno>;
    fn pread(&self, fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno>;
    fn write(&self, fd: BorrowedFd<'_>, from: &[u8]) -> Result<usize, Errno>;
    fn pwrite(&self, fd: BorrowedFd<'_>, from: &[u8], offset: u64) -> Result<usize, Errno>;
    fn seek_start(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno>;
    fn seek_end(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno>;
    /// Where the next read or write is.
    fn seek_here(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno>;
    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno>;
    fn advise_random(&self, fd: BorrowedFd<'_>) -> Result<(), Errno>;
    fn stat(&self, path: &CStr) -> Result<(), Errno>;
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<(), Errno>;
    fn unlink(&self, path: &CStr) -> Result<(), Errno>;
    fn mkdir(&self, path: &CStr, mode: u32) -> Result<(), Errno>;
    fn rmdir(&self, path: &CStr) -> Result<(), Errno>;
    /// Opens a directory, reads all of it and closes it; the bytes of its entries as filebench counts them.
    fn list(&self, path: &CStr) -> Result<u64, Errno>;
}

/// The kernel itself.
pub struct Kernel;

/// `sizeof(struct dirent)` of the GNU C library on a 64-bit machine, less one.
const ENTRY_BYTES: u64 = 279;

impl System for Kernel {
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
        rustix::fs::open(path, flags, Mode::from_raw_mode(mode))
    }

    fn close(&self, fd: OwnedFd) -> Result<(), Errno> {
        nix::unistd::close(fd).map_err(|error| Errno::from_raw_os_error(error as i32))
    }

    fn read(&self, fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(fd, into)
    }

    fn pread(&self, fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(fd, into, offset)
    }

    fn write(&self, fd: BorrowedFd<'_>, from: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(fd, from)
    }

    fn pwrite(&self, fd: BorrowedFd<'_>, from: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(fd, from, offset)
    }

    fn seek_start(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        rustix::fs::seek(fd, SeekFrom::Start(0))
    }

    fn seek_end(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        rustix::fs::seek(fd, SeekFrom::End(0))
    }

    fn seek_here(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        rustix::fs::seek(fd, SeekFrom::Current(0))
    }

    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fsync(fd)
    }

    fn advise_random(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fadvise(fd, 0, None, Advice::Random)
    }

    fn stat(&self, path: &CStr) -> Result<(), Errno> {
        rustix::fs::stat(path).map(drop)
    }

    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fstat(fd).map(drop)
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        rustix::fs::unlink(path)
    }

    fn mkdir(&self, path: &CStr, mode: u32) -> Result<(), Errno> {
        rustix::fs::mkdir(path, Mode::from_raw_mode(mode))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)
    }

    fn list(&self, path: &CStr) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let mut buffer = [MaybeUninit::uninit(); 32 << 10];
        let mut entries = RawDir::new(&directory, &mut buffer);
        let mut bytes = 0;
        while let Some(entry) = entries.next() {
            bytes += entry?.file_name().to_bytes().len() as u64 + ENTRY_BYTES;
        }
        Ok(bytes)
    }
}
