//! What holds for every model and every load.

mod common;

use std::collections::BTreeMap;

use common::{drain, fixed, named, request};
use proptest::prelude::*;
use strata_disks::{Claims, CrashState, Device, Event, Model, Op, Service, What, WriteCache, builtin, claims};

const SIZE: u64 = 1 << 30;

fn any_model() -> impl Strategy<Value = Model> {
    let cache = prop_oneof![Just(WriteCache::Volatile), Just(WriteCache::Protected), Just(WriteCache::None)];
    (0usize..4, cache, 1u32..64, 1u32..8).prop_map(|(which, write_cache, queue_depth, servers)| {
        let mut model = match which {
            0 => named("hdd-7200"),
            1 => named("ssd-sata"),
            2 => named("nvme"),
            _ => fixed(servers, 500.0, 700.0, write_cache),
        };
        match &mut model.service {
            Service::Hdd(hdd) => hdd.cache_bytes = 256 << 10,
            Service::Ssd(ssd) => ssd.buffer_bytes = 1 << 20,
            Service::Fixed(_) => {}
        }
        Model { write_cache, queue_depth, ..model }
    })
}

fn any_steps() -> impl Strategy<Value = Vec<(u8, u64, u64, u64)>> {
    prop::collection::vec((0u8..10, 0u64..4096, 1u64..64, 0u64..2_000_000), 1..300)
}

/// Puts the steps on a device; arrivals by number, and every event.
fn play(model: &Model, seed: u64, steps: &[(u8, u64, u64, u64)]) -> (BTreeMap<u64, (u64, Op)>, Vec<Event>, usize) {
    let mut device = Device::new(model, SIZE, seed).expect("the model");
    let (mut now, mut events, mut arrivals, mut held) = (0, Vec::new(), BTreeMap::new(), 0);
    for (id, &(kind, place, blocks, pause)) in (1..).zip(steps) {
        now += pause;
        device.advance(now, &mut events);
        let op = match kind {
            0 => Op::Flush,
            1 => Op::Write { fua: true },
            2 => Op::Discard,
            3 => Op::WriteZeroes,
            4..=6 => Op::Read,
            _ => Op::Write { fua: false },
        };
        let length = if op == Op::Flush { 0 } else { blocks * 4096 };
        arrivals.insert(id, (now, op));
        device.arrive(now, &request(id, op, place * 65536, length));
        held = held.max(device.held_bytes());
    }
    events.extend(drain(&mut device));
    (arrivals, events, held)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_once_and_not_before_it_came(model in any_model(), seed in 0u64..99, steps in any_steps()) {
        let (mut arrivals, events, _) = play(&model, seed, &steps);
        let mut last = 0;
        for event in events {
            prop_assert!(event.at >= last, "events out of order");
            last = event.at;
            if let What::Done { id, ok, .. } = event.what {
                let arrived = arrivals.remove(&id);
                prop_assert!(ok && arrived.is_some_and(|(at, _)| at <= event.at), "{id} {arrived:?} {event:?}");
            }
        }
        prop_assert!(arrivals.is_empty(), "{arrivals:?}");
    }

    #[test]
    fn no_flush_is_answered_before_the_writes_that_came_before_it(
        model in any_model(), seed in 0u64..99, steps in any_steps(),
    ) {
        let (arrivals, events, _) = play(&model, seed, &steps);
        let mut crash = CrashState::new(4096);
        let mut arriving = arrivals.iter().peekable();
        let mut done = std::collections::BTreeSet::new();
        for event in events {
            while let Some((&id, &(_, op))) = arriving.next_if(|(_, (at, _))| *at <= event.at) {
                let (_, place, blocks, _) = steps[(id - 1) as usize];
                crash.arrive(&request(id, op, place * 65536, if op == Op::Flush { 0 } else { blocks * 4096 }));
            }
            match event.what {
                What::Done { id, ok, durable } => {
                    done.insert(id);
                    let (_, _, blocks, _) = steps[(id - 1) as usize];
                    if arrivals[&id].1 == Op::Flush {
                        let before = arrivals.range(..id).filter(|(_, (_, op))| !matches!(op, Op::Read | Op::Flush));
                        for (number, _) in before {
                            prop_assert!(done.contains(number), "flush {id} before write {number}");
                        }
                    }
                    crash.done(id, ok, durable, &vec![0; (blocks * 4096) as usize]);
                }
                What::Durable { id, offset, length } => crash.durable(id, offset, length),
                What::PowerCut => prop_assert!(false),
            }
        }
        let (at_risk, blocks) = (crash.sectors_at_risk() as u64, model_cache_bytes(&model) / 4096);
        prop_assert!(at_risk <= blocks, "{at_risk} blocks are not durable, the cache has {blocks}");
    }

    #[test]
    fn the_same_seed_and_arrivals_give_the_same_events(model in any_model(), seed in 0u64..99, steps in any_steps()) {
        prop_assert_eq!(play(&model, seed, &steps).1, play(&model, seed, &steps).1);
    }

    #[test]
    fn memory_stays_bounded(model in any_model(), seed in 0u64..99, steps in any_steps()) {
        let rest = Device::new(&model, SIZE, seed).expect("the model").held_bytes();
        let (.., held) = play(&model, seed, &steps);
        prop_assert!(held < rest + (1 << 20), "{held} {rest}");
    }

    #[test]
    fn no_text_is_taken_for_a_model_by_mistake(text in "[a-z{}\":0-9, ]{0,60}") {
        let _ = serde_json::from_str::<Model>(&text).map(|model| model.check(SIZE));
    }
}

fn model_cache_bytes(model: &Model) -> u64 {
    match &model.service {
        Service::Fixed(fixed) => fixed.cache_bytes,
        Service::Hdd(hdd) => hdd.cache_bytes,
        Service::Ssd(ssd) => ssd.buffer_bytes,
    }
}

#[test]
fn another_seed_is_another_draw() {
    let steps: Vec<(u8, u64, u64, u64)> = (0..200).map(|step| (5, step * 977 % 4096, 1, 20_000_000)).collect();
    let hdd = named("hdd-7200");
    assert_ne!(play(&hdd, 1, &steps).1, play(&hdd, 2, &steps).1);
}

#[test]
fn models_are_written_and_read_back() {
    for model in builtin() {
        let text = serde_json::to_string(&model).expect("JSON");
        assert_eq!(serde_json::from_str::<Model>(&text).expect("the same model"), model);
        model.check(2 << 30).expect("a built-in model is right");
    }
}

#[test]
fn unknown_keys_and_values_out_of_range_are_refused() {
    let text = serde_json::to_string(&named("hdd-7200")).expect("JSON");
    for (from, to) in
        [("\"rpm\"", "\"rmp\""), ("\"name\"", "\"title\""), ("\"hdd\"", "\"tape\""), ("\"errors\"", "\"error\"")]
    {
        assert!(text.contains(from));
        assert!(serde_json::from_str::<Model>(&text.replace(from, to)).is_err(), "{to}");
    }
    for (from, to, word) in [
        ("\"rpm\":7200", "\"rpm\":0", "rpm is 0; give"),
        ("\"queue_depth\":32", "\"queue_depth\":129", "queue_depth is 129"),
        ("\"logical_block_bytes\":512", "\"logical_block_bytes\":520", "logical_block_bytes is 520"),
        ("\"cache_bytes\":134217728", "\"cache_bytes\":0", "write cache of 0 bytes"),
        ("\"inner_bytes_per_s\":83000000", "\"inner_bytes_per_s\":830000000", "inner_bytes_per_s"),
        ("\"power_cut_s\":null", "\"power_cut_s\":-1.0", "power_cut_s is -1"),
        ("\"stalls\":[]", "\"stalls\":[{\"length_ms\":1.0}]", "exactly one of"),
    ] {
        assert!(text.contains(from), "{from}");
        let model: Model = serde_json::from_str(&text.replace(from, to)).expect("still a model");
        let refused = model.check(2 << 30).expect_err(to);
        assert!(refused.contains(word) && refused.starts_with("model 'hdd-7200': "), "{refused}");
    }
    let twice = text.replace("\"rpm\":7200", "\"rpm\":0").replace("\"queue_depth\":32", "\"queue_depth\":129");
    let twice: Model = serde_json::from_str(&twice).expect("still a model");
    assert!(twice.problems(2 << 30).len() >= 2, "each is named");
    assert!(named("hdd-7200").check(1 << 43).is_err_and(|refused| refused.contains("larger than the disk")));
}

/// Requests that complete in batches are counted by whole ones.
#[test]
fn so_many_at_a_time_of_one_time_each_are_what_they_are() {
    let disk = Model { queue_depth: 32, ..fixed(32, 100.0, 0.0, WriteCache::None) };
    let said = claims(&disk, 1 << 30).expect("claims");
    assert!((said.random_reads_deep_per_s - 320_000.0).abs() < 1.0, "{}", said.random_reads_deep_per_s);
}

/// What the documents say of the built-in models; the tolerance is that of the words there.
#[test]
fn the_built_in_models_claim_what_the_documents_say() {
    let of = |name: &str| -> Claims { claims(&named(name), 2 << 30).expect("claims") };
    let hdd = of("hdd-7200");
    assert!((74.0..80.0).contains(&hdd.random_reads_per_s), "{hdd:?}");
    assert!((160.0..220.0).contains(&hdd.random_reads_deep_per_s), "{hdd:?}");
    assert!((160e6..176e6).contains(&hdd.sequential_read_bytes_per_s), "{hdd:?}");
    assert!((83e6..92e6).contains(&hdd.sequential_read_end_bytes_per_s), "{hdd:?}");
    let sata = of("ssd-sata");
    assert!((9_900.0..10_100.0).contains(&sata.random_reads_per_s), "{sata:?}");
    assert!((95_000.0..101_000.0).contains(&sata.random_reads_deep_per_s), "{sata:?}");
    assert!((39_000.0..41_000.0).contains(&sata.random_writes_per_s), "{sata:?}");
    let nvme = of("nvme");
    assert!((18_500.0..19_500.0).contains(&nvme.random_reads_per_s), "{nvme:?}");
    assert!((580_000.0..640_000.0).contains(&nvme.random_reads_deep_per_s), "{nvme:?}");
    assert!((59_000.0..61_000.0).contains(&nvme.random_writes_per_s), "{nvme:?}");
    assert!((3.4e9..3.51e9).contains(&nvme.sequential_read_bytes_per_s), "{nvme:?}");
    assert!((1.65e9..1.75e9).contains(&nvme.sequential_write_bytes_per_s), "{nvme:?}");
}
