//! Shared by the tests.

#![allow(dead_code)]

use strata_disks::{
    Device, Event, Fixed, Hdd, Kind, Load, Model, Nanos, Op, Request, Service, Ssd, What, WriteCache, builtin,
};

/// A built-in model by name.
pub fn named(name: &str) -> Model {
    builtin().into_iter().find(|model| model.name == name).unwrap_or_else(|| panic!("no model {name}"))
}

/// The parameters of the built-in disk with arms.
pub fn hdd() -> Hdd {
    match named("hdd-7200").service {
        Service::Hdd(hdd) => hdd,
        other => panic!("{other:?}"),
    }
}

/// The parameters of a built-in disk of flash.
pub fn ssd(name: &str) -> Ssd {
    match named(name).service {
        Service::Ssd(ssd) => ssd,
        other => panic!("{other:?}"),
    }
}

/// A model of fixed times.
pub fn fixed(servers: u32, time_us: f64, flush_us: f64, write_cache: WriteCache) -> Model {
    let service = Service::Fixed(Fixed {
        servers,
        read_us: time_us,
        write_us: time_us,
        flush_us,
        bytes_per_s: None,
        rotational: false,
        cache_bytes: 1 << 20,
    });
    Model { service, write_cache, queue_depth: 128, ..named("serial-8ms") }
}

/// Random reads of 4 KiB over a whole device.
pub fn random_reads(size_bytes: u64, depth: u32, requests: u64) -> Load {
    Load {
        kind: Kind::Read,
        random: true,
        block_bytes: 4096,
        largest_request_bytes: u64::MAX,
        depth,
        warm_up: requests / 10,
        requests,
        start_bytes: 0,
        span_bytes: size_bytes,
        seed: 7,
    }
}

/// A request.
pub fn request(id: u64, op: Op, offset: u64, length: u64) -> Request {
    Request { id, op, offset, length }
}

/// Every event until the device rests.
pub fn drain(device: &mut Device) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(at) = device.next() {
        device.advance(at, &mut events);
    }
    events
}

/// When a request completed, and whether it succeeded.
pub fn done(events: &[Event], number: u64) -> Option<(Nanos, bool)> {
    events.iter().find_map(|event| match event.what {
        What::Done { id, ok, .. } if id == number => Some((event.at, ok)),
        _ => None,
    })
}

/// Whether two figures agree within a share of the second.
pub fn close(got: f64, expected: f64, share: f64) {
    assert!((got - expected).abs() <= share * expected, "{got} is not within {share} of {expected}");
}
