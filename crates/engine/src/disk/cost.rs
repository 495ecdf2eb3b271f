//! What serving a request costs in itself: a disk of no service time against the kernel's own null_blk, under the same load.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use strata_disks::{Faults, Fixed, Model, Service, WriteCache};

use super::live::{Live, free_number, node};
use super::memory::Memory;
use super::queue::monotonic;

const SIZE_BYTES: u64 = 16 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Requests that count, after a quarter as many that do not.
const REQUESTS: u64 = 400;
const NULL_BLK: &str = "/sys/kernel/config/nullb";
const NULL_BLK_NAME: &str = "strata-cost";
/// Attributes of the device in configfs, without its size; the last one makes it.
const NULL_BLK_ATTRIBUTES: [(&str, &str); 4] =
    [("memory_backed", "1"), ("irqmode", "0"), ("blocksize", "512"), ("power", "1")];

/// Medians of the time of one request of 4 KiB, one at a time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Times {
    /// A read.
    pub read_ns: u64,
    /// A write.
    pub write_ns: u64,
}

/// What serving costs.
#[derive(Debug, Serialize)]
pub struct Cost {
    /// A disk of no service time.
    pub served: Times,
    /// null_blk with memory and no delay; `None` where the module is not loaded.
    pub null_blk: Option<Times>,
    /// What serving adds to a request: the greater difference; without null_blk the whole time.
    pub cost_ns: u64,
    /// Processor time of the server for one request.
    pub server_cpu_ns: u64,
}

/// Measures it.
///
/// # Errors
/// A sentence, when no disk can be served here.
pub fn measure() -> Result<Cost, String> {
    let mut live = Live::start(free_number(), &at_once(), SIZE_BYTES, 0, None, || {})?;
    let served = times(&node(live.number()));
    let spent = live.end()?;
    let served = served.map_err(|error| format!("the served disk cannot be read and written ({error}); see dmesg"))?;
    let null_blk = with_null_blk(times);
    let over = |with: u64, without: u64| with.saturating_sub(without);
    let base = null_blk.unwrap_or(Times { read_ns: 0, write_ns: 0 });
    Ok(Cost {
        served,
        null_blk,
        cost_ns: over(served.read_ns, base.read_ns).max(over(served.write_ns, base.write_ns)),
        server_cpu_ns: (spent.cpu.as_nanos() / u128::from(spent.requests.max(1))) as u64,
    })
}

/// A disk that takes no time.
fn at_once() -> Model {
    Model {
        name: "no service time".to_owned(),
        logical_block_bytes: 512,
        physical_block_bytes: 4096,
        queue_depth: 32,
        largest_request_bytes: 128 << 10,
        write_cache: WriteCache::None,
        service: Service::Fixed(Fixed {
            servers: 1,
            read_us: 0.0,
            write_us: 0.0,
            flush_us: 0.0,
            bytes_per_s: None,
            rotational: false,
            cache_bytes: 0,
        }),
        faults: Faults::default(),
    }
}

fn times(device: &Path) -> io::Result<Times> {
    let file = fs::OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_DIRECT).open(device)?;
    let mut memory = Memory::new(BLOCK_BYTES).map_err(io::Error::other)?;
    let mut median = |write: bool| -> io::Result<u64> {
        let mut taken = Vec::new();
        for number in 0..REQUESTS + REQUESTS / 4 {
            let offset = number * BLOCK_BYTES % SIZE_BYTES;
            let began = monotonic();
            if write {
                file.write_all_at(memory.get(0, BLOCK_BYTES), offset)?;
            } else {
                file.read_exact_at(memory.get_mut(0, BLOCK_BYTES), offset)?;
            }
            if number >= REQUESTS / 4 {
                taken.push(monotonic().saturating_sub(began));
            }
        }
        taken.sort_unstable();
        Ok(taken.get(taken.len() / 2).map_or(0, Duration::as_nanos) as u64)
    };
    // Written first, so that reads find pages of their own.
    let write_ns = median(true)?;
    Ok(Times { write_ns, read_ns: median(false)? })
}

/// Measures a null_blk device made for it; `None` when none can be made.
fn with_null_blk(measure: impl Fn(&Path) -> io::Result<Times>) -> Option<Times> {
    let folder = PathBuf::from(NULL_BLK).join(NULL_BLK_NAME);
    fs::create_dir(&folder).ok()?;
    let set = |name: &str, value: &str| fs::write(folder.join(name), value);
    let make = || -> io::Result<Times> {
        set("size", &(SIZE_BYTES >> 20).to_string())?;
        for (name, value) in NULL_BLK_ATTRIBUTES {
            set(name, value)?;
        }
        let index = fs::read_to_string(folder.join("index"))?;
        // Older kernels name it by its number, newer ones by its folder.
        let nodes =
            [PathBuf::from(format!("/dev/{NULL_BLK_NAME}")), PathBuf::from(format!("/dev/nullb{}", index.trim()))];
        let node = nodes.iter().find(|node| node.exists()).ok_or(io::ErrorKind::NotFound)?;
        measure(node)
    };
    let times = make().ok();
    let _ = set("power", "0");
    let _ = fs::remove_dir(&folder);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every lab's null_blk must have these; the list is drivers/block/null_blk/main.c of Linux 6.1 (`nullb_device_attrs`),
    /// where `size` is in MiB and `irqmode` 0 completes a request where it was submitted (`NULL_IRQ_NONE`).
    #[test]
    fn attributes_of_null_blk_are_linux_6_1s() {
        const LINUX_6_1: &str = "size completion_nsec submit_queues poll_queues home_node queue_mode blocksize max_sectors \
            irqmode hw_queue_depth index blocking use_per_node_hctx power memory_backed discard mbps cache_size badblocks \
            zoned zone_size zone_capacity zone_nr_conv zone_max_open zone_max_active virt_boundary no_sched";
        let names: Vec<&str> = LINUX_6_1.split_whitespace().collect();
        for (name, _) in NULL_BLK_ATTRIBUTES.iter().chain(&[("size", ""), ("index", "")]) {
            assert!(names.contains(name), "{name}");
        }
        // Where the module is loaded it says itself what it takes; it names no index there.
        if let Ok(features) = fs::read_to_string(Path::new(NULL_BLK).join("features")) {
            for (name, _) in NULL_BLK_ATTRIBUTES {
                assert!(features.trim().split(',').any(|feature| feature == name), "{name}: {features}");
            }
        }
    }
}
