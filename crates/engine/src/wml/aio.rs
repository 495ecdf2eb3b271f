//! Asynchronous writes as the C library of filebench carries them out: some threads, those of one file in order.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::files::locked;
use super::shared::Shared;
use super::system::System;

/// Threads at most, as in glibc (aio_init(3)).
const THREADS: usize = 20;
/// Bytes on their way at most, unless one write alone has more: a fast thread cannot use up the memory, and what it hands
/// over is not far ahead of what is written.
const MOST_BYTES: u64 = 64 << 20;
/// What a small write counts as: keeping it takes memory too.
const LEAST_BYTES: u64 = 512;

struct Job {
    fd: Arc<OwnedFd>,
    offset: u64,
    data: Vec<u8>,
    /// The number of the flowop that has handed it over.
    step: usize,
}

impl Job {
    fn bytes(&self) -> u64 {
        (self.data.len() as u64).max(LEAST_BYTES)
    }
}

#[derive(Default)]
struct Queue {
    /// By descriptor: what is not begun. It is there, and may be empty, while one of the file's is carried out.
    waiting: BTreeMap<RawFd, VecDeque<Job>>,
    /// Files that have some and of which none is carried out.
    ready: VecDeque<RawFd>,
    idle: usize,
    submitted: u64,
    completed: u64,
    /// On their way.
    bytes: u64,
    /// The first failure that was not asked for yet: what it was, and of which flowop.
    failure: Option<(Errno, usize)>,
    /// The run is over: what is not begun is left out, as with a process that ends.
    given_up: bool,
}

#[derive(Default)]
struct State {
    queue: Mutex<Queue>,
    one_ready: Condvar,
    one_completed: Condvar,
}

pub struct Aio<S: System> {
    shared: Arc<Shared<S>>,
    state: Arc<State>,
    reaped: u64,
    threads: Vec<JoinHandle<()>>,
}

impl<S: System> Aio<S> {
    pub fn new(shared: &Arc<Shared<S>>) -> Self {
        Self { shared: Arc::clone(shared), state: Arc::default(), reaped: 0, threads: Vec::new() }
    }

    /// Hands a write over; waits while too many are on their way.
    ///
    /// # Errors
    /// When there is no thread to carry it out, or what an earlier one failed with, and its flowop: nothing else may ask.
    pub fn submit(&mut self, step: usize, fd: Arc<OwnedFd>, offset: u64, data: Vec<u8>) -> Result<(), (Errno, usize)> {
        self.outcome()?;
        let job = Job { fd, offset, data, step };
        let mut queue = locked(&self.state.queue);
        while queue.bytes > 0 && queue.bytes + job.bytes() > MOST_BYTES {
            queue = self.state.one_completed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.bytes += job.bytes();
        queue.submitted += 1;
        let file = job.fd.as_raw_fd();
        let of_file = queue.waiting.entry(file);
        if matches!(of_file, std::collections::btree_map::Entry::Vacant(_)) {
            of_file.or_default().push_back(job);
            queue.ready.push_back(file);
        } else {
            of_file.or_default().push_back(job);
        }
        let one_more = queue.ready.len() > queue.idle && self.threads.len() < THREADS;
        drop(queue);
        if one_more {
            let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
            let thread = std::thread::Builder::new().name("aio".to_owned()).stack_size(128 << 10);
            match thread.spawn(move || carry_out(&shared, &state)) {
                Ok(thread) => self.threads.push(thread),
                Err(_) if self.threads.is_empty() => return Err((Errno::AGAIN, step)),
                Err(_) => {}
            }
        }
        self.state.one_ready.notify_one();
        Ok(())
    }

    /// Takes note of those that are done, at most half of them but one at least; does not wait.
    ///
    /// # Errors
    /// What a write failed with, and its flowop.
    pub fn reap(&mut self) -> Result<(), (Errno, usize)> {
        let (submitted, completed) = {
            let queue = locked(&self.state.queue);
            (queue.submitted, queue.completed)
        };
        let half = ((submitted - self.reaped) / 2).max(1);
        self.reaped += (completed - self.reaped).min(half);
        self.outcome()
    }

    /// # Errors
    /// What a write failed with since this was last asked, and its flowop.
    pub fn outcome(&mut self) -> Result<(), (Errno, usize)> {
        locked(&self.state.queue).failure.take().map_or(Ok(()), Err)
    }

    /// Waits until all are done.
    pub fn finish(&mut self) {
        let mut queue = locked(&self.state.queue);
        while queue.completed < queue.submitted {
            queue = self.state.one_completed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.reaped = queue.submitted;
    }
}

impl<S: System> Drop for Aio<S> {
    fn drop(&mut self) {
        locked(&self.state.queue).given_up = true;
        self.state.one_ready.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Carries out one write after the other until they are given up.
fn carry_out<S: System>(shared: &Shared<S>, state: &State) {
    let mut queue = locked(&state.queue);
    while let (Some(job), rest) = next(queue, state) {
        drop(rest);
        let (file, bytes, step) = (job.fd.as_raw_fd(), job.bytes(), job.step);
        let outcome = shared.system.pwrite(job.fd.as_fd(), &job.data, job.offset);
        // The file is given up before the write counts as done: whoever waits may close it.
        drop(job);
        queue = locked(&state.queue);
        if let Err(errno) = outcome {
            queue.failure.get_or_insert((errno, step));
        }
        queue.completed += 1;
        queue.bytes -= bytes;
        match queue.waiting.get(&file) {
            Some(more) if !more.is_empty() => queue.ready.push_back(file),
            _ => {
                queue.waiting.remove(&file);
            }
        }
        state.one_completed.notify_all();
    }
}

/// The first write of the file whose turn it is; None when they are given up.
fn next<'a>(mut queue: MutexGuard<'a, Queue>, state: &'a State) -> (Option<Job>, MutexGuard<'a, Queue>) {
    loop {
        if queue.given_up {
            return (None, queue);
        }
        let file = queue.ready.pop_front();
        if let Some(job) = file.and_then(|file| queue.waiting.get_mut(&file)?.pop_front()) {
            return (Some(job), queue);
        }
        queue.idle += 1;
        queue = state.one_ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
    }
}
