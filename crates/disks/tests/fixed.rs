//! Fixed service times against queueing theory.

mod common;

use common::{close, drain, fixed, random_reads};
use strata_disks::{Device, Load, Op, Random, Request, What, WriteCache, run};

const SIZE: u64 = 1 << 30;

#[test]
fn one_server_of_8_ms_does_125_requests_per_second_at_any_depth() {
    for depth in [1, 2, 16, 128] {
        let model = fixed(1, 8000.0, 0.0, WriteCache::None);
        let mut device = Device::new(&model, SIZE, 1).expect("a fixed model");
        let load = Load { warm_up: 200, ..random_reads(SIZE, depth, 1000) };
        let (figures, ..) = run(&mut device, &load, 0, 0);
        close(figures.per_s, 125.0, 1e-9);
        close(figures.mean_us, 8000.0 * f64::from(depth), 1e-9);
    }
}

#[test]
fn servers_and_bytes_count() {
    let mut model = fixed(4, 1000.0, 0.0, WriteCache::None);
    if let strata_disks::Service::Fixed(fixed) = &mut model.service {
        fixed.bytes_per_s = Some(4_096_000);
    }
    let mut device = Device::new(&model, SIZE, 1).expect("a fixed model");
    let (figures, ..) = run(&mut device, &random_reads(SIZE, 16, 4000), 0, 0);
    close(figures.per_s, 4.0 / 0.002, 1e-6);
}

/// Mean wait in the queue of an M/D/1 system, in service times: rho / (2 (1 - rho)) (Kleinrock 1975, 5.63 with C = 0).
fn poisson_wait(rho: f64, servers: u32, requests: u64) -> f64 {
    let service_us = 1000.0;
    let mut device = Device::new(&fixed(servers, service_us, 0.0, WriteCache::None), SIZE, 1).expect("a fixed model");
    let mut random = Random::new(20_261);
    let (mut now, mut began, mut waited, mut events) = (0.0, Vec::new(), 0.0, Vec::new());
    for id in 0..requests {
        now += -(1.0 - random.unit()).ln() * service_us * 1e3 / (rho * f64::from(servers));
        device.advance(now as u64, &mut events);
        began.push(now as u64);
        device.arrive(now as u64, &Request { id, op: Op::Read, offset: 0, length: 4096 });
    }
    events.extend(drain(&mut device));
    for event in events {
        if let What::Done { id, .. } = event.what {
            waited += (event.at - began[id as usize]) as f64 / (service_us * 1e3) - 1.0;
        }
    }
    waited / requests as f64
}

#[test]
fn random_arrivals_wait_as_in_an_m_d_1_queue() {
    for rho in [0.5, 0.8] {
        close(poisson_wait(rho, 1, 1_000_000), rho / (2.0 * (1.0 - rho)), 0.02);
    }
}

#[test]
fn a_flush_takes_its_time_after_the_writes_before_it() {
    let mut device = Device::new(&fixed(4, 1000.0, 5000.0, WriteCache::Volatile), SIZE, 1).expect("a fixed model");
    for id in 0..8 {
        device.arrive(0, &common::request(id, Op::Write { fua: false }, id * 4096, 4096));
    }
    device.arrive(0, &common::request(8, Op::Flush, 0, 0));
    let events = drain(&mut device);
    assert_eq!(common::done(&events, 7), Some((2_000_000, true)));
    assert_eq!(common::done(&events, 8), Some((7_000_000, true)));
    let durable = events.iter().filter(|event| matches!(event.what, What::Durable { .. })).count();
    assert_eq!(durable, 8);
}
