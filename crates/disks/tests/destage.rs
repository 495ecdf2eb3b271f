//! When the disk with arms writes its cache to the medium: cached writes are never free, and a flush is never too long.

mod common;

use std::collections::BTreeSet;

use common::{done, drain, hdd, named, random_reads, request};
use proptest::prelude::*;
use strata_disks::hdd::Geometry;
use strata_disks::{Device, Event, Kind, Load, Op, Random, What, run};

const SIZE: u64 = 2 << 30;

fn per_s(load: &Load) -> f64 {
    run(&mut Device::new(&named("hdd-7200"), SIZE, 3).expect("the model"), load, 0, 0).0.per_s
}

/// The arm does one thing at a time, so a second of three reads a write holds no more of them than
/// 1 / (3/4 / reads per second + 1/4 / writes per second).
#[test]
fn reads_and_writes_together_are_no_faster_than_one_after_the_other() {
    let full = hdd().cache_bytes / 4096 * 2;
    let write = per_s(&Load { kind: Kind::Write, warm_up: full, requests: 10_000, ..random_reads(SIZE, 32, 0) });
    for depth in [1, 4, 16, 32] {
        let read = per_s(&random_reads(SIZE, depth, 10_000));
        let closed = 1.0 / (0.75 / read + 0.25 / write);
        let mixed = per_s(&Load { kind: Kind::Mixed, warm_up: 2000, requests: 15_000, ..random_reads(SIZE, depth, 0) });
        assert!(mixed <= closed * 1.02, "depth {depth}: {mixed} for {closed} of {read} reads and {write} writes");
        assert!(mixed >= closed * 0.8, "depth {depth}: {mixed} for {closed} of {read} reads and {write} writes");
    }
}

/// Linux gives a command up after 30 s and, with retries, a flush after about 60 s (drivers/scsi/sd.c: `SD_TIMEOUT`,
/// `SD_FLUSH_TIMEOUT_MULTIPLIER`).
#[test]
fn the_longest_flush_is_shorter_than_linux_waits() {
    for (bytes, random) in [(512, true), (4096, true), (32 << 10, true), (512 << 10, true), (4096, false)] {
        let mut device = Device::new(&named("hdd-7200"), SIZE, 3).expect("the model");
        let requests = hdd().cache_bytes / bytes.max(4096) + 8192;
        let load = Load { kind: Kind::Write, random, block_bytes: bytes, requests, ..random_reads(SIZE, 32, 0) };
        let (_, end, id) = run(&mut device, &load, 0, 0);
        device.arrive(end, &request(id, Op::Flush, 0, 0));
        let (at, _) = done(&drain(&mut device), id).expect("an answer");
        let seconds = (at - end) as f64 / 1e9;
        assert!(seconds < 30.0, "{seconds} s after writes of {bytes} bytes");
    }
}

/// Reads go on and on, nearly without a pause: a cached write reaches the medium all the same.
#[test]
fn no_cached_write_waits_for_the_reads_to_end() {
    for depth in [1, 32] {
        let mut device = Device::new(&named("hdd-7200"), SIZE, 3).expect("the model");
        let mut events = Vec::new();
        for id in 0..40 {
            device.arrive(0, &request(id, Op::Write { fua: false }, id * 40_000_000 / 4096 * 4096, 4096));
        }
        device.advance(10_000_000, &mut events);
        let mut random = Random::new(5);
        let mut id = 1000;
        let mut ask = |device: &mut Device, now| {
            id += 1;
            device.arrive(now, &request(id, Op::Read, random.below(SIZE / 4096) * 4096, 4096));
        };
        (0..depth).for_each(|_| ask(&mut device, 10_000_000));
        while let Some(at) = device.next().filter(|&at| at < 8_000_000_000) {
            let mut now: Vec<Event> = Vec::new();
            device.advance(at, &mut now);
            let answered = now.iter().filter(|event| matches!(event.what, What::Done { id, .. } if id >= 1000)).count();
            (0..answered).for_each(|_| ask(&mut device, at));
            events.extend(now);
        }
        let durable = events.iter().filter(|event| matches!(event.what, What::Durable { .. })).count();
        assert_eq!(durable, 40, "depth {depth}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is asked in whatever order: until the last flush is answered the arm has been over every byte, and has
    /// gone from each track to another in no less than the shortest seek.
    #[test]
    fn nothing_is_done_in_less_time_than_the_arm_needs(
        seed in 0u64..1000,
        steps in prop::collection::vec((0u8..12, 0u64..65_536, 1u64..64, 0u64..3_000_000), 50..400),
    ) {
        let mut device = Device::new(&named("hdd-7200"), SIZE, seed).map_err(TestCaseError::fail)?;
        let geometry = Geometry::new(&hdd(), SIZE, 0);
        let (mut now, mut least, mut events) = (0, 0, Vec::new());
        let (mut tracks, mut places) = (BTreeSet::new(), BTreeSet::new());
        for (id, &(kind, place, blocks, pause)) in (0..).zip(&steps) {
            now += pause;
            device.advance(now, &mut events);
            let (offset, length) = (place * (SIZE / 65_536), blocks.min(8) * 4096);
            let op = match kind {
                0 => Op::Flush,
                1 => Op::Write { fua: true },
                2..=5 => Op::Read,
                _ => Op::Write { fua: false },
            };
            // Bytes that were asked for before may be in memory.
            if op != Op::Flush && !places.insert(place) {
                continue;
            }
            if op == Op::Flush {
                device.arrive(now, &request(id, op, 0, 0));
                continue;
            }
            least += geometry.through(offset + length) - geometry.place(offset).reached;
            tracks.insert(geometry.place(offset).track);
            device.arrive(now, &request(id, op, offset, length));
        }
        let flush = steps.len() as u64;
        device.arrive(now, &request(flush, Op::Flush, 0, 0));
        events.extend(drain(&mut device));
        let answered = events.iter().filter(|event| matches!(event.what, What::Done { .. })).map(|event| event.at).max();
        let switch = (hdd().track_switch_ms * 1e6) as u64;
        let least = least + (tracks.len() as u64).saturating_sub(1) * switch;
        prop_assert!(answered.is_some_and(|at| at >= least), "{answered:?} for {least}");
    }
}
