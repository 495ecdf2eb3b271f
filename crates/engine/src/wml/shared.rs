//! What the threads of a run share: when it ends, events, and waiting for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_wml::{EndMode, Flowop, Number, Program, Type};

use super::Fix;
use super::content::Content;
use super::files::{Files, LOOK, locked};
use super::system::System;

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its time was over.
    Time,
    /// Its threads were done, as its mode says.
    Done,
    /// A flowop got no file, or reached its count, in a run that has a time.
    NoResource { flowop: String, why: String },
    /// A system call failed, or a flowop could not be carried out.
    Failed { flowop: String, thread: String, why: String, errno: Option<i32> },
    /// Nothing went on for so many seconds; where the threads stand.
    Stuck { seconds: u64, at: Vec<String> },
    /// Someone asked for it with a signal.
    Interrupted,
}

/// Shared by all threads.
pub struct Shared<S> {
    pub system: S,
    pub files: Vec<Files>,
    pub fixes: Vec<Fix>,
    pub content: Content,
    pub seed: u64,
    pub mode: EndMode,
    pub cpu_per_flowop: bool,
    pub origin: Instant,
    /// Nanoseconds since the origin after which an operation that completes does not count.
    pub deadline: AtomicU64,
    pub stop: AtomicBool,
    pub ending: Mutex<Option<Ending>>,
    /// Notified when something changes that the main thread or a sleeper waits for.
    pub changed: Condvar,
    pub running: AtomicU32,
    pub events: Events,
    pub points: BTreeMap<String, Point>,
    pub semaphores: BTreeMap<String, Vec<Semaphores>>,
    pub processes: Vec<Progress>,
}

impl<S: System> Shared<S> {
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn fixed(&self, fix: Fix) -> bool {
        self.fixes.contains(&fix)
    }

    /// Ends the run now; the first reason counts.
    pub fn end(&self, why: Ending) {
        let now = self.now();
        let mut ending = locked(&self.ending);
        if ending.is_none() {
            *ending = Some(why);
            self.deadline.fetch_min(now, Ordering::Relaxed);
            self.stop.store(true, Ordering::Relaxed);
        }
        drop(ending);
        self.changed.notify_all();
    }

    /// Waits so long, or until the run ends.
    pub fn sleep(&self, time: Duration) {
        let until = Instant::now() + time.min(Duration::from_secs(1 << 30));
        let mut ending = locked(&self.ending);
        while ending.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            ending = self.changed.wait_timeout(ending, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What a process has done, kept only where a flowop asks for it.
#[derive(Default)]
pub struct Progress {
    pub wanted: bool,
    pub transfers: AtomicU64,
    pub operations: AtomicU64,
    pub bytes: AtomicU64,
}

/// The queue of the event generator.
pub struct Events {
    pub per_s: u64,
    queue: Mutex<u64>,
    added: Condvar,
}

impl Events {
    pub fn new(per_s: u64) -> Self {
        Self { per_s, queue: Mutex::new(0), added: Condvar::new() }
    }

    pub fn reset(&self) {
        *locked(&self.queue) = 0;
    }

    /// Adds what has come since, unless the queue is full, and lets one thread go on.
    pub fn add(&self, elapsed: Duration) {
        let mut queue = locked(&self.queue);
        if *queue < self.per_s.saturating_mul(5) {
            *queue = queue.saturating_add((self.per_s as f64 * elapsed.as_secs_f64()) as u64);
        }
        drop(queue);
        self.added.notify_one();
    }

    /// Takes so many events at a time, when there are so many; more than the queue ever holds, in parts (filebench waits
    /// for ever then). False: `stopped` meanwhile.
    pub fn take(&self, mut wanted: u64, stopped: impl Fn() -> bool) -> bool {
        let most = self.per_s.saturating_mul(5).max(1);
        let mut queue = locked(&self.queue);
        loop {
            let part = wanted.min(most);
            if *queue >= part {
                *queue -= part;
                wanted -= part;
                if wanted > 0 {
                    continue;
                }
                if *queue > 0 {
                    self.added.notify_one();
                }
                return true;
            }
            if stopped() {
                return false;
            }
            queue = self.added.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Where the instances of a `block` flowop wait.
pub struct Point {
    /// How many instances there are.
    pub instances: u64,
    times: Mutex<u64>,
    woken: Condvar,
}

impl Point {
    pub fn wait(&self, stopped: impl Fn() -> bool) -> bool {
        let mut times = locked(&self.times);
        let before = *times;
        while *times == before {
            if stopped() {
                return false;
            }
            times = self.woken.wait_timeout(times, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub fn wake(&self) {
        *locked(&self.times) += 1;
        self.woken.notify_all();
    }
}

/// The two semaphores of one instance of a `semblock` flowop.
pub struct Semaphores {
    values: Mutex<(i64, i64)>,
    changed: Condvar,
}

/// As long as filebench waits for a semaphore.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

impl Semaphores {
    fn new(highwater: u64) -> Self {
        Self { values: Mutex::new((0, highwater as i64)), changed: Condvar::new() }
    }

    /// `semblock`: room for so many more posts, then that many are taken; when they do not come for ten minutes it goes on
    /// without them. False: `stopped` meanwhile.
    pub fn take(&self, value: i64, stopped: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        let mut values = locked(&self.values);
        values.1 += value;
        self.changed.notify_all();
        while values.0 < value {
            if stopped() {
                return false;
            }
            if began.elapsed() >= LONGEST_WAIT {
                return true;
            }
            values = self.changed.wait_timeout(values, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        values.0 -= value;
        true
    }

    /// `sempost`: so many are given; a blocking one waits until there is room.
    pub fn give(&self, value: i64, blocking: bool, stopped: impl Fn() -> bool) -> bool {
        let mut values = locked(&self.values);
        while blocking && values.1 < value {
            if stopped() {
                return false;
            }
            values = self.changed.wait_timeout(values, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        values.0 += value;
        if blocking {
            values.1 -= value;
        }
        self.changed.notify_all();
        true
    }
}

/// Every flowop of a program with how often it is there, composite ones' steps included.
pub fn each_flowop<'a>(program: &'a Program, see: &mut impl FnMut(&'a Flowop, u64)) {
    fn walk<'a>(flowop: &'a Flowop, instances: u64, see: &mut impl FnMut(&'a Flowop, u64)) {
        see(flowop, instances);
        flowop.inner.iter().for_each(|step| walk(step, instances, see));
    }
    for process in &program.processes {
        for thread in &process.threads {
            for flowop in &thread.flowops {
                walk(flowop, process.instances * thread.instances, see);
            }
        }
    }
}

/// The places where flowops wait for each other.
pub fn meeting_points(program: &Program) -> (BTreeMap<String, Point>, BTreeMap<String, Vec<Semaphores>>) {
    let (mut points, mut semaphores) = (BTreeMap::new(), BTreeMap::<String, Vec<Semaphores>>::new());
    each_flowop(program, &mut |flowop, instances| match flowop.of {
        Type::Block => {
            let point = points.entry(flowop.name.clone()).or_insert_with(|| Point {
                instances: 0,
                times: Mutex::new(0),
                woken: Condvar::new(),
            });
            point.instances += instances;
        }
        Type::SemBlock => semaphores
            .entry(flowop.name.clone())
            .or_default()
            .extend((0..instances).map(|_| Semaphores::new(flowop.highwater))),
        _ => {}
    });
    (points, semaphores)
}

/// Whether a flowop of the program asks for what a whole process has done.
pub fn wants_progress(program: &Program) -> bool {
    let mut wanted = false;
    each_flowop(program, &mut |flowop, _| {
        let limits = [Type::IopsLimit, Type::OpsLimit, Type::BwLimit, Type::FinishOnCount, Type::FinishOnBytes];
        wanted |= limits.contains(&flowop.of) && flowop.target.is_none();
    });
    wanted
}

/// Whether a number is 0 whenever it is drawn, or was never given.
pub fn is_none(number: &Number) -> bool {
    number.is_zero()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_at_their_rate_and_do_not_pile_up() {
        let events = Events::new(100);
        events.add(Duration::from_millis(105));
        assert!(events.take(10, || true));
        assert!(!events.take(1, || true));
        for _ in 0..100 {
            events.add(Duration::from_secs(1));
        }
        assert!(events.take(500, || true));
        assert!(!events.take(1, || true));
    }

    #[test]
    fn a_post_blocks_when_there_is_no_room() {
        let semaphores = Semaphores::new(2);
        assert!(semaphores.give(2, true, || true));
        assert!(!semaphores.give(1, true, || true));
        // Taking makes room first.
        assert!(semaphores.take(1, || true));
        assert!(semaphores.give(1, true, || true));
        assert!(semaphores.give(100, false, || true));
        assert!(!semaphores.take(1000, || true));
    }
}
