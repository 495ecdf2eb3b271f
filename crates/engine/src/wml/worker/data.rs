//! Flowops that move data, and those that bring it to the disk.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use strata_wml::{Flowop, Number, Type};

use super::super::Fix;
use super::super::aio::Aio;
use super::super::content::Content;
use super::super::system::System;
use super::{Halt, Outcome, Outcomes, Step, Worker, add, closed, done, thread_cpu_ns};

impl<S: System> Worker<'_, S> {
    pub(super) fn iosize(&mut self, flowop: &Flowop) -> u64 {
        match &flowop.iosize {
            Number::Whole(bytes) => *bytes,
            random @ Number::Random(_) => random.whole(&mut self.random),
        }
    }

    /// The range of random offsets.
    pub(super) fn range(&self, step: &Step, file_bytes: u64) -> u64 {
        let workset = match step.flowop.workingset {
            Number::Whole(bytes) => bytes,
            Number::Random(_) => self.worksets[step.id],
        };
        if workset == 0 { file_bytes } else { workset }
    }

    pub(super) fn random_offset(&mut self, range: u64, iosize: u64) -> u64 {
        let last = if self.shared.fixed(Fix::LastBlock) { iosize } else { 0 };
        self.random.bounded(range.saturating_add(last), iosize)
    }

    /// Where in the thread's memory so many bytes are moved from or to.
    pub(super) fn place(&mut self, step: &Step, length: usize) -> Result<usize, Halt> {
        if self.memsize == 0 {
            return match self.buffers[step.id].try_grow(length) {
                true => Ok(0),
                false => Err(Halt::Failed(format!("there is no memory for {length} bytes at a time"), None)),
            };
        }
        match self.memsize.checked_sub(length) {
            None => {
                let why = format!("{length} bytes do not fit into the thread's memsize {}; give it more", self.memsize);
                Err(Halt::Failed(why, None))
            }
            Some(_) if length == 0 => Ok(0),
            Some(room) => Ok(self.random.0.below((room / length) as u64 + 1) as usize * length),
        }
    }

    pub(super) fn buffer(&mut self, step: &Step, offset: usize, length: usize) -> &mut [u8] {
        if self.memsize == 0 { self.buffers[step.id].piece(offset, length) } else { self.memory.piece(offset, length) }
    }

    pub(super) fn read_whole_file(&mut self, step: &Step) -> Outcomes {
        let (_, fd, file_bytes) = self.opened(step)?;
        // A file that was laid out empty is read with nothing to read into, whatever it holds by now.
        let iosize = match self.iosize(&step.flowop) {
            0 => self.range(step, file_bytes),
            bytes => bytes,
        } as usize;
        let place = self.place(step, iosize)?;
        let shared = self.shared;
        let start = shared.now();
        shared.system.seek_start(fd.as_fd())?;
        let mut bytes = 0;
        loop {
            match shared.system.read(fd.as_fd(), self.buffer(step, place, iosize))? {
                0 => break,
                read => bytes += read as u64,
            }
        }
        Ok(done(start, shared.now(), bytes))
    }

    pub(super) fn write_whole_file(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, own_bytes) = self.opened(step)?;
        let own = self.range(step, own_bytes);
        let source = flowop.srcfd.unwrap_or(0);
        let size = match self.slots[source].known() {
            Some((set, member)) => self.shared.files[set].tree.files[member as usize].bytes,
            None if source == 0 => own,
            None => {
                let why = format!("slot {source} knows no file, of which srcfd= takes the size; open one first");
                return Err(Halt::Failed(why, None));
            }
        };
        let iosize = match self.iosize(flowop) {
            0 => own,
            bytes => bytes,
        };
        if size > 0 && iosize == 0 {
            let why = "the file that it writes to is empty, and that is the size of its pieces; give it iosize=";
            return Err(Halt::Failed(why.to_owned(), None));
        }
        let shared = self.shared;
        if size <= iosize {
            return self.write_at(step, &fd, size, None);
        }
        let place = self.place(step, iosize as usize)?;
        let start = shared.now();
        let (mut written, mut left) = (0, size);
        while left > 0 {
            let whole = if shared.fixed(Fix::WriteWhole) { iosize.min(left) } else { iosize };
            written += self.put_all(step, fd.as_fd(), place, whole as usize)?;
            left = left.saturating_sub(iosize);
        }
        Ok(self.written(start, written))
    }

    /// Writes once, here or at an offset.
    pub(super) fn write_at(&mut self, step: &Step, fd: &OwnedFd, bytes: u64, offset: Option<u64>) -> Outcomes {
        let place = self.place(step, bytes as usize)?;
        let start = self.shared.now();
        if bytes > 0 {
            self.put(step, fd.as_fd(), place, bytes as usize, offset)?;
        }
        Ok(self.written(start, bytes))
    }

    /// What was written since `start`, without the time that its data took: filebench writes what lies in its buffer.
    fn written(&mut self, start: u64, bytes: u64) -> Outcome {
        done(start + std::mem::take(&mut self.preparing_ns), self.shared.now(), bytes)
    }

    pub(super) fn put(
        &mut self,
        step: &Step,
        fd: BorrowedFd<'_>,
        place: usize,
        length: usize,
        offset: Option<u64>,
    ) -> Result<u64, Errno> {
        let shared = self.shared;
        let system = &shared.system;
        let made = shared.content != Content::Zeros;
        let before = if made { shared.now() } else { 0 };
        let from = match self.source.next(length) {
            Some(from) => from,
            None if self.memsize == 0 => self.buffers[step.id].piece(place, length),
            None => self.memory.piece(place, length),
        };
        if made {
            self.preparing_ns += shared.now() - before;
        }
        let written = match offset {
            Some(offset) => system.pwrite(fd, from, offset)?,
            None => system.write(fd, from)?,
        };
        Ok(written as u64)
    }

    pub(super) fn append_file(&mut self, step: &Step) -> Outcomes {
        let iosize = self.iosize(&step.flowop);
        let bytes = if step.flowop.of == Type::AppendFileRand { self.random.bounded(iosize, 1) } else { iosize };
        let shared = self.shared;
        if bytes == 0 {
            // It counts, and nothing is opened for it.
            let now = shared.now();
            return Ok(done(now, shared.now(), 0));
        }
        let (_, fd, _) = self.opened(step)?;
        let place = self.place(step, bytes as usize)?;
        let start = shared.now();
        shared.system.seek_end(fd.as_fd())?;
        self.put_all(step, fd.as_fd(), place, bytes as usize)?;
        Ok(self.written(start, bytes))
    }

    /// The same; a write that is cut short fails.
    fn put_all(&mut self, step: &Step, fd: BorrowedFd<'_>, place: usize, length: usize) -> Result<u64, Halt> {
        let written = self.put(step, fd, place, length, None)?;
        if written == length as u64 {
            return Ok(written);
        }
        let why = format!("{written} of {length} bytes were written; the file system may be full, or a limit reached");
        Err(Halt::Failed(why, None))
    }

    /// The range of a flowop at random offsets, that its pieces must fit into.
    fn random_range(&self, step: &Step, file_bytes: u64, iosize: u64) -> Result<u64, Halt> {
        let range = self.range(step, file_bytes);
        if iosize <= range {
            return Ok(range);
        }
        let why = format!(
            "iosize is {iosize} and the range of its offsets {range} bytes; make it smaller, or the file larger"
        );
        Err(Halt::Failed(why, None))
    }

    pub(super) fn read(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, file_bytes) = self.opened(step)?;
        let iosize = self.iosize(flowop);
        let place = self.place(step, iosize as usize)?;
        let shared = self.shared;
        if flowop.random {
            let range = self.random_range(step, file_bytes, iosize)?;
            let offset = self.random_offset(range, iosize);
            let start = shared.now();
            let bytes = shared.system.pread(fd.as_fd(), self.buffer(step, place, iosize as usize), offset)?;
            return Ok(done(start, shared.now(), bytes as u64));
        }
        let start = shared.now();
        let bytes = shared.system.read(fd.as_fd(), self.buffer(step, place, iosize as usize))?;
        let end = shared.now();
        if bytes == 0 {
            shared.system.seek_start(fd.as_fd())?;
        }
        Ok(done(start, end, bytes as u64))
    }

    pub(super) fn write(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, file_bytes) = self.opened(step)?;
        let iosize = self.iosize(flowop);
        if flowop.random {
            let range = self.random_range(step, file_bytes, iosize)?;
            let offset = self.random_offset(range, iosize);
            return self.write_at(step, &fd, iosize, Some(offset));
        }
        let outcome = self.write_at(step, &fd, iosize, None)?;
        if self.shared.fixed(Fix::Wrap) {
            let range = self.range(step, file_bytes);
            if range > 0 && self.shared.system.seek_here(fd.as_fd())? >= range {
                self.shared.system.seek_start(fd.as_fd())?;
            }
        }
        Ok(outcome)
    }

    pub(super) fn aio_write(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, file_bytes) = self.opened(step)?;
        let iosize = self.iosize(flowop);
        let range = self.random_range(step, file_bytes, iosize)?;
        let offset = self.random_offset(range, iosize);
        let place = self.place(step, iosize as usize)?;
        let data = match self.source.next(iosize as usize) {
            Some(data) => data.to_vec(),
            None => self.buffer(step, place, iosize as usize).to_vec(),
        };
        let shared = self.shared;
        let start = shared.now();
        let submitted = self.aio.get_or_insert_with(|| Aio::new(shared)).submit(step.id, fd, offset, data);
        if let Err((errno, failed)) = submitted {
            // It may be an earlier one that failed, of whichever file.
            self.watch.current.store(failed as u32, Ordering::Relaxed);
            self.handled = None;
            self.path.clear();
            return Err(errno.into());
        }
        Ok(done(start, shared.now(), iosize))
    }

    pub(super) fn aio_wait(&mut self) -> Outcomes {
        let all = self.shared.fixed(Fix::AioWait);
        // One of many files: which is not known.
        self.path.clear();
        let start = self.shared.now();
        if let Some(aio) = &mut self.aio {
            if all {
                aio.finish();
            }
            if let Err((errno, failed)) = aio.reap() {
                // It is the writing that failed, and not the wait.
                self.watch.current.store(failed as u32, Ordering::Relaxed);
                return Err(errno.into());
            }
        }
        Ok(done(start, self.shared.now(), 0))
    }

    pub(super) fn fsync(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        let Some(fd) = &self.slots[slot].fd else { return Err(closed(slot)) };
        self.handled = self.slots[slot].file;
        let start = self.shared.now();
        self.shared.system.fsync(fd.as_fd())?;
        Ok(done(start, self.shared.now(), 0))
    }

    /// One operation for each file of the set that a slot of the thread knows.
    pub(super) fn fsync_set(&mut self, step: &Step, mut cpu: u64) -> Outcomes {
        let set = Self::fileset(&step.flowop)?;
        for slot in 0..self.slots.len() {
            let Some(file) = self.slots[slot].known().filter(|(of, _)| *of == set) else { continue };
            self.handled = Some(file);
            let start = self.shared.now();
            match &self.slots[slot].fd {
                Some(fd) => self.shared.system.fsync(fd.as_fd())?,
                // filebench syncs descriptor 0 then, whatever that is; here it counts, and as an error.
                None if self.shared.fixed(Fix::FsyncSet) => continue,
                None => add(&self.watch.counters[step.id].errors, 1),
            }
            self.count(step, start, self.shared.now(), 0, cpu)?;
            if self.shared.cpu_per_flowop {
                cpu = thread_cpu_ns();
            }
        }
        Ok(Outcome::Skipped)
    }
}
