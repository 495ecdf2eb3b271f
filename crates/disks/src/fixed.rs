//! The model of fixed service times; see [`Fixed`] for its parameters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::agenda::{Agenda, transfer};
use crate::parameters::{Fixed, WriteCache, ns_of_us};
use crate::request::{Event, Nanos, Op, Request, Serve, What};

/// State of a disk of fixed service times.
pub struct FixedDisk {
    parameters: Fixed,
    cache: WriteCache,
    /// What no server has taken yet, in order of arrival, flushes apart.
    queue: VecDeque<Request>,
    /// Flushes that no server has taken yet.
    flushes: VecDeque<Request>,
    busy: u32,
    agenda: Agenda<Request>,
    /// Writes that arrived and have not completed.
    open_writes: BTreeSet<u64>,
    /// Completed writes that a power cut would undo: offset and length by number.
    volatile: BTreeMap<u64, (u64, u64)>,
    volatile_bytes: u64,
}

impl FixedDisk {
    /// A disk at rest.
    #[must_use]
    pub fn new(parameters: &Fixed, cache: WriteCache) -> Self {
        Self {
            parameters: parameters.clone(),
            cache,
            queue: VecDeque::new(),
            flushes: VecDeque::new(),
            busy: 0,
            agenda: Agenda::new(),
            open_writes: BTreeSet::new(),
            volatile: BTreeMap::new(),
            volatile_bytes: 0,
        }
    }

    fn bytes_time(&self, length: u64) -> Nanos {
        self.parameters.bytes_per_s.map_or(0, |rate| transfer(length, rate))
    }

    fn flush_time(&self) -> Nanos {
        if self.cache == WriteCache::Volatile { ns_of_us(self.parameters.flush_us) } else { 0 }
    }

    fn service_time(&self, request: &Request) -> Nanos {
        let (read, write) = (ns_of_us(self.parameters.read_us), ns_of_us(self.parameters.write_us));
        match request.op {
            Op::Read => read + self.bytes_time(request.length),
            Op::Write { fua } => write + self.bytes_time(request.length) + if fua { self.flush_time() } else { 0 },
            Op::Flush => self.flush_time(),
            Op::Discard | Op::WriteZeroes => write,
        }
    }

    fn start(&mut self, now: Nanos) {
        while self.busy < self.parameters.servers {
            let earliest = self.open_writes.first().copied().unwrap_or(u64::MAX);
            let flush_now = self.flushes.front().is_some_and(|flush| flush.id < earliest);
            let line = if flush_now { &mut self.flushes } else { &mut self.queue };
            let Some(request) = line.pop_front() else { return };
            self.busy += 1;
            self.agenda.plan(now + self.service_time(&request), request);
        }
    }

    fn remember(&mut self, at: Nanos, request: &Request, events: &mut Vec<Event>) {
        self.volatile.insert(request.id, (request.offset, request.length));
        self.volatile_bytes += request.length;
        while self.volatile_bytes > self.parameters.cache_bytes {
            self.settle_first(at, u64::MAX, events);
        }
    }

    /// Brings the oldest write to the medium if its number is below `limit`.
    fn settle_first(&mut self, at: Nanos, limit: u64, events: &mut Vec<Event>) -> bool {
        let Some(entry) = self.volatile.first_entry().filter(|entry| *entry.key() < limit) else { return false };
        let (id, (offset, length)) = entry.remove_entry();
        self.volatile_bytes -= length;
        events.push(Event { at, what: What::Durable { id, offset, length } });
        true
    }
}

impl Serve for FixedDisk {
    fn arrive(&mut self, now: Nanos, request: &Request) {
        match request.op {
            Op::Flush => self.flushes.push_back(*request),
            Op::Read => self.queue.push_back(*request),
            Op::Write { .. } | Op::Discard | Op::WriteZeroes => {
                self.open_writes.insert(request.id);
                self.queue.push_back(*request);
            }
        }
        self.start(now);
    }

    fn next(&self) -> Option<Nanos> {
        self.agenda.next()
    }

    fn step(&mut self, events: &mut Vec<Event>) {
        let Some((at, request)) = self.agenda.take() else { return };
        self.busy -= 1;
        self.open_writes.remove(&request.id);
        let durable = self.cache != WriteCache::Volatile || matches!(request.op, Op::Write { fua: true } | Op::Discard);
        if request.op == Op::Flush {
            while self.settle_first(at, request.id, events) {}
        }
        events.push(Event { at, what: What::Done { id: request.id, ok: true, durable } });
        if !durable && matches!(request.op, Op::Write { .. } | Op::WriteZeroes) {
            self.remember(at, &request, events);
        }
        self.start(at);
    }

    fn least(&self) -> Nanos {
        ns_of_us(self.parameters.read_us.min(self.parameters.write_us)) + self.bytes_time(4096)
    }

    fn held_bytes(&self) -> usize {
        self.agenda.held_bytes()
            + (self.queue.capacity() + self.flushes.capacity()) * size_of::<Request>()
            + (self.volatile.len() * 3 + self.open_writes.len()) * size_of::<u64>() * 2
    }
}
