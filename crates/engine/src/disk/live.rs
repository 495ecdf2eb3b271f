//! A served disk as long as it is live: made, started, and removed again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

use strata_disks::{CrashState, Device, Model, WriteCache};

use super::memory::Memory;
use super::queue::{Queue, Spent, serve};
use super::record::Record;
use super::ublk::{Attributes, Driver};

/// A live disk of this program.
pub struct Live {
    driver: Driver,
    number: u32,
    thread: Option<JoinHandle<Result<Spent, String>>>,
}

/// The node of a device.
pub fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

/// The node for the server of a device.
pub fn server_node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{number}"))
}

/// The least number that no device has.
pub fn free_number() -> u32 {
    (0..).find(|&number| !server_node(number).exists()).unwrap_or(u32::MAX)
}

impl Live {
    /// Makes a device with this number, serves it and makes it live. `at_end` is called when its queue ends, for whatever
    /// reason.
    ///
    /// # Errors
    /// A sentence, when one of that is not possible; then nothing of it is left.
    pub fn start(
        number: u32,
        model: &Model,
        size_bytes: u64,
        seed: u64,
        record: Option<&Path>,
        at_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, String> {
        let device = Device::new(model, size_bytes, seed)?;
        let memory = Memory::new(size_bytes)?;
        let record = record.map(|path| Record::new(path, model, size_bytes, seed)).transpose()?;
        let crash = model.faults.power_cut_s.map(|_| (CrashState::new(model.logical_block_bytes), seed));
        let attributes = Attributes {
            size_bytes,
            depth: model.queue_depth.min(128) as u16,
            largest_request_bytes: model.largest_request_bytes,
            logical_block_bytes: model.logical_block_bytes,
            physical_block_bytes: model.physical_block_bytes,
            rotational: model.rotational(),
            volatile_cache: model.write_cache == WriteCache::Volatile,
            discards: model.discards(),
        };
        let mut driver = Driver::open()?;
        driver.add(number, &attributes).map_err(|error| {
            format!("the kernel refuses the disk ({error}); it takes Linux 6.5 or newer; see dmesg")
        })?;
        let queue = Queue {
            device,
            crash,
            memory,
            record,
            depth: attributes.depth,
            largest_request_bytes: attributes.largest_request_bytes,
            logical_block_bytes: attributes.logical_block_bytes,
        };
        let (ready, is_ready) = mpsc::channel();
        let path = server_node(number);
        let thread = std::thread::spawn(move || {
            let spent = serve(&path, queue, &ready);
            at_end();
            spent
        });
        let mut live = Self { driver, number, thread: Some(thread) };
        let begun =
            is_ready.recv().unwrap_or_else(|_| Err("the disk's thread ended; try again".to_owned())).and_then(|()| {
                live.driver.start(number).map_err(|error| format!("the disk does not go live ({error}); see dmesg"))
            });
        match begun {
            Ok(()) => Ok(live),
            Err(message) => {
                let _ = live.end();
                Err(message)
            }
        }
    }

    /// The device's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes the disk away.
    ///
    /// # Errors
    /// A sentence, when the queue had failed.
    pub fn end(&mut self) -> Result<Spent, String> {
        // Either fails when the device is gone already, which is what is wanted.
        let _ = self.driver.stop(self.number);
        let spent = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(spent)) => spent,
            Some(Err(_)) => Err("the disk's thread panicked; report this".to_owned()),
            None => Ok(Spent::default()),
        };
        let _ = self.driver.delete(self.number);
        spent
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.end();
        }
    }
}

/// Whether a disk may be removed.
///
/// # Errors
/// A sentence, when something uses it.
pub fn check_unused(number: u32) -> Result<(), String> {
    let node = node(number);
    if in_use(&node) {
        return Err(format!("{} is in use; unmount it and take down what stands on it first", node.display()));
    }
    Ok(())
}

/// Removes a device whose server is gone; nothing when there is none.
///
/// # Errors
/// A sentence, when the kernel keeps it.
pub fn take_away(number: u32) -> Result<(), String> {
    if !server_node(number).exists() {
        return Ok(());
    }
    let node = node(number);
    let mut driver = Driver::open()?;
    let gone = |error: &io::Error| error.raw_os_error() == Some(nix::libc::ENODEV);
    for result in [driver.stop(number), driver.delete(number)] {
        if let Err(error) = result {
            if !gone(&error) {
                return Err(format!("{} cannot be removed ({error}); see dmesg", node.display()));
            }
        }
    }
    Ok(())
}

fn in_use(node: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let opened = fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(node);
    opened.is_err_and(|error| error.raw_os_error() == Some(nix::libc::EBUSY))
}
