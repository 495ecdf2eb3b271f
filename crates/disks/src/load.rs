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

struct Slot {
    began: Nanos,
    flushing: bool,
    place: u64,
}

/// Puts a load on a device from the moment `start` on, which is not before its last event, with request numbers from
/// `first_id` on. Returns what it got, when the last request completed and the next number.
pub fn run(device: &mut Device, load: &Load, start: Nanos, first_id: u64) -> (Figures, Nanos, u64) {
    let mut random = Random::new(load.seed);
    let blocks = (load.span_bytes / load.block_bytes).max(1);
    let mut issued = 0;
    let mut place = || {
        let block = if load.random { random.below(blocks) } else { issued % blocks };
        issued += 1;
        load.start_bytes + block * load.block_bytes
    };
    let mut id = first_id;
    let mut open: BTreeMap<u64, Slot> = BTreeMap::new();
    let mut events: Vec<Event> = Vec::new();
    let mut times: Vec<Nanos> = Vec::with_capacity(load.requests as usize);
    let op = if load.kind == Kind::Read { Op::Read } else { Op::Write { fua: false } };
    let mut ask = |device: &mut Device, open: &mut BTreeMap<u64, Slot>, now: Nanos, slot: Slot| {
        let (op, offset, length) = if slot.flushing { (Op::Flush, 0, 0) } else { (op, slot.place, load.block_bytes) };
        device.arrive(now, &Request { id, op, offset, length });
        open.insert(id, slot);
        id += 1;
    };
    for _ in 0..load.depth {
        let place = place();
        ask(device, &mut open, start, Slot { began: start, flushing: false, place });
    }
    let (mut finished, mut now, mut counted_from) = (0, start, start);
    while finished < load.warm_up + load.requests {
        let Some(at) = device.next() else { break };
        now = at;
        device.advance(at, &mut events);
        for event in std::mem::take(&mut events) {
            let What::Done { id: done, .. } = event.what else { continue };
            let Some(slot) = open.remove(&done) else { continue };
            if load.kind == Kind::WriteAndFlush && !slot.flushing {
                ask(device, &mut open, event.at, Slot { flushing: true, ..slot });
                continue;
            }
            finished += 1;
            if finished == load.warm_up {
                counted_from = event.at;
            } else if finished > load.warm_up && event.at > counted_from {
                // what completes together with the last that does not count does not count either
                times.push(event.at - slot.began);
            }
            let place = place();
            ask(device, &mut open, event.at, Slot { began: event.at, flushing: false, place });
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
