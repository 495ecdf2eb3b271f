//! A disk that is looked at only when it may answer gives the same answers, at the same moments, as one that is looked at
//! whenever something happens in it.

mod common;

use std::collections::BTreeSet;

use common::{fixed, named, random_reads, request, ssd};
use proptest::prelude::*;
use strata_disks::{Device, Errors, Event, Faults, Model, Nanos, Op, Service, Ssd, Stalls, What, WriteCache};

const SIZE: u64 = 256 << 20;
const BLOCK: u64 = 4096;

/// A request: what, where, how many blocks, and how long after the one before. One without a pause arrives together with an
/// answer, as of a program that keeps so many requests at a time.
type Step = (u8, u64, u64, Option<u64>);

fn caches() -> impl Strategy<Value = WriteCache> {
    prop_oneof![Just(WriteCache::Volatile), Just(WriteCache::Protected), Just(WriteCache::None)]
}

/// Times from none to many times those of anything else.
fn us() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.1), 0.5f64..30.0, 30.0f64..3000.0]
}

fn any_flash() -> impl Strategy<Value = Ssd> {
    let shape = (1u32..4, 1u32..4, prop_oneof![Just(4096u32), Just(16 << 10)], 1u32..4, any::<bool>());
    let times = (us(), us(), us(), us(), us(), us());
    let rates = (20u64..2000, 20u64..4000);
    let state = (0.0f64..1.0, 0.0f64..1.5, 0u64..64, 1u32..9);
    (shape, times, rates, state).prop_map(|(shape, times, rates, state)| {
        let (channels, dies_per_channel, mapping_bytes, pages, full_duplex) = shape;
        let (read_us, program_us, command_us, read_latency_us, write_latency_us, flush_us) = times;
        let (filled_share, overwritten, buffer_units, reads_before_program) = state;
        Ssd {
            channels,
            dies_per_channel,
            mapping_bytes,
            page_bytes: 16 << 10,
            program_bytes: pages * (16 << 10),
            block_bytes: u64::from(pages) << 19,
            // What a die does takes some time.
            read_us: read_us.max(0.1),
            program_us: program_us.max(0.1),
            erase_ms: 0.3,
            channel_bytes_per_s: rates.0 * 1_000_000,
            over_provisioning: 0.1,
            interface_bytes_per_s: rates.1 * 1_000_000,
            full_duplex,
            command_us,
            read_latency_us,
            write_latency_us,
            buffer_bytes: 2 * u64::from(pages << 14) + buffer_units * u64::from(mapping_bytes),
            flush_us,
            reads_before_program,
            filled_share,
            overwritten,
        }
    })
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let stall = prop::option::of((0u8..3, 0.01f64..20.0));
    let stalls = stall.prop_map(|stall| {
        let of = |(kind, length_ms): (u8, f64)| match kind {
            0 => Stalls { length_ms, at_s: Some(0.003), ..Stalls::default() },
            1 => Stalls { length_ms, every: Some(7), ..Stalls::default() },
            _ => Stalls { length_ms, share: Some(0.1), ..Stalls::default() },
        };
        stall.map(of).into_iter().collect()
    });
    let errors = prop::option::of(1u64..9)
        .prop_map(|every| every.map(|every| Errors { every: Some(every), ..Errors::default() }).into_iter().collect());
    let power = prop::option::of((0.0001f64..0.2, prop::option::of(0.0001f64..0.1)));
    let some = (errors, stalls, prop::option::of(1u64..4), power).prop_map(|(errors, stalls, dropped, power)| Faults {
        errors,
        stalls,
        dropped_flush_every: dropped,
        power_cut_s: power.map(|(cut, _)| cut),
        power_back_s: power.and_then(|(cut, later)| later.map(|later| cut + later)),
    });
    prop_oneof![2 => Just(Faults::default()), 1 => some]
}

fn any_model() -> impl Strategy<Value = Model> {
    let service = prop_oneof![
        1 => Just(named("hdd-7200").service),
        1 => Just(Service::Ssd(Ssd { filled_share: 0.7, buffer_bytes: 1 << 20, ..ssd("ssd-sata") })),
        1 => Just(Service::Ssd(Ssd { filled_share: 0.9, overwritten: 0.5, buffer_bytes: 1 << 20, ..ssd("nvme") })),
        4 => any_flash().prop_map(Service::Ssd),
        1 => (1u32..8, us(), us()).prop_map(|(servers, time_us, flush_us)| {
            fixed(servers, time_us.max(0.1), flush_us, WriteCache::Volatile).service
        }),
    ];
    (service, caches(), 1u32..64, any_faults()).prop_map(|(mut service, write_cache, queue_depth, faults)| {
        if let Service::Hdd(hdd) = &mut service {
            hdd.cache_bytes = 256 << 10;
        }
        Model { service, write_cache, queue_depth, faults, ..named("ssd-sata") }
    })
}

/// Few places, so that requests meet; many, so that caches fill; large requests and small ones; in bursts and alone.
fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![6 => 5u8..8, 6 => 8u8..10, 1 => 0u8..5];
    let place = prop_oneof![0u64..40, 0u64..60_000];
    let blocks = prop_oneof![3 => 1u64..3, 1 => 1u64..130];
    let pause = prop_oneof![
        3 => Just(None),
        2 => Just(Some(0)),
        2 => (1u64..30_000).prop_map(Some),
        1 => (1u64..9_000_000).prop_map(Some),
    ];
    prop::collection::vec((kind, place, blocks, pause), 1..250)
}

fn op(kind: u8) -> Op {
    match kind {
        0 | 1 => Op::Flush,
        2 => Op::Discard,
        3 => Op::WriteZeroes,
        4 | 5 => Op::Write { fua: true },
        6 | 7 => Op::Write { fua: false },
        _ => Op::Read,
    }
}

fn is_answer(event: &Event) -> bool {
    !matches!(event.what, What::Durable { .. })
}

/// Every event, when each was seen, and how many of the requests were never answered, of a disk that is looked at when a
/// request arrives and at the moments that `next` says.
fn play(
    model: &Model,
    seed: u64,
    steps: &[Step],
    next: impl Fn(&Device) -> Option<Nanos>,
) -> (Vec<Event>, Vec<Nanos>, usize, u64) {
    let mut device = Device::new(model, SIZE, seed).expect("the model");
    let (mut now, mut wakes, mut events, mut seen) = (0, 0, Vec::new(), Vec::new());
    let mut open = BTreeSet::new();
    let mut look = |device: &mut Device, at: Nanos, open: &mut BTreeSet<u64>| {
        let before = events.len();
        device.advance(at, &mut events);
        seen.resize(events.len(), at);
        events[before..].iter().for_each(|event: &Event| {
            if let What::Done { id, .. } = event.what {
                open.remove(&id);
            }
        });
        events[before..].iter().any(is_answer)
    };
    for (id, &(kind, place, blocks, pause)) in (1..).zip(steps) {
        let until = pause.or(open.is_empty().then_some(0)).map(|pause| now + pause);
        while let Some(at) = next(&device).filter(|&at| until.is_none_or(|until| at <= until)) {
            (now, wakes) = (at, wakes + 1);
            if look(&mut device, at, &mut open) && until.is_none() {
                break;
            }
        }
        now = until.unwrap_or(now);
        look(&mut device, now, &mut open);
        let op = op(kind);
        let length = if op == Op::Flush { 0 } else { blocks * BLOCK };
        open.insert(id);
        device.arrive(now, &request(id, op, place * BLOCK, length));
        // As the queue does, for what takes no time.
        look(&mut device, now, &mut open);
    }
    while let Some(at) = next(&device) {
        wakes += 1;
        look(&mut device, at, &mut open);
    }
    (events, seen, open.len(), wakes)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_are_those_of_every_step_and_none_is_late(
        model in any_model(), seed in 0u64..99, steps in any_steps(),
    ) {
        let (expected, _, unanswered, _) = play(&model, seed, &steps, Device::next);
        prop_assert_eq!(unanswered, 0);
        let (events, seen, unanswered, _) = play(&model, seed, &steps, Device::next_answer);
        prop_assert_eq!(unanswered, 0, "never answered");
        for (event, seen) in events.iter().zip(seen).filter(|(event, _)| is_answer(event)) {
            prop_assert_eq!(event.at, seen, "seen late: {:?}", event);
        }
        // After the last answer nobody looks any more.
        let last = expected.iter().rposition(is_answer).map_or(0, |last| last + 1);
        prop_assert!(events.len() >= last);
        prop_assert_eq!(&events[..], &expected[..events.len()]);
    }
}

/// A queue depth of 1 takes one look, and a greater one hardly more.
#[test]
fn a_read_of_flash_is_looked_at_when_it_is_answered() {
    for name in ["ssd-sata", "nvme"] {
        let model = Model { service: Service::Ssd(Ssd { filled_share: 1.0, ..ssd(name) }), ..named(name) };
        for (depth, most) in [(1, 1.0), (8, 2.0), (32, 2.0)] {
            let load = random_reads(SIZE, depth, 2000);
            let mut device = Device::new(&model, SIZE, 1).expect("the model");
            let mut random = strata_disks::Random::new(load.seed);
            let (mut id, mut looks, mut events) = (0, 0.0, Vec::new());
            let mut ask = |device: &mut Device, now| {
                let place = random.below(SIZE / BLOCK) * BLOCK;
                id += 1;
                device.arrive(now, &request(id, Op::Read, place, BLOCK));
            };
            (0..depth).for_each(|_| ask(&mut device, 0));
            let mut answers = 0;
            while answers < 2000 {
                let at = device.next_answer().expect("an answer is due");
                looks += 1.0;
                device.advance(at, &mut events);
                for _ in events.drain(..) {
                    answers += 1;
                    ask(&mut device, at);
                }
            }
            println!("{name} {depth}: {} looks a read", looks / f64::from(answers));
            assert!(looks / f64::from(answers) <= most, "{name}, {depth} at a time: {looks} looks for {answers} reads");
        }
    }
}
