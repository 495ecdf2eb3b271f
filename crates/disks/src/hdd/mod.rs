//! The model of a disk with arms and platters; see [`Hdd`] for its parameters.

mod cache;
mod geometry;

use std::collections::{BTreeSet, VecDeque};

pub use cache::{Cache, Dirty};
pub use geometry::{Geometry, Place};

use crate::agenda::{Agenda, Line, transfer};
use crate::parameters::{Hdd, WriteCache, ns_of_ms, ns_of_us};
use crate::random::Random;
use crate::request::{Event, Nanos, Op, Request, Serve, What};

/// Bytes of neighbouring cached writes that go to the medium in one pass at most.
const LONGEST_PASS: u64 = 2 << 20;

/// The oldest cached write goes first when it was passed over for so many times [`Hdd::destage_window`].
const PASSED_OVER: u32 = 4;

/// State of a disk with arms and platters.
pub struct HddDisk {
    parameters: Hdd,
    write_cache: WriteCache,
    size_bytes: u64,
    queue_depth: u32,
    geometry: Geometry,
    agenda: Agenda<Happening>,
    interface: Line,
    /// Requests beyond the queue depth.
    outside: VecDeque<Request>,
    inside: u32,
    /// What waits for the arm.
    waiting: Vec<Waiting>,
    /// Writes that wait for room in the cache.
    crowded: VecDeque<Request>,
    cache: Cache,
    /// Room in the cache that belongs to writes on their way, and to those on their way to the medium.
    reserved: u64,
    /// Writes on their way into the cache.
    arriving: usize,
    /// Order and place of the oldest cached write, and how often another one went to the medium since it was that.
    oldest: Option<(u64, u64)>,
    passed_over: u32,
    flushes: VecDeque<u64>,
    open_writes: BTreeSet<u64>,
    arm: Option<Work>,
    head_track: u64,
    segments: Vec<Segment>,
    reading_on: Option<ReadingOn>,
    uses: u64,
    /// When the last read was found or read.
    last_read: Option<Nanos>,
    /// [`Happening::Idle`] is planned.
    idle_planned: bool,
    /// The arm's last work was for a request.
    served_last: bool,
}

enum Happening {
    /// The controller has understood a request.
    Understood(Request),
    /// The bytes of a write have arrived.
    Landed(Request),
    /// A request is answered.
    Answered { id: u64, durable: bool },
    /// The arm has done its work.
    ArmDone,
    /// There may have been no read for long enough.
    Idle,
}

struct Waiting {
    request: Request,
    since: Nanos,
    place: Place,
    /// It goes on where another one that waits ends: that one goes first.
    follows: bool,
}

enum Work {
    Read { request: Request, segment: usize },
    Write(Request),
    Destage(Vec<Dirty>),
}

/// Bytes of the medium in the read cache.
#[derive(Clone, Copy, Default)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

impl Segment {
    fn covers(&self, request: &Request) -> bool {
        self.start <= request.offset && request.end() <= self.end
    }
}

/// The head goes on reading into a segment.
#[derive(Clone, Copy)]
struct ReadingOn {
    segment: usize,
    from: u64,
    since: Nanos,
    limit: u64,
}

/// What the arm could do next.
enum Choice {
    Waiting(usize),
    Cached(u64),
}

impl HddDisk {
    /// A disk at rest; the seed says where on its circle it stands.
    #[must_use]
    pub fn new(parameters: &Hdd, write_cache: WriteCache, queue_depth: u32, size_bytes: u64, seed: u64) -> Self {
        let phase = Random::new(seed).bits();
        let segments = if parameters.read_ahead_bytes > 0 { parameters.read_segments } else { 0 };
        Self {
            parameters: parameters.clone(),
            write_cache,
            size_bytes,
            queue_depth,
            geometry: Geometry::new(parameters, size_bytes, phase),
            agenda: Agenda::new(),
            interface: Line::default(),
            outside: VecDeque::new(),
            inside: 0,
            waiting: Vec::new(),
            crowded: VecDeque::new(),
            cache: Cache::default(),
            reserved: 0,
            arriving: 0,
            oldest: None,
            passed_over: 0,
            flushes: VecDeque::new(),
            open_writes: BTreeSet::new(),
            arm: None,
            head_track: 0,
            segments: vec![Segment::default(); segments as usize],
            reading_on: None,
            uses: 0,
            last_read: None,
            idle_planned: false,
            served_last: false,
        }
    }

    fn admit(&mut self, now: Nanos, request: Request) {
        self.inside += 1;
        self.agenda.plan(now + ns_of_us(self.parameters.command_us), Happening::Understood(request));
    }

    fn over_interface(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.interface.have(now, transfer(bytes, self.parameters.interface_bytes_per_s))
    }

    fn is_cached_write(&self, request: &Request) -> bool {
        let fits = request.length <= self.parameters.cache_bytes;
        match request.op {
            Op::Write { fua } => {
                fits && match self.write_cache {
                    WriteCache::Volatile => !fua,
                    WriteCache::Protected => true,
                    WriteCache::None => false,
                }
            }
            Op::WriteZeroes => fits && self.write_cache != WriteCache::None,
            Op::Read | Op::Flush | Op::Discard => false,
        }
    }

    fn understood(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Read => {
                if self.is_in_memory(now, &request) {
                    self.answer_read(now, &request);
                } else {
                    self.wait(now, request);
                }
            }
            Op::Write { .. } | Op::WriteZeroes if self.is_cached_write(&request) => {
                self.crowded.push_back(request);
                self.let_into_cache(now);
            }
            Op::Write { .. } | Op::WriteZeroes => {
                let at = self.over_interface(now, request.length);
                self.agenda.plan(at, Happening::Landed(request));
            }
            Op::Flush => self.flushes.push_back(request.id),
            Op::Discard => self.agenda.plan(now, Happening::Answered { id: request.id, durable: true }),
        }
    }

    fn let_into_cache(&mut self, now: Nanos) {
        while let Some(request) = self.crowded.front().copied() {
            let bytes = self.cache.bytes() + self.reserved + request.length;
            if bytes > self.parameters.cache_bytes || self.runs_held() >= self.parameters.cached_writes as usize {
                return;
            }
            self.crowded.pop_front();
            self.reserved += request.length;
            self.arriving += 1;
            let at = self.over_interface(now, request.length);
            self.agenda.plan(at, Happening::Landed(request));
        }
    }

    /// Runs in the cache, on their way into it, and on their way to the medium.
    fn runs_held(&self) -> usize {
        let destaging = if let Some(Work::Destage(runs)) = &self.arm { runs.len() } else { 0 };
        self.cache.runs() + self.arriving + destaging
    }

    fn landed(&mut self, now: Nanos, request: Request) {
        if self.is_cached_write(&request) {
            self.reserved -= request.length;
            self.arriving -= 1;
            self.cache.insert(now, request.offset, request.length, request.id);
            let durable = self.write_cache == WriteCache::Protected;
            self.agenda.plan(now, Happening::Answered { id: request.id, durable });
        } else {
            self.wait(now, request);
        }
    }

    fn wait(&mut self, now: Nanos, request: Request) {
        let is_read = request.op == Op::Read;
        let mut follows = false;
        for other in self.waiting.iter_mut().filter(|other| (other.request.op == Op::Read) == is_read) {
            follows |= other.request.end() == request.offset;
            other.follows |= other.request.offset == request.end();
        }
        let place = self.geometry.place(request.offset);
        self.waiting.push(Waiting { request, since: now, place, follows });
    }

    fn leave(&mut self, index: usize) -> Waiting {
        let left = self.waiting.remove(index);
        for other in &mut self.waiting {
            other.follows &= other.request.offset != left.request.end();
        }
        left
    }

    /// How far the head has read on.
    fn read_on_to(&self, now: Nanos) -> Option<(ReadingOn, u64)> {
        self.reading_on.map(|on| {
            let at = self.geometry.onward(on.from, now.saturating_sub(on.since));
            (on, at.clamp(on.from, on.limit))
        })
    }

    /// Puts what the head has read on so far into its segment.
    fn keep_read_on(&mut self, now: Nanos) {
        if let Some((on, at)) = self.read_on_to(now) {
            self.segments[on.segment].end = at;
        }
    }

    /// Answers the waiting reads whose bytes have come into memory.
    fn answer_from_memory(&mut self, now: Nanos) {
        let mut index = 0;
        while index < self.waiting.len() {
            let request = self.waiting[index].request;
            if request.op == Op::Read && self.is_in_memory(now, &request) {
                self.leave(index);
                self.answer_read(now, &request);
            } else {
                index += 1;
            }
        }
    }

    fn answer_read(&mut self, now: Nanos, request: &Request) {
        self.last_read = Some(now);
        let at = self.over_interface(now, request.length);
        self.agenda.plan(at, Happening::Answered { id: request.id, durable: false });
    }

    fn is_in_memory(&mut self, now: Nanos, request: &Request) -> bool {
        self.keep_read_on(now);
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.covers(request)) {
            self.uses += 1;
            segment.used = self.uses;
            return true;
        }
        self.cache.covers(request.offset, request.length)
    }

    /// Whether the head is about to read the first missing byte of a read anyway.
    fn is_on_the_way(&self, now: Nanos, request: &Request) -> bool {
        self.read_on_to(now).is_some_and(|(on, at)| {
            let start = self.segments[on.segment].start;
            request.op == Op::Read && at < on.limit && (start..=at).contains(&request.offset)
        })
    }

    fn head_track_at(&self, now: Nanos) -> u64 {
        self.read_on_to(now).map_or(self.head_track, |(_, at)| self.geometry.place(at.saturating_sub(1)).track)
    }

    /// Gives the arm its next work: the nearest in time, or what has waited too long.
    fn use_arm(&mut self, now: Nanos) {
        if self.arm.is_some() {
            return;
        }
        self.answer_from_memory(now);
        let Some((choice, way)) = self.choose(now) else {
            if !self.idle_planned && self.cache.bytes() > 0 {
                self.idle_planned = true;
                let at = self.aged_from().map_or(self.idle_from(), |aged| aged.min(self.idle_from()));
                self.agenda.plan(at.max(now), Happening::Idle);
            }
            return;
        };
        self.served_last = matches!(choice, Choice::Waiting(_));
        self.keep_read_on(now);
        let continues = match &choice {
            Choice::Waiting(index) if self.is_on_the_way(now, &self.waiting[*index].request) => self.reading_on.take(),
            _ => None,
        };
        self.reading_on = None;
        let (start, end, done) = match choice {
            Choice::Waiting(index) => {
                let Waiting { request, place, .. } = self.leave(index);
                let done = match continues {
                    Some(on) => on.since + self.geometry.through(request.end()) - self.geometry.through(on.from),
                    None => now + way + self.geometry.through(request.end()) - place.reached,
                };
                if request.op == Op::Read {
                    let segment = self.segment_for(&request, continues);
                    self.arm = Some(Work::Read { request, segment });
                } else {
                    self.arm = Some(Work::Write(request));
                }
                (request.offset, request.end(), done)
            }
            Choice::Cached(offset) => {
                self.count_passed_over(offset);
                let runs = self.cache.take_from(offset, LONGEST_PASS);
                let length: u64 = runs.iter().map(|run| run.length).sum();
                self.reserved += length;
                self.arm = Some(Work::Destage(runs));
                let span = self.geometry.through(offset + length) - self.geometry.place(offset).reached;
                (offset, offset + length, now + way + span)
            }
        };
        debug_assert!(start < end);
        self.head_track = self.geometry.place(end - 1).track;
        self.agenda.plan(done.max(now), Happening::ArmDone);
    }

    /// Flushes first; then requests, and what is cached when nothing is read or, in turn with requests, when it is much or
    /// old.
    fn choose(&self, now: Nanos) -> Option<(Choice, Nanos)> {
        let head_track = self.head_track_at(now);
        let way = |place: Place, write: bool| self.geometry.way(now, head_track, place, write);
        let cached = |limit: u64, until: Nanos| {
            let window = self.parameters.destage_window;
            let most = if self.passed_over >= PASSED_OVER * window { 1 } else { window as usize };
            let oldest = self.cache.oldest(limit).take(most).filter(|run| run.since <= until);
            oldest
                .map(|run| (way(self.geometry.place(run.offset), true), run.offset))
                .min_by_key(|(time, _)| *time)
                .map(|(time, offset)| (Choice::Cached(offset), time))
        };
        let flushing = self.flushes.back().and_then(|&limit| cached(limit, now));
        if flushing.is_some() {
            return flushing;
        }
        let threshold = (self.parameters.cache_bytes as f64 * self.parameters.destage_share) as u64;
        let much = !self.crowded.is_empty()
            || self.cache.bytes() + self.reserved > threshold
            || self.cache.runs() > self.parameters.destage_window as usize
            || now >= self.idle_from() && self.waiting.is_empty();
        let destage = if !self.waiting.is_empty() && !self.served_last {
            None
        } else if much {
            cached(u64::MAX, now)
        } else {
            now.checked_sub(ns_of_ms(self.parameters.destage_age_ms)).and_then(|until| cached(u64::MAX, until))
        };
        if destage.is_some() {
            return destage;
        }
        let late = now.saturating_sub(ns_of_ms(self.parameters.longest_wait_ms));
        let oldest = self.waiting.iter().enumerate().min_by_key(|(_, waiting)| waiting.request.id);
        if let Some((index, waiting)) = oldest.filter(|(_, waiting)| waiting.since < late) {
            return Some((Choice::Waiting(index), way(waiting.place, waiting.request.op != Op::Read)));
        }
        let firsts = self.waiting.iter().enumerate().filter(|(_, waiting)| !waiting.follows);
        let times = firsts.map(|(index, waiting)| {
            let on_the_way = self.is_on_the_way(now, &waiting.request);
            (if on_the_way { 0 } else { way(waiting.place, waiting.request.op != Op::Read) }, index)
        });
        times.min_by_key(|(time, _)| *time).map(|(time, index)| (Choice::Waiting(index), time))
    }

    /// Counts how often in a row the oldest cached write was not the one that goes to the medium.
    fn count_passed_over(&mut self, offset: u64) {
        let oldest = self.cache.oldest(u64::MAX).next().map(|oldest| (oldest.order, oldest.offset));
        if oldest.is_some_and(|oldest| oldest.1 == offset) {
            self.passed_over = 0;
        } else if oldest == self.oldest {
            self.passed_over += 1;
        } else {
            (self.oldest, self.passed_over) = (oldest, 1);
        }
    }

    /// When the oldest cached write will have waited for as long as it may.
    fn aged_from(&self) -> Option<Nanos> {
        self.cache.oldest(u64::MAX).next().map(|oldest| oldest.since + ns_of_ms(self.parameters.destage_age_ms))
    }

    /// When there will have been no read for long enough to write from the cache.
    fn idle_from(&self) -> Nanos {
        self.last_read.map_or(0, |last| last + ns_of_ms(self.parameters.destage_idle_ms))
    }

    /// The segment that a read goes into: the one it continues, or the one not used for longest.
    fn segment_for(&mut self, request: &Request, continues: Option<ReadingOn>) -> usize {
        self.uses += 1;
        let found = continues.map(|on| on.segment).or_else(|| {
            self.segments.iter().position(|segment| {
                (segment.start..=segment.end).contains(&request.offset) && segment.end > segment.start
            })
        });
        let index = found.unwrap_or_else(|| {
            let oldest = self.segments.iter().enumerate().min_by_key(|(_, segment)| segment.used);
            oldest.map_or(usize::MAX, |(index, _)| index)
        });
        if let Some(segment) = self.segments.get_mut(index) {
            segment.used = self.uses;
            if found.is_none() {
                (segment.start, segment.end) = (request.offset, request.offset);
            }
        }
        index
    }

    fn arm_done(&mut self, now: Nanos, events: &mut Vec<Event>) {
        match self.arm.take() {
            Some(Work::Read { request, segment }) => {
                if let Some(place) = self.segments.get_mut(segment) {
                    place.end = place.end.max(request.end());
                    place.start = place.start.max(place.end.saturating_sub(self.parameters.read_ahead_bytes));
                    let limit = (request.end() + self.parameters.read_ahead_bytes).min(self.size_bytes);
                    self.reading_on = Some(ReadingOn { segment, from: request.end(), since: now, limit });
                }
                self.answer_read(now, &request);
            }
            Some(Work::Write(request)) => {
                // What an older write left in the cache must not reach the medium after this one.
                self.cache.cut(request.offset, request.length);
                self.let_into_cache(now);
                self.agenda.plan(now, Happening::Answered { id: request.id, durable: true });
            }
            Some(Work::Destage(runs)) => {
                for Dirty { offset, length, id, .. } in runs {
                    self.reserved -= length;
                    if self.write_cache == WriteCache::Volatile {
                        events.push(Event { at: now, what: What::Durable { id, offset, length } });
                    }
                }
                self.let_into_cache(now);
            }
            None => {}
        }
    }

    /// Answers the flushes before which nothing is left to bring to the medium.
    fn finish_flushes(&mut self, now: Nanos) {
        while let Some(&id) = self.flushes.front() {
            let open = self.open_writes.first().is_some_and(|&write| write < id);
            let destaging = matches!(&self.arm, Some(Work::Destage(runs)) if runs.iter().any(|run| run.order < id));
            let cached =
                self.write_cache == WriteCache::Volatile && (destaging || self.cache.oldest(id).next().is_some());
            if open || cached {
                return;
            }
            self.flushes.pop_front();
            self.agenda.plan(now, Happening::Answered { id, durable: true });
        }
    }
}

impl Serve for HddDisk {
    fn arrive(&mut self, now: Nanos, request: &Request) {
        if !matches!(request.op, Op::Read | Op::Flush) {
            self.open_writes.insert(request.id);
        }
        if self.inside < self.queue_depth {
            self.admit(now, *request);
        } else {
            self.outside.push_back(*request);
        }
    }

    fn next(&self) -> Option<Nanos> {
        self.agenda.next()
    }

    fn step(&mut self, events: &mut Vec<Event>) {
        let Some((at, happening)) = self.agenda.take() else { return };
        match happening {
            Happening::Understood(request) => self.understood(at, request),
            Happening::Landed(request) => self.landed(at, request),
            Happening::Answered { id, durable } => {
                self.open_writes.remove(&id);
                self.inside -= 1;
                events.push(Event { at, what: What::Done { id, ok: true, durable } });
                if let Some(request) = self.outside.pop_front() {
                    self.admit(at, request);
                }
            }
            Happening::ArmDone => self.arm_done(at, events),
            Happening::Idle => self.idle_planned = false,
        }
        self.finish_flushes(at);
        // What else happens at this moment may bring nearer work.
        if self.agenda.next() != Some(at) {
            self.use_arm(at);
        }
    }

    fn least(&self) -> Nanos {
        let over = ns_of_us(self.parameters.command_us) + transfer(4096, self.parameters.interface_bytes_per_s);
        let cached = self.parameters.read_ahead_bytes > 0 || self.write_cache != WriteCache::None;
        if cached { over } else { over + self.geometry.through(4096) }
    }

    fn held_bytes(&self) -> usize {
        self.agenda.held_bytes()
            + self.cache.held_bytes()
            + self.segments.len() * size_of::<Segment>()
            + self.waiting.capacity() * size_of::<Waiting>()
            + (self.outside.capacity() + self.crowded.capacity()) * size_of::<Request>()
            + (self.flushes.capacity() + self.open_writes.len() * 2) * size_of::<u64>()
    }
}
