//! One thread of a program: carries out its flowops over and over.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use strata_wml::{Class, EndMode, Flowop, Number, Type, Uniform};

mod data;
mod pace;
mod tree;

use super::aio::Aio;
use super::content::{Memory, Source};
use super::files::locked;
use super::shared::{Ending, Shared};
use super::system::System;
use crate::random::Random;

/// Slots of a thread.
const SLOTS: usize = 128;
const MIB: u64 = 1 << 20;
/// The longest latency that the histograms distinguish from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// How many latencies a thread keeps before the histograms are told: they are shared, and behind a lock.
const BATCH: usize = 256;

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
    pub script: Arc<Script>,
    pub counters: Vec<Counters>,
    /// The number of the flowop that it is in.
    pub current: AtomicU32,
}

/// What a thread hands over at its end, by the number of the flowop, of `testrandvar`: how many numbers, their sum and the
/// sum of their squares.
pub type Drawn = Vec<(u64, f64, f64)>;

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
    /// The file was deleted by its slot: flowops that ask which file it is take it for none.
    deleted: bool,
}

impl Slot {
    fn new(fd: OwnedFd, file: (usize, u32)) -> Self {
        Self { fd: Some(Arc::new(fd)), file: Some(file), deleted: false }
    }

    /// The file that filebench still knows of.
    fn known(&self) -> Option<(usize, u32)> {
        self.file.filter(|_| !self.deleted)
    }
}

/// A flowop and its number in the thread.
struct Step {
    id: usize,
    flowop: Flowop,
    inner: Vec<Step>,
    target: Option<usize>,
}

/// What a thread does, and how long it took. All its instances share one: with one for each, a hundred of them would keep
/// each other's out of the processor's cache.
pub struct Script {
    steps: Vec<Step>,
    /// Names and types, by number.
    pub flowops: Vec<(String, Type)>,
    /// By the number of the flowop, in ns; None where nothing was done.
    histograms: Mutex<Vec<Option<Histogram<u64>>>>,
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
    /// How long the data took that the flowop at hand has written so far: not a part of its latency.
    preparing_ns: u64,
    random: Uniforms,
    path: Vec<u8>,
    /// The file that the flowop moves data of, by its slot: what a failure is told of, in place of `path`.
    handled: Option<(usize, u32)>,
    parent: Vec<u8>,
    /// (the number of a flowop, its latency in ns), not yet in the histograms.
    latencies: Vec<(usize, u64)>,
    drawn: Drawn,
    /// By flowop: what a limit saw last, and what it may still let pass.
    credits: Vec<(u64, i64)>,
    /// By flowop, where the range of random offsets is drawn: that of the whole run, in bytes.
    worksets: Vec<u64>,
    semaphore: Vec<usize>,
    aio: Option<Aio<S>>,
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

/// Whether any opens files bypassing the page cache.
fn any_direct(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.flowop.directio || any_direct(&step.inner))
}

/// Makes the buffers whose size is known as large as they will be, so that it does not happen while something is measured;
/// None when there is no memory for them.
fn make_room(steps: &[Step], buffers: &mut [Memory]) -> Option<()> {
    for step in steps {
        if let Number::Whole(bytes) = step.flowop.iosize {
            buffers[step.id].try_grow(bytes as usize).then_some(())?;
        }
        make_room(&step.inner, buffers)?;
    }
    Some(())
}

/// Draws what counts for the whole run.
fn settle(steps: &[Step], worksets: &mut [u64], random: &mut Uniforms) {
    for step in steps {
        if let Number::Random(_) = step.flowop.workingset {
            worksets[step.id] = step.flowop.workingset.whole(random);
        }
        settle(&step.inner, worksets, random);
    }
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

impl Script {
    pub fn new(flowops: &[Flowop]) -> Self {
        let mut names = Vec::new();
        let mut steps = steps(flowops, &mut names);
        find_targets(&mut steps, &names);
        let histograms = Mutex::new(vec![None; names.len()]);
        Self { steps, flowops: names, histograms }
    }

    /// Hands over what its threads have told, once.
    pub fn take_histograms(&self) -> Vec<Option<Histogram<u64>>> {
        std::mem::take(&mut locked(&self.histograms))
    }

    pub fn tell(&self, latencies: impl Iterator<Item = (usize, u64)>) {
        let mut histograms = locked(&self.histograms);
        for (id, latency) in latencies {
            // None once they were taken: a thread did not end in time.
            let Some(histogram) = histograms.get_mut(id) else { return };
            if histogram.is_none() {
                // Bounds that are always right; see the test.
                *histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2).ok();
            }
            if let Some(histogram) = histogram {
                histogram.saturating_record(latency);
            }
        }
    }
}

impl Plan {
    /// A thread of a process: `names` are those of the two, `number` is another one for each thread.
    pub fn new(
        names: (String, String),
        process: usize,
        nice: u64,
        memsize: u64,
        script: &Arc<Script>,
        number: u64,
        semblocks: &mut Semblocks,
    ) -> Self {
        let semaphore = script
            .flowops
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
            script: Arc::clone(script),
            counters: script.flowops.iter().map(|_| Counters::default()).collect(),
            current: AtomicU32::new(0),
        };
        let nice = nice.min(40) as i32;
        Self { watch: Arc::new(watch), process, nice, memsize: memsize as usize, number, semaphore }
    }
}

impl<'a, S: System> Worker<'a, S> {
    /// Ready to run: its memory is there; None when it is not available. To be called in the thread itself.
    pub fn new(shared: &'a Arc<Shared<S>>, plan: Plan) -> Option<Self> {
        let script = Arc::clone(&plan.watch.script);
        let count = script.flowops.len();
        if plan.nice > 0 {
            // Being nicer needs no right; a thread has a priority of its own.
            let _ = rustix::process::setpriority_process(None, plan.nice);
        }
        let mut random = Uniforms(Random::new(shared.seed, plan.number));
        let mut worksets = vec![0; count];
        settle(&script.steps, &mut worksets, &mut random);
        let direct = any_direct(&script.steps);
        let mut buffers: Vec<Memory> = (0..count).map(|_| Memory::new(direct)).collect();
        if plan.memsize == 0 {
            make_room(&script.steps, &mut buffers)?;
        }
        Some(Self {
            watch: plan.watch,
            process: plan.process,
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            slot_rotor: SLOTS,
            rotors: vec![0; shared.files.len()],
            memory: Memory::of(plan.memsize, direct)?,
            memsize: plan.memsize,
            buffers,
            source: Source::new(shared.content, shared.seed, plan.number, direct),
            preparing_ns: 0,
            random,
            path: Vec::with_capacity(4096),
            handled: None,
            parent: Vec::with_capacity(4096),
            latencies: Vec::with_capacity(BATCH),
            drawn: vec![(0, 0.0, 0.0); count],
            credits: vec![(0, 0); count],
            worksets,
            semaphore: plan.semaphore,
            aio: None,
            shared,
        })
    }

    /// Runs until the run ends or this thread is done.
    pub fn run(mut self) -> Drawn {
        let script = Arc::clone(&self.watch.script);
        let halt = 'run: loop {
            for step in &script.steps {
                if let Err(halt) = self.step(step) {
                    break 'run halt;
                }
                if self.shared.stopped() {
                    break 'run Halt::Stop;
                }
            }
        };
        let halt = self.with_late_failure(halt);
        let at = self.watch.current.load(Ordering::Relaxed) as usize;
        let flowop = script.flowops.get(at).map(|(name, _)| name.clone()).unwrap_or_default();
        match (halt, self.shared.mode) {
            (Halt::Stop, _) => {}
            (Halt::NoResource(why), EndMode::Timeout) => {
                self.shared.end(Ending::NoResource { flowop, why: why.to_owned() });
            }
            (Halt::NoResource(_), EndMode::FirstDone) => self.shared.end(Ending::Done),
            (Halt::NoResource(_), EndMode::AllDone) => {}
            (Halt::Failed(why, errno), _) => {
                if let Some((set, member)) = self.handled {
                    self.shared.files[set].file_path(member, &mut self.path);
                }
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
        let last = self.shared.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && self.shared.now() < self.shared.deadline.load(Ordering::Relaxed) {
            self.shared.end(Ending::Done);
        }
        script.tell(self.latencies.drain(..));
        self.drawn
    }

    /// An asynchronous write may have failed since it was last asked about.
    fn with_late_failure(&mut self, halt: Halt) -> Halt {
        let Some(aio) = self.aio.as_mut().filter(|_| !matches!(halt, Halt::Failed(..))) else { return halt };
        let Err((errno, step)) = aio.outcome() else { return halt };
        self.watch.current.store(step as u32, Ordering::Relaxed);
        self.handled = None;
        self.path.clear();
        errno.into()
    }

    /// One pass through the steps.
    #[cfg(test)]
    pub fn once(&mut self) -> bool {
        let script = Arc::clone(&self.watch.script);
        script.steps.iter().all(|step| self.step(step).is_ok())
    }

    /// Does one step as often as it is to be done.
    fn step(&mut self, step: &Step) -> Result<(), Halt> {
        let times = match &step.flowop.iters {
            Number::Whole(times) => *times,
            random @ Number::Random(_) => random.whole(&mut self.random),
        };
        for _ in 0..times {
            self.watch.current.store(step.id as u32, Ordering::Relaxed);
            self.handled = None;
            let cpu = if self.shared.cpu_per_flowop { thread_cpu_ns() } else { 0 };
            let outcome = self.perform(step, cpu)?;
            match outcome {
                Outcome::Done { start, end, bytes } => self.count(step, start, end, bytes, cpu)?,
                Outcome::Skipped | Outcome::Inner => {}
                Outcome::InUse => add(&self.watch.counters[step.id].skipped, 1),
            }
            if times > 1 && self.shared.stopped() {
                return Err(Halt::Stop);
            }
        }
        Ok(())
    }

    /// Counts an operation. Who is to end the run may wake late on a busy machine: nothing is done that does not count.
    fn count(&mut self, step: &Step, start: u64, end: u64, bytes: u64, cpu: u64) -> Result<(), Halt> {
        if end > self.shared.deadline.load(Ordering::Relaxed) {
            return Err(Halt::Stop);
        }
        self.record(step, start, end, bytes, cpu);
        Ok(())
    }

    fn record(&mut self, step: &Step, start: u64, end: u64, bytes: u64, cpu: u64) {
        let latency = end.saturating_sub(start);
        let counters = &self.watch.counters[step.id];
        add(&counters.count, 1);
        add(&counters.bytes, bytes);
        add(&counters.latency_ns, latency);
        if self.shared.cpu_per_flowop {
            add(&counters.cpu_ns, thread_cpu_ns().saturating_sub(cpu));
        }
        self.latencies.push((step.id, latency));
        if self.latencies.len() == BATCH {
            self.watch.script.tell(self.latencies.drain(..));
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

    /// `cpu`: the processor time of the thread when it began, where that is counted.
    fn perform(&mut self, step: &Step, cpu: u64) -> Outcomes {
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
            Type::FsyncSet => self.fsync_set(step, cpu),
            Type::MakeDir => self.leaf_directory(flowop, true),
            Type::RemoveDir => self.leaf_directory(flowop, false),
            Type::ListDir => self.list_directory(flowop),
            Type::Block | Type::Wakeup | Type::SemBlock | Type::SemPost => self.meet(step),
            Type::Hog | Type::Delay => self.use_time(flowop),
            Type::EventLimit | Type::IopsLimit | Type::OpsLimit | Type::BwLimit => self.limit(step),
            Type::FinishOnCount | Type::FinishOnBytes => self.finish(step),
            Type::Print | Type::TestRandvar => self.note(step),
            Type::Composite => {
                for inner in &step.inner {
                    self.step(inner)?;
                    if self.shared.stopped() {
                        return Err(Halt::Stop);
                    }
                }
                // Only what is in it counts.
                Ok(Outcome::Inner)
            }
        }
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
        assert!(Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 2).is_ok());
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
