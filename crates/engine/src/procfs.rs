//! Pure readers of the kernel's text files. What a kernel does not tell is `None`, never 0.
//!
//! Formats: Documentation/admin-guide/iostats.rst, Documentation/block/stat.rst, proc(5), Documentation/accounting/psi.rst.

use serde::Serialize;

/// `/sys/dev/block/MAJ:MIN/stat` counts in sectors of 512 bytes whatever the device's own sector size is.
const SECTOR_BYTES: u64 = 512;

/// What a block device did since it appeared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub read_ms: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub write_ms: u64,
    pub discards: Option<u64>,
    pub discard_bytes: Option<u64>,
    pub flushes: Option<u64>,
    pub in_flight: u64,
    pub busy_ms: u64,
}

/// Time that all CPUs together spent since boot, by mode, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuTimes {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub idle: f64,
    pub iowait: Option<f64>,
    pub irq: Option<f64>,
    pub softirq: Option<f64>,
    pub steal: Option<f64>,
}

/// Memory of the machine now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Memory {
    pub free_bytes: Option<u64>,
    pub available_bytes: Option<u64>,
    pub cached_bytes: Option<u64>,
    pub dirty_bytes: Option<u64>,
    pub writeback_bytes: Option<u64>,
}

/// Total stall time of one resource in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    pub some_us: Option<u64>,
    pub full_us: Option<u64>,
}

/// State and parent of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    pub state: char,
    pub parent: i32,
}

/// Reads `/sys/dev/block/MAJ:MIN/stat`: 11 columns on old kernels, 15 with discards (4.18), 17 with flushes (5.5).
pub fn parse_block_stat(text: &str) -> Option<DeviceCounters> {
    let columns = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    if columns.len() < 11 {
        return None;
    }
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    Some(DeviceCounters {
        reads: columns[0],
        read_bytes: bytes(columns[2]),
        read_ms: columns[3],
        writes: columns[4],
        write_bytes: bytes(columns[6]),
        write_ms: columns[7],
        in_flight: columns[8],
        busy_ms: columns[9],
        discards: columns.get(11).copied(),
        discard_bytes: columns.get(13).copied().map(bytes),
        flushes: columns.get(15).copied(),
    })
}

/// Reads the first line of `/proc/stat`, counted in ticks of 1/`ticks_per_s` seconds.
pub fn parse_cpu_times(text: &str, ticks_per_s: f64) -> Option<CpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let columns = line.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    // Ticks stay far below 2^53: exact in a float.
    let seconds = |index: usize| columns.get(index).map(|&ticks| ticks as f64 / ticks_per_s);
    Some(CpuTimes {
        user: seconds(0)?,
        nice: seconds(1)?,
        system: seconds(2)?,
        idle: seconds(3)?,
        iowait: seconds(4),
        irq: seconds(5),
        softirq: seconds(6),
        steal: seconds(7),
    })
}

/// Counts the CPUs that `/proc/stat` lists, which are those online.
pub fn count_cpus(text: &str) -> Option<usize> {
    let of_one_cpu =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(text.lines().filter(of_one_cpu).count()).filter(|&count| count > 0)
}

/// Reads `/proc/meminfo`; `None` when it holds none of the figures.
pub fn parse_meminfo(text: &str) -> Option<Memory> {
    let mut memory = Memory::default();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let field = match name {
            "MemFree" => &mut memory.free_bytes,
            "MemAvailable" => &mut memory.available_bytes,
            "Cached" => &mut memory.cached_bytes,
            "Dirty" => &mut memory.dirty_bytes,
            "Writeback" => &mut memory.writeback_bytes,
            _ => continue,
        };
        // A line cut off before its unit may also have lost digits.
        if let Some(kib) = rest.trim().strip_suffix(" kB") {
            *field = kib.trim_end().parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024));
        }
    }
    Some(memory).filter(|memory| *memory != Memory::default())
}

/// Reads `/proc/pressure/*`.
pub fn parse_pressure(text: &str) -> Pressure {
    let total_us = |kind: &str| {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(kind))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
    };
    Pressure { some_us: total_us("some"), full_us: total_us("full") }
}

/// Reads `/proc/PID/stat`. The name in parentheses may itself hold spaces and parentheses.
pub fn parse_process_stat(text: &str) -> Option<ProcessStat> {
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split_ascii_whitespace();
    Some(ProcessStat { state: words.next()?.chars().next()?, parent: words.next()?.parse().ok()? })
}

/// Reads the processor time, user and system, of a whole process from `/proc/PID/stat`, in ticks.
pub fn parse_process_ticks(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    user.checked_add(system)
}

#[cfg(test)]
#[path = "procfs_tests.rs"]
mod tests;
