//! A load on a model, without any machine: so many requests at a time, each followed by the next.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::random::Random;
use crate::request::{Event, Nanos, Op, Request, What};

/// What the requests of a load are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Writes with FUA.
    FuaWrite,
    /// Three reads for each write, in random order.
    Mixed,
    /// A write and then a flush, one after the other, as one.
    WriteAndFlush,
}

/// A closed load.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// What the requests are.
    pub kind: Kind,
    /// At even random places; else one after the other.
    pub random: bool,
    /// Size of each request.
    pub block_bytes: u64,
    /// A larger one comes in parts of this size, all at once, as the kernel splits it.
    pub largest_request_bytes: u64,
    /// Requests at a time.
    pub depth: u32,
    /// Requests before the first that counts.
    pub warm_up: u64,
    /// Requests that count.
    pub requests: u64,
    /// Place of the first byte of the part of the device that is used.
    pub start_bytes: u64,
    /// Size of that part.
    pub span_bytes: u64,
    /// For the places.
    pub seed: u64,
}

/// What a load got.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Requests per second; a write and its flush count as one.
    pub per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean time of a request.
    pub mean_us: f64,
    /// The time within which 99 of 100 requests completed.
    pub p99_us: f64,
}

#[derive(Clone, Copy)]
struct Slot {
    began: Nanos,
    op: Op,
    place: u64,
    /// Requests of it that have not completed.
    parts: u64,
}

/// Draws operations and places.
struct Draw<'a> {
    load: &'a Load,
    places: Random,
    operations: Random,
    count: u64,
}

impl Draw<'_> {
    fn next(&mut self, began: Nanos) -> Slot {
        let load = self.load;
        let blocks = (load.span_bytes / load.block_bytes).max(1);
        let block = if load.random { self.places.below(blocks) } else { self.count % blocks };
        self.count += 1;
        let op = match load.kind {
            Kind::Mixed if self.operations.below(4) > 0 => Op::Read,
            Kind::Read => Op::Read,
            Kind::FuaWrite => Op::Write { fua: true },
            Kind::Write | Kind::WriteAndFlush | Kind::Mixed => Op::Write { fua: false },
        };
        Slot { began, op, place: load.start_bytes + block * load.block_bytes, parts: 0 }
    }
}

/// Puts a load on a device from the moment `start` on, which is not before its last event, with request numbers from
/// `first_id` on. Returns what it got, when the last request completed and the next number.
pub fn run(device: &mut Device, load: &Load, start: Nanos, first_id: u64) -> (Figures, Nanos, u64) {
    let operations = Random::new(!load.seed);
    let mut draw = Draw { load, places: Random::new(load.seed), operations, count: 0 };
    let mut id = first_id;
    let mut slots: Vec<Slot> = (0..load.depth).map(|_| draw.next(start)).collect();
    // The slot of each request that has not completed.
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut events: Vec<Event> = Vec::new();
    let mut times: Vec<Nanos> = Vec::with_capacity(load.requests as usize);
    let mut ask = |device: &mut Device, open: &mut BTreeMap<u64, usize>, now: Nanos, index: usize, slot: &mut Slot| {
        let total = if slot.op == Op::Flush { 0 } else { load.block_bytes };
        let mut from = 0;
        loop {
            let length = (total - from).min(load.largest_request_bytes);
            let offset = if slot.op == Op::Flush { 0 } else { slot.place + from };
            device.arrive(now, &Request { id, op: slot.op, offset, length });
            open.insert(id, index);
            (id, slot.parts, from) = (id + 1, slot.parts + 1, from + length);
            if from >= total {
                return;
            }
        }
    };
    for (index, slot) in slots.iter_mut().enumerate() {
        ask(device, &mut open, start, index, slot);
    }
    let (mut finished, mut now, mut counted_from) = (0, start, start);
    while finished < load.warm_up + load.requests {
        let Some(at) = device.next() else { break };
        now = at;
        device.advance(at, &mut events);
        for event in std::mem::take(&mut events) {
            let What::Done { id: done, .. } = event.what else { continue };
            let Some(index) = open.remove(&done) else { continue };
            let slot = &mut slots[index];
            slot.parts -= 1;
            if slot.parts > 0 {
                continue;
            }
            if load.kind == Kind::WriteAndFlush && slot.op != Op::Flush {
                slot.op = Op::Flush;
                ask(device, &mut open, event.at, index, slot);
                continue;
            }
            finished += 1;
            if finished == load.warm_up {
                counted_from = event.at;
            } else if finished > load.warm_up && event.at > counted_from {
                // what completes together with the last that does not count does not count either
                times.push(event.at - slot.began);
            }
            *slot = draw.next(event.at);
            ask(device, &mut open, event.at, index, slot);
        }
    }
    let mut end = now;
    // What is still open is waited for, so that the next load finds the device without requests.
    while !open.is_empty() {
        let Some(at) = device.next() else { break };
        end = at;
        device.advance(at, &mut events);
        for event in std::mem::take(&mut events) {
            if let What::Done { id: done, .. } = event.what {
                open.remove(&done);
            }
        }
    }
    times.sort_unstable();
    let count = times.len().max(1) as f64;
    let seconds = (now - counted_from).max(1) as f64 / 1e9;
    let figures = Figures {
        per_s: times.len() as f64 / seconds,
        bytes_per_s: times.len() as f64 * load.block_bytes as f64 / seconds,
        mean_us: times.iter().sum::<Nanos>() as f64 / count / 1e3,
        p99_us: times.get(times.len().saturating_sub(1 + times.len() / 100)).copied().unwrap_or(0) as f64 / 1e3,
    };
    (figures, end, id)
}
