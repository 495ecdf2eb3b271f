//! The models that come with the program. They are classes, not products: what a maker states is taken from one product's
//! papers, what no maker states is what is usual for the class and is called so.

use crate::parameters::{Faults, Fixed, Hdd, Model, Service, Ssd, Stroke, WriteCache};

/// The models by name, slowest first.
#[must_use]
pub fn builtin() -> Vec<Model> {
    vec![hdd_7200(), ssd_sata(), nvme(), serial_8ms()]
}

fn model(name: &str, queue_depth: u32, service: Service) -> Model {
    Model {
        name: name.to_owned(),
        logical_block_bytes: 512,
        physical_block_bytes: 4096,
        queue_depth,
        largest_request_bytes: 512 << 10,
        write_cache: WriteCache::Volatile,
        service,
        faults: Faults::default(),
    }
}

/// A 3.5 inch disk of 7200 rpm and 4 TB for servers.
///
/// Stated for Seagate's Constellation ES.3 (product manual 100671511): 7200 rpm, 10 heads, 83 to 175 MB/s sustained, 128 MB
/// cache. Usual for the class: seeks of 8.5 ms on average for reads and 1 ms more for writes, 1 ms from track to track, 17.3
/// ms over the full stroke; 0.3 ms for a command; queue depth 32 (SATA NCQ).
fn hdd_7200() -> Model {
    let service = Hdd {
        capacity_bytes: 4_000_787_030_016,
        stroke: Stroke::Full,
        rpm: 7200,
        heads: 10,
        zones: 16,
        outer_bytes_per_s: 175_000_000,
        inner_bytes_per_s: 83_000_000,
        track_switch_ms: 1.0,
        seek_short_ms: 0.7,
        seek_short_sqrt_ms: 14.6,
        seek_knee: 0.3,
        seek_long_ms: 5.0,
        seek_long_linear_ms: 12.3,
        write_settle_ms: 1.0,
        command_us: 300.0,
        interface_bytes_per_s: 550_000_000,
        longest_wait_ms: 500.0,
        cache_bytes: 128 << 20,
        cached_writes: 4096,
        destage_idle_ms: 10.0,
        destage_share: 0.5,
        destage_window: 64,
        destage_age_ms: 5000.0,
        read_ahead_bytes: 2 << 20,
        read_segments: 32,
    };
    model("hdd-7200", 32, Service::Hdd(service))
}

/// A SATA disk of TLC flash of 1 TB.
///
/// Stated for Samsung's SSD 850 EVO 1TB: 540 and 520 MB/s in sequence, 10,000 random reads and 40,000 random writes per
/// second one at a time, 98,000 reads 32 at a time. Usual for the class: 32 dies on 8 channels, 60 us to read a page, 2 ms to
/// program 96 KiB in one operation (three pages of 16 KiB on two planes), 7 % more flash than stated.
fn ssd_sata() -> Model {
    let service = Ssd {
        channels: 8,
        dies_per_channel: 4,
        mapping_bytes: 4096,
        page_bytes: 16 << 10,
        program_bytes: 96 << 10,
        block_bytes: 24 << 20,
        read_us: 60.0,
        program_us: 2000.0,
        erase_ms: 5.0,
        channel_bytes_per_s: 400_000_000,
        over_provisioning: 0.07,
        interface_bytes_per_s: 545_000_000,
        full_duplex: false,
        command_us: 10.0,
        read_latency_us: 12.0,
        write_latency_us: 7.5,
        buffer_bytes: 32 << 20,
        flush_us: 500.0,
        reads_before_program: 8,
        filled_share: 0.0,
        overwritten: 0.0,
    };
    model("ssd-sata", 32, Service::Ssd(service))
}

/// An NVMe disk of TLC flash of 1 TB on PCIe 3.0.
///
/// Stated for Samsung's SSD 970 EVO Plus 1TB: 3.5 GB/s reads in sequence, 3.3 GB/s writes of which 1.7 GB/s last, 19,000
/// random reads and 60,000 random writes per second one at a time, 600,000 reads with four times 32 at a time. The fast first
/// writes (cells used with one bit each) are not modelled. Usual for the class: 32 dies on 8 channels, 40 us to read a page.
fn nvme() -> Model {
    let service = Ssd {
        channels: 8,
        dies_per_channel: 4,
        mapping_bytes: 4096,
        page_bytes: 16 << 10,
        program_bytes: 96 << 10,
        block_bytes: 24 << 20,
        read_us: 40.0,
        program_us: 1750.0,
        erase_ms: 5.0,
        channel_bytes_per_s: 1_200_000_000,
        over_provisioning: 0.07,
        interface_bytes_per_s: 3_500_000_000,
        full_duplex: true,
        command_us: 1.6,
        read_latency_us: 6.0,
        write_latency_us: 13.8,
        buffer_bytes: 64 << 20,
        flush_us: 300.0,
        reads_before_program: 8,
        filled_share: 0.0,
        overwritten: 0.0,
    };
    model("nvme", 128, Service::Ssd(service))
}

/// One server of 8 ms: exactly 125 requests per second whatever is asked. For known answers. It has the blocks of null_blk,
/// which can be this disk.
fn serial_8ms() -> Model {
    let service = Fixed {
        servers: 1,
        read_us: 8000.0,
        write_us: 8000.0,
        flush_us: 0.0,
        bytes_per_s: None,
        rotational: true,
        cache_bytes: 0,
    };
    let model = model("serial-8ms", 1, Service::Fixed(service));
    Model { physical_block_bytes: 512, write_cache: WriteCache::None, ..model }
}
