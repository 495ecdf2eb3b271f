//! What goes wrong, and what is left after a power cut.

mod common;

use std::collections::BTreeMap;

use common::{done, drain, fixed, named, request};
use proptest::prelude::*;
use strata_disks::{
    Bytes, Choice, CrashState, Device, Errors, Event, Faults, Model, On, Op, Request, Stalls, What, WriteCache,
};

const SIZE: u64 = 1 << 30;
const BLOCK: u64 = 4096;

fn with(faults: Faults) -> Model {
    Model { faults, ..fixed(1, 1000.0, 0.0, WriteCache::Volatile) }
}

fn reads(device: &mut Device, count: u64) -> Vec<bool> {
    for id in 0..count {
        device.arrive(0, &request(id, Op::Read, id * 4096, 4096));
    }
    let events = drain(device);
    (0..count).filter_map(|id| done(&events, id).map(|(_, ok)| ok)).collect()
}

#[test]
fn errors_come_where_and_when_they_are_asked_for() {
    let every_third = Errors { every: Some(3), ..Errors::default() };
    let range = Errors { start_bytes: Some(8192), length_bytes: Some(1), ..Errors::default() };
    let only_writes = Errors { on: On::Write, ..Errors::default() };
    for (errors, expected) in [
        (every_third, [true, true, false, true, true, false]),
        (range, [true, true, false, true, true, true]),
        (only_writes, [true; 6]),
    ] {
        let mut device =
            Device::new(&with(Faults { errors: vec![errors], ..Faults::default() }), SIZE, 1).expect("the model");
        assert_eq!(reads(&mut device, 6), expected);
    }
    let from = Errors { from_s: Some(1.0), ..Errors::default() };
    let mut device =
        Device::new(&with(Faults { errors: vec![from], ..Faults::default() }), SIZE, 1).expect("the model");
    assert_eq!(reads(&mut device, 3), [true; 3]);
    device.arrive(1_000_000_000, &request(9, Op::Read, 0, 4096));
    assert_eq!(done(&drain(&mut device), 9), Some((1_001_000_000, false)));
}

#[test]
fn a_stall_holds_everything_back_and_changes_no_order() {
    let stall = Stalls { length_ms: 50.0, at_s: Some(0.002), ..Stalls::default() };
    let mut device =
        Device::new(&with(Faults { stalls: vec![stall], ..Faults::default() }), SIZE, 1).expect("the model");
    for id in 0..4 {
        device.arrive(0, &request(id, Op::Read, 0, 4096));
    }
    let events = drain(&mut device);
    let times: Vec<u64> = (0..4).filter_map(|id| done(&events, id)).map(|(at, _)| at / 1_000_000).collect();
    assert_eq!(times, [1, 52, 52, 52]);
}

#[test]
fn a_dropped_flush_is_acknowledged_and_does_nothing() {
    let faults = Faults { dropped_flush_every: Some(1), power_cut_s: Some(0.01), ..Faults::default() };
    let mut device = Device::new(&with(faults), SIZE, 1).expect("the model");
    let mut events = Vec::new();
    device.arrive(0, &request(1, Op::Write { fua: false }, 0, 4096));
    device.advance(1_000_000, &mut events);
    device.arrive(1_000_000, &request(2, Op::Flush, 0, 0));
    events.extend(drain(&mut device));
    assert_eq!(done(&events, 2), Some((1_000_000, true)));
    assert!(!events.iter().any(|event| matches!(event.what, What::Durable { .. })), "{events:?}");
    assert!(events.iter().any(|event| matches!(event.what, What::Done { id: 2, durable: false, .. })), "{events:?}");
}

#[test]
fn after_a_power_cut_every_request_fails_at_once() {
    let mut device =
        Device::new(&with(Faults { power_cut_s: Some(0.0015), ..Faults::default() }), SIZE, 1).expect("the model");
    assert_eq!(reads(&mut device, 3), [true, false, false]);
    device.arrive(5_000_000, &request(7, Op::Read, 0, 4096));
    assert_eq!(done(&drain(&mut device), 7), Some((5_000_000, false)));
}

#[test]
fn with_the_power_back_it_serves_again() {
    let faults = Faults { power_cut_s: Some(0.0015), power_back_s: Some(0.01), ..Faults::default() };
    let mut device = Device::new(&with(faults), SIZE, 1).expect("the model");
    assert_eq!(reads(&mut device, 3), [true, false, false]);
    let mut events = Vec::new();
    device.advance(20_000_000, &mut events);
    device.arrive(20_000_000, &request(7, Op::Read, 0, 4096));
    assert_eq!(done(&drain(&mut device), 7), Some((21_000_000, true)));
}

/// A device whose blocks hold the number of the write that wrote them last.
struct Medium {
    device: Device,
    crash: CrashState,
    blocks: BTreeMap<u64, u64>,
    open: BTreeMap<u64, Request>,
    /// By block: the writes that were acknowledged, in that order.
    history: BTreeMap<u64, Vec<u64>>,
    /// By block: how much of its history is promised.
    promised: BTreeMap<u64, usize>,
    /// By flush: how much of each history there was when it arrived.
    at_arrival: BTreeMap<u64, BTreeMap<u64, usize>>,
    lost: Vec<Request>,
    cut: bool,
}

fn blocks_of(request: &Request) -> std::ops::Range<u64> {
    request.offset / BLOCK..request.end() / BLOCK
}

impl Medium {
    fn take(&mut self, seed: u64, events: Vec<Event>) {
        for event in events {
            match event.what {
                What::Done { id, ok, durable } => {
                    let Some(request) = self.open.remove(&id) else { continue };
                    let before: Vec<u8> = blocks_of(&request)
                        .flat_map(|block| self.blocks.get(&block).copied().unwrap_or(0).to_ne_bytes().repeat(512))
                        .collect();
                    self.crash.done(id, ok, durable, &before);
                    if ok {
                        self.acknowledge(&request);
                    }
                }
                What::Durable { id, offset, length } => self.crash.durable(id, offset, length),
                What::PowerCut => {
                    self.cut = true;
                    self.lost = self.open.values().copied().collect();
                    for change in self.crash.cut(Choice::Seed(seed)) {
                        let number = match change.bytes {
                            Bytes::Open(id) => id,
                            Bytes::Old(bytes) => u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes")),
                        };
                        self.blocks.insert(change.offset / BLOCK, number);
                    }
                }
            }
        }
    }

    /// What the outside may rely on from now on: nothing of the model's inside goes into it.
    fn acknowledge(&mut self, request: &Request) {
        match request.op {
            Op::Flush => {
                for (block, count) in self.at_arrival.remove(&request.id).unwrap_or_default() {
                    let promised = self.promised.entry(block).or_insert(0);
                    *promised = (*promised).max(count);
                }
            }
            Op::Write { fua } => {
                for block in blocks_of(request) {
                    self.blocks.insert(block, request.id);
                    let history = self.history.entry(block).or_default();
                    history.push(request.id);
                    if fua {
                        self.promised.insert(block, history.len());
                    }
                }
            }
            Op::Read | Op::Discard | Op::WriteZeroes => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// What a flush or a FUA write promised is there after the power cut, or something written later; never anything
    /// older, and never anything that was not written. Writes over each other may be open at the same time.
    #[test]
    fn a_power_cut_takes_back_only_what_was_not_promised(
        which in 0usize..3,
        seed in 0u64..1000,
        cut_ms in 1.0f64..400.0,
        steps in prop::collection::vec((0u8..8, 0u64..24, 1u64..5, 0u64..4_000_000), 1..250),
    ) {
        let name = ["hdd-7200", "ssd-sata", "serial-8ms"][which];
        let mut model = if name == "serial-8ms" { fixed(3, 300.0, 200.0, WriteCache::Volatile) } else { named(name) };
        model.faults.power_cut_s = Some(cut_ms / 1e3);
        if let strata_disks::Service::Hdd(hdd) = &mut model.service {
            hdd.cache_bytes = 64 << 10;
        }
        let mut medium = Medium {
            device: Device::new(&model, SIZE, seed).map_err(TestCaseError::fail)?,
            crash: CrashState::new(BLOCK as u32),
            blocks: BTreeMap::new(),
            open: BTreeMap::new(),
            history: BTreeMap::new(),
            promised: BTreeMap::new(),
            at_arrival: BTreeMap::new(),
            lost: Vec::new(),
            cut: false,
        };
        let mut now = 0;
        for (id, (kind, block, blocks, pause)) in (1..).zip(steps) {
            now += pause;
            let mut events = Vec::new();
            medium.device.advance(now, &mut events);
            medium.take(seed, events);
            let request = match kind {
                0 => request(id, Op::Flush, 0, 0),
                1 => request(id, Op::Write { fua: true }, block * BLOCK, blocks * BLOCK),
                2 => request(id, Op::Read, block * BLOCK, blocks * BLOCK),
                _ => request(id, Op::Write { fua: false }, block * BLOCK, blocks * BLOCK),
            };
            if request.op == Op::Flush {
                let counts = medium.history.iter().map(|(block, history)| (*block, history.len())).collect();
                medium.at_arrival.insert(id, counts);
            }
            medium.open.insert(id, request);
            medium.crash.arrive(&request);
            medium.device.arrive(now, &request);
        }
        let events = drain(&mut medium.device);
        medium.take(seed, events);
        prop_assert!(medium.cut);
        prop_assert!(medium.open.is_empty());
        for block in 0..32 {
            let there = medium.blocks.get(&block).copied().unwrap_or(0);
            let history = medium.history.get(&block).map_or(&[][..], Vec::as_slice);
            let promised = medium.promised.get(&block).copied().unwrap_or(0);
            let open = medium.lost.iter().any(|request| {
                request.id == there && matches!(request.op, Op::Write { .. }) && blocks_of(request).contains(&block)
            });
            let allowed = open || there == 0 && promised == 0 || history[promised.saturating_sub(1)..].contains(&there);
            prop_assert!(allowed, "block {block} holds {there} of {history:?}, promised from {promised}");
        }
    }
}
