//! Ages a directory: a stated sequence of creating, overwriting, growing, cutting and deleting files.
//!
//! The sequence is a function of the seed alone. Rounds can be run a few at a time, with anything in between: the
//! changes of earlier rounds are then worked out, not carried out. Round 0 creates the files, every later round makes
//! as many changes as there are files, and each ends with everything on the disk.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::unistd::syncfs;
use serde::Serialize;

use crate::random::Random;

const BLOCK_BYTES: u64 = 4096;
const FILES_PER_DIRECTORY: u64 = 100;
/// Overwrites and growths are 4 KiB times two to a power below this: up to 256 KiB.
const LENGTHS: u64 = 7;
/// How full of the bytes allowed the files are at first, so that they can grow.
const FIRST_SHARE_PERCENT: u64 = 75;

/// What is asked for.
pub struct Request {
    /// A directory that exists.
    pub directory: PathBuf,
    /// Decides the whole sequence.
    pub seed: u64,
    /// How many files there are at any time.
    pub files: u64,
    /// How many bytes they have together, at most.
    pub bytes: u64,
    /// The rounds to carry out.
    pub rounds: Range<u64>,
}

/// What was done, and what is there now.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
pub struct Report {
    files: u64,
    bytes: u64,
    created: u64,
    overwritten: u64,
    grown: u64,
    cut: u64,
    deleted: u64,
    written_bytes: u64,
}

/// Carries out the rounds.
///
/// # Errors
/// A sentence with the next thing to do.
pub fn run(request: &Request) -> Result<Report, String> {
    let Request { directory, files, bytes, .. } = request;
    if *files == 0 || bytes / files < 2 * BLOCK_BYTES {
        return Err(format!("{bytes} bytes are too few for {files} files; give each file at least 8K."));
    }
    let mut sequence = Sequence::new(request.seed, *files, *bytes);
    let mut report = Report::default();
    for round in 0..request.rounds.end {
        for (number, change) in sequence.round(round) {
            if request.rounds.contains(&round) {
                let mut content = Random::new(request.seed, number);
                change.carry_out(directory, &mut content, &mut report).map_err(|error| {
                    format!(
                        "{} cannot be changed in round {round} ({error}); make the files smaller or fewer.",
                        change.path(directory).display()
                    )
                })?;
            }
        }
        if request.rounds.contains(&round) {
            sync(directory)
                .map_err(|error| format!("{} cannot be forced to the disk ({error}).", directory.display()))?;
        }
    }
    Ok(Report { files: *files, bytes: sequence.used, ..report })
}

fn sync(directory: &Path) -> io::Result<()> {
    Ok(syncfs(File::open(directory)?)?)
}

/// One change of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Create { file: u64, length: u64 },
    Overwrite { file: u64, offset: u64, length: u64 },
    Grow { file: u64, offset: u64, length: u64 },
    Cut { file: u64, length: u64 },
    Delete { file: u64 },
}

/// The changes of all rounds, in order; knows how long every file is by then.
struct Sequence {
    random: Random,
    number: u64,
    sizes: Vec<u64>,
    used: u64, // the sum of `sizes`
    bytes: u64,
}

impl Sequence {
    fn new(seed: u64, files: u64, bytes: u64) -> Self {
        Self { random: Random::new(seed, u64::MAX), number: 0, sizes: vec![0; files as usize], used: 0, bytes }
    }

    /// The changes of the next round, each with its number in the whole sequence.
    fn round(&mut self, round: u64) -> Vec<(u64, Change)> {
        let files = self.sizes.len() as u64;
        let changes: Vec<Change> = if round == 0 {
            (0..files).map(|file| self.create(file)).collect()
        } else {
            (0..files).flat_map(|_| self.change()).collect()
        };
        let first = self.number;
        self.number += changes.len() as u64;
        (first..).zip(changes).collect()
    }

    /// Half of all changes overwrite, a fifth each grow and replace a file, a tenth cut one.
    fn change(&mut self) -> Vec<Change> {
        let file = self.random.below(self.sizes.len() as u64);
        let (kind, length) = (self.random.below(10), BLOCK_BYTES << self.random.below(LENGTHS));
        let size = self.sizes[file as usize];
        let room = self.room();
        match kind {
            0..5 => {
                let length = length.min(size);
                let offset = self.random.below((size - length) / BLOCK_BYTES + 1) * BLOCK_BYTES;
                vec![Change::Overwrite { file, offset, length }]
            }
            5..7 if room > 0 => {
                let length = length.min(room);
                self.resize(file, size + length);
                vec![Change::Grow { file, offset: size, length }]
            }
            7..9 => {
                self.resize(file, 0);
                vec![Change::Delete { file }, self.create(file)]
            }
            _ => {
                let length = (size / 2).next_multiple_of(BLOCK_BYTES);
                self.resize(file, length);
                vec![Change::Cut { file, length }]
            }
        }
    }

    /// A file of half to one and a half times the mean length, as far as there is room.
    fn create(&mut self, file: u64) -> Change {
        let mean = self.bytes * FIRST_SHARE_PERCENT / 100 / self.sizes.len() as u64 / BLOCK_BYTES;
        let blocks = mean / 2 + self.random.below(mean + 1);
        let length = (blocks.max(1) * BLOCK_BYTES).min(self.room());
        self.resize(file, length);
        Change::Create { file, length }
    }

    fn resize(&mut self, file: u64, length: u64) {
        let size = &mut self.sizes[file as usize];
        self.used = self.used - *size + length;
        *size = length;
    }

    /// Whole blocks that may still be added.
    fn room(&self) -> u64 {
        (self.bytes - self.used) / BLOCK_BYTES * BLOCK_BYTES
    }
}

impl Change {
    fn path(self, directory: &Path) -> PathBuf {
        let (Self::Create { file, .. }
        | Self::Overwrite { file, .. }
        | Self::Grow { file, .. }
        | Self::Cut { file, .. }
        | Self::Delete { file }) = self;
        directory.join(format!("{:04}/{file:06}", file / FILES_PER_DIRECTORY))
    }

    fn carry_out(self, directory: &Path, content: &mut Random, report: &mut Report) -> io::Result<()> {
        let path = self.path(directory);
        match self {
            Self::Create { length, .. } => {
                report.created += 1;
                fs::create_dir_all(path.parent().unwrap_or(directory))?;
                write(&File::create_new(path)?, 0, length, content, report)
            }
            Self::Overwrite { offset, length, .. } => {
                report.overwritten += 1;
                write(&OpenOptions::new().write(true).open(path)?, offset, length, content, report)
            }
            Self::Grow { offset, length, .. } => {
                report.grown += 1;
                write(&OpenOptions::new().write(true).open(path)?, offset, length, content, report)
            }
            Self::Cut { length, .. } => {
                report.cut += 1;
                OpenOptions::new().write(true).open(path)?.set_len(length)
            }
            Self::Delete { .. } => {
                report.deleted += 1;
                fs::remove_file(path)
            }
        }
    }
}

fn write(file: &File, offset: u64, length: u64, content: &mut Random, report: &mut Report) -> io::Result<()> {
    let mut buffer = vec![0; length.min(1 << 20) as usize];
    let mut done = 0;
    while done < length {
        let piece = &mut buffer[..(length - done).min(1 << 20) as usize];
        content.fill(piece);
        file.write_all_at(piece, offset + done)?;
        done += piece.len() as u64;
    }
    report.written_bytes += length;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use tempfile::TempDir;

    const FILES: u64 = 150;
    const BYTES: u64 = 4 << 20;

    fn request(directory: &Path, seed: u64, rounds: Range<u64>) -> Request {
        Request { directory: directory.to_owned(), seed, files: FILES, bytes: BYTES, rounds }
    }

    /// Every file by its path, with what is in it.
    fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let folders = fs::read_dir(directory).expect("works").map(|entry| entry.expect("works").path());
        let files =
            folders.flat_map(|folder| fs::read_dir(folder).expect("works").map(|entry| entry.expect("works").path()));
        files
            .map(|path| (path.strip_prefix(directory).expect("works").to_owned(), fs::read(&path).expect("works")))
            .collect()
    }

    fn aged(seed: u64, parts: &[(u64, u64)]) -> (TempDir, Report) {
        let directory = tempfile::tempdir().expect("works");
        let mut last = Report::default();
        for &(first, end) in parts {
            last = run(&request(directory.path(), seed, first..end)).expect("works");
        }
        (directory, last)
    }

    #[test]
    fn the_same_seed_leaves_the_same_tree() {
        let (one, first) = aged(1, &[(0, 4)]);
        let (other, second) = aged(1, &[(0, 4)]);
        let (different, _) = aged(2, &[(0, 4)]);
        assert_eq!(first, second);
        assert!(tree(one.path()) == tree(other.path()));
        assert!(tree(one.path()) != tree(different.path()));
    }

    #[test]
    fn rounds_may_be_run_one_by_one() {
        let (at_once, _) = aged(5, &[(0, 5)]);
        let (one_by_one, _) = aged(5, &[(0, 1), (1, 2), (2, 4), (4, 5)]);
        assert!(tree(at_once.path()) == tree(one_by_one.path()));
    }

    #[test]
    fn the_report_is_what_is_there() {
        let (directory, report) = aged(3, &[(0, 6)]);
        let files = tree(directory.path());
        assert_eq!(report.files, files.len() as u64);
        assert_eq!(report.bytes, files.values().map(Vec::len).sum::<usize>() as u64);
        assert_eq!(report.created, FILES + report.deleted);
        assert_eq!(report.created - FILES + report.overwritten + report.grown + report.cut, 5 * FILES);
        for count in [report.overwritten, report.grown, report.cut, report.deleted] {
            assert!(count > 0, "{report:?}");
        }
    }

    #[test]
    fn every_round_changes_something() {
        let mut seen = Vec::new();
        for end in 1..5 {
            let (directory, _) = aged(1, &[(0, end)]);
            seen.push(tree(directory.path()));
        }
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_seed_always_makes_the_same_changes() {
        // Kept: a change here changes what every age(...) ever run has done.
        let mut sequence = Sequence::new(1, 3, 1 << 20);
        sequence.round(0);
        let kept = [
            (3, Change::Overwrite { file: 1, offset: 57_344, length: 65_536 }),
            (4, Change::Delete { file: 1 }),
            (5, Change::Create { file: 1, length: 282_624 }),
            (6, Change::Overwrite { file: 0, offset: 65_536, length: 16_384 }),
        ];
        assert_eq!(sequence.round(1), kept);
    }

    #[test]
    fn what_cannot_be_done_is_a_sentence() {
        let directory = tempfile::tempdir().expect("works");
        let few = Request { bytes: FILES * 8192 - 1, ..request(directory.path(), 1, 0..1) };
        assert!(run(&few).expect_err("refused").ends_with("give each file at least 8K."));
        assert!(run(&Request { files: 0, ..request(directory.path(), 1, 0..1) }).is_err());
        let gone = run(&request(directory.path(), 1, 1..2)).expect_err("refused");
        assert!(gone.contains("in round 1") && gone.ends_with("make the files smaller or fewer."), "{gone}");
    }

    proptest! {
        #[test]
        fn files_stay_within_the_bytes_allowed(seed: u64, files in 1u64..40, each in 8192u64..100_000, rounds in 1u64..8) {
            let mut sequence = Sequence::new(seed, files, files * each);
            let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
            let mut next = 0;
            for round in 0..rounds {
                for (number, change) in sequence.round(round) {
                    prop_assert_eq!(number, next);
                    next += 1;
                    match change {
                        Change::Create { file, length } => prop_assert_eq!(lengths.insert(file, length), None),
                        Change::Overwrite { file, offset, length } => prop_assert!(offset + length <= lengths[&file]),
                        Change::Grow { file, offset, length } => {
                            prop_assert_eq!(lengths.insert(file, offset + length), Some(offset));
                        }
                        Change::Cut { file, length } => prop_assert!(lengths.insert(file, length).expect("works") >= length),
                        Change::Delete { file } => prop_assert!(lengths.remove(&file).is_some()),
                    }
                    prop_assert!(lengths.values().sum::<u64>() <= files * each);
                    prop_assert!(lengths.values().all(|length| length % BLOCK_BYTES == 0));
                }
                prop_assert_eq!(lengths.len() as u64, files);
            }
        }
    }
}
