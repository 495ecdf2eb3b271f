//! What a model claims: figures that the model itself gives under plain loads, with no machine around it.

use serde::Serialize;

use crate::device::Device;
use crate::load::{Figures, Kind, Load, run};
use crate::parameters::{Model, Service};

/// Bytes of the random reads whose time is claimed.
const SIZES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Sizes of the bursts whose time is claimed, and of their writes.
const BURSTS: [u64; 6] = [8 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30];
const OF_A_BURST: u64 = 256 << 10;

/// Figures of a model on an otherwise idle disk. Random requests are of 4 KiB, sequential ones of 128 KiB.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claims {
    /// Size of the device that they hold for.
    pub size_bytes: u64,
    /// The shortest time of any request.
    pub least_service_us: f64,
    /// Random reads per second, one at a time.
    pub random_reads_per_s: f64,
    /// Mean time of those.
    pub random_read_us: f64,
    /// Mean time of random reads at a queue depth: (depth, microseconds).
    pub random_read_us_by_depth: Vec<(u32, f64)>,
    /// Mean time of random reads of so many bytes, one at a time: (bytes, microseconds).
    pub random_read_us_by_bytes: Vec<(u64, f64)>,
    /// Random reads per second, at the greatest queue depth that the disk holds.
    pub random_reads_deep_per_s: f64,
    /// Random writes per second, one at a time, while the cache takes them.
    pub random_writes_per_s: f64,
    /// Random writes per second, at the greatest queue depth that the disk holds, when the cache is full.
    pub random_writes_deep_per_s: f64,
    /// The same on a disk that is full and worn in; only of flash.
    pub worn_random_writes_deep_per_s: Option<f64>,
    /// Random writes per second, each followed by a flush.
    pub flushed_writes_per_s: f64,
    /// Mean time of random writes of 256 KiB, one at a time, so many bytes of them after the cache was empty; of a disk
    /// with arms: (bytes, microseconds).
    pub random_write_us_by_burst: Vec<(u64, f64)>,
    /// Bytes per second read in order from the start of the disk.
    pub sequential_read_bytes_per_s: f64,
    /// Bytes per second read in order at the end of the disk.
    pub sequential_read_end_bytes_per_s: f64,
    /// Bytes per second written in order from the start of the disk.
    pub sequential_write_bytes_per_s: f64,
}

/// Computes what a model claims for a device of `size_bytes`; faults are left out.
///
/// # Errors
/// A sentence, when the model's parameters are out of range or do not fit the size.
pub fn claims(model: &Model, size_bytes: u64) -> Result<Claims, String> {
    model.check(size_bytes)?;
    let mut model = Model { faults: crate::parameters::Faults::default(), ..model.clone() };
    let mut as_written = model.clone();
    if let Service::Ssd(ssd) = &mut as_written.service {
        // What was never written is read from no die: that would not be the disk's speed.
        (ssd.filled_share, ssd.overwritten) = (1.0, 0.0);
    }
    let least_service_us = Device::new(&model, size_bytes, 1)?.least() as f64 / 1e3;
    let fast = least_service_us < 100.0;
    let requests = if fast { 20_000 } else { 2_000 };
    let measure = |model: &Model, load: &Load| -> Result<Figures, String> {
        Ok(run(&mut Device::new(model, size_bytes, 1)?, load, 0, 0).0)
    };
    let load = |kind, random, block_bytes, depth, warm_up| Load {
        kind,
        random,
        block_bytes,
        largest_request_bytes: u64::MAX,
        depth,
        warm_up,
        requests,
        start_bytes: 0,
        span_bytes: size_bytes,
        seed: 1,
    };
    let deep = model.queue_depth;
    let read = measure(&as_written, &load(Kind::Read, true, 4096, 1, 100))?;
    let by_depth = (0..)
        .map(|power| 1u32 << power)
        .take_while(|&depth| depth <= deep)
        .map(|depth| Ok((depth, measure(&as_written, &load(Kind::Read, true, 4096, depth, 1000))?.mean_us)))
        .collect::<Result<Vec<_>, String>>()?;
    let by_bytes = SIZES
        .iter()
        .filter(|&&bytes| bytes <= size_bytes)
        .map(|&bytes| {
            let some = Load { requests: requests / 10, ..load(Kind::Read, true, bytes, 1, 100) };
            Ok((bytes, measure(&as_written, &some)?.mean_us))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let read_deep = measure(&as_written, &load(Kind::Read, true, 4096, deep, 1000))?;
    let write = measure(&model, &load(Kind::Write, true, 4096, 1, 0))?;
    // A buffer that empties nearly as fast as it fills takes long to be full.
    let write_deep = measure(&model, &load(Kind::Write, true, 4096, deep, 4 * fill(&model)))?;
    let flushed = measure(&model, &load(Kind::WriteAndFlush, true, 4096, 1, 10))?;
    let bursts = if matches!(model.service, Service::Hdd(_)) { &BURSTS[..] } else { &[] };
    let by_burst = bursts
        .iter()
        .filter(|&&bytes| bytes <= size_bytes / 2)
        .map(|&bytes| {
            let some = Load { requests: bytes / OF_A_BURST, ..load(Kind::Write, true, OF_A_BURST, 1, 0) };
            Ok((bytes, measure(&model, &some)?.mean_us))
        })
        .collect::<Result<Vec<_>, String>>()?;
    let in_order = load(Kind::Read, false, 128 << 10, deep.min(32), 100);
    let read_end =
        Load { start_bytes: size_bytes / 16 * 15 / 4096 * 4096, span_bytes: size_bytes / 16, ..in_order.clone() };
    let sequential_read = measure(&as_written, &in_order)?;
    let sequential_read_end = measure(&as_written, &read_end)?;
    let sequential_write =
        measure(&model, &load(Kind::Write, false, 128 << 10, deep.min(32), fill(&model) / 32 + 100))?;
    let worn = if let Service::Ssd(ssd) = &mut model.service {
        (ssd.filled_share, ssd.overwritten) = (1.0, 3.0);
        Some(measure(&model, &load(Kind::Write, true, 4096, deep, fill(&model)))?.per_s)
    } else {
        None
    };
    Ok(Claims {
        size_bytes,
        least_service_us,
        random_reads_per_s: read.per_s,
        random_read_us: read.mean_us,
        random_read_us_by_depth: by_depth,
        random_read_us_by_bytes: by_bytes,
        random_reads_deep_per_s: read_deep.per_s,
        random_writes_per_s: write.per_s,
        random_writes_deep_per_s: write_deep.per_s,
        worn_random_writes_deep_per_s: worn,
        flushed_writes_per_s: flushed.per_s,
        random_write_us_by_burst: by_burst,
        sequential_read_bytes_per_s: sequential_read.bytes_per_s,
        sequential_read_end_bytes_per_s: sequential_read_end.bytes_per_s,
        sequential_write_bytes_per_s: sequential_write.bytes_per_s,
    })
}

/// Requests of 4 KiB until the write cache is surely full.
fn fill(model: &Model) -> u64 {
    let cache = match &model.service {
        Service::Fixed(_) => 0,
        Service::Hdd(hdd) => hdd.cache_bytes,
        Service::Ssd(ssd) => ssd.buffer_bytes,
    };
    cache / 4096 * 2 + 100
}
