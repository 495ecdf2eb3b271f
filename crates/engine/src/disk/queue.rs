//! The one queue of a served disk: takes requests as they come, asks the model when they complete, and answers then.
//!
//! A request's arrival is when this thread sees it, its completion an absolute moment of CLOCK_MONOTONIC: what the thread
//! itself needs does not add up from one request to the next. A request's bytes are copied while it waits for that moment.

use std::collections::{BTreeMap, VecDeque};
use std::fs::OpenOptions;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::mpsc::Sender;
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::time::{ClockId, clock_gettime};
use strata_disks::{Bytes, Change, Choice, CrashState, Device, Event, Nanos, Op, Request, What};

use super::memory::Memory;
use super::record::Record;
use super::ublk::{ABORTED, Described, Fetch, fetch_entry, op, place};

/// Marks the entries of the ring that are timers; the others carry a tag.
const TIMER: u64 = 1 << 32;

/// Runs of a queue at a priority above that of any ordinary process, so that it answers when the model says.
const PRIORITY: libc::c_int = 50;
/// The unit of the driver's places and lengths, whatever the logical block is.
const SECTOR: u64 = 512;
/// linux/prctl.h, since 5.6.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// What a queue did, when it ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Requests answered.
    pub requests: u64,
    /// Processor time of the thread, the kernel's part included.
    pub cpu: Duration,
}

/// What a queue needs.
pub struct Queue {
    /// The disk.
    pub device: Device,
    /// What is at risk, where a power cut is to come, and the seed by which it is lost.
    pub crash: Option<(CrashState, u64)>,
    /// The disk's bytes.
    pub memory: Memory,
    /// Where requests are recorded, if they are.
    pub record: Option<Record>,
    /// Requests at a time.
    pub depth: u16,
    /// Largest request.
    pub largest_request_bytes: u32,
    /// What the disk writes whole or not at all.
    pub logical_block_bytes: u32,
}

/// A request that is not answered yet.
#[derive(Clone, Copy)]
struct Open {
    tag: u16,
    request: Request,
    /// Its bytes are where they belong: a read's with the driver, a write's in the disk or in `held`.
    copied: bool,
}

struct Running {
    device: Device,
    crash: Option<(CrashState, u64)>,
    memory: Memory,
    record: Option<Record>,
    ring: IoUring<squeue::Entry, cqueue::Entry>,
    file: std::fs::File,
    requests: Requests,
    /// Bytes of writes that are not answered, one place a tag, where a power cut is to come: until then the disk has the
    /// old ones. Elsewhere they go to the disk at once, for a reader of a sector that is being written may see either.
    held: Option<Memory>,
    largest_request_bytes: u64,
    logical_block_bytes: u64,
    open: BTreeMap<u64, Open>,
    /// Ids of those whose bytes are to be copied, in order of arrival; some may be answered by now.
    to_copy: VecDeque<u64>,
    next_id: u64,
    epoch: Duration,
    /// Moments at which timers are set, the next one last.
    timers: Vec<Nanos>,
    /// The moment of the timer that the kernel has not been told of yet.
    moment: Box<types::Timespec>,
    events: Vec<Event>,
    answered: u64,
}

/// Serves `/dev/ublkcN` until the driver takes every tag back. Says on `ready` when it has asked for the first requests,
/// or why it cannot.
pub fn serve(path: &Path, queue: Queue, ready: &Sender<Result<(), String>>) -> Result<Spent, String> {
    match Running::start(path, queue) {
        Ok(mut running) => {
            let _ = ready.send(Ok(()));
            let spent = running.run().map_err(|error| format!("serving {} ended: {error}", path.display()));
            if let Some(record) = running.record {
                record.write().map_err(|error| format!("the record cannot be written: {error}"))?;
            }
            spent
        }
        Err(message) => {
            let _ = ready.send(Err(message.clone()));
            Err(message)
        }
    }
}

impl Running {
    fn start(path: &Path, queue: Queue) -> Result<Self, String> {
        let cannot =
            |what: &str, error: io::Error| format!("{what} ({error}); run this as root on a kernel from 6.5 on");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| cannot(&format!("{} cannot be opened", path.display()), error))?;
        let entries = 2 * u32::from(queue.depth) + 8;
        // Answers are then only looked for when this thread asks, which takes less and is the same every time.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::builder().build(entries))
            .map_err(|error| cannot("the kernel gives no io_uring", error))?;
        let requests = Requests::map(&file, queue.depth).map_err(|error| cannot("requests cannot be mapped", error))?;
        take_priority().map_err(|error| cannot("no real-time priority", error))?;
        let largest = u64::from(queue.largest_request_bytes);
        let held = match queue.crash {
            Some(_) => Some(Memory::new(largest * u64::from(queue.depth))?),
            None => None,
        };
        let mut running = Self {
            device: queue.device,
            crash: queue.crash,
            memory: queue.memory,
            record: queue.record,
            ring,
            file,
            requests,
            held,
            largest_request_bytes: largest,
            logical_block_bytes: u64::from(queue.logical_block_bytes),
            open: BTreeMap::new(),
            to_copy: VecDeque::new(),
            next_id: 0,
            epoch: monotonic(),
            timers: Vec::new(),
            moment: Box::default(),
            events: Vec::new(),
            answered: 0,
        };
        for tag in 0..queue.depth {
            running.fetch(Fetch::First, tag, 0).map_err(|error| cannot("the ring is full", error))?;
        }
        running.ring.submit().map_err(|error| cannot("the first requests cannot be asked for", error))?;
        Ok(running)
    }

    fn run(&mut self) -> io::Result<Spent> {
        let mut tags = self.requests.depth;
        let mut arrived: Vec<u16> = Vec::with_capacity(usize::from(tags));
        let before = thread_time();
        while tags > 0 || !self.open.is_empty() {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = self.now();
            for answer in self.ring.completion() {
                if answer.user_data() & TIMER != 0 {
                    let moment = answer.user_data() & !TIMER;
                    self.timers.retain(|&timer| timer & (TIMER - 1) != moment);
                } else if answer.result() == 0 {
                    arrived.push(answer.user_data() as u16);
                } else if answer.result() == ABORTED {
                    tags -= 1;
                } else {
                    return Err(io::Error::from_raw_os_error(-answer.result()));
                }
            }
            self.advance(now)?;
            for tag in arrived.drain(..) {
                self.arrive(now, tag)?;
            }
            self.advance(now)?;
            self.set_timer()?;
            self.copy_while_waiting()?;
        }
        Ok(Spent { requests: self.answered, cpu: thread_time().saturating_sub(before) })
    }

    fn now(&self) -> Nanos {
        monotonic().saturating_sub(self.epoch).as_nanos() as Nanos
    }

    fn fetch(&mut self, command: Fetch, tag: u16, result: i32) -> io::Result<()> {
        let entry = fetch_entry(self.file.as_raw_fd(), command, tag, result);
        self.push(&entry)
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the entry points to lives as long as the ring: the file belongs to `self` like it. A timer's moment is read when the entry is submitted, and the next one is written after that only: there
            // is one timer at most between two waits.
            #[allow(unsafe_code)]
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn arrive(&mut self, now: Nanos, tag: u16) -> io::Result<()> {
        let id = self.next_id + 1;
        let request = match request(id, &self.requests.get(tag)) {
            Ok(request) => request,
            Err(error) => return self.fetch(Fetch::Next, tag, -error),
        };
        self.next_id = id;
        let copied = !matches!(request.op, Op::Read | Op::Write { .. });
        self.open.insert(id, Open { tag, request, copied });
        if !copied {
            self.to_copy.push_back(id);
        }
        if let Some((crash, _)) = &mut self.crash {
            crash.arrive(&request);
        }
        if let Some(record) = &mut self.record {
            record.arrive(now, &request);
        }
        self.device.arrive(now, &request);
        Ok(())
    }

    /// Does what the model says has happened by now.
    fn advance(&mut self, now: Nanos) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        self.device.advance(now, &mut events);
        for event in events.drain(..) {
            match event.what {
                What::Done { id, ok, durable } => {
                    if let Some(record) = &mut self.record {
                        record.answer(id, event.at, now);
                    }
                    self.done(id, ok, durable)?;
                }
                What::Durable { id, offset, length } => {
                    if let Some((crash, _)) = &mut self.crash {
                        crash.durable(id, offset, length);
                    }
                }
                What::PowerCut => {
                    let changes = self.crash.take().map(|(mut crash, seed)| crash.cut(Choice::Seed(seed)));
                    for change in changes.into_iter().flatten() {
                        self.change(&change);
                    }
                }
            }
        }
        self.events = events;
        Ok(())
    }

    fn done(&mut self, id: u64, ok: bool, durable: bool) -> io::Result<()> {
        self.copy(id);
        let Some(Open { tag, request, copied }) = self.open.remove(&id) else { return Ok(()) };
        self.answered += 1;
        let Request { offset, length, .. } = request;
        if let Some((crash, _)) = &mut self.crash {
            crash.done(id, ok, durable, self.memory.get(offset, length));
        }
        if !ok || !copied {
            return self.fetch(Fetch::Next, tag, -libc::EIO);
        }
        match (request.op, &self.held) {
            (Op::Write { .. }, Some(held)) => {
                let bytes = held.get(u64::from(tag) * self.largest_request_bytes, length);
                self.memory.get_mut(offset, length).copy_from_slice(bytes);
            }
            (Op::Discard | Op::WriteZeroes, _) => self.memory.zero(offset, length),
            _ => {}
        }
        // Only reads and writes are answered with their length, and those are never longer than a tag's place.
        let result = if matches!(request.op, Op::Read | Op::Write { .. }) { length as i32 } else { 0 };
        self.fetch(Fetch::Next, tag, result)
    }

    /// Copies until the next request may have to be answered.
    fn copy_while_waiting(&mut self) -> io::Result<()> {
        if self.to_copy.is_empty() {
            return Ok(());
        }
        // What is answered goes first.
        self.ring.submit()?;
        let next = self.device.next_answer().unwrap_or(Nanos::MAX);
        while let Some(id) = self.to_copy.pop_front() {
            self.copy(id);
            if next <= self.now() {
                break;
            }
        }
        Ok(())
    }

    /// Copies the bytes of an open request, once. One that cannot be copied stays so, and is answered with an error.
    fn copy(&mut self, id: u64) {
        let Some(open) = self.open.get_mut(&id).filter(|open| !open.copied) else { return };
        let Request { offset, length, .. } = open.request;
        let copied = match (open.request.op, &mut self.held) {
            (Op::Read, _) => self.file.write_all_at(self.memory.get(offset, length), place(open.tag)),
            (_, Some(held)) => {
                let bytes = held.get_mut(u64::from(open.tag) * self.largest_request_bytes, length);
                self.file.read_exact_at(bytes, place(open.tag))
            }
            (_, None) => self.file.read_exact_at(self.memory.get_mut(offset, length), place(open.tag)),
        };
        open.copied = copied.is_ok();
    }

    /// Gives a sector the bytes that the power cut leaves it with.
    fn change(&mut self, change: &Change) {
        let length = self.logical_block_bytes;
        match &change.bytes {
            Bytes::Old(bytes) => self.memory.get_mut(change.offset, length).copy_from_slice(bytes),
            Bytes::Open(id) => {
                self.copy(*id);
                let (Some(open), Some(held)) = (self.open.get(id), &self.held) else { return };
                if matches!(open.request.op, Op::Write { .. }) {
                    let from = u64::from(open.tag) * self.largest_request_bytes + change.offset - open.request.offset;
                    self.memory.get_mut(change.offset, length).copy_from_slice(held.get(from, length));
                } else {
                    self.memory.zero(change.offset, length);
                }
            }
        }
    }

    /// Sets a timer for the moment at which the next request may have to be answered, unless one is set for then or earlier.
    /// What the model does in between shows in no answer, and waits until then.
    fn set_timer(&mut self) -> io::Result<()> {
        let Some(next) = self.device.next_answer() else { return Ok(()) };
        if self.timers.last().is_some_and(|&timer| timer <= next) {
            return Ok(());
        }
        *self.moment = types::Timespec::from(self.epoch + Duration::from_nanos(next));
        let entry = opcode::Timeout::new(&*self.moment)
            .flags(types::TimeoutFlags::ABS)
            .build()
            .user_data(TIMER | (next & (TIMER - 1)));
        self.push(&entry)?;
        self.timers.push(next);
        Ok(())
    }
}

/// The request that the driver describes, or the error number of one that no disk can do.
///
/// A flush has no place: the kernel gives sector -1 (`blk_rq_pos` of a request without data), which is not looked at.
fn request(id: u64, described: &Described) -> Result<Request, i32> {
    let op = match described.op_flags & op::MASK {
        op::READ => Op::Read,
        op::WRITE => Op::Write { fua: described.op_flags & op::FUA != 0 },
        op::FLUSH => return Ok(Request { id, op: Op::Flush, offset: 0, length: 0 }),
        op::DISCARD => Op::Discard,
        op::WRITE_ZEROES => Op::WriteZeroes,
        _ => return Err(libc::EOPNOTSUPP),
    };
    let length = u64::from(described.sectors) * SECTOR;
    let offset = described.start_sector.checked_mul(SECTOR).filter(|offset| offset.checked_add(length).is_some());
    Ok(Request { id, op, offset: offset.ok_or(libc::EIO)?, length })
}

/// The requests as the driver describes them, one place a tag.
struct Requests {
    start: NonNull<Described>,
    depth: u16,
    length: NonZeroUsize,
}

impl Requests {
    fn map(file: &std::fs::File, depth: u16) -> io::Result<Self> {
        let bytes = (usize::from(depth.max(1)) * size_of::<Described>()).next_multiple_of(4096);
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice, read only, of the length that the driver has for it.
        #[allow(unsafe_code)]
        let start = unsafe { mmap(None, length, ProtFlags::PROT_READ, flags, file, 0) }?;
        Ok(Self { start: start.cast(), depth, length })
    }

    fn get(&self, tag: u16) -> Described {
        let tag = tag.min(self.depth - 1);
        // SAFETY: within the mapping; the driver writes a tag's place only before it says that a request is there.
        #[allow(unsafe_code)]
        unsafe {
            self.start.as_ptr().add(usize::from(tag)).read_volatile()
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, whole, and never used again.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.start.cast(), self.length.get()) };
    }
}

/// The clock that timers run on.
pub fn monotonic() -> Duration {
    clock(ClockId::CLOCK_MONOTONIC)
}

fn thread_time() -> Duration {
    clock(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(id: ClockId) -> Duration {
    clock_gettime(id).map_or(Duration::ZERO, Duration::from)
}

/// Puts this thread before ordinary processes, and keeps its memory from waiting for the very disk that it serves.
fn take_priority() -> io::Result<()> {
    let priority: libc::c_int = PRIORITY;
    // musl refuses this call by its name, so it is made by its number; `struct sched_param` is one number.
    // SAFETY: both calls take plain numbers and a number that lives here; they concern this thread and process only.
    #[allow(unsafe_code)]
    let result = unsafe {
        // Not every kernel knows it, and it matters only when memory is short.
        let _ = libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, std::ptr::from_ref(&priority))
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::header::machine;

    fn described(op_flags: u32) -> Described {
        Described { op_flags, sectors: 8, start_sector: 16, ..Described::default() }
    }

    /// The flags are the header's own, not those of this program.
    #[test]
    fn only_the_fua_bit_makes_a_fua_write() {
        let header = machine("linux/ublk_cmd.h");
        let write = header.constant("UBLK_IO_OP_WRITE") as u32;
        let fua = header.constant("UBLK_IO_F_FUA") as u32;
        let with = |flags: u32| request(7, &described(write | flags)).expect("a write");
        assert_eq!(with(fua), Request { id: 7, op: Op::Write { fua: true }, offset: 8192, length: 4096 });
        assert_eq!(with(0).op, Op::Write { fua: false });
        let others: Vec<u32> = ["FAILFAST_DEV", "FAILFAST_TRANSPORT", "FAILFAST_DRIVER", "META", "NOUNMAP", "SWAP"]
            .iter()
            .map(|name| header.constant(&format!("UBLK_IO_F_{name}")) as u32)
            .collect();
        for &flag in &others {
            assert_eq!(with(flag).op, Op::Write { fua: false }, "{flag:#x}");
        }
        let all = others.iter().fold(0, |all, flag| all | flag);
        assert_eq!(with(all).op, Op::Write { fua: false });
        assert_eq!(with(all | fua).op, Op::Write { fua: true });
    }

    #[test]
    fn every_operation_keeps_its_meaning_under_any_flag() {
        let header = machine("linux/ublk_cmd.h");
        for (name, op) in
            [("READ", Op::Read), ("DISCARD", Op::Discard), ("WRITE_ZEROES", Op::WriteZeroes), ("FLUSH", Op::Flush)]
        {
            let number = header.constant(&format!("UBLK_IO_OP_{name}")) as u32;
            for flags in [0, 1 << 13, 1 << 15, u32::MAX << 8] {
                assert_eq!(request(1, &described(number | flags)).expect("a request").op, op, "{name} {flags:#x}");
            }
        }
        assert_eq!(request(1, &described(header.constant("UBLK_IO_OP_WRITE_SAME") as u32)), Err(libc::EOPNOTSUPP));
        assert_eq!(request(1, &described(0xff)), Err(libc::EOPNOTSUPP));
    }

    /// The kernel's place of a flush is sector -1; in bytes it does not fit, which must neither wrap nor panic.
    #[test]
    fn a_flush_at_sector_minus_one_is_a_flush() {
        let flush = Described { op_flags: op::FLUSH, sectors: 0, start_sector: u64::MAX, address: 0 };
        assert_eq!(request(1, &flush), Ok(Request { id: 1, op: Op::Flush, offset: 0, length: 0 }));
    }

    #[test]
    fn a_place_beyond_every_byte_number_is_an_error() {
        for start_sector in [u64::MAX, u64::MAX / 512 + 1, u64::MAX / 512] {
            let read = Described { op_flags: op::READ, sectors: u32::MAX, start_sector, address: 0 };
            assert_eq!(request(1, &read), Err(libc::EIO), "{start_sector}");
        }
    }

    #[test]
    fn the_number_of_the_io_flusher_is_the_headers() {
        assert_eq!(i64::from(PR_SET_IO_FLUSHER), machine("linux/prctl.h").constant("PR_SET_IO_FLUSHER"));
    }
}
