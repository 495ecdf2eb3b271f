//! Whether a block device holds anything: bounded reads of its start, its end, the places of second super blocks and
//! evenly spaced samples.
//!
//! A signature that libblkid knows is looked for elsewhere. This finds what has none: a file system whose first super
//! block is gone, ciphertext without a header, an image format, plain files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use serde::Serialize;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A device up to this size is read completely.
const WHOLE: u64 = 64 * MIB;

/// Holds the partition table, the first partition of every common tool (1 MiB), both headers of LUKS2 (at most 4 MiB
/// apart), ISO 9660 and UDF descriptors (32 KiB, sector 256), the super blocks of ReiserFS, btrfs, JFS, GFS2, md 1.1 and
/// 1.2, bcache, F2FS (both), ZFS labels 0 and 1, VMFS (1 MiB and 18 MiB less its partition), and LVM2 metadata.
const START: u64 = 16 * MIB;

/// Holds the backup GPT (33 sectors), md 0.90 and 1.0 (64 KiB and 8 KiB before the end), ZFS labels 2 and 3 (512 KiB),
/// the second LVM2 metadata area (1 MiB), the backup boot sector of NTFS (last sector), the alternate header of HFS+
/// (1 KiB before the end), the second super block of NILFS2, the anchor of UDF, and the metadata of firmware RAID.
const END: u64 = 8 * MIB;

/// Evenly spaced. Every fourth, sixteenth and thirty-second part of a device begins in one of them, and so does an
/// allocation group of an XFS file system (mkfs.xfs: calc_default_ag_geometry in libxfs/topology.c makes 4, 16 or 32 of
/// equal size, rounded up to a block).
const SAMPLES: u64 = 64;
const SAMPLE: u64 = 128 * KIB;

/// In the middle: an even number of allocation groups puts one there, and mkfs.xfs the log.
const MIDDLE: u64 = MIB;

/// Where second copies of super blocks are, from the start of the device, beyond `START`.
const PLACES: [u64; 11] = [
    64 * MIB,   // btrfs, first mirror (BTRFS_SUPER_MIRROR_SHIFT, fs/btrfs/disk-io.h)
    256 * GIB,  // btrfs, second mirror; OCFS2
    GIB,        // OCFS2 backups: 1 GiB times powers of 4 (OCFS2_BACKUP_SB_START, fs/ocfs2/ocfs2_fs.h); Ceph BlueStore
    3 * GIB,    // NTFS: the file table, cluster 786432 of 4 KiB, as Windows formats
    4 * GIB,    // OCFS2
    10 * GIB,   // Ceph BlueStore labels: 1, 10, 100 and 1000 GiB (bdev_label_positions, BlueStore.cc)
    16 * GIB,   // OCFS2
    64 * GIB,   // OCFS2
    100 * GIB,  // Ceph BlueStore
    1000 * GIB, // Ceph BlueStore
    TIB,        // XFS from 4 TiB on: groups of 1 TiB (XFS_AG_MAX_BYTES); OCFS2
];

/// Groups of ext2, ext3 and ext4 that hold a backup with the feature sparse_super: 1 and the powers of 3, 5 and 7.
const EXT_GROUPS: [u64; 9] = [1, 3, 5, 7, 9, 25, 27, 49, 81];
const EXT_BLOCKS: [u64; 3] = [KIB, 2 * KIB, 4 * KIB];

const PLACE: u64 = 8 * KIB;

/// Where the file system may begin whose second super blocks are looked for: at the start of the device, or in a first
/// partition whose table is gone. Partitioning tools begin at 1 MiB, old ones at sector 63.
const BEGINNINGS: [u64; 3] = [0, 63 * 512, MIB];

/// What O_DIRECT wants of offsets and of memory; the size of a device is a multiple of its own sectors in any case.
const ALIGNMENT: u64 = 4 * KIB;

const CHUNK: usize = 256 << 10;

/// Two seconds are promised for a device; the last read takes some time too.
const DEADLINE: Duration = Duration::from_millis(1750);

const MOST_FINDS: usize = 4;
const SHOWN: usize = 16;

/// What is on a device.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Content {
    /// Everything that was to be read was read, and it is all zeros, or all ones, which erased flash may read as.
    empty: bool,
    /// The first bytes other than zero of some of the regions that hold any.
    found: Vec<Found>,
    /// Why not all of it was read; `None` when it was, or when what was found was enough.
    unread: Option<String>,
    bytes_read: u64,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Found {
    offset_bytes: u64,
    /// At most 16, in hexadecimal.
    bytes: String,
}

/// Where to read: from, to.
type Region = (u64, u64);

/// Reads the device at `path`; not through its page cache, so that what was written to it behind our back counts.
///
/// # Errors
/// A sentence, when it cannot be opened.
pub fn examine(path: &Path) -> Result<Content, String> {
    let cannot = |error: io::Error| format!("{} cannot be read ({error}); see dmesg", path.display());
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).map_err(cannot)?;
    let size = size_of(&file).map_err(cannot)?;
    let began = Instant::now();
    Ok(read(&regions(size), |buffer, offset| file.read_exact_at(buffer, offset), || began.elapsed() < DEADLINE))
}

/// Writes zeros to all that `examine` reads; `file` was opened to be written bypassing the page cache. Returns how many bytes.
///
/// # Errors
/// When it cannot be written.
pub fn clear(file: &File) -> io::Result<u64> {
    let mut memory = Memory::new();
    let zeros = memory.buffer();
    let mut bytes_written = 0;
    for (from, to) in regions(size_of(file)?) {
        for at in (from..to).step_by(CHUNK) {
            let chunk = &zeros[..CHUNK.min((to - at) as usize)];
            file.write_all_at(chunk, at)?;
            bytes_written += chunk.len() as u64;
        }
    }
    file.sync_all()?;
    Ok(bytes_written)
}

/// For one request that passes the page cache by.
struct Memory(Vec<u8>);

impl Memory {
    fn new() -> Self {
        Self(vec![0; CHUNK + ALIGNMENT as usize])
    }

    fn buffer(&mut self) -> &mut [u8] {
        let aligned = self.0.as_ptr().align_offset(ALIGNMENT as usize);
        &mut self.0[aligned..aligned + CHUNK]
    }
}

/// In bytes.
pub fn size_of(file: &File) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

/// In ascending order, apart from each other, none beyond `size`.
fn regions(size: u64) -> Vec<Region> {
    if size <= WHOLE {
        return vec![(0, size)];
    }
    let mut wanted = vec![(0, START), (size - END, size), (size / 2, size / 2 + MIDDLE)];
    wanted.extend((1..SAMPLES).map(|number| size / SAMPLES * number).map(|at| (at, at + SAMPLE)));
    let mut places = PLACES.to_vec();
    for block in EXT_BLOCKS {
        // A group has as many blocks as one block has bits; with 1 KiB blocks the first group begins at block 1.
        let (group, first) = (8 * block * block, if block == KIB { block } else { 0 });
        places.extend(EXT_GROUPS.map(|number| number * group + first));
    }
    wanted.extend(BEGINNINGS.iter().flat_map(|from| places.iter().map(move |at| (from + at, from + at + PLACE))));
    let mut aligned: Vec<Region> = wanted
        .into_iter()
        .filter(|&(from, _)| from < size)
        .map(|(from, to)| (from / ALIGNMENT * ALIGNMENT, to.next_multiple_of(ALIGNMENT).min(size)))
        .collect();
    aligned.sort_unstable();
    let mut merged: Vec<Region> = Vec::new();
    for (from, to) in aligned {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// `fetch` fills a buffer from an offset; `in_time` says whether to go on.
fn read(regions: &[Region], fetch: impl Fn(&mut [u8], u64) -> io::Result<()>, in_time: impl Fn() -> bool) -> Content {
    let mut memory = Memory::new();
    let buffer = memory.buffer();
    let mut found: Vec<Found> = Vec::new();
    let mut all_ones = true;
    let mut bytes_read = 0;
    let mut unread = None;
    'regions: for &(from, to) in regions {
        let mut new = true; // nothing was found in this region yet
        let mut at = from;
        while at < to {
            if !in_time() {
                unread = Some(format!("it is too slow: {} MiB were read in the time allowed", bytes_read / MIB));
                break 'regions;
            }
            let chunk = &mut buffer[..CHUNK.min((to - at) as usize)];
            if let Err(error) = fetch(chunk, at) {
                let why =
                    error.raw_os_error().map_or_else(|| error.to_string(), |code| Errno::from_raw(code).desc().into());
                unread = Some(format!("reading it at byte {at} fails: {why}"));
                break 'regions;
            }
            bytes_read += chunk.len() as u64;
            all_ones &= chunk.iter().all(|&byte| byte == 0xff);
            if new && let Some(first) = chunk.iter().position(|&byte| byte != 0) {
                new = false;
                if found.len() < MOST_FINDS {
                    found.push(Found { offset_bytes: at + first as u64, bytes: shown(&chunk[first..]) });
                }
            }
            // Erased flash is alike to its end, so only then everything has to be read.
            if !all_ones && found.len() == MOST_FINDS {
                break 'regions;
            }
            if !all_ones && !new {
                continue 'regions;
            }
            at += chunk.len() as u64;
        }
    }
    let empty = unread.is_none() && bytes_read > 0 && (found.is_empty() || all_ones);
    Content { empty, found, unread, bytes_read }
}

fn shown(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const SIZES: [u64; 12] =
        [512, 4096, 64 * MIB, 64 * MIB + 512, 100 * MIB, 300 * MIB, GIB, 80 * GIB, TIB, 4 * TIB, 20 * TIB, 1 << 60];

    fn zeros(buffer: &mut [u8], _: u64) -> io::Result<()> {
        buffer.fill(0);
        Ok(())
    }

    /// A device that holds `data` at `at`, on `fill`.
    fn holding(at: u64, data: &'static [u8], fill: u8) -> impl Fn(&mut [u8], u64) -> io::Result<()> {
        move |buffer, offset| {
            buffer.fill(fill);
            for (number, &byte) in data.iter().enumerate() {
                let place = at + number as u64;
                if place >= offset && place < offset + buffer.len() as u64 {
                    buffer[(place - offset) as usize] = byte;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn what_is_read_of_any_device_is_bounded_ordered_and_aligned() {
        for size in SIZES {
            let regions = regions(size);
            let bytes: u64 = regions.iter().map(|(from, to)| to - from).sum();
            assert!(bytes <= WHOLE, "{size}: {bytes}");
            assert!(size <= WHOLE || bytes <= 40 * MIB, "{size}: {bytes}");
            assert!(regions.len() <= 180, "{size}: {}", regions.len()); // a disk seeks for each
            assert!(regions.iter().all(|&(from, to)| from % ALIGNMENT == 0 && from < to && to <= size));
            assert!(regions.windows(2).all(|pair| pair[0].1 < pair[1].0));
            assert_eq!((regions[0].0, regions[regions.len() - 1].1), (0, size));
        }
    }

    #[test]
    fn the_places_of_second_super_blocks_are_read() {
        let covered = |size: u64, at: u64| regions(size).iter().any(|&(from, to)| from <= at && at + 512 <= to);
        let size = 2 * TIB;
        for from in [0, 63 * 512, MIB] {
            for at in [64 * KIB, 64 * MIB, 256 * GIB] {
                assert!(covered(size, from + at), "btrfs {from} {at}");
            }
            for group in EXT_GROUPS {
                assert!(covered(size, from + group * 128 * MIB), "ext4 {from} {group}");
                assert!(covered(size, from + group * 32 * MIB), "ext3 of 2 KiB {from} {group}");
                assert!(covered(size, from + group * 8 * MIB + KIB), "ext2 of 1 KiB {from} {group}");
            }
        }
        for at in [size - 512, size - 1024, size - 33 * 512, size - 128 * KIB, size - 512 * KIB] {
            assert!(covered(size, at), "end {at}");
        }
    }

    #[test]
    fn an_allocation_group_of_xfs_is_read_whatever_the_size() {
        for size in [300 * MIB, 777 * MIB + 512, 8 * GIB + 4096, 932 * GIB + 77 * 512, 3 * TIB, 16 * TIB] {
            for groups in [2_u64, 4, 6, 12, 16, 24, 32] {
                let blocks = (size / 4096).div_ceil(groups);
                let starts = (1..groups).map(|number| number * blocks * 4096);
                let read = regions(size);
                assert!(
                    starts.clone().any(|at| read.iter().any(|&(from, to)| from <= at && at + 4096 <= to)),
                    "{size} {groups}"
                );
            }
        }
    }

    #[test]
    fn zeros_are_empty_and_so_are_ones() {
        for size in [MIB, GIB] {
            let read_of = |fill| read(&regions(size), holding(0, b"", fill), || true);
            assert!(read_of(0).empty && read_of(0).found.is_empty());
            assert!(read_of(0xff).empty);
            assert!(!read_of(0xf7).empty);
        }
    }

    #[test]
    fn a_byte_among_ones_and_ones_among_zeros_are_found() {
        let regions = regions(GIB);
        for at in [0, GIB / 2, GIB - 1] {
            assert!(!read(&regions, holding(at, b"\x12", 0xff), || true).empty, "{at}");
            assert!(!read(&regions, holding(at, b"\xff", 0), || true).empty, "{at}");
        }
        let content = read(&regions, holding(GIB - 3, b"abc", 0), || true);
        assert_eq!(content.found, [Found { offset_bytes: GIB - 3, bytes: "61 62 63".to_owned() }]);
    }

    #[test]
    fn a_full_device_is_not_read_to_its_end() {
        let content = read(&regions(TIB), holding(0, b"", 0x55), || true);
        assert_eq!(content.found.len(), MOST_FINDS);
        assert!(content.bytes_read <= 4 * CHUNK as u64);
    }

    #[test]
    fn what_is_not_read_in_time_or_at_all_is_not_empty() {
        let reads = Cell::new(0);
        let in_time = || reads.replace(reads.get() + 1) < 3;
        let content = read(&regions(GIB), zeros, in_time);
        assert!(!content.empty && content.unread.is_some());
        assert_eq!(content.bytes_read, 3 * CHUNK as u64);
        let content = read(&regions(GIB), |_, _| Err(io::Error::from_raw_os_error(libc::EIO)), || true);
        assert!(!content.empty);
        assert_eq!(content.unread.as_deref(), Some("reading it at byte 0 fails: I/O error"));
        assert!(!read(&[(0, 0)], zeros, || true).empty); // nothing was read
    }
}
