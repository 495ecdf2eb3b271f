//! A second implementation of the models as a witness: slow, simple, and written from docs/disk-models.md. Recorded request
//! sequences are played to it, and its completion times are held against the engine's.
//!
//! It leaves out what the sequences here do not use: collection of blocks, faults, protected caches.

#[path = "../common/mod.rs"]
mod common;
mod fixed;
mod hdd;
mod ssd;

use std::collections::BTreeMap;

use common::{named, request};
use strata_disks::{Device, Event, Model, Nanos, Op, Random, Request, Service, What, WriteCache};

const SIZE: u64 = 2 << 30;

/// A request and when it arrived, in the order of arrival; its number is its place.
pub(crate) type Sequence = Vec<(Nanos, Request)>;

/// What is going to happen, for the slow simulations: the earliest is found by looking at all of it.
pub(crate) struct Plan<T> {
    entries: Vec<(Nanos, u64, T)>,
    count: u64,
}

impl<T> Plan<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), count: 0 }
    }

    pub(crate) fn add(&mut self, at: Nanos, what: T) {
        self.entries.push((at, self.count, what));
        self.count += 1;
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.entries.iter().map(|entry| entry.0).min()
    }

    pub(crate) fn take(&mut self) -> Option<(Nanos, T)> {
        let (index, _) = self.entries.iter().enumerate().min_by_key(|(_, entry)| (entry.0, entry.1))?;
        let (at, _, what) = self.entries.remove(index);
        Some((at, what))
    }
}

/// Nanoseconds to move bytes.
pub(crate) fn transfer(bytes: u64, bytes_per_s: u64) -> Nanos {
    (bytes as f64 / bytes_per_s as f64 * 1e9).round() as Nanos
}

/// Something that one at a time has: from `now` or from when it is free, for `time`; until when.
pub(crate) fn have(free: &mut Nanos, now: Nanos, time: Nanos) -> Nanos {
    *free = now.max(*free) + time;
    *free
}

/// When each request is answered by the witness of a model.
pub(crate) fn answers(model: &Model, size: u64, seed: u64, sequence: &Sequence) -> Vec<Nanos> {
    match &model.service {
        Service::Fixed(parameters) => fixed::answers(parameters, sequence),
        Service::Hdd(parameters) => {
            // The seed says where the platters stand.
            let phase = Random::new(Random::new(!seed).bits()).bits() % (60_000_000_000 / u64::from(parameters.rpm));
            hdd::answers(parameters, size, model.queue_depth, phase as f64, sequence)
        }
        Service::Ssd(parameters) => ssd::answers(parameters, size, model.queue_depth, sequence),
    }
}

/// Shares of operations, in percent; the rest are reads.
#[derive(Clone, Copy)]
struct Mix {
    write: u64,
    fua: u64,
    flush: u64,
}

/// Requests that are always `depth` at a time on the engine's model, as they arrived and were answered. Writes go to the
/// second half of the device.
fn recorded(model: &Model, mix: Mix, depth: u64, bytes: u64, count: u64, seed: u64) -> (Sequence, Vec<Nanos>) {
    let mut device = Device::new(model, SIZE, seed).expect("the model");
    let mut random = Random::new(seed);
    let (mut sequence, mut answered, mut events) = (Vec::new(), BTreeMap::new(), Vec::<Event>::new());
    let half = SIZE / bytes / 2;
    let mut ask = |device: &mut Device, sequence: &mut Sequence, now: Nanos| {
        let (draw, place) = (random.below(100), random.below(half));
        let id = sequence.len() as u64;
        let write = |fua| request(id, Op::Write { fua }, (half + place) * bytes, bytes);
        let asked = if draw < mix.write {
            write(false)
        } else if draw < mix.write + mix.fua {
            write(true)
        } else if draw < mix.write + mix.fua + mix.flush {
            request(id, Op::Flush, 0, 0)
        } else {
            request(id, Op::Read, place * bytes, bytes)
        };
        sequence.push((now, asked));
        device.arrive(now, &asked);
    };
    (0..depth).for_each(|_| ask(&mut device, &mut sequence, 0));
    while (answered.len() as u64) < count {
        let at = device.next().expect("an answer is due");
        device.advance(at, &mut events);
        for event in std::mem::take(&mut events) {
            if let What::Done { id, .. } = event.what {
                answered.insert(id, event.at);
                if (sequence.len() as u64) < count {
                    ask(&mut device, &mut sequence, event.at);
                }
            }
        }
    }
    (sequence, answered.into_values().collect())
}

/// Mean times by operation, and when the last was answered.
fn figures(sequence: &Sequence, answered: &[Nanos]) -> BTreeMap<&'static str, f64> {
    let mut found: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for ((arrived, asked), at) in sequence.iter().zip(answered) {
        let name = match asked.op {
            Op::Read => "read",
            Op::Write { fua: true } => "FUA write",
            Op::Flush => "flush",
            _ => "write",
        };
        let entry = found.entry(name).or_default();
        *entry = (entry.0 + (at - arrived) as f64, entry.1 + 1.0);
    }
    let mut means: BTreeMap<&str, f64> = found
        .into_iter()
        .filter(|(_, (_, count))| *count > 20.0)
        .map(|(name, (sum, count))| (name, sum / count))
        .collect();
    means.insert("the end", answered.iter().copied().max().unwrap_or(0) as f64);
    means
}

const ALL: [usize; 5] = [0, 1, 2, 3, 4];
const DEPTHS: [u64; 3] = [1, 8, 32];

const MIXES: [Mix; 5] = [
    Mix { write: 0, fua: 0, flush: 0 },
    Mix { write: 25, fua: 0, flush: 0 },
    Mix { write: 0, fua: 100, flush: 0 },
    Mix { write: 50, fua: 0, flush: 50 },
    Mix { write: 30, fua: 10, flush: 10 },
];

/// Holds a witness against the engine for every mix.
fn agree(model: &Model, mixes: &[usize], depths: &[u64], bytes: u64, count: u64, within: f64) {
    for &index in mixes {
        let mix = MIXES[index];
        for &depth in depths {
            let seed = 11 + index as u64;
            let (sequence, engine) = recorded(model, mix, depth, bytes, count, seed);
            let (ours, theirs) =
                (figures(&sequence, &answers(model, SIZE, seed, &sequence)), figures(&sequence, &engine));
            for (name, engine) in theirs {
                let off = ours[name] / engine - 1.0;
                assert!(
                    off.abs() <= within,
                    "{}, mix {index}, depth {depth}, {bytes} bytes: {name} {} for the engine's {engine} ns ({off:+.4})",
                    model.name,
                    ours[name]
                );
            }
        }
    }
}

#[test]
fn fixed_times_agree_to_the_nanosecond() {
    for (servers, flush_us) in [(1, 3000.0), (3, 900.0)] {
        let mut model = common::fixed(servers, 700.0, flush_us, WriteCache::Volatile);
        let Service::Fixed(parameters) = &mut model.service else { panic!("fixed") };
        (parameters.write_us, parameters.bytes_per_s) = (1100.0, Some(64_000_000));
        agree(&model, &ALL, &DEPTHS, 4096, 3000, 1e-12);
    }
}

#[test]
fn the_disk_with_arms_agrees_within_a_hundredth() {
    let model = named("hdd-7200");
    // A single decision that differs changes all that come after it, as the recorded arrivals stay. Of large requests many
    // touch each other, and then cached writes beside reads are not followed to the end here.
    for (bytes, mixes, depths) in [(4096, &ALL[..], &DEPTHS[..]), (128 << 10, &[0, 2, 3], &DEPTHS[..2])] {
        agree(&model, mixes, depths, bytes, 1500, 0.01);
    }
}

#[test]
fn flash_agrees_within_a_hundredth() {
    let mut model = named("ssd-sata");
    if let Service::Ssd(parameters) = &mut model.service {
        // Reads find something, and no write has to collect.
        parameters.filled_share = 0.5;
    }
    for bytes in [4096, 128 << 10] {
        agree(&model, &ALL, &DEPTHS, bytes, 2000, 0.01);
    }
}
