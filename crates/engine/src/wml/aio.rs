//! Asynchronous writes: one more thread carries them out in order, as the C library does for one file.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::files::locked;
use super::shared::Shared;
use super::system::System;

/// Writes on their way at most, and their bytes unless one alone has more: a fast thread cannot use up the memory, and
/// what it hands over is not far ahead of what is written.
const MOST: usize = 4096;
const MOST_BYTES: u64 = 64 << 20;

struct Job {
    fd: Arc<OwnedFd>,
    offset: u64,
    data: Vec<u8>,
}

#[derive(Default)]
struct State {
    completed: AtomicU64,
    /// On their way.
    bytes: AtomicU64,
    errno: AtomicI32,
    /// The run is over: what is not begun is left out, as with a process that ends.
    given_up: AtomicBool,
    lock: Mutex<()>,
    one_completed: Condvar,
}

pub struct Aio {
    jobs: Option<SyncSender<Job>>,
    state: Arc<State>,
    submitted: u64,
    reaped: u64,
    /// The number of the flowop that has handed over the last one.
    step: usize,
    thread: Option<JoinHandle<()>>,
}

impl Aio {
    pub fn start<S: System>(shared: &Arc<Shared<S>>) -> Self {
        let (jobs, to_do) = sync_channel::<Job>(MOST);
        let state = Arc::new(State::default());
        let (shared, seen) = (Arc::clone(shared), Arc::clone(&state));
        let writer = move || {
            for job in to_do {
                if !seen.given_up.load(Ordering::Relaxed) {
                    if let Err(errno) = shared.system.pwrite(job.fd.as_fd(), &job.data, job.offset) {
                        seen.errno.store(errno.raw_os_error(), Ordering::Relaxed);
                    }
                }
                let bytes = job.data.len() as u64;
                // The file is given up before the write counts as done: whoever waits may close it.
                drop(job);
                let _held = locked(&seen.lock);
                seen.completed.fetch_add(1, Ordering::AcqRel);
                seen.bytes.fetch_sub(bytes, Ordering::AcqRel);
                seen.one_completed.notify_all();
            }
        };
        let thread = std::thread::Builder::new().name("aio".to_owned()).stack_size(128 << 10).spawn(writer).ok();
        Self { jobs: thread.is_some().then_some(jobs), state, submitted: 0, reaped: 0, step: 0, thread }
    }

    /// Hands a write over; waits while too many are on their way.
    ///
    /// # Errors
    /// When there is no thread to carry it out, or what an earlier one failed with: nothing else may ask.
    pub fn submit(&mut self, step: usize, fd: Arc<OwnedFd>, offset: u64, data: Vec<u8>) -> Result<(), Errno> {
        self.outcome()?;
        self.step = step;
        let jobs = self.jobs.as_ref().ok_or(Errno::AGAIN)?;
        self.wait_for_room(data.len() as u64);
        jobs.send(Job { fd, offset, data }).map_err(|_| Errno::AGAIN)?;
        self.submitted += 1;
        Ok(())
    }

    fn wait_for_room(&self, bytes: u64) {
        let mut held = locked(&self.state.lock);
        loop {
            let on_their_way = self.state.bytes.load(Ordering::Acquire);
            if on_their_way == 0 || on_their_way + bytes <= MOST_BYTES {
                break;
            }
            held = self.state.one_completed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        self.state.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Takes note of those that are done, at most half of them but one at least; does not wait.
    ///
    /// # Errors
    /// What a write failed with.
    pub fn reap(&mut self) -> Result<(), Errno> {
        let done = self.state.completed.load(Ordering::Acquire);
        let half = ((self.submitted - self.reaped) / 2).max(1);
        self.reaped += (done - self.reaped).min(half);
        self.outcome()
    }

    /// # Errors
    /// What a write failed with since this was last asked.
    pub fn outcome(&mut self) -> Result<(), Errno> {
        match self.state.errno.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno)),
        }
    }

    /// The flowop whose writes these are.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Waits until all are done.
    pub fn finish(&mut self) {
        let mut held = locked(&self.state.lock);
        while self.jobs.is_some() && self.state.completed.load(Ordering::Acquire) < self.submitted {
            held = self.state.one_completed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        self.reaped = self.submitted;
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        self.state.given_up.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
