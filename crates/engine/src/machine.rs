//! Reads the machine: block devices by their number, CPU, memory and pressure.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, makedev, minor};
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

use crate::procfs::{self, CpuTimes, DeviceCounters, Memory};

/// A block device as the kernel knows it, whatever its node is called.
#[derive(Debug, Clone, Serialize)]
pub struct BlockDevice {
    pub path: PathBuf,
    pub major_minor: String,
    pub kernel_name: Option<String>,
    /// As in `st_rdev`.
    #[serde(skip)]
    pub number: u64,
}

impl BlockDevice {
    /// Looks up the device behind `path`, through symbolic links.
    ///
    /// # Errors
    /// A sentence, when there is nothing there or it is not a block device.
    pub fn find(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let metadata = fs::metadata(path)
            .map_err(|error| format!("{shown} cannot be looked up ({error}); give the path of a block device"))?;
        if !metadata.file_type().is_block_device() {
            return Err(format!("{shown} is not a block device; give one, such as /dev/loop0 or a link to it"));
        }
        Ok(Self::numbered(path, metadata.rdev()))
    }

    /// The device with this number, whatever `path` leads to by now.
    pub fn numbered(path: &Path, number: u64) -> Self {
        let major_minor = format!("{}:{}", major(number), minor(number));
        let kernel_name = fs::canonicalize(format!("/sys/dev/block/{major_minor}"))
            .ok()
            .and_then(|target| target.file_name().map(|name| name.to_string_lossy().into_owned()));
        Self { path: path.to_owned(), major_minor, kernel_name, number }
    }

    /// A file of the device's folder in sysfs; `None` when the device is gone.
    pub fn attribute(&self, name: &str) -> Option<String> {
        fs::read_to_string(format!("/sys/dev/block/{}/{name}", self.major_minor)).ok()
    }

    /// Major and minor number of the disk that it is a partition of; `None` when it is none.
    pub fn disk(&self) -> Option<String> {
        self.attribute("partition")?;
        let folder = fs::canonicalize(format!("/sys/dev/block/{}/..", self.major_minor)).ok()?;
        Some(fs::read_to_string(folder.join("dev")).ok()?.trim().to_owned())
    }

    /// A number that no other disk of this machine gets before the next boot, of the disk or the one that it is a part of;
    /// `None` before Linux 5.15.
    pub fn disk_sequence(&self) -> Option<u64> {
        let number = self.disk().unwrap_or_else(|| self.major_minor.clone());
        fs::read_to_string(format!("/sys/dev/block/{number}/diskseq")).ok()?.trim().parse().ok()
    }

    /// In bytes; `None` when the device is gone.
    pub fn size(&self) -> Option<u64> {
        self.attribute("size")?.trim().parse::<u64>().ok()?.checked_mul(512)
    }

    /// Number, sequence, size and start of the device: of it, and of no other that gets its name before the next boot.
    ///
    /// Partitions of one disk share its sequence, and a new one may get the number and the size of one that was removed.
    pub fn identity(&self, sequence: Option<u64>, size_bytes: u64) -> String {
        let start = self.attribute("start").map_or_else(|| "0".to_owned(), |sector| sector.trim().to_owned());
        let sequence = sequence.map_or_else(|| "-".to_owned(), |number| number.to_string());
        format!("{} {sequence} {size_bytes} {start}", self.major_minor)
    }

    /// Numbers of its partitions, in the order of their names.
    pub fn partitions(&self) -> Vec<u64> {
        let folder = fs::read_dir(format!("/sys/dev/block/{}", self.major_minor));
        let parts = folder.into_iter().flatten().flatten().map(|entry| entry.path());
        let mut parts: Vec<PathBuf> = parts.filter(|part| part.join("partition").exists()).collect();
        parts.sort_unstable();
        parts.iter().filter_map(|part| number_of(&fs::read_to_string(part.join("dev")).ok()?)).collect()
    }

    /// Whether the device's folder in sysfs has this.
    fn has(&self, name: &str) -> bool {
        Path::new("/sys/dev/block").join(&self.major_minor).join(name).exists()
    }
}

/// Of a device, from the text of its major and minor number.
fn number_of(major_minor: &str) -> Option<u64> {
    let (major, minor) = major_minor.trim().split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Stall times since boot in microseconds.
#[derive(Debug, Serialize)]
pub struct Stalls {
    cpu_some_us: Option<u64>,
    io_some_us: Option<u64>,
    io_full_us: Option<u64>,
    memory_some_us: Option<u64>,
    memory_full_us: Option<u64>,
}

/// What the machine had done up to one moment.
#[derive(Debug, Serialize)]
pub struct Snapshot<'a> {
    devices: BTreeMap<&'a str, Option<DeviceCounters>>,
    /// Processor time since each began, in seconds; `None` once it has ended.
    processes: BTreeMap<&'a str, Option<f64>>,
    cpu_s: Option<CpuTimes>,
    memory: Option<Memory>,
    psi: Option<Stalls>,
}

/// The part of the machine that is watched.
pub struct Machine {
    devices: BTreeMap<String, BlockDevice>,
    processes: BTreeMap<String, i32>,
    ticks_per_s: Option<f64>,
}

impl Machine {
    /// Looks up every device, and the number of every process.
    ///
    /// # Errors
    /// A sentence, when one is not a block device, a file holds no number, or a name is given twice.
    pub fn new(of_devices: &[(String, PathBuf)], of_processes: &[(String, PathBuf)]) -> Result<Self, String> {
        let mut devices = BTreeMap::new();
        for (name, path) in of_devices {
            if devices.insert(name.clone(), BlockDevice::find(path)?).is_some() {
                return Err(format!("two devices are called '{name}'; give each its own name"));
            }
        }
        let mut processes = BTreeMap::new();
        for (name, file) in of_processes {
            let number = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i32>().ok());
            let number = number.ok_or_else(|| {
                format!("{} does not hold the number of a process; name its pid file", file.display())
            })?;
            if processes.insert(name.clone(), number).is_some() {
                return Err(format!("two processes are called '{name}'; give each its own name"));
            }
        }
        let ticks_per_s = sysconf(SysconfVar::CLK_TCK).ok().flatten().map(|ticks| ticks as f64);
        Ok(Self { devices, processes, ticks_per_s })
    }

    pub fn devices(&self) -> &BTreeMap<String, BlockDevice> {
        &self.devices
    }

    /// CPUs online now.
    pub fn cpus(&self) -> Option<usize> {
        procfs::count_cpus(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads everything once; what cannot be read is `None`.
    pub fn snapshot(&self) -> Snapshot<'_> {
        let read = |path: &str| fs::read_to_string(path).ok();
        Snapshot {
            devices: self.devices.iter().map(|(name, device)| (name.as_str(), counters(device))).collect(),
            processes: self.processes.iter().map(|(name, &number)| (name.as_str(), self.spent_s(number))).collect(),
            cpu_s: read("/proc/stat").and_then(|text| procfs::parse_cpu_times(&text, self.ticks_per_s?)),
            memory: read("/proc/meminfo").and_then(|text| procfs::parse_meminfo(&text)),
            psi: stalls(),
        }
    }

    fn spent_s(&self, process: i32) -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        Some(procfs::parse_process_ticks(&text)? as f64 / self.ticks_per_s?)
    }
}

/// The kernel counts flushes where it queues requests: not of a partition, nor of a device that hands each of its requests
/// on to others (md, device mapper, bcache), where the file says 0. Source: Documentation/block/stat.rst and blk-flush.c.
fn counters(device: &BlockDevice) -> Option<DeviceCounters> {
    let found = procfs::parse_block_stat(&device.attribute("stat")?)?;
    Some(if device.has("mq") { found } else { DeviceCounters { flushes: None, ..found } })
}

/// `None` on a kernel without pressure stall information, or booted with psi=0, where the files are there but not readable.
fn stalls() -> Option<Stalls> {
    let pressure = |resource: &str| {
        fs::read_to_string(format!("/proc/pressure/{resource}")).ok().map(|text| procfs::parse_pressure(&text))
    };
    let (cpu, io, memory) = (pressure("cpu"), pressure("io"), pressure("memory"));
    if cpu.is_none() && io.is_none() && memory.is_none() {
        return None;
    }
    Some(Stalls {
        cpu_some_us: cpu.and_then(|cpu| cpu.some_us),
        io_some_us: io.and_then(|io| io.some_us),
        io_full_us: io.and_then(|io| io.full_us),
        memory_some_us: memory.and_then(|memory| memory.some_us),
        memory_full_us: memory.and_then(|memory| memory.full_us),
    })
}
