//! The parameters of a model, as they stand in a JSON file. Every unit is in a name; an unknown key is refused.

use serde::{Deserialize, Serialize};

/// The largest device, in bytes: beyond it times in nanoseconds and tables in memory would no longer fit.
const MOST_BYTES: u64 = 1 << 46;

/// A disk: what it is built like, what its cache promises, and what goes wrong with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What the model is called, for messages.
    pub name: String,
    /// 512 or 4096: the smallest unit that can be addressed.
    #[serde(default = "default_logical_block")]
    pub logical_block_bytes: u32,
    /// 512 or 4096: what the disk writes without reading first; only told to the kernel.
    #[serde(default = "default_physical_block")]
    pub physical_block_bytes: u32,
    /// Requests that the disk holds at a time, 1 to 128; further ones wait outside, in order.
    pub queue_depth: u32,
    /// The largest request, in bytes; the kernel splits what is larger.
    #[serde(default = "default_largest_request")]
    pub largest_request_bytes: u32,
    /// What becomes of acknowledged writes when the power goes.
    pub write_cache: WriteCache,
    /// What the disk is built like.
    pub service: Service,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Faults,
}

/// What becomes of acknowledged writes when the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteCache {
    /// Writes are acknowledged in memory and are lost unless flushed.
    Volatile,
    /// Writes are acknowledged in memory that survives (battery, capacitors); a flush costs nothing.
    Protected,
    /// Writes are acknowledged when they are on the medium.
    None,
}

/// What a disk is built like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Servers that take a fixed time for each request.
    Fixed(Fixed),
    /// A disk with arms and platters.
    Hdd(Hdd),
    /// A disk of flash.
    Ssd(Ssd),
}

/// `servers` equal servers before one queue in order of arrival (M/D/c when arrivals are random). One server of 8 ms does
/// 125 requests per second (Kleinrock, Queueing Systems I, 1975, chapter 5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Requests served at a time, 1 to 1024.
    pub servers: u32,
    /// Time of one read, without its bytes.
    pub read_us: f64,
    /// Time of one write, without its bytes.
    pub write_us: f64,
    /// Time of one flush, once the writes before it are done; only a volatile cache is flushed.
    #[serde(default)]
    pub flush_us: f64,
    /// Rate at which one server moves bytes; none means at once.
    #[serde(default)]
    pub bytes_per_s: Option<u64>,
    /// Told to the kernel, which treats a rotating disk differently.
    #[serde(default)]
    pub rotational: bool,
    /// Written bytes that a volatile cache holds back at most; the oldest reach the medium first.
    #[serde(default = "default_fixed_cache")]
    pub cache_bytes: u64,
}

/// A disk with arms and platters, after Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3),
/// 1994: seek curve in two parts, rotation, zones, switches between tracks, read-ahead and a write cache; the queue is
/// reordered by shortest positioning time first with an age bound (Worthington, Ganger and Patt, SIGMETRICS 1994).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// Bytes of the whole disk; the device that is served may be smaller.
    pub capacity_bytes: u64,
    /// Which part of the disk a smaller device is.
    #[serde(default)]
    pub stroke: Stroke,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces, each with a head.
    pub heads: u32,
    /// Zones of equal width; the rate falls evenly from the outermost to the innermost.
    pub zones: u32,
    /// Sustained transfer rate at the outer edge, with switches between tracks, as data sheets state it.
    pub outer_bytes_per_s: u64,
    /// The same at the inner edge.
    pub inner_bytes_per_s: u64,
    /// Switch to the next track, on another surface or beside it.
    pub track_switch_ms: f64,
    /// Short seeks take `short_ms + short_sqrt_ms * sqrt(d)`, with d the share of the full stroke, 0 to 1.
    pub seek_short_ms: f64,
    /// The part of a short seek that grows with the square root of its length.
    pub seek_short_sqrt_ms: f64,
    /// Longer seeks than this share of the stroke take `long_ms + long_linear_ms * d`.
    pub seek_knee: f64,
    /// The fixed part of a long seek.
    pub seek_long_ms: f64,
    /// The part of a long seek that grows with its length.
    pub seek_long_linear_ms: f64,
    /// What a write needs in addition after a seek, to settle more exactly.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// The controller's time for each command; other commands are worked on meanwhile.
    pub command_us: f64,
    /// Rate of the interface.
    pub interface_bytes_per_s: u64,
    /// A request that has waited this long goes before nearer ones.
    pub longest_wait_ms: f64,
    /// Size of the write cache.
    #[serde(default)]
    pub cache_bytes: u64,
    /// Writes that the cache holds at most, whatever their size: disks keep a table of that many segments (DiskSim 4.0
    /// reference manual, CMU-PDL-08-101, "Maximum number of write segments"). A flush writes all of them.
    #[serde(default = "default_cached_writes")]
    pub cached_writes: u32,
    /// The cache is written to the medium when there was no read for this long.
    #[serde(default = "default_destage_idle")]
    pub destage_idle_ms: f64,
    /// It is also written to the medium, in turn with other requests, when it is fuller than this share.
    #[serde(default = "default_destage_share")]
    pub destage_share: f64,
    /// Cached writes among which the one nearest to the head goes first: the oldest ones. When there are more than these,
    /// they are written in turn with other requests.
    #[serde(default = "default_destage_window")]
    pub destage_window: u32,
    /// Cached writes older than this are written in turn with other requests, however few they are. No maker states an age;
    /// without a bound, a few writes beside reads that never pause would wait for ever.
    #[serde(default = "default_destage_age")]
    pub destage_age_ms: f64,
    /// Bytes read on beyond a read while nothing else is asked for; 0 for none.
    #[serde(default)]
    pub read_ahead_bytes: u64,
    /// Places in the read cache, each for one run of bytes; at least 1 when there is read-ahead.
    #[serde(default = "default_segments")]
    pub read_segments: u32,
}

/// Which part of an [`Hdd`] a device is that is smaller than it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stroke {
    /// Its tracks are spread evenly over the whole disk, so that seeks and zones are those of the full disk.
    #[default]
    Full,
    /// It is the outermost part of the disk, as a first partition would be: short seeks, fast zones.
    Outer,
}

/// A disk of flash: dies on channels, a page map over blocks with greedy garbage collection, a write buffer in memory.
/// Structure after Agrawal et al., "Design tradeoffs for SSD performance", USENIX ATC 2008.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Channels between controller and flash.
    pub channels: u32,
    /// Dies on each channel, each of which does one thing at a time.
    pub dies_per_channel: u32,
    /// The unit of the map from logical to physical places.
    #[serde(default = "default_mapping")]
    pub mapping_bytes: u32,
    /// What one read operation of a die brings at most.
    pub page_bytes: u32,
    /// What one program operation of a die writes (all planes, all pages of a cell that are programmed together).
    pub program_bytes: u32,
    /// What one erase operation of a die frees on the real disk. On a device so small that a die had fewer than 64 blocks
    /// blocks are smaller, and their erase shorter in proportion.
    pub block_bytes: u64,
    /// Time of a read operation.
    pub read_us: f64,
    /// Time of a program operation.
    pub program_us: f64,
    /// Time of an erase operation.
    pub erase_ms: f64,
    /// Rate of one channel.
    pub channel_bytes_per_s: u64,
    /// Flash beyond the device's size, as a share of it (0.07: 7 %).
    pub over_provisioning: f64,
    /// Rate of the interface.
    pub interface_bytes_per_s: u64,
    /// Reads and writes do not share the interface (PCIe; not SATA).
    pub full_duplex: bool,
    /// The controller's time for each command, one after the other: the bound on requests per second.
    pub command_us: f64,
    /// Further time of a read that delays no other request.
    pub read_latency_us: f64,
    /// Further time of a write that delays no other request.
    pub write_latency_us: f64,
    /// Memory for written data; 0 only without a cache.
    #[serde(default)]
    pub buffer_bytes: u64,
    /// What a flush costs once everything is programmed, for the map.
    #[serde(default)]
    pub flush_us: f64,
    /// Read operations that a die does at most before a program operation that waits.
    #[serde(default = "default_reads_first")]
    pub reads_before_program: u32,
    /// Share of the device that is written before the first request, in order.
    #[serde(default)]
    pub filled_share: f64,
    /// Random 4 KiB overwrites before the first request, in multiples of the filled share: 0 is a fresh disk, 2 or more a
    /// worn-in one.
    #[serde(default)]
    pub overwritten: f64,
}

/// What goes wrong; all times are counted from the moment the device went live.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// Requests that fail.
    #[serde(default)]
    pub errors: Vec<Errors>,
    /// Moments in which the disk answers nothing.
    #[serde(default)]
    pub stalls: Vec<Stalls>,
    /// Every so-manieth flush is acknowledged at once and does nothing (1: every flush).
    #[serde(default)]
    pub dropped_flush_every: Option<u64>,
    /// From this moment on the disk is without power: what was not on the medium is lost, every request fails.
    #[serde(default)]
    pub power_cut_s: Option<f64>,
    /// From this later moment on it has power again, at rest as at the start, with what was on the medium.
    #[serde(default)]
    pub power_back_s: Option<f64>,
}

/// Requests that fail with an I/O error: those to which everything stated applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Which requests.
    #[serde(default)]
    pub on: On,
    /// Those that touch a byte from here on; needs `length_bytes`.
    #[serde(default)]
    pub start_bytes: Option<u64>,
    /// How many bytes from `start_bytes`.
    #[serde(default)]
    pub length_bytes: Option<u64>,
    /// Every so-manieth of them.
    #[serde(default)]
    pub every: Option<u64>,
    /// Those that arrive from this moment on.
    #[serde(default)]
    pub from_s: Option<f64>,
}

/// Which requests a fault is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// All of them.
    #[default]
    Any,
    /// Reads.
    Read,
    /// Writes, discards and writes of zeros.
    Write,
    /// Flushes.
    Flush,
}

/// Moments in which the disk answers nothing: what would have completed then completes at their end, in the same order.
/// Exactly one of `at_s`, `every` and `share` says when.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// How long.
    pub length_ms: f64,
    /// Once, at this moment.
    #[serde(default)]
    pub at_s: Option<f64>,
    /// From the completion of every so-manieth request on.
    #[serde(default)]
    pub every: Option<u64>,
    /// From the completion of a request on with this probability, drawn from the seed.
    #[serde(default)]
    pub share: Option<f64>,
}

fn default_logical_block() -> u32 {
    512
}

fn default_physical_block() -> u32 {
    4096
}

fn default_largest_request() -> u32 {
    512 << 10
}

fn default_fixed_cache() -> u64 {
    64 << 20
}

fn default_destage_idle() -> f64 {
    10.0
}

fn default_destage_share() -> f64 {
    0.5
}

fn default_cached_writes() -> u32 {
    4096
}

fn default_destage_age() -> f64 {
    5000.0
}

fn default_destage_window() -> u32 {
    64
}

fn default_segments() -> u32 {
    16
}

fn default_mapping() -> u32 {
    4096
}

fn default_reads_first() -> u32 {
    8
}

/// Milliseconds as whole nanoseconds.
pub(crate) fn ns_of_ms(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// Microseconds as whole nanoseconds.
pub(crate) fn ns_of_us(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// Seconds as whole nanoseconds.
pub(crate) fn ns_of_s(s: f64) -> u64 {
    (s * 1e9).round() as u64
}

/// The rules that values break, a sentence each.
struct Rules(Vec<String>);

impl Rules {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn must(mut self, holds: bool, sentence: impl FnOnce() -> String) -> Self {
        if !holds {
            self.0.push(sentence());
        }
        self
    }

    fn whole(self, name: &str, value: u64, least: u64, most: u64) -> Self {
        self.must((least..=most).contains(&value), || {
            format!("{name} is {value}; give a number from {least} to {most}")
        })
    }

    fn real(self, name: &str, value: f64, least: f64, most: f64) -> Self {
        self.must((least..=most).contains(&value), || {
            format!("{name} is {value}; give a number from {least} to {most}")
        })
    }

    fn multiple(self, name: &str, value: u64, of: u64) -> Self {
        self.must(of > 0 && value > 0 && value % of == 0, || format!("{name} is {value}; give a multiple of {of}"))
    }
}

impl Model {
    /// Whether the kernel is told that the disk rotates.
    #[must_use]
    pub fn rotational(&self) -> bool {
        match &self.service {
            Service::Fixed(fixed) => fixed.rotational,
            Service::Hdd(_) => true,
            Service::Ssd(_) => false,
        }
    }

    /// Whether the disk can be told that bytes are not needed any more; only flash can.
    #[must_use]
    pub fn discards(&self) -> bool {
        matches!(self.service, Service::Ssd(_))
    }

    /// Whether every value is in its range and the values fit together, for a device of `size_bytes`.
    ///
    /// # Errors
    /// A sentence that names each value that is not.
    pub fn check(&self, size_bytes: u64) -> Result<(), String> {
        let problems = self.problems(size_bytes);
        if problems.is_empty() { Ok(()) } else { Err(format!("model '{}': {}", self.name, problems.join("; "))) }
    }

    /// What is wrong with it for a device of `size_bytes`, a sentence each.
    #[must_use]
    pub fn problems(&self, size_bytes: u64) -> Vec<String> {
        let blocks = |size: u32| size == 512 || size == 4096;
        let mut rules = Rules::new()
            .must(!self.name.is_empty() && self.name.len() <= 64, || {
                "name is empty or longer than 64 bytes; give the model a short name".to_owned()
            })
            .must(blocks(self.logical_block_bytes), || {
                format!("logical_block_bytes is {}; give 512 or 4096", self.logical_block_bytes)
            })
            .must(blocks(self.physical_block_bytes) && self.physical_block_bytes >= self.logical_block_bytes, || {
                format!(
                    "physical_block_bytes is {}; give 512 or 4096, not less than logical_block_bytes",
                    self.physical_block_bytes
                )
            })
            .whole("queue_depth", self.queue_depth.into(), 1, 128)
            .whole("largest_request_bytes", self.largest_request_bytes.into(), 4096, 4 << 20)
            .multiple("largest_request_bytes", self.largest_request_bytes.into(), 4096)
            .whole("the device's size in bytes", size_bytes, 1 << 20, MOST_BYTES)
            .multiple("the device's size in bytes", size_bytes, 4096);
        rules = match &self.service {
            Service::Fixed(fixed) => fixed.rules(rules),
            Service::Hdd(hdd) => hdd.rules(rules, size_bytes, self.write_cache),
            Service::Ssd(ssd) => ssd.rules(rules, size_bytes, self.write_cache),
        };
        self.faults.rules(rules).0
    }
}

const RATE: (u64, u64) = (1 << 10, 1 << 40);

impl Fixed {
    fn rules(&self, rules: Rules) -> Rules {
        rules
            .whole("servers", self.servers.into(), 1, 1024)
            .real("read_us", self.read_us, 0.0, 1e8)
            .real("write_us", self.write_us, 0.0, 1e8)
            .real("flush_us", self.flush_us, 0.0, 1e8)
            .whole("bytes_per_s", self.bytes_per_s.unwrap_or(RATE.0), RATE.0, RATE.1)
            .whole("cache_bytes", self.cache_bytes, 0, 1 << 34)
    }
}

impl Hdd {
    fn rules(&self, rules: Rules, size_bytes: u64, cache: WriteCache) -> Rules {
        rules
            .whole("capacity_bytes", self.capacity_bytes, 1 << 28, MOST_BYTES)
            .must(size_bytes <= self.capacity_bytes, || {
                format!("a device of {size_bytes} bytes is larger than the disk; raise capacity_bytes")
            })
            .whole("rpm", self.rpm.into(), 1000, 30_000)
            .whole("heads", self.heads.into(), 1, 64)
            .whole("zones", self.zones.into(), 1, 64)
            .whole("outer_bytes_per_s", self.outer_bytes_per_s, 1 << 20, 1 << 32)
            .whole("inner_bytes_per_s", self.inner_bytes_per_s, 1 << 20, self.outer_bytes_per_s)
            .real("track_switch_ms", self.track_switch_ms, 0.0, 60_000.0 / f64::from(self.rpm.max(1)))
            .real("seek_short_ms", self.seek_short_ms, 0.0, 100.0)
            .real("seek_short_sqrt_ms", self.seek_short_sqrt_ms, 0.0, 100.0)
            .real("seek_knee", self.seek_knee, 0.0, 1.0)
            .real("seek_long_ms", self.seek_long_ms, 0.0, 100.0)
            .real("seek_long_linear_ms", self.seek_long_linear_ms, 0.0, 100.0)
            .real("write_settle_ms", self.write_settle_ms, 0.0, 10.0)
            .real("command_us", self.command_us, 0.0, 1e5)
            .whole("interface_bytes_per_s", self.interface_bytes_per_s, self.outer_bytes_per_s, RATE.1)
            .real("longest_wait_ms", self.longest_wait_ms, 0.0, 1e5)
            .whole("cache_bytes", self.cache_bytes, 0, 1 << 34)
            .must((cache == WriteCache::None) || self.cache_bytes > 0, || {
                "there is a write cache of 0 bytes; give cache_bytes, or write_cache none".to_owned()
            })
            .whole("cached_writes", self.cached_writes.into(), 1, 1 << 24)
            .real("destage_age_ms", self.destage_age_ms, 0.0, 1e6)
            .real("destage_idle_ms", self.destage_idle_ms, 0.0, 1e4)
            .real("destage_share", self.destage_share, 0.0, 1.0)
            .whole("destage_window", self.destage_window.into(), 1, 1024)
            .whole("read_ahead_bytes", self.read_ahead_bytes, 0, 1 << 30)
            .whole("read_segments", self.read_segments.into(), 1, 1024)
    }
}

impl Ssd {
    fn rules(&self, rules: Rules, size_bytes: u64, cache: WriteCache) -> Rules {
        rules
            .whole("channels", self.channels.into(), 1, 64)
            .whole("dies_per_channel", self.dies_per_channel.into(), 1, 64)
            .must([512, 4096, 8192, 16384].contains(&self.mapping_bytes), || {
                format!("mapping_bytes is {}; give 512, 4096, 8192 or 16384", self.mapping_bytes)
            })
            .multiple("page_bytes", self.page_bytes.into(), self.mapping_bytes.into())
            .multiple("program_bytes", self.program_bytes.into(), self.page_bytes.into())
            .multiple("block_bytes", self.block_bytes, self.program_bytes.into())
            .whole("program_bytes", self.program_bytes.into(), 4096, 4 << 20)
            .whole("block_bytes", self.block_bytes, 1 << 16, 1 << 30)
            .real("read_us", self.read_us, 0.1, 1e6)
            .real("program_us", self.program_us, 0.1, 1e6)
            .real("erase_ms", self.erase_ms, 0.0, 1e4)
            .whole("channel_bytes_per_s", self.channel_bytes_per_s, 1 << 20, RATE.1)
            .real("over_provisioning", self.over_provisioning, 0.02, 10.0)
            .whole("interface_bytes_per_s", self.interface_bytes_per_s, 1 << 20, RATE.1)
            .real("command_us", self.command_us, 0.0, 1e5)
            .real("read_latency_us", self.read_latency_us, 0.0, 1e6)
            .real("write_latency_us", self.write_latency_us, 0.0, 1e6)
            .whole("buffer_bytes", self.buffer_bytes, 0, 1 << 34)
            .must(cache == WriteCache::None || self.buffer_bytes >= 2 * u64::from(self.program_bytes), || {
                "the write buffer holds less than two program operations; raise buffer_bytes, or write_cache none"
                    .to_owned()
            })
            .real("flush_us", self.flush_us, 0.0, 1e6)
            .whole("reads_before_program", self.reads_before_program.into(), 1, 1 << 20)
            .real("filled_share", self.filled_share, 0.0, 1.0)
            .real("overwritten", self.overwritten, 0.0, 20.0)
            .must(size_bytes / u64::from(self.mapping_bytes.max(1)) < u64::from(u32::MAX) / 16, || {
                format!("a device of {size_bytes} bytes has too many units; raise mapping_bytes or take a smaller one")
            })
    }
}

impl Faults {
    fn rules(&self, mut rules: Rules) -> Rules {
        let moment = |value: Option<f64>| value.unwrap_or(0.0);
        for error in &self.errors {
            rules = rules
                .must(error.start_bytes.is_some() == error.length_bytes.is_some(), || {
                    "an error has start_bytes or length_bytes alone; give both or neither".to_owned()
                })
                .whole("length_bytes of an error", error.length_bytes.unwrap_or(1), 1, MOST_BYTES)
                .whole("start_bytes of an error", error.start_bytes.unwrap_or(0), 0, MOST_BYTES)
                .whole("every of an error", error.every.unwrap_or(1), 1, u64::MAX)
                .real("from_s of an error", moment(error.from_s), 0.0, 1e9);
        }
        for stall in &self.stalls {
            let ways =
                [stall.at_s.is_some(), stall.every.is_some(), stall.share.is_some()].into_iter().filter(|&way| way);
            rules = rules
                .must(ways.count() == 1, || "a stall needs exactly one of at_s, every and share; give one".to_owned())
                .real("length_ms of a stall", stall.length_ms, 0.0, 1e7)
                .real("at_s of a stall", moment(stall.at_s), 0.0, 1e9)
                .whole("every of a stall", stall.every.unwrap_or(1), 1, u64::MAX)
                .real("share of a stall", stall.share.unwrap_or(0.0), 0.0, 1.0);
        }
        rules
            .whole("dropped_flush_every", self.dropped_flush_every.unwrap_or(1), 1, u64::MAX)
            .real("power_cut_s", moment(self.power_cut_s), 0.0, 1e9)
            .real("power_back_s", moment(self.power_back_s), 0.0, 1e9)
            .must(self.power_back_s.is_none_or(|back| self.power_cut_s.is_some_and(|cut| cut < back)), || {
                "power_back_s is not after power_cut_s; give both, the cut first".to_owned()
            })
    }
}
