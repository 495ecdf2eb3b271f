//! What a model can do at most under plain loads, twice: as the model does it, and by a formula over its parameters.
//!
//! The formula counts what each part of the disk has to do for a request (the work of the busiest part bounds the rate,
//! whatever the order) and the shortest time that one request takes. It knows nothing of the state machine's queues, so
//! that no figure of a machine may exceed it unless something above the disk served the request.

use serde::Serialize;

use crate::agenda::transfer;
use crate::device::Device;
use crate::hdd::Geometry;
use crate::load::{Kind, Load, run};
use crate::parameters::{Faults, Fixed, Hdd, Model, Service, Ssd, WriteCache, ns_of_us};
use crate::random::Random;

const SIZES: [u64; 3] = [4 << 10, 128 << 10, 1 << 20];
const DEPTHS: [u32; 3] = [1, 8, 32];
/// Places of which a mean way of the arm is computed.
const SAMPLES: u64 = 4000;

/// What one load gets from a model at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// `read`, `write` (into the cache, which is full), `fua`, `flushed` (each write followed by a flush) or `mixed`
    /// (three reads a write).
    pub kind: &'static str,
    /// At even random places; else in order.
    pub random: bool,
    /// Size of each request; one that is larger than the disk takes comes in parts, all at once.
    pub block_bytes: u64,
    /// Requests at a time.
    pub depth: u32,
    /// Requests per second that the model does.
    pub per_s: f64,
    /// Bytes of those.
    pub bytes_per_s: f64,
    /// Requests per second by the formula.
    pub most_per_s: f64,
}

/// Computes what a model can do on `span_bytes` from the start of a device of `size_bytes`; faults are left out, and flash
/// is as if every byte had been written once.
///
/// # Errors
/// A sentence, when the model's parameters are out of range or do not fit the size.
pub fn bounds(model: &Model, size_bytes: u64, span_bytes: u64) -> Result<Vec<Bound>, String> {
    let mut model = Model { faults: Faults::default(), ..model.clone() };
    let mut found = Vec::new();
    for block_bytes in SIZES.into_iter().filter(|&bytes| bytes <= span_bytes) {
        for depth in DEPTHS {
            for (name, kind, random) in [
                ("read", Kind::Read, true),
                ("read", Kind::Read, false),
                ("write", Kind::Write, true),
                ("write", Kind::Write, false),
                ("fua", Kind::FuaWrite, true),
                ("flushed", Kind::WriteAndFlush, true),
                ("mixed", Kind::Mixed, true),
            ] {
                if let Service::Ssd(ssd) = &mut model.service {
                    // What was never written is read from no die; and writes to a full disk collect, which is another
                    // load's figure.
                    ssd.filled_share = if kind == Kind::Read || kind == Kind::Mixed { 1.0 } else { 0.0 };
                    ssd.overwritten = 0.0;
                }
                let load = Load {
                    kind,
                    random,
                    block_bytes,
                    largest_request_bytes: model.largest_request_bytes.into(),
                    depth,
                    warm_up: warm_up(&model, kind, block_bytes),
                    requests: requests(&model, span_bytes, block_bytes),
                    start_bytes: 0,
                    span_bytes,
                    seed: 1,
                };
                let figures = run(&mut Device::new(&model, size_bytes, 1)?, &load, 0, 0).0;
                found.push(Bound {
                    kind: name,
                    random,
                    block_bytes,
                    depth,
                    per_s: figures.per_s,
                    bytes_per_s: figures.bytes_per_s,
                    most_per_s: most(&model, size_bytes, &load),
                });
            }
        }
    }
    Ok(found)
}

/// Writes that a cache holds.
fn held_back(model: &Model, block_bytes: u64) -> u64 {
    match &model.service {
        Service::Fixed(_) => 0,
        Service::Hdd(hdd) => (hdd.cache_bytes / block_bytes).min(hdd.cached_writes.into()),
        Service::Ssd(ssd) => ssd.buffer_bytes / block_bytes,
    }
}

/// Requests until caches are full, which takes long where the medium is nearly as fast as what is written.
fn warm_up(model: &Model, kind: Kind, block_bytes: u64) -> u64 {
    let held_back = held_back(model, block_bytes);
    let times = if block_bytes < 16 << 10 { 14 } else { 4 };
    100 + match kind {
        Kind::Write => held_back * times,
        Kind::Mixed => held_back.min(2000),
        Kind::Read | Kind::FuaWrite | Kind::WriteAndFlush => 0,
    }
}

/// So many that chance does not matter; of flash so few that it does not have to collect.
fn requests(model: &Model, span_bytes: u64, block_bytes: u64) -> u64 {
    match &model.service {
        Service::Ssd(_) => (span_bytes / block_bytes / 2).clamp(100, 4000),
        Service::Fixed(_) | Service::Hdd(_) => 3000,
    }
}

/// The formula.
fn most(model: &Model, size_bytes: u64, load: &Load) -> f64 {
    let cache = model.write_cache;
    match &model.service {
        Service::Fixed(fixed) => most_of_fixed(fixed, cache, load),
        Service::Hdd(hdd) => most_of_arms(model, hdd, size_bytes, load),
        Service::Ssd(ssd) => most_of_flash(ssd, cache, load),
    }
}

/// Parts of a request, and of the last part the bytes.
fn parts(load: &Load) -> u64 {
    load.block_bytes.div_ceil(load.largest_request_bytes)
}

/// Of reads and writes together the mean; of others their own.
fn of_kind(kind: Kind, read: f64, write: f64, fua: f64, flushed: f64) -> f64 {
    match kind {
        Kind::Read => read,
        Kind::Write => write,
        Kind::FuaWrite => fua,
        Kind::WriteAndFlush => flushed,
        Kind::Mixed => 0.75 * read + 0.25 * write,
    }
}

fn ns(us: f64) -> f64 {
    ns_of_us(us) as f64
}

fn most_of_fixed(fixed: &Fixed, cache: WriteCache, load: &Load) -> f64 {
    let parts = parts(load) as f64;
    let bytes = fixed.bytes_per_s.map_or(0.0, |rate| transfer(load.block_bytes, rate) as f64);
    let flush = if cache == WriteCache::Volatile { ns(fixed.flush_us) } else { 0.0 };
    let (read, write) = (parts * ns(fixed.read_us) + bytes, parts * ns(fixed.write_us) + bytes);
    // Time of a server for one request, and servers that there is something for.
    let work = of_kind(load.kind, read, write, write + parts * flush, write + flush);
    let servers = f64::from(fixed.servers);
    let asked = f64::from(load.depth) * if load.kind == Kind::WriteAndFlush { 1.0 } else { parts };
    servers.min(asked) * 1e9 / work
}

fn most_of_flash(ssd: &Ssd, cache: WriteCache, load: &Load) -> f64 {
    let (parts, bytes) = (parts(load) as f64, load.block_bytes);
    let over = transfer(bytes, ssd.interface_bytes_per_s) as f64;
    let (command, read) = (ns(ssd.command_us), ns(ssd.read_us));
    let pages = bytes.div_ceil(ssd.page_bytes.into()) as f64;
    let on_channel = |bytes: u64| transfer(bytes, ssd.channel_bytes_per_s) as f64;
    let program_bytes = u64::from(ssd.program_bytes);
    let operation = on_channel(program_bytes) + ns(ssd.program_us);
    // Writes that meet in the buffer are programmed once.
    let meet = if load.random { (1.0 - ssd.buffer_bytes as f64 / load.span_bytes as f64).max(0.5) } else { 1.0 };
    let operations = meet * bytes as f64 / program_bytes as f64;
    let dies = f64::from(ssd.channels * ssd.dies_per_channel);
    let controller = of_kind(load.kind, command, command, command, command * (1.0 + 1.0 / parts)) * parts;
    let on_dies = if load.kind == Kind::Mixed {
        0.75 * pages * read + 0.25 * operations * operation
    } else if load.kind == Kind::Read {
        pages * read
    } else {
        operations * operation
    } / dies;
    let on_channels = on_channel(bytes) * if load.kind == Kind::Read { 1.0 } else { meet } / f64::from(ssd.channels);
    let interface = if ssd.full_duplex && load.kind == Kind::Mixed { 0.75 * over } else { over };
    // The shortest time of one alone: the pages of its longest piece on one die come one after the other.
    let pages_in_a_row = longest_piece(bytes, program_bytes, ssd.page_bytes.into());
    let last_page = on_channel(bytes.min(ssd.page_bytes.into()));
    let reads = command + pages_in_a_row * read + last_page + over + ns(ssd.read_latency_us);
    let into_memory = command + over + ns(ssd.write_latency_us);
    let fua = if cache == WriteCache::Protected { into_memory } else { into_memory + operation };
    let flushed = match cache {
        WriteCache::Volatile => into_memory + command + operation + ns(ssd.flush_us),
        WriteCache::Protected => into_memory + command,
        WriteCache::None => fua + command,
    };
    let writes = if cache == WriteCache::None { fua } else { into_memory };
    let alone = of_kind(load.kind, reads, writes, fua, flushed) / f64::from(load.depth);
    1e9 / [controller, on_dies, on_channels, interface, alone].into_iter().fold(0.0, f64::max)
}

/// Pages of the longest piece that one die has of a request, in the mean, where data were written in order.
fn longest_piece(bytes: u64, program_bytes: u64, page_bytes: u64) -> f64 {
    let longest = |start: u64| {
        let first = (program_bytes - start % program_bytes).min(bytes);
        let others = (bytes - first).min(program_bytes);
        first.max(others).div_ceil(page_bytes)
    };
    let starts = program_bytes / page_bytes;
    (0..starts).map(|index| longest(index * bytes)).sum::<u64>() as f64 / starts as f64
}

fn most_of_arms(model: &Model, hdd: &Hdd, size_bytes: u64, load: &Load) -> f64 {
    let cache = model.write_cache;
    let geometry = Geometry::new(hdd, size_bytes, 0);
    let over = transfer(load.block_bytes, hdd.interface_bytes_per_s) as f64;
    // Of several parts one crosses the interface while the arm is at another.
    let last_over = transfer(load.block_bytes.min(load.largest_request_bytes), hdd.interface_bytes_per_s) as f64;
    let command = ns(hdd.command_us);
    let depth = f64::from(load.depth);
    if !load.random {
        // The medium where it is while requests are counted, and each request through the controller.
        let lap = load.span_bytes / load.block_bytes * load.block_bytes;
        let until = |requests: u64| {
            let (laps, rest) = (requests * load.block_bytes / lap, requests * load.block_bytes % lap);
            let through = |bytes: u64| geometry.through(load.start_bytes + bytes) - geometry.through(load.start_bytes);
            (laps * through(lap) + through(rest)) as f64
        };
        let behind = if load.kind == Kind::Read { 0 } else { held_back(model, load.block_bytes).min(load.warm_up) };
        let from = load.warm_up - behind;
        let medium = (until(from + load.requests) - until(from)) / load.requests as f64;
        return 1e9 / medium.max(over).max((command + last_over) / depth);
    }
    let blocks = (load.span_bytes / load.block_bytes).max(1);
    // The arm's time for one, when it takes the nearest of so many that are at new places each time.
    let arm = |nearest_of: u32, write: bool| {
        let mut random = Random::new(load.seed);
        let mut place = || load.start_bytes + random.below(blocks) * load.block_bytes;
        let samples = (SAMPLES * 4 / u64::from(nearest_of)).max(400);
        let total: u64 = (0..samples)
            .map(|sample| {
                let from = geometry.place(place() + load.block_bytes - 1).track;
                // Moments all around the circle.
                let now = sample * 7_919_000_017 % geometry.revolution();
                (0..nearest_of)
                    .map(|_| {
                        let byte = place();
                        let to = geometry.place(byte);
                        let span = geometry.through(byte + load.block_bytes) - to.reached;
                        geometry.way(now, from, to, write) + span
                    })
                    .min()
                    .unwrap_or(0)
            })
            .sum();
        total as f64 / samples as f64
    };
    let held = (load.depth * parts(load) as u32).min(model.queue_depth);
    // What was read lately is in memory.
    let missed = (1.0 - f64::from(hdd.read_segments) / blocks as f64).max(0.5);
    let (read, through) = (arm(load.depth.min(held), false) * missed, arm(load.depth.min(held), true));
    // Cached writes that meet are one, or go in one pass.
    let meet = (1.0 - 2.0 * held_back(model, load.block_bytes) as f64 / blocks as f64).max(0.5);
    let is_cached = cache != WriteCache::None;
    let write = if is_cached { arm(hdd.destage_window, true) * meet } else { through };
    let promised = if cache == WriteCache::Protected { write } else { through };
    let work = of_kind(load.kind, read, write, promised, promised);
    // The shortest time of one alone: a cached write does not wait for the arm.
    let own = command + last_over;
    let alone = if load.depth == 1 {
        let cached = if is_cached { own } else { own + through };
        let promised = if cache == WriteCache::Protected { own } else { own + through };
        of_kind(load.kind, own + read, cached, promised, promised)
    } else {
        own / depth
    };
    1e9 / work.max(alone)
}
