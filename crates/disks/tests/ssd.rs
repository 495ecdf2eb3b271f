//! The disk of flash against what its parameters say in closed form.

mod common;

use common::{close, done, drain, named, random_reads, request, ssd};
use strata_disks::ssd::Flash;
use strata_disks::{Device, Kind, Load, Model, Op, Random, Service, Ssd, WriteCache, run};

const SIZE: u64 = 1 << 30;
const WORN_SIZE: u64 = 1 << 30;

fn model(name: &str, change: impl FnOnce(&mut Ssd), write_cache: WriteCache) -> Model {
    let mut ssd = ssd(name);
    ssd.filled_share = 1.0;
    change(&mut ssd);
    Model { service: Service::Ssd(ssd), write_cache, ..named(name) }
}

fn per_s(model: &Model, load: &Load) -> f64 {
    run(&mut Device::new(model, SIZE, 3).expect("the model"), load, 0, 0).0.per_s
}

#[test]
fn one_read_is_the_sum_of_its_parts() {
    let load = random_reads(SIZE, 1, 2000);
    let (figures, ..) = run(
        &mut Device::new(&model("ssd-sata", |_| (), WriteCache::Volatile), SIZE, 3).expect("the model"),
        &load,
        0,
        0,
    );
    let expected = 10.0 + 60.0 + 4096.0 / 400.0 + 4096.0 / 545.0 + 12.0;
    close(figures.mean_us, expected, 0.001);
}

#[test]
fn reads_are_bounded_by_dies_or_by_the_interface() {
    // Few slow dies and many requests: the dies are always busy.
    let few_dies = |ssd: &mut Ssd| {
        (ssd.channels, ssd.dies_per_channel, ssd.read_us, ssd.command_us) = (2, 1, 200.0, 0.1);
    };
    let deep = Load { depth: 128, ..random_reads(SIZE, 128, 20_000) };
    let with_depth = |model: Model| Model { queue_depth: 128, ..model };
    close(per_s(&with_depth(model("nvme", few_dies, WriteCache::Volatile)), &deep), 2.0 / 200e-6, 0.02);
    // Many fast dies behind a slow interface.
    let slow_interface = |ssd: &mut Ssd| {
        (ssd.interface_bytes_per_s, ssd.command_us, ssd.read_us) = (100_000_000, 0.1, 1.0);
    };
    close(per_s(&with_depth(model("nvme", slow_interface, WriteCache::Volatile)), &deep), 1e8 / 4096.0, 0.02);
    // Neither: the controller.
    let slow_controller = |ssd: &mut Ssd| (ssd.command_us, ssd.read_us) = (20.0, 1.0);
    close(per_s(&with_depth(model("nvme", slow_controller, WriteCache::Volatile)), &deep), 1.0 / 20e-6, 0.02);
}

#[test]
fn sequential_writes_are_bounded_by_the_dies_once_the_buffer_is_full() {
    let fresh = |ssd: &mut Ssd| ssd.filled_share = 0.0;
    let load = Load {
        kind: Kind::Write,
        random: false,
        block_bytes: 128 << 10,
        warm_up: 1500,
        requests: 3000,
        ..random_reads(SIZE, 32, 0)
    };
    let (figures, ..) =
        run(&mut Device::new(&model("nvme", fresh, WriteCache::Volatile), SIZE, 3).expect("the model"), &load, 0, 0);
    // A die is programmed while its data has already come over the channel for none: transfer and program in turn.
    let operation_s = 1750e-6 + (96.0 * 1024.0) / 1.2e9;
    close(figures.bytes_per_s, 32.0 * 96.0 * 1024.0 / operation_s, 0.03);
}

/// The expression of Xiang and Kurkoski (arXiv:1110.4245, 2011; the same as Desnoyers, SYSTOR 2012, for large blocks) for
/// even random writes and greedy collection: A = a / (a + W(-a e^-a)), with a = physical / logical.
fn write_amplification(over_provisioning: f64) -> f64 {
    let a = 1.0 + over_provisioning;
    let target = -a * (-a).exp();
    // The branch of W between -1 and 0, by bisection: w e^w grows there.
    let (mut low, mut high) = (-1.0_f64, 0.0_f64);
    for _ in 0..200 {
        let w = (low + high) / 2.0;
        if w * w.exp() < target { low = w } else { high = w }
    }
    a / (a + low)
}

#[test]
fn the_expression_is_the_published_one() {
    // The figure in the paper's abstract.
    close(write_amplification(0.3), 2.36, 0.002);
}

/// In small blocks valid units vary more from block to block, and the least of many is less than the expression says.
#[test]
fn greedy_collection_has_the_published_write_amplification() {
    for over_provisioning in [0.15, 0.3, 0.6] {
        for block_bytes in [256 << 10, 1 << 20] {
            let mut parameters = ssd("nvme");
            (parameters.channels, parameters.dies_per_channel) = (2, 2);
            (parameters.program_bytes, parameters.block_bytes) = (16 << 10, block_bytes);
            parameters.over_provisioning = over_provisioning;
            let mut flash = Flash::new(&parameters, WORN_SIZE).expect("the flash");
            let mut random = Random::new(5);
            // Worn in until nothing is left of the start, then counted.
            flash.wear_in(1.0, 4.0, &mut random);
            let measured = write_more(&mut flash, 2.0, &mut random);
            let beyond = flash.physical_units() as f64 * 4096.0 / WORN_SIZE as f64 - 1.0;
            close(measured, write_amplification(beyond), 0.05);
        }
    }
}

/// Overwrites the device so many times at random places; the write amplification of that.
fn write_more(flash: &mut Flash, times: f64, random: &mut Random) -> f64 {
    let units = (WORN_SIZE / 4096) as f64;
    let per_program = flash.units_per_program() as usize;
    let mut die = 0;
    let mut batch = Vec::new();
    for _ in 0..(units * times) as u64 / per_program as u64 {
        batch.clear();
        batch.extend((0..per_program).map(|_| random.below(units as u64) as u32));
        die = (die + 1) % flash.dies();
        while !flash.takes_host_writes(die) || flash.owes_collection(die) {
            if !flash.wants_collection(die) || flash.collect(die).is_none() {
                die = (die + 1) % flash.dies();
            }
        }
        flash.program(die, &batch);
    }
    flash.write_amplification().expect("something was written")
}

#[test]
fn worn_in_random_writes_are_slower_by_the_write_amplification() {
    let quick = |ssd: &mut Ssd| {
        (ssd.over_provisioning, ssd.overwritten, ssd.erase_ms, ssd.read_us) = (0.3, 4.0, 0.0, 0.1);
        (ssd.program_bytes, ssd.block_bytes, ssd.buffer_bytes) = (16 << 10, 1 << 20, 4 << 20);
    };
    let load = Load { kind: Kind::Write, warm_up: 30_000, requests: 200_000, ..random_reads(SIZE, 32, 0) };
    let worn = per_s(&model("nvme", quick, WriteCache::Volatile), &load);
    let operation_s = 1750e-6 + 0.5 * 16384.0 / 1.2e9;
    let no_collection = 32.0 * 4.0 / operation_s;
    close(worn, no_collection / write_amplification(0.3), 0.06);
}

#[test]
fn discarded_units_cost_no_collection() {
    let mut parameters = ssd("nvme");
    (parameters.channels, parameters.dies_per_channel) = (2, 2);
    (parameters.program_bytes, parameters.block_bytes) = (16 << 10, 1 << 20);
    let mut flash = Flash::new(&parameters, WORN_SIZE).expect("the flash");
    let mut random = Random::new(5);
    flash.wear_in(1.0, 2.0, &mut random);
    for unit in 0..(WORN_SIZE / 4096 / 2) as u32 {
        flash.discard(2 * unit);
    }
    flash.count_anew();
    let half_empty = write_more(&mut flash, 0.1, &mut random);
    assert!(half_empty < 2.0, "{half_empty}");
}

#[test]
fn a_flush_costs_a_program_operation_and_its_own_time_only_with_a_volatile_cache() {
    let load = Load { kind: Kind::WriteAndFlush, ..random_reads(SIZE, 1, 500) };
    let fresh = |ssd: &mut Ssd| ssd.filled_share = 0.0;
    let mean = |cache| {
        run(&mut Device::new(&model("ssd-sata", fresh, cache), SIZE, 3).expect("the model"), &load, 0, 0).0.mean_us
    };
    let write = 10.0 + 4096.0 / 545.0 + 7.5;
    let program = 96.0 * 1024.0 / 400.0 + 2000.0;
    close(mean(WriteCache::Volatile), write + 10.0 + program + 500.0, 0.01);
    close(mean(WriteCache::Protected), write + 10.0, 0.01);
    // Without a cache the write itself waits for the die.
    close(mean(WriteCache::None), write + program + 10.0, 0.01);
}

#[test]
fn too_small_a_device_is_refused() {
    let refused = Device::new(&model("nvme", |_| (), WriteCache::Volatile), 1 << 27, 1).err().expect("a refusal");
    assert!(refused.contains("take a larger device"), "{refused}");
}

#[test]
fn a_write_that_needs_the_whole_buffer_does_not_wait_for_a_full_operation() {
    let small = |ssd: &mut Ssd| ssd.buffer_bytes = 2 * u64::from(ssd.program_bytes);
    for write_cache in [WriteCache::Volatile, WriteCache::Protected] {
        let mut device = Device::new(&model("ssd-sata", small, write_cache), SIZE, 3).expect("the model");
        device.arrive(0, &request(1, Op::Write { fua: false }, 0, 4096));
        device.arrive(0, &request(2, Op::Write { fua: false }, 1 << 20, 192 << 10));
        assert!(done(&drain(&mut device), 2).is_some(), "the second write is never answered");
    }
}
