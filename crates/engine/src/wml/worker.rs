//! One thread of a program: carries out its flowops over and over.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use strata_wml::{Class, EndMode, Flowop, Number, Thread, Type, Uniform};

use super::Fix;
use super::aio::Aio;
use super::content::{Memory, Source};
use super::files::Kind;
use super::shared::{Ending, Shared, is_none};
use super::system::System;
use crate::random::Random;

/// Slots of a thread.
const SLOTS: usize = 128;
const MIB: u64 = 1 << 20;
/// The longest latency that the histograms tell apart from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Counters of one flowop of one thread, on a cache line of their own. Only the thread writes them.
#[derive(Default)]
#[repr(align(64))]
pub struct Counters {
    pub count: AtomicU64,
    pub bytes: AtomicU64,
    pub latency_ns: AtomicU64,
    pub skipped: AtomicU64,
    pub errors: AtomicU64,
    pub cpu_ns: AtomicU64,
}

/// What others may see of a thread while it runs.
pub struct Watch {
    pub process: String,
    pub thread: String,
    /// Names and types, by number.
    pub flowops: Vec<(String, Type)>,
    pub counters: Vec<Counters>,
    /// The number of the flowop that it is in.
    pub current: AtomicU32,
}

/// What a thread hands over at its end.
pub struct Latencies {
    /// By the number of the flowop; None where nothing was done.
    pub histograms: Vec<Option<Histogram<u32>>>,
    /// Of `testrandvar`: how many numbers, their sum and the sum of their squares.
    pub drawn: Vec<(u64, f64, f64)>,
}

struct Uniforms(Random);

impl Uniform for Uniforms {
    fn uniform(&mut self) -> f64 {
        self.0.below(1 << 53) as f64 / (1u64 << 53) as f64
    }
}

impl Uniforms {
    /// filebench's own way to draw below a limit, in steps: never the last step.
    fn bounded(&mut self, limit: u64, step: u64) -> u64 {
        if limit <= step {
            return 0;
        }
        let number = (self.uniform() * (limit - step) as f64) as u64;
        number.checked_div(step).map_or(number, |steps| steps * step)
    }
}

#[derive(Default)]
struct Slot {
    fd: Option<Arc<OwnedFd>>,
    /// Kept when the slot is closed: (fileset, file).
    file: Option<(usize, u32)>,
}

/// A flowop and its number in the thread.
pub struct Step {
    id: usize,
    flowop: Flowop,
    inner: Vec<Step>,
    target: Option<usize>,
}

/// How a flowop came out.
enum Outcome {
    /// It counts.
    Done { start: u64, end: u64, bytes: u64 },
    /// It does not count.
    Skipped,
    /// It counts as skipped: a file to be deleted was open elsewhere.
    InUse,
    /// It was only a pass through others.
    Inner,
}

/// Why a thread goes no further.
enum Halt {
    /// The run ends.
    Stop,
    /// No file, or a count is reached.
    NoResource(&'static str),
    Failed(String, Option<Errno>),
}

type Outcomes = Result<Outcome, Halt>;

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        Self::Failed(String::new(), Some(errno))
    }
}

/// A thread that is to run.
pub struct Plan {
    pub watch: Arc<Watch>,
    process: usize,
    nice: i32,
    memsize: usize,
    number: u64,
    steps: Vec<Step>,
    semaphore: Vec<usize>,
}

pub struct Worker<'a, S: System> {
    shared: &'a Arc<Shared<S>>,
    watch: Arc<Watch>,
    process: usize,
    slots: Vec<Slot>,
    slot_rotor: usize,
    /// By fileset, for flowops with `opennext`.
    rotors: Vec<u32>,
    memory: Memory,
    memsize: usize,
    /// By flowop, for threads without memory of their own.
    buffers: Vec<Memory>,
    source: Source,
    random: Uniforms,
    path: Vec<u8>,
    parent: Vec<u8>,
    histograms: Vec<Option<Histogram<u32>>>,
    drawn: Vec<(u64, f64, f64)>,
    credits: Vec<(Option<u64>, i64)>,
    semaphore: Vec<usize>,
    aio: Option<Aio>,
}

/// Numbers the steps of a thread and looks up its targets.
fn steps(flowops: &[Flowop], names: &mut Vec<(String, Type)>) -> Vec<Step> {
    flowops
        .iter()
        .map(|flowop| {
            let id = names.len();
            names.push((flowop.name.clone(), flowop.of));
            let inner = steps(&flowop.inner, names);
            Step { id, flowop: flowop.clone(), inner, target: None }
        })
        .collect()
}

fn find_targets(steps: &mut [Step], names: &[(String, Type)]) {
    for step in steps {
        let target = step.flowop.target.as_ref();
        step.target = target.and_then(|target| names.iter().position(|(name, _)| name == target));
        find_targets(&mut step.inner, names);
    }
}

/// Counts how many instances of each `semblock` there are before this thread's.
pub type Semblocks = std::collections::BTreeMap<String, usize>;

impl Plan {
    /// A thread of a process: `names` are those of the two, `number` is another one for each thread.
    pub fn new(
        names: (String, String),
        process: usize,
        nice: u64,
        thread: &Thread,
        number: u64,
        semblocks: &mut Semblocks,
    ) -> Self {
        let mut flowops = Vec::new();
        let mut steps = steps(&thread.flowops, &mut flowops);
        find_targets(&mut steps, &flowops);
        let semaphore = flowops
            .iter()
            .map(|(name, of)| {
                if *of != Type::SemBlock {
                    return 0;
                }
                let next = semblocks.entry(name.clone()).or_insert(0);
                *next += 1;
                *next - 1
            })
            .collect();
        let watch = Watch {
            process: names.0,
            thread: names.1,
            counters: flowops.iter().map(|_| Counters::default()).collect(),
            flowops,
            current: AtomicU32::new(0),
        };
        let nice = nice.min(40) as i32;
        Self { watch: Arc::new(watch), process, nice, memsize: thread.memsize as usize, number, steps, semaphore }
    }
}

impl<'a, S: System> Worker<'a, S> {
    /// Ready to run: its memory is there. To be called in the thread itself.
    pub fn new(shared: &'a Arc<Shared<S>>, plan: Plan) -> (Self, Vec<Step>) {
        let count = plan.watch.flowops.len();
        if plan.nice > 0 {
            // Being nicer needs no right; a thread has a priority of its own.
            let _ = rustix::process::setpriority_process(None, plan.nice);
        }
        let worker = Self {
            watch: plan.watch,
            process: plan.process,
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            slot_rotor: SLOTS,
            rotors: vec![0; shared.files.len()],
            memory: Memory::new(plan.memsize),
            memsize: plan.memsize,
            buffers: (0..count).map(|_| Memory::default()).collect(),
            source: Source::new(shared.content, shared.seed, plan.number),
            random: Uniforms(Random::new(shared.seed, plan.number)),
            path: Vec::with_capacity(4096),
            parent: Vec::with_capacity(4096),
            histograms: vec![None; count],
            drawn: vec![(0, 0.0, 0.0); count],
            credits: vec![(None, 0); count],
            semaphore: plan.semaphore,
            aio: None,
            shared,
        };
        (worker, plan.steps)
    }

    /// Runs until the run ends or this thread is done.
    pub fn run(mut self, steps: &[Step]) -> Latencies {
        let halt = 'run: loop {
            for step in steps {
                if let Err(halt) = self.step(step) {
                    break 'run halt;
                }
                if self.shared.stopped() {
                    break 'run Halt::Stop;
                }
            }
        };
        let at = self.watch.current.load(Ordering::Relaxed) as usize;
        let flowop = self.watch.flowops.get(at).map(|(name, _)| name.clone()).unwrap_or_default();
        match (halt, self.shared.mode) {
            (Halt::Stop, _) => {}
            (Halt::NoResource(why), EndMode::Timeout) => {
                self.shared.end(Ending::NoResource { flowop, why: why.to_owned() });
            }
            (Halt::NoResource(_), EndMode::FirstDone) => self.shared.end(Ending::Done),
            (Halt::NoResource(_), EndMode::AllDone) => {}
            (Halt::Failed(why, errno), _) => {
                let path = String::from_utf8_lossy(self.path.strip_suffix(b"\0").unwrap_or(&self.path)).into_owned();
                let why = match errno {
                    Some(errno) if path.is_empty() => std::io::Error::from(errno).to_string(),
                    Some(errno) => format!("{} ({path})", std::io::Error::from(errno)),
                    None => why,
                };
                let thread = format!("{}/{}", self.watch.process, self.watch.thread);
                let errno = errno.map(Errno::raw_os_error);
                if let Some(counters) = self.watch.counters.get(at) {
                    add(&counters.errors, 1);
                }
                self.shared.end(Ending::Failed { flowop, thread, why, errno });
            }
        }
        // What is still on its way belongs to the files that are closed now.
        drop(self.aio.take());
        if self.shared.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.end(Ending::Done);
        }
        Latencies { histograms: self.histograms, drawn: self.drawn }
    }

    /// One pass through the steps.
    #[cfg(test)]
    pub fn once(&mut self, steps: &[Step]) -> bool {
        steps.iter().all(|step| self.step(step).is_ok())
    }

    /// Does one step as often as it is to be done.
    fn step(&mut self, step: &Step) -> Result<(), Halt> {
        let times = match &step.flowop.iters {
            Number::Whole(times) => *times,
            random @ Number::Random(_) => random.whole(&mut self.random),
        };
        for _ in 0..times {
            self.watch.current.store(step.id as u32, Ordering::Relaxed);
            let cpu = if self.shared.cpu_per_flowop { thread_cpu_ns() } else { 0 };
            let outcome = self.perform(step)?;
            match outcome {
                Outcome::Done { start, end, bytes } => self.record(step, start, end, bytes, cpu),
                Outcome::Skipped | Outcome::Inner => {}
                Outcome::InUse => add(&self.watch.counters[step.id].skipped, 1),
            }
            if times > 1 && self.shared.stopped() {
                return Err(Halt::Stop);
            }
        }
        Ok(())
    }

    fn record(&mut self, step: &Step, start: u64, end: u64, bytes: u64, cpu: u64) {
        if end > self.shared.deadline.load(Ordering::Relaxed) {
            return;
        }
        let latency = end.saturating_sub(start);
        let counters = &self.watch.counters[step.id];
        add(&counters.count, 1);
        add(&counters.bytes, bytes);
        add(&counters.latency_ns, latency);
        if self.shared.cpu_per_flowop {
            add(&counters.cpu_ns, thread_cpu_ns().saturating_sub(cpu));
        }
        let histogram = &mut self.histograms[step.id];
        if histogram.is_none() {
            // Bounds that are always right; see the test.
            *histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2).ok();
        }
        if let Some(histogram) = histogram {
            histogram.saturating_record(latency);
        }
        let progress = &self.shared.processes[self.process];
        let of = step.flowop.of;
        if progress.wanted && matches!(of.class(), Class::Io | Class::Aio) {
            progress.operations.fetch_add(1, Ordering::Relaxed);
            progress.bytes.fetch_add(bytes, Ordering::Relaxed);
            if of.reads() || of.writes() {
                progress.transfers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn perform(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        match flowop.of {
            Type::OpenFile => self.open_file(flowop),
            Type::CreateFile => self.create_file(flowop),
            Type::CloseFile => self.close_file(flowop),
            Type::DeleteFile => self.delete_file(step),
            Type::StatFile => self.stat_file(flowop),
            Type::ReadWholeFile => self.read_whole_file(step),
            Type::WriteWholeFile => self.write_whole_file(step),
            Type::AppendFile | Type::AppendFileRand => self.append_file(step),
            Type::Read => self.read(step),
            Type::Write => self.write(step),
            Type::AioWrite => self.aio_write(step),
            Type::AioWait => self.aio_wait(),
            Type::Fsync => self.fsync(flowop),
            Type::FsyncSet => self.fsync_set(step),
            Type::MakeDir => self.leaf_directory(flowop, true),
            Type::RemoveDir => self.leaf_directory(flowop, false),
            Type::ListDir => self.list_directory(flowop),
            Type::Block | Type::Wakeup | Type::SemBlock | Type::SemPost => self.meet(step),
            Type::Hog | Type::Delay => self.use_time(flowop),
            Type::EventLimit | Type::IopsLimit | Type::OpsLimit | Type::BwLimit => self.limit(step),
            Type::FinishOnCount | Type::FinishOnBytes => self.finish(step),
            Type::Print | Type::TestRandvar => self.note(step),
            Type::Composite => {
                let start = self.shared.now();
                for inner in &step.inner {
                    self.step(inner)?;
                    if self.shared.stopped() {
                        return Err(Halt::Stop);
                    }
                }
                self.watch.current.store(step.id as u32, Ordering::Relaxed);
                Ok(if step.inner.is_empty() { Outcome::Inner } else { done(start, self.shared.now(), 0) })
            }
        }
    }

    // Files and slots.

    /// The slot that a flowop uses.
    fn slot(&mut self, flowop: &Flowop) -> usize {
        if flowop.opennext && flowop.fd == 0 {
            self.slot_rotor = self.slot_rotor.checked_sub(1).unwrap_or(SLOTS - 1);
            self.slot_rotor = self.slot_rotor.min(SLOTS - 1);
            self.slot_rotor
        } else {
            flowop.fd
        }
    }

    fn fileset(flowop: &Flowop) -> Result<usize, Halt> {
        flowop.fileset.ok_or_else(|| {
            let why = "it has neither an open file in its slot nor a fileset; give it filesetname=NAME";
            Halt::Failed(why.to_owned(), None)
        })
    }

    /// Takes a file that exists, or does not.
    fn pick(&mut self, flowop: &Flowop, kind: Kind, exists: bool) -> Result<(usize, u32), Halt> {
        let set = Self::fileset(flowop)?;
        let index = flowop.indexed.as_ref().map(|number| number.draw(&mut self.random));
        let shared = self.shared;
        let files = &shared.files[set];
        let own = if flowop.opennext && exists { Some(&mut self.rotors[set]) } else { None };
        let mut own = own;
        let member = files.pick(
            kind,
            || shared.stopped(),
            |population| match index {
                Some(index) if kind == Kind::LeafDirectory => {
                    population.pick_indexed((index * f64::from(population.members() / 2)) as u64, exists)
                }
                Some(index) => population.pick_indexed(index as u64, exists),
                None if exists => population.pick_existing(own.as_deref_mut()),
                None => population.pick_missing(),
            },
        );
        match member {
            Some(member) => Ok((set, member)),
            None if shared.stopped() => Err(Halt::Stop),
            None if exists => Err(Halt::NoResource("no file of its fileset was there and free")),
            None => Err(Halt::NoResource("every file of its fileset was there already")),
        }
    }

    fn flags(&self, flowop: &Flowop, set: usize, create: bool) -> OFlags {
        let files = &self.shared.files[set];
        let mut flags = match (create, files.readonly, files.writeonly) {
            (false, true, _) => OFlags::RDONLY,
            (false, _, true) => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        if create {
            flags |= OFlags::CREATE;
        }
        if flowop.dsync {
            // O_DSYNC from nix: what rustix calls so is O_SYNC.
            let dsync = OFlags::from_bits_retain(nix::fcntl::OFlag::O_DSYNC.bits() as u32);
            flags |= if self.shared.fixed(Fix::Dsync) { dsync } else { OFlags::SYNC };
        }
        if flowop.directio {
            flags |= OFlags::DIRECT;
        }
        flags
    }

    fn open_file(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        if self.slots[slot].fd.is_some() {
            return Err(Halt::Failed(format!("slot {slot} is open already; close it first"), None));
        }
        let start = self.open_into(flowop, slot)?;
        Ok(done(start, self.shared.now(), 0))
    }

    /// Opens an existing file into a slot; returns when that began.
    fn open_into(&mut self, flowop: &Flowop, slot: usize) -> Result<u64, Halt> {
        let (set, member) = self.pick(flowop, Kind::File, true)?;
        let flags = self.flags(flowop, set, false);
        let start = self.shared.now();
        self.shared.files[set].file_path(member, &mut self.path);
        let opened = self.shared.system.open(text(&self.path), flags, 0);
        let fd = match opened {
            Ok(fd) => fd,
            Err(errno) => {
                self.shared.files[set].release(Kind::File, member, |_| {});
                return Err(errno.into());
            }
        };
        self.shared.files[set].release(Kind::File, member, |population| population.opened(member));
        if flowop.noreadahead {
            self.shared.system.advise_random(fd.as_fd())?;
        }
        self.slots[slot] = Slot { fd: Some(Arc::new(fd)), file: Some((set, member)) };
        Ok(start)
    }

    fn create_file(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        if self.slots[slot].fd.is_some() {
            return Err(Halt::Failed(format!("slot {slot} is open already; close it first"), None));
        }
        let (set, member) = self.pick(flowop, Kind::File, false)?;
        let flags = self.flags(flowop, set, true);
        let shared = self.shared;
        let files = &shared.files[set];
        let start = shared.now();
        files.parent_path(member, &mut self.parent);
        let created = self.make_parent().and_then(|()| {
            files.file_path(member, &mut self.path);
            shared.system.open(text(&self.path), flags, 0o666)
        });
        let fd = match created {
            Ok(fd) => fd,
            Err(errno) => {
                files.release(Kind::File, member, |_| {});
                return Err(errno.into());
            }
        };
        files.release(Kind::File, member, |population| {
            population.set_exists(member, true);
            population.opened(member);
        });
        if flowop.noreadahead {
            shared.system.advise_random(fd.as_fd())?;
        }
        self.slots[slot] = Slot { fd: Some(Arc::new(fd)), file: Some((set, member)) };
        Ok(done(start, shared.now(), 0))
    }

    /// Looks whether the directory in `self.parent` is there, and makes it and those above it when not.
    fn make_parent(&mut self) -> Result<(), Errno> {
        let system = &self.shared.system;
        match system.stat(text(&self.parent)) {
            Err(Errno::NOENT) => {}
            outcome => return outcome,
        }
        let ends: Vec<usize> = self
            .parent
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, byte)| matches!(byte, b'/' | 0))
            .map(|(at, _)| at)
            .collect();
        for end in ends {
            self.path.clear();
            self.path.extend_from_slice(&self.parent[..end]);
            self.path.push(0);
            match system.mkdir(text(&self.path), 0o755) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn close_file(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        let Some(file) = self.slots[slot].file.filter(|_| self.slots[slot].fd.is_some()) else {
            return Err(closed(slot));
        };
        self.close(slot, file)
    }

    fn close(&mut self, slot: usize, (set, member): (usize, u32)) -> Outcomes {
        let shared = self.shared;
        let files = &shared.files[set];
        if !files.take(Kind::File, member, || shared.stopped()) {
            return Err(Halt::Stop);
        }
        let mut fd = self.slots[slot].fd.take();
        let start = shared.now();
        // Asynchronous writes to it are on their way: they hold it as well.
        if let (Some(aio), true) = (&mut self.aio, fd.as_ref().is_some_and(|fd| Arc::strong_count(fd) > 1)) {
            aio.finish();
        }
        let outcome = match fd.take().map(Arc::try_unwrap) {
            Some(Ok(fd)) => shared.system.close(fd),
            _ => Ok(()),
        };
        files.release(Kind::File, member, |population| population.closed(member));
        self.path.clear();
        outcome?;
        Ok(done(start, shared.now(), 0))
    }

    fn delete_file(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let shared = self.shared;
        let held = if flowop.fd > 0 { self.slots[flowop.fd].file } else { None };
        let own_open = u32::from(held.is_some() && self.slots[flowop.fd].fd.is_some());
        let mut tries = 0;
        let (set, member) = loop {
            let (set, member) = match held {
                Some((set, member)) => {
                    if !shared.files[set].take(Kind::File, member, || shared.stopped()) {
                        return Err(Halt::Stop);
                    }
                    (set, member)
                }
                None => self.pick(flowop, Kind::File, true)?,
            };
            let files = &shared.files[set];
            if files.with(Kind::File, |population| population.open_count(member)) <= own_open {
                break (set, member);
            }
            files.release(Kind::File, member, |_| {});
            tries += 1;
            if held.is_some() || !shared.fixed(Fix::Delete) || tries > files.tree.files.len() {
                return Ok(Outcome::InUse);
            }
        };
        let files = &shared.files[set];
        let start = shared.now();
        files.file_path(member, &mut self.path);
        let outcome = shared.system.unlink(text(&self.path));
        files.release(Kind::File, member, |population| population.set_exists(member, false));
        match outcome {
            // A file that this slot remembers may be deleted by another thread already.
            Err(Errno::NOENT) if held.is_some() => add(&self.watch.counters[step.id].errors, 1),
            outcome => outcome?,
        }
        Ok(done(start, shared.now(), 0))
    }

    fn stat_file(&mut self, flowop: &Flowop) -> Outcomes {
        if let (Some(fd), true) = (&self.slots[flowop.fd].fd, flowop.fd > 0) {
            let start = self.shared.now();
            self.shared.system.fstat(fd.as_fd())?;
            return Ok(done(start, self.shared.now(), 0));
        }
        let (set, member) = self.pick(flowop, Kind::File, true)?;
        let shared = self.shared;
        let start = shared.now();
        shared.files[set].file_path(member, &mut self.path);
        let outcome = shared.system.stat(text(&self.path));
        let end = shared.now();
        shared.files[set].release(Kind::File, member, |_| {});
        outcome?;
        Ok(done(start, end, 0))
    }

    /// The slot and file of a flowop that moves data; the file is opened when the slot is closed.
    fn opened(&mut self, flowop: &Flowop) -> Result<(usize, Arc<OwnedFd>, u64), Halt> {
        let slot = self.slot(flowop);
        if self.slots[slot].fd.is_none() {
            self.open_into(flowop, slot)?;
        }
        let bytes = self.slot_bytes(slot).unwrap_or(0);
        match &self.slots[slot].fd {
            Some(fd) => Ok((slot, Arc::clone(fd), bytes)),
            None => Err(closed(slot)),
        }
    }

    /// The size that the file of a slot was laid out with.
    fn slot_bytes(&self, slot: usize) -> Option<u64> {
        self.slots[slot].file.map(|(set, member)| self.shared.files[set].tree.files[member as usize].bytes)
    }

    fn iosize(&mut self, flowop: &Flowop) -> u64 {
        match &flowop.iosize {
            Number::Whole(bytes) => *bytes,
            random @ Number::Random(_) => random.whole(&mut self.random),
        }
    }

    /// The range of random offsets.
    fn range(&mut self, flowop: &Flowop, file_bytes: u64) -> u64 {
        match flowop.workingset.whole(&mut self.random) {
            0 => file_bytes,
            workingset => workingset,
        }
    }

    fn random_offset(&mut self, range: u64, iosize: u64) -> u64 {
        let last = if self.shared.fixed(Fix::LastBlock) { iosize } else { 0 };
        self.random.bounded(range.saturating_add(last), iosize)
    }

    /// Where in the thread's memory so many bytes are moved from or to.
    fn place(&mut self, step: &Step, length: usize) -> Result<usize, Halt> {
        if self.memsize == 0 {
            self.buffers[step.id].grow(length);
            return Ok(0);
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

    fn buffer(&mut self, step: &Step, offset: usize, length: usize) -> &mut [u8] {
        if self.memsize == 0 { self.buffers[step.id].piece(offset, length) } else { self.memory.piece(offset, length) }
    }

    fn read_whole_file(&mut self, step: &Step) -> Outcomes {
        let (_, fd, file_bytes) = self.opened(&step.flowop)?;
        let iosize = match self.iosize(&step.flowop) {
            0 => file_bytes.max(1),
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

    fn write_whole_file(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (slot, fd, own_bytes) = self.opened(flowop)?;
        let size = match self.slot_bytes(flowop.srcfd.unwrap_or(0)).filter(|_| flowop.srcfd != Some(slot)) {
            Some(bytes) => bytes,
            None => self.range(flowop, own_bytes),
        };
        let iosize = match self.iosize(flowop) {
            0 => size,
            bytes => bytes,
        };
        let shared = self.shared;
        if size <= iosize {
            return self.write_at(step, &fd, size, None);
        }
        let place = self.place(step, iosize as usize)?;
        let start = shared.now();
        let (mut written, mut left) = (0, size);
        while left > 0 {
            let whole = if shared.fixed(Fix::WriteWhole) { iosize.min(left) } else { iosize };
            written += self.put(step, fd.as_fd(), place, whole as usize, None)?;
            left = left.saturating_sub(iosize);
        }
        Ok(done(start, shared.now(), written))
    }

    /// Writes once, here or at an offset.
    fn write_at(&mut self, step: &Step, fd: &OwnedFd, bytes: u64, offset: Option<u64>) -> Outcomes {
        let place = self.place(step, bytes as usize)?;
        let start = self.shared.now();
        if bytes > 0 {
            self.put(step, fd.as_fd(), place, bytes as usize, offset)?;
        }
        Ok(done(start, self.shared.now(), bytes))
    }

    fn put(
        &mut self,
        step: &Step,
        fd: BorrowedFd<'_>,
        place: usize,
        length: usize,
        offset: Option<u64>,
    ) -> Result<u64, Errno> {
        let system = &self.shared.system;
        let from = match self.source.next(length) {
            Some(from) => from,
            None if self.memsize == 0 => self.buffers[step.id].piece(place, length),
            None => self.memory.piece(place, length),
        };
        let written = match offset {
            Some(offset) => system.pwrite(fd, from, offset)?,
            None => system.write(fd, from)?,
        };
        Ok(written as u64)
    }

    fn append_file(&mut self, step: &Step) -> Outcomes {
        let (_, fd, _) = self.opened(&step.flowop)?;
        let iosize = self.iosize(&step.flowop);
        let bytes = if step.flowop.of == Type::AppendFileRand { self.random.bounded(iosize, 1) } else { iosize };
        let place = self.place(step, bytes as usize)?;
        let shared = self.shared;
        let start = shared.now();
        if bytes > 0 {
            shared.system.seek_end(fd.as_fd())?;
            self.put(step, fd.as_fd(), place, bytes as usize, None)?;
        }
        Ok(done(start, shared.now(), bytes))
    }

    fn read(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, file_bytes) = self.opened(flowop)?;
        let iosize = self.iosize(flowop);
        let place = self.place(step, iosize as usize)?;
        let shared = self.shared;
        if flowop.random {
            let range = self.range(flowop, file_bytes);
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

    fn write(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, file_bytes) = self.opened(flowop)?;
        let iosize = self.iosize(flowop);
        if flowop.random {
            let range = self.range(flowop, file_bytes);
            let offset = self.random_offset(range, iosize);
            return self.write_at(step, &fd, iosize, Some(offset));
        }
        let outcome = self.write_at(step, &fd, iosize, None)?;
        if self.shared.fixed(Fix::Wrap) {
            let range = self.range(flowop, file_bytes);
            if range > 0 && self.shared.system.seek_here(fd.as_fd())? >= range {
                self.shared.system.seek_start(fd.as_fd())?;
            }
        }
        Ok(outcome)
    }

    fn aio_write(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let (_, fd, file_bytes) = self.opened(flowop)?;
        let iosize = self.iosize(flowop);
        let range = self.range(flowop, file_bytes);
        let offset = self.random_offset(range, iosize);
        let place = self.place(step, iosize as usize)?;
        let data = match self.source.next(iosize as usize) {
            Some(data) => data.to_vec(),
            None => self.buffer(step, place, iosize as usize).to_vec(),
        };
        let shared = self.shared;
        let start = shared.now();
        self.aio.get_or_insert_with(|| Aio::start(shared)).submit(fd, offset, data)?;
        Ok(done(start, shared.now(), iosize))
    }

    fn aio_wait(&mut self) -> Outcomes {
        let all = self.shared.fixed(Fix::AioWait);
        let start = self.shared.now();
        if let Some(aio) = &mut self.aio {
            if all {
                aio.finish();
            }
            aio.reap()?;
        }
        Ok(done(start, self.shared.now(), 0))
    }

    fn fsync(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        let Some(fd) = &self.slots[slot].fd else { return Err(closed(slot)) };
        let start = self.shared.now();
        self.shared.system.fsync(fd.as_fd())?;
        Ok(done(start, self.shared.now(), 0))
    }

    fn fsync_set(&mut self, step: &Step) -> Outcomes {
        let set = Self::fileset(&step.flowop)?;
        let start = self.shared.now();
        for slot in self.slots.iter().filter(|slot| slot.file.is_some_and(|(of, _)| of == set)) {
            match &slot.fd {
                Some(fd) => self.shared.system.fsync(fd.as_fd())?,
                // filebench syncs descriptor 0 then, whatever that is; here it only counts as an error.
                None if self.shared.fixed(Fix::FsyncSet) => {}
                None => add(&self.watch.counters[step.id].errors, 1),
            }
        }
        Ok(done(start, self.shared.now(), 0))
    }

    fn leaf_directory(&mut self, flowop: &Flowop, make: bool) -> Outcomes {
        let (set, member) = self.pick(flowop, Kind::LeafDirectory, !make)?;
        let shared = self.shared;
        let files = &shared.files[set];
        files.leaf_path(member, &mut self.path);
        let start = shared.now();
        let outcome =
            if make { shared.system.mkdir(text(&self.path), 0o755) } else { shared.system.rmdir(text(&self.path)) };
        let end = shared.now();
        files.release(Kind::LeafDirectory, member, |population| population.set_exists(member, make));
        outcome?;
        Ok(done(start, end, 0))
    }

    fn list_directory(&mut self, flowop: &Flowop) -> Outcomes {
        let set = Self::fileset(flowop)?;
        self.shared.files[set].next_directory_path(&mut self.path);
        let start = self.shared.now();
        let bytes = self.shared.system.list(text(&self.path))?;
        Ok(done(start, self.shared.now(), bytes))
    }

    // Waiting for others.

    fn meet(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let shared = self.shared;
        let stopped = || shared.stopped();
        let value = flowop.value.whole(&mut self.random) as i64;
        let name = flowop.target.as_ref().unwrap_or(&flowop.name);
        let start = shared.now();
        let went_on = match flowop.of {
            Type::Block => shared.points.get(name).is_none_or(|point| point.wait(stopped)),
            Type::Wakeup => {
                if let Some(point) = shared.points.get(name) {
                    point.wake();
                    // One operation for each instance; the last is counted by whoever called.
                    for _ in 1..point.instances {
                        let now = shared.now();
                        self.record(step, start, now, 0, 0);
                    }
                }
                true
            }
            Type::SemBlock => match shared.semaphores.get(name).and_then(|all| all.get(self.semaphore[step.id])) {
                Some(semaphores) => semaphores.take(value, stopped)?,
                None => true,
            },
            _ => shared
                .semaphores
                .get(name)
                .is_none_or(|all| all.iter().all(|semaphores| semaphores.give(value, flowop.blocking, stopped))),
        };
        if went_on { Ok(done(start, shared.now(), 0)) } else { Err(Halt::Stop) }
    }

    // Time.

    fn use_time(&mut self, flowop: &Flowop) -> Outcomes {
        let value = flowop.value.draw(&mut self.random).max(0.0);
        let start = self.shared.now();
        if flowop.of == Type::Delay {
            self.shared.sleep(Duration::try_from_secs_f64(value.trunc()).unwrap_or(Duration::MAX));
        } else {
            self.memory.grow(1);
            let memory = self.memory.piece(0, self.memory.len());
            let length = memory.len();
            for number in 0..value as usize {
                *std::hint::black_box(&mut memory[number % length]) = 1;
            }
        }
        Ok(done(start, self.shared.now(), 0))
    }

    /// What a limit counts: of its target in this thread, or of the whole process.
    fn progress(&self, step: &Step) -> u64 {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of = step.flowop.of;
        let bytes = matches!(of, Type::BwLimit | Type::FinishOnBytes);
        match step.target {
            Some(target) => {
                let (counters, target) = (&self.watch.counters[target], self.watch.flowops[target].1);
                match of {
                    _ if bytes => load(&counters.bytes),
                    Type::IopsLimit if !(target.reads() || target.writes()) => 0,
                    _ => load(&counters.count),
                }
            }
            None => {
                let progress = &self.shared.processes[self.process];
                match of {
                    _ if bytes => load(&progress.bytes),
                    Type::IopsLimit => load(&progress.transfers),
                    _ => load(&progress.operations),
                }
            }
        }
    }

    fn limit(&mut self, step: &Step) -> Outcomes {
        let shared = self.shared;
        if shared.events.per_s == 0 {
            return Ok(Outcome::Skipped);
        }
        let start = shared.now();
        let events = if step.flowop.of == Type::EventLimit {
            1
        } else {
            let now = self.progress(step);
            let (last, credit) = &mut self.credits[step.id];
            let Some(before) = last.replace(now) else { return Ok(Outcome::Skipped) };
            *credit -= now.saturating_sub(before) as i64;
            if *credit >= 0 {
                0
            } else {
                let deficit = credit.unsigned_abs();
                let events = if step.flowop.of == Type::BwLimit { deficit / MIB + 1 } else { deficit };
                *credit += (if step.flowop.of == Type::BwLimit { events * MIB } else { events }) as i64;
                events
            }
        };
        if events > 0 && !shared.events.take(events, || shared.stopped()) {
            return Err(Halt::Stop);
        }
        Ok(done(start, shared.now(), 0))
    }

    fn finish(&mut self, step: &Step) -> Outcomes {
        let value = step.flowop.value.whole(&mut self.random);
        let start = self.shared.now();
        let reached = self.progress(step);
        if (step.flowop.of == Type::FinishOnCount && reached >= value) || reached > value {
            return Err(Halt::NoResource("it reached its value; use 'set mode quit firstdone' where that is the end"));
        }
        Ok(done(start, self.shared.now(), 0))
    }

    fn note(&mut self, step: &Step) -> Outcomes {
        let start = self.shared.now();
        if step.flowop.of == Type::TestRandvar && !is_none(&step.flowop.value) {
            let number = step.flowop.value.draw(&mut self.random);
            let (count, sum, squares) = &mut self.drawn[step.id];
            *count += 1;
            *sum += number;
            *squares += number * number;
        }
        Ok(done(start, self.shared.now(), 0))
    }
}

fn done(start: u64, end: u64, bytes: u64) -> Outcome {
    Outcome::Done { start, end, bytes }
}

fn closed(slot: usize) -> Halt {
    Halt::Failed(format!("slot {slot} is closed; open a file into it first"), None)
}

/// Only one thread writes a counter, so that nothing has to be locked.
fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
}

/// A path whose last byte is zero.
fn text(path: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(path).unwrap_or(c"")
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_has_the_bounds_that_it_is_asked_for() {
        assert!(Histogram::<u32>::new_with_bounds(1, LONGEST_NS, 2).is_ok());
    }

    #[test]
    fn random_offsets_are_aligned_and_miss_the_last_block() {
        let mut random = Uniforms(Random::new(1, 1));
        let offsets: std::collections::BTreeSet<u64> = (0..1000).map(|_| random.bounded(10 * 4096, 4096)).collect();
        assert_eq!(offsets, (0..9).map(|block| block * 4096).collect());
        assert_eq!(random.bounded(4096, 4096), 0);
        let appends: std::collections::BTreeSet<u64> = (0..1000).map(|_| random.bounded(8, 1)).collect();
        assert_eq!(appends, (0..7).collect());
    }
}
