//! Programs made at random, run by the engine and by a slow reading of filebench's rules: the same counts, bytes and files.
//!
//! One thread, and nothing that draws: what a drawn number decides is tested by itself. The rules are those of
//! flowop_library.c and fileset.c of filebench 1.5.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{around, ran, temporary};
use crate::random::Random;

const FILES: usize = 8;
const LEAVES: usize = 4;
const LAID_OUT: u64 = 10_240;
const PROGRAMS: u64 = 100;
const PASSES: u64 = 12;

#[derive(Debug, Clone)]
struct Flowop {
    of: &'static str,
    fd: usize,
    iosize: u64,
    srcfd: Option<usize>,
    iters: u64,
}

impl Flowop {
    fn drawn(random: &mut Random) -> Self {
        const TYPES: &[&str] = &[
            "openfile",
            "openfile",
            "createfile",
            "closefile",
            "closefile",
            "deletefile",
            "statfile",
            "readwholefile",
            "writewholefile",
            "appendfile",
            "read",
            "write",
            "fsync",
            "fsyncset",
            "makedir",
            "removedir",
            "listdir",
            "hog",
            "print",
            "testrandvar",
            "eventlimit",
        ];
        let of = TYPES[random.below(TYPES.len() as u64) as usize];
        // A file that is asked for by slot has to be open there, which filebench does not look at.
        let fd = if of == "statfile" { 0 } else { random.below(3) as usize };
        let iosize = match (of, random.below(3)) {
            ("readwholefile" | "writewholefile", 0) => 0,
            _ => [1024, 3000, 4096, 16_384][random.below(4) as usize],
        };
        let srcfd = (of == "writewholefile" && random.below(2) == 0).then(|| random.below(3) as usize);
        Self { of, fd, iosize, srcfd, iters: 1 + u64::from(random.below(5) == 0) }
    }

    fn of(of: &'static str, fd: usize, random: &mut Random) -> Self {
        let iosize = [1024, 3000, 4096, 16_384][random.below(4) as usize];
        Self { of, fd, iosize, srcfd: None, iters: 1 }
    }

    /// Some that fit together, as people write them, or a single one that may not.
    fn together(random: &mut Random) -> Vec<Self> {
        let fd = random.below(3) as usize;
        let types: &[&str] = match random.below(4) {
            0 => &["deletefile", "createfile", "appendfile", "write", "closefile"],
            1 => &["openfile", "readwholefile", "read", "writewholefile", "fsync", "fsyncset", "closefile"],
            2 => &["removedir", "makedir", "listdir"],
            _ => return vec![Self::drawn(random)],
        };
        types.iter().map(|of| Self::of(of, if *of == "deletefile" { 0 } else { fd }, random)).collect()
    }

    fn text(&self, name: usize) -> String {
        let srcfd = self.srcfd.map(|slot| format!(",srcfd={slot}")).unwrap_or_default();
        let more = match self.of {
            "hog" | "testrandvar" => ",value=3".to_owned(),
            "print" | "eventlimit" => String::new(),
            "closefile" | "fsync" => format!(",fd={}", self.fd),
            "fsyncset" | "makedir" | "removedir" | "listdir" => ",filesetname=set".to_owned(),
            "openfile" | "createfile" | "deletefile" | "statfile" => format!(",filesetname=set,fd={}", self.fd),
            _ if self.iosize == 0 => format!(",filesetname=set,fd={}{srcfd}", self.fd),
            _ => format!(",filesetname=set,fd={},iosize={}{srcfd}", self.fd, self.iosize),
        };
        format!("flowop {} name=f{name}{more},iters={}\n", self.of, self.iters)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The file on disk that is open, by its number, and where its next read or write is.
    open: Option<(usize, u64)>,
    /// The entry of the set that it was opened as: kept when it is closed, forgotten when it is deleted by its slot.
    entry: Option<usize>,
    deleted: bool,
}

/// How a flowop ends that does not go on.
#[derive(Debug, PartialEq)]
enum End {
    NoFile,
    Error,
}

/// What a set has, and the rotors that entries are picked by.
struct Entries {
    exists: Vec<bool>,
    next_existing: usize,
    next_missing: usize,
}

impl Entries {
    fn pick(&mut self, exists: bool) -> Result<usize, End> {
        let count = self.exists.len();
        let rotor = if exists { &mut self.next_existing } else { &mut self.next_missing };
        let found = (0..count).map(|step| (*rotor + step) % count).find(|entry| self.exists[*entry] == exists);
        let entry = found.ok_or(End::NoFile)?;
        *rotor = entry + 1;
        Ok(entry)
    }
}

struct Rules {
    files: Entries,
    leaves: Entries,
    opens: Vec<i64>,
    /// By the number of the file on disk. A deleted entry that is created again gets a new number.
    sizes: Vec<u64>,
    on_disk: Vec<usize>,
    slots: [Slot; 3],
    /// By flowop: operations, bytes, deletes that were skipped.
    counts: Vec<(u64, u64, u64)>,
}

impl Rules {
    fn new(flowops: usize) -> Self {
        let entries = |count| Entries { exists: vec![true; count], next_existing: 0, next_missing: 0 };
        Self {
            files: entries(FILES),
            leaves: entries(LEAVES),
            opens: vec![0; FILES],
            sizes: vec![LAID_OUT; FILES],
            on_disk: (0..FILES).collect(),
            slots: [Slot::default(); 3],
            counts: vec![(0, 0, 0); flowops],
        }
    }

    fn count(&mut self, number: usize, bytes: u64) {
        self.counts[number].0 += 1;
        self.counts[number].1 += bytes;
    }

    fn open(&mut self, number: usize, fd: usize) -> Result<(), End> {
        let entry = self.files.pick(true)?;
        self.slots[fd] = Slot { open: Some((self.on_disk[entry], 0)), entry: Some(entry), deleted: false };
        self.opens[entry] += 1;
        self.count(number, 0);
        Ok(())
    }

    /// The open file of a slot; one is opened into it when there is none.
    fn setup(&mut self, number: usize, fd: usize) -> Result<(usize, u64), End> {
        if self.slots[fd].open.is_none() {
            self.open(number, fd)?;
        }
        self.slots[fd].open.ok_or(End::Error)
    }

    fn write(&mut self, fd: usize, at: u64, bytes: u64) {
        if let Some((file, place)) = &mut self.slots[fd].open {
            *place = at + bytes;
            self.sizes[*file] = self.sizes[*file].max(at + bytes);
        }
    }

    fn perform(&mut self, number: usize, flowop: &Flowop) -> Result<(), End> {
        let fd = flowop.fd;
        match flowop.of {
            "openfile" if self.slots[fd].open.is_some() => return Err(End::Error),
            "openfile" => self.open(number, fd)?,
            "createfile" if self.slots[fd].open.is_some() => return Err(End::Error),
            "createfile" => {
                let entry = self.files.pick(false)?;
                self.files.exists[entry] = true;
                self.on_disk[entry] = self.sizes.len();
                self.slots[fd] = Slot { open: Some((self.sizes.len(), 0)), entry: Some(entry), deleted: false };
                self.sizes.push(0);
                self.opens[entry] += 1;
                self.count(number, 0);
            }
            "closefile" => {
                let (Some(_), Some(entry)) = (self.slots[fd].open, self.slots[fd].entry) else {
                    return Err(End::Error);
                };
                self.slots[fd].open = None;
                self.opens[entry] -= 1;
                self.count(number, 0);
            }
            "deletefile" => {
                let own = fd > 0 && !self.slots[fd].deleted;
                let entry = match self.slots[fd].entry.filter(|_| own) {
                    Some(entry) => {
                        self.slots[fd].deleted = true;
                        entry
                    }
                    None => self.files.pick(true)?,
                };
                if self.opens[entry] > i64::from(fd > 0 && self.slots[fd].open.is_some()) {
                    self.counts[number].2 += 1;
                    return Ok(());
                }
                self.files.exists[entry] = false;
                self.opens[entry] = 0;
                self.count(number, 0);
            }
            "statfile" => {
                self.files.pick(true)?;
                self.count(number, 0);
            }
            "readwholefile" => {
                let (file, _) = self.setup(number, fd)?;
                self.slots[fd].open = Some((file, self.sizes[file]));
                self.count(number, self.sizes[file]);
            }
            "writewholefile" => {
                let (_, mut at) = self.setup(number, fd)?;
                let source = flowop.srcfd.unwrap_or(0);
                if source > 0 && (self.slots[source].entry.is_none() || self.slots[source].deleted) {
                    return Err(End::Error);
                }
                let piece = if flowop.iosize == 0 { LAID_OUT } else { flowop.iosize }.min(LAID_OUT);
                let pieces = LAID_OUT.div_ceil(piece);
                for _ in 0..pieces {
                    self.write(fd, at, piece);
                    at += piece;
                }
                self.count(number, pieces * piece);
            }
            "appendfile" => {
                let (file, _) = self.setup(number, fd)?;
                self.write(fd, self.sizes[file], flowop.iosize);
                self.count(number, flowop.iosize);
            }
            "read" => {
                let (file, at) = self.setup(number, fd)?;
                let bytes = self.sizes[file].saturating_sub(at).min(flowop.iosize);
                self.slots[fd].open = Some((file, if bytes == 0 { 0 } else { at + bytes }));
                self.count(number, bytes);
            }
            "write" => {
                let (_, at) = self.setup(number, fd)?;
                self.write(fd, at, flowop.iosize);
                self.count(number, flowop.iosize);
            }
            "fsync" if self.slots[fd].open.is_none() => return Err(End::Error),
            "fsync" | "listdir" => self.count(number, 0),
            "hog" => self.count(number, 0),
            "fsyncset" => {
                let known = self.slots.iter().filter(|slot| slot.entry.is_some() && !slot.deleted).count();
                self.counts[number].0 += known as u64;
            }
            "makedir" | "removedir" => {
                let entry = self.leaves.pick(flowop.of == "removedir")?;
                self.leaves.exists[entry] = flowop.of == "makedir";
                self.count(number, 0);
            }
            // Neither a message nor a number nor a limit without a rate is an operation.
            "print" | "testrandvar" | "eventlimit" => {}
            other => unreachable!("{other}"),
        }
        Ok(())
    }

    /// Until a flowop ends it, or so many passes are done.
    fn run(&mut self, flowops: &[Flowop]) -> Option<End> {
        for _ in 0..PASSES {
            for (number, flowop) in flowops.iter().enumerate() {
                for _ in 0..flowop.iters {
                    if let Err(end) = self.perform(number, flowop) {
                        return Some(end);
                    }
                }
            }
        }
        None
    }

    fn files(&self) -> Vec<u64> {
        let entries = (0..FILES).filter(|entry| self.files.exists[*entry]);
        sorted(entries.map(|entry| self.sizes[self.on_disk[entry]]).collect())
    }
}

fn sorted(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable();
    sizes
}

/// The sizes of all files below a directory, and how many directories are empty.
fn found(directory: &Path) -> (Vec<u64>, usize) {
    let (mut sizes, mut empty, mut left) = (Vec::new(), 0, vec![directory.to_owned()]);
    while let Some(path) = left.pop() {
        let entries: Vec<_> = fs::read_dir(path).expect("works").map(|entry| entry.expect("works")).collect();
        empty += usize::from(entries.is_empty());
        for entry in entries {
            let metadata = entry.metadata().expect("works");
            if metadata.is_dir() { left.push(entry.path()) } else { sizes.push(metadata.len()) }
        }
    }
    (sorted(sizes), empty)
}

#[test]
fn a_hundred_programs_count_what_the_rules_count() {
    let mut ends = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for seed in 0..PROGRAMS {
        let mut random = Random::new(seed, 0);
        let flowops: Vec<Flowop> = (0..1 + random.below(4)).flat_map(|_| Flowop::together(&mut random)).collect();
        // The last one counts passes.
        let text: String = flowops.iter().enumerate().map(|(number, flowop)| flowop.text(number)).collect();
        let end = format!("flowop hog name=pass,value=1\nflowop finishoncount name=end,value={PASSES},target=pass");
        let directory = temporary();
        let program = around(directory.path(), "", &format!("{text}{end}"))
            .replace("prealloc=50", "prealloc=100")
            .replace("thread name=t", "thread name=t,memsize=64k");
        let report = ran(directory.path(), &program);
        let mut rules = Rules::new(flowops.len());
        let expected = rules.run(&flowops);
        let told = format!("seed {seed}, {expected:?}, {}\n{program}", report.ended.why);
        assert_eq!(report.ended.early, expected == Some(End::Error), "{told}");
        for (number, &(count, bytes, skipped)) in rules.counts.iter().enumerate() {
            let name = format!("f{number}");
            let of = report.flowops.iter().find(|flowop| flowop.name == name).expect("is there");
            // How long the entries of a directory are is the system's to say.
            let moved = if flowops[number].of == "listdir" { 0 } else { of.bytes };
            assert_eq!((of.count, moved, of.skipped), (count, bytes, skipped), "{name}: {told}");
            *seen.entry(flowops[number].of).or_insert(0) += count + skipped;
        }
        let leaves = rules.leaves.exists.iter().filter(|exists| **exists).count();
        let (sizes, empty) = found(&directory.path().join("set"));
        assert_eq!(sizes, rules.files(), "{told}");
        assert!(empty >= leaves, "{told}");
        *ends.entry(format!("{expected:?}")).or_insert(0) += 1;
    }
    // All of it was tried: every flowop that counts, and every end.
    assert!(ends.len() == 3 && ends.values().all(|times| *times >= 5), "{ends:?}");
    let counted = seen.values().filter(|count| **count > 20).count();
    assert_eq!(counted, 16, "{seen:?}");
}
