//! Fills a directory or a block device up to a share of its room with seeded content that does not compress.
//!
//! A directory gets files of 8 MiB, each forced to the disk before the next, so that duplicates are whole extents,
//! which is what duplicate finders look for; a device gets pieces of the same size, from its start on.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::syncfs;
use serde::Serialize;

use crate::random::Random;

const PIECE_BYTES: u64 = 8 << 20;
const UNIT_BYTES: u64 = 1 << 20;
const MILLION: u64 = 1_000_000;

/// What is asked for. Shares are in parts per million, so that every machine computes the same pieces.
pub struct Request {
    /// A block device, or a directory that exists and is empty.
    pub path: PathBuf,
    /// How full the file system or device is to be.
    pub share_ppm: u64,
    /// How much of what is written repeats an earlier piece.
    pub duplicates_ppm: u64,
    /// Decides the content.
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Report {
    files: u64,
    bytes: u64,
    duplicate_bytes: u64,
}

/// Fills, and forces everything to the disk.
///
/// # Errors
/// A sentence with the next thing to do.
pub fn run(request: &Request) -> Result<Report, String> {
    let path = &request.path;
    let kind =
        fs::metadata(path).map_err(|error| format!("{} cannot be filled: {error}.", path.display()))?.file_type();
    if kind.is_dir() {
        let bytes = room(path, request.share_ppm)?;
        fill_directory(request, bytes)
    } else if kind.is_block_device() {
        let cannot = |error| format!("{} cannot be written: {error}.", path.display());
        let mut device = OpenOptions::new().write(true).open(path).map_err(cannot)?;
        let size = device.seek(SeekFrom::End(0)).map_err(cannot)?;
        fill_device(request, &mut device, share(size, request.share_ppm)).map_err(cannot)
    } else {
        Err(format!("{} is neither a directory nor a block device; name one of them.", path.display()))
    }
}

/// A share of `bytes` in whole MiB.
fn share(bytes: u64, ppm: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(ppm) / u128::from(MILLION);
    u64::try_from(part).unwrap_or(u64::MAX) / UNIT_BYTES * UNIT_BYTES
}

/// How many bytes the file system of `directory` takes until it is as full as requested, as `df` counts.
fn room(directory: &Path, share_ppm: u64) -> Result<u64, String> {
    let seen = statvfs(directory).map_err(|error| format!("{} cannot be asked: {error}.", directory.display()))?;
    let (used, total) = as_df_counts(seen.blocks(), seen.blocks_free(), seen.blocks_available());
    let (used, total) = (used * seen.fragment_size(), total * seen.fragment_size());
    share(total, share_ppm).checked_sub(used).map(|bytes| bytes / UNIT_BYTES * UNIT_BYTES).ok_or_else(|| {
        let (full, asked) = (used as f64 / total as f64 * 100.0, share_ppm as f64 / 1e4);
        format!(
            "{} is {full:.1} % full before anything is written; fill it to more than {asked} %.",
            directory.display()
        )
    })
}

/// How many blocks are used, and of how many: those that are reserved for root count as neither.
fn as_df_counts(blocks: u64, free: u64, available: u64) -> (u64, u64) {
    let used = blocks - free;
    (used, used + available)
}

/// The pieces of a fill: how long each is, and which stream of the seed is its content.
fn pieces(bytes: u64, request: &Request) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (duplicates, mut random) = (request.duplicates_ppm, Random::new(request.seed, u64::MAX));
    let mut unique: Vec<u64> = Vec::new();
    (0..bytes.div_ceil(PIECE_BYTES)).map(move |number| {
        let length = (bytes - number * PIECE_BYTES).min(PIECE_BYTES);
        // Every so many, rather than by chance: the share is then met by small fills too.
        let repeats = (number + 1) * duplicates / MILLION > number * duplicates / MILLION && !unique.is_empty();
        let stream = if repeats { unique[random.below(unique.len() as u64) as usize] } else { number };
        if !repeats {
            unique.push(stream);
        }
        (length, stream)
    })
}

fn fill_directory(request: &Request, bytes: u64) -> Result<Report, String> {
    let mut buffer = vec![0; PIECE_BYTES as usize];
    let mut report = Report { files: 0, bytes: 0, duplicate_bytes: 0 };
    for (number, (length, stream)) in (0u64..).zip(pieces(bytes, request)) {
        let content = &mut buffer[..length as usize];
        Random::new(request.seed, stream).fill(content);
        let path = request.path.join(format!("{number:06}"));
        File::create_new(&path).and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all())).map_err(
            |error| {
                let done = report.bytes >> 20;
                format!(
                    "{} cannot be written after {done} of {} MiB ({error}); fill it less.",
                    path.display(),
                    bytes >> 20
                )
            },
        )?;
        report.add(number, length, stream);
    }
    let sync = || -> std::io::Result<()> { Ok(syncfs(File::open(&request.path)?)?) };
    sync().map_err(|error| format!("{} cannot be forced to the disk ({error}).", request.path.display()))?;
    Ok(report)
}

fn fill_device(request: &Request, device: &mut File, bytes: u64) -> std::io::Result<Report> {
    let mut buffer = vec![0; PIECE_BYTES as usize];
    let mut report = Report { files: 0, bytes: 0, duplicate_bytes: 0 };
    device.rewind()?;
    for (number, (length, stream)) in (0u64..).zip(pieces(bytes, request)) {
        let content = &mut buffer[..length as usize];
        Random::new(request.seed, stream).fill(content);
        device.write_all(content)?;
        report.add(number, length, stream);
    }
    device.sync_all()?;
    Ok(Report { files: 0, ..report })
}

impl Report {
    fn add(&mut self, number: u64, length: u64, stream: u64) {
        self.files += 1;
        self.bytes += length;
        self.duplicate_bytes += if stream == number { 0 } else { length };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_reserved_for_root_are_neither_used_nor_to_be_had() {
        // A file system of 1000 blocks, 600 of them free, 550 of them for everybody.
        assert_eq!(as_df_counts(1000, 600, 550), (400, 950));
    }
    use proptest::prelude::*;

    fn request(path: &Path, seed: u64, duplicates_ppm: u64) -> Request {
        Request { path: path.to_owned(), share_ppm: 500_000, duplicates_ppm, seed }
    }

    fn contents(directory: &Path) -> Vec<Vec<u8>> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(directory).expect("works").map(|entry| entry.expect("works").path()).collect();
        names.sort();
        names.iter().map(|name| fs::read(name).expect("works")).collect()
    }

    fn filled(seed: u64, duplicates_ppm: u64, bytes: u64) -> (Report, Vec<Vec<u8>>) {
        let directory = tempfile::tempdir().expect("works");
        let report = fill_directory(&request(directory.path(), seed, duplicates_ppm), bytes).expect("works");
        (report, contents(directory.path()))
    }

    #[test]
    fn the_same_seed_writes_the_same_files() {
        let bytes = 3 * PIECE_BYTES + UNIT_BYTES;
        let (report, files) = filled(1, 0, bytes);
        assert_eq!(report, Report { files: 4, bytes, duplicate_bytes: 0 });
        assert_eq!(files.iter().map(Vec::len).sum::<usize>() as u64, bytes);
        assert_eq!(files[3].len() as u64, UNIT_BYTES);
        assert!(filled(1, 0, bytes).1 == files);
        assert!(filled(2, 0, bytes).1[0] != files[0]);
    }

    #[test]
    fn half_of_it_repeats_what_was_written_before() {
        let (report, files) = filled(1, 500_000, 6 * PIECE_BYTES);
        assert_eq!(report, Report { files: 6, bytes: 6 * PIECE_BYTES, duplicate_bytes: 3 * PIECE_BYTES });
        let unique: std::collections::BTreeSet<&Vec<u8>> = files.iter().collect();
        assert_eq!(unique.len(), 3);
    }

    #[test]
    fn a_device_is_filled_from_its_start() {
        let mut file = tempfile::tempfile().expect("works");
        let asked = request(Path::new("/nowhere"), 1, 0);
        let report = fill_device(&asked, &mut file, PIECE_BYTES + UNIT_BYTES).expect("works");
        assert_eq!(report, Report { files: 0, bytes: PIECE_BYTES + UNIT_BYTES, duplicate_bytes: 0 });
        assert_eq!(file.metadata().expect("works").len(), PIECE_BYTES + UNIT_BYTES);
    }

    #[test]
    fn what_cannot_be_filled_is_a_sentence() {
        let directory = tempfile::tempdir().expect("works");
        assert!(run(&request(&directory.path().join("none"), 1, 0)).expect_err("refused").contains("cannot be filled"));
        let file = directory.path().join("file");
        fs::write(&file, "x").expect("works");
        assert!(run(&request(&file, 1, 0)).expect_err("refused").contains("neither a directory nor a block device"));
        let full = Request { share_ppm: 0, ..request(directory.path(), 1, 0) };
        assert!(run(&full).expect_err("refused").contains("% full before anything is written"));
        fs::create_dir(directory.path().join("000000")).expect("works");
        let error = fill_directory(&request(directory.path(), 1, 0), UNIT_BYTES).expect_err("refused");
        assert!(error.contains("after 0 of 1 MiB") && error.ends_with("fill it less."), "{error}");
    }

    proptest! {
        #[test]
        fn shares_are_whole_and_never_too_much(bytes: u64, ppm in 0..=MILLION) {
            let part = share(bytes, ppm);
            prop_assert_eq!(part % UNIT_BYTES, 0);
            prop_assert!(part <= bytes);
        }

        #[test]
        fn pieces_add_up_and_repeat_as_asked(mib in 0u64..2000, duplicates_ppm in 0..=MILLION, seed: u64) {
            let bytes = mib * UNIT_BYTES;
            let made: Vec<(u64, u64)> = pieces(bytes, &request(Path::new(""), seed, duplicates_ppm)).collect();
            prop_assert_eq!(made.iter().map(|piece| piece.0).sum::<u64>(), bytes);
            let repeated = (0u64..).zip(&made).filter(|(number, piece)| *number != piece.1).count() as u64;
            let asked = made.len() as u64 * duplicates_ppm / MILLION;
            prop_assert!(repeated == asked || (repeated + 1 == asked && duplicates_ppm == MILLION));
        }
    }
}
