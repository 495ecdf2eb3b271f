//! Which files and directories a fileset consists of. The order of the random draws is part of the language: a tree is the
//! same, to the byte, everywhere.

use std::collections::BTreeMap;
use std::fmt;

use crate::distribution::{Number, Stream};
use crate::program::Fileset;
use crate::random::{Rand, Rand48, Uniform, gamma};

/// The parent of the top directory.
pub const NO_PARENT: u32 = u32::MAX;
/// More would make paths longer than the kernel takes.
const DEEPEST: u32 = 400;
/// Files, and directories, at most: their numbers have 32 bits.
const MOST: u64 = 2_000_000_000;
/// Directories in a row that have nothing in them, after which none will.
const MOST_BARREN: u32 = 1_000_000;

/// A directory: its number is its place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directory {
    /// The number of the directory it is in, or [`NO_PARENT`].
    pub parent: u32,
    /// Its name is this number with eight digits.
    pub serial: u32,
}

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its size when it is created beforehand.
    pub bytes: u64,
    /// The number of the directory it is in.
    pub parent: u32,
    /// Its name is this number with eight digits.
    pub serial: u32,
}

/// The files and directories of a fileset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// The first is the top one, which has the fileset's name.
    pub directories: Vec<Directory>,
    /// In the order of their index.
    pub files: Vec<File>,
    /// Empty directories, in the order of their index.
    pub leaf_directories: Vec<Directory>,
}

impl Tree {
    /// Bytes of all files together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Appends `/00000001/...` to `path`, down to directory `number`.
    pub fn write_directory(&self, number: u32, path: &mut Vec<u8>) {
        let Some(directory) = self.directories.get(number as usize) else { return };
        if directory.parent != NO_PARENT {
            self.write_directory(directory.parent, path);
            write_name(directory.serial, path);
        }
    }

    /// Appends `/00000001/...` to `path`, down to file `index`.
    pub fn write_file(&self, index: u32, path: &mut Vec<u8>) {
        let Some(file) = self.files.get(index as usize) else { return };
        self.write_directory(file.parent, path);
        write_name(file.serial, path);
    }

    /// Appends `/00000001/...` to `path`, down to empty directory `index`.
    pub fn write_leaf_directory(&self, index: u32, path: &mut Vec<u8>) {
        let Some(directory) = self.leaf_directories.get(index as usize) else { return };
        self.write_directory(directory.parent, path);
        write_name(directory.serial, path);
    }
}

/// Appends `/` and a serial number with at least eight digits.
pub fn write_name(serial: u32, path: &mut Vec<u8>) {
    let mut digits = *b"/0000000000";
    let mut rest = serial;
    for digit in digits[1..].iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let extra = digits[1..3].iter().position(|&digit| digit != b'0').map_or(0, |at| 2 - at);
    path.push(b'/');
    path.extend_from_slice(&digits[3 - extra..]);
}

/// Why a fileset cannot be laid out: a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutError(pub String);

impl fmt::Display for LayoutError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// The streams of random numbers of a layout: they continue from one fileset to the next.
#[derive(Debug, Clone)]
pub struct Streams {
    layout: Rand48,
    own: BTreeMap<usize, Rand48>,
    seed: u32,
    /// Decides which files exist at the start.
    pub rand: Rand,
}

impl Streams {
    /// As filebench has them without a seed; with one, others.
    #[must_use]
    pub fn new(seed: Option<u32>) -> Self {
        Self {
            layout: seed.map_or_else(Rand48::default, Rand48::seeded),
            own: BTreeMap::new(),
            seed: seed.unwrap_or(0),
            rand: Rand::new(seed.unwrap_or(1)),
        }
    }

    /// The next number for a use in a layout.
    fn draw(&mut self, number: &Number) -> f64 {
        let Number::Random(distribution) = number else { return number.mean() };
        match distribution.stream {
            Stream::Layout => distribution.draw(&mut self.layout),
            Stream::Own(state) => {
                let seed = u64::from(self.seed);
                number.draw(self.own.entry(distribution.id).or_insert_with(|| Rand48::new(state ^ (seed << 16))))
            }
            Stream::Free => {
                let start = (distribution.id as u32).wrapping_add(self.seed);
                number.draw(self.own.entry(distribution.id).or_insert_with(|| Rand48::seeded(start)))
            }
        }
    }

    fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        gamma(&mut self.layout, shape, mean / shape)
    }

    /// A number from 0 up to, but without, 1, for whatever has no stream of its own.
    pub fn uniform(&mut self) -> f64 {
        let start = self.seed;
        self.own.entry(usize::MAX).or_insert_with(|| Rand48::seeded(start)).uniform()
    }
}

/// A directory whose entries are being made.
struct Open {
    number: u32,
    depth: u32,
    leaf: bool,
    width: f64,
    made: u32,
    /// How many there were when the loop that runs began.
    before: u32,
    /// Files are done: these are the empty directories.
    second: bool,
}

/// Lays out one fileset. Filesets of one program are laid out in the reverse order of their definition, on the same streams.
///
/// # Errors
/// A sentence, when the directories would be too many or too deep.
pub fn lay_out(fileset: &Fileset, streams: &mut Streams) -> Result<Tree, LayoutError> {
    let fail = |why: String| Err(LayoutError(format!("Fileset {} cannot be laid out: {why}.", fileset.name)));
    let mean_width = fileset.dirwidth.mean();
    if mean_width == 1.0 {
        return fail("with dirwidth=1 its directories would never end; give it at least 2".to_owned());
    }
    if fileset.entries > MOST || fileset.leafdirs > MOST {
        return fail(format!("it has more than {MOST} entries; give it fewer"));
    }
    let entries = fileset.entries as usize;
    let leaf_directories = fileset.leafdirs as usize;
    let mean_depth = ((entries + leaf_directories) as f64).ln() / mean_width.ln();
    let depths = match &fileset.dirdepth {
        Some(Number::Random(distribution)) => {
            Some(Number::Random(std::sync::Arc::new(distribution.with_mean(mean_depth))))
        }
        other => other.clone(),
    };
    let shape = fileset.dirgamma as f64 / 1000.0;
    let mut tree = Tree::default();
    let room = tree.files.try_reserve_exact(entries).and(tree.leaf_directories.try_reserve_exact(leaf_directories));
    if room.is_err() {
        return fail("there is no memory for so many entries; give it fewer".to_owned());
    }
    let mut barren = 0;
    let mut open: Vec<Open> = Vec::new();

    let begin = |tree: &mut Tree, streams: &mut Streams, parent: u32, serial: u32, depth: u32| {
        let drawn_depth = match &depths {
            Some(depths) => streams.draw(depths),
            None if shape > 0.0 => streams.gamma(shape, mean_depth),
            None => mean_depth,
        };
        let width = match &fileset.dirwidth {
            random @ Number::Random(_) => streams.draw(random),
            Number::Whole(_) if shape > 0.0 => streams.gamma(shape, mean_width),
            Number::Whole(_) => mean_width,
        };
        let leaf_depth = if drawn_depth as i64 == 0 { 1 } else { drawn_depth as i64 };
        let number = tree.directories.len() as u32;
        tree.directories.push(Directory { parent, serial });
        Open {
            number,
            depth,
            leaf: parent != NO_PARENT && i64::from(depth) >= leaf_depth,
            width: if width == 0.0 { 1.0 } else { width },
            made: 0,
            before: 0,
            second: false,
        }
    };

    open.push(begin(&mut tree, streams, NO_PARENT, 0, 1));
    while let Some(here) = open.last_mut() {
        let root = here.depth == 1;
        let missing =
            if here.second { tree.leaf_directories.len() < leaf_directories } else { tree.files.len() < entries };
        if !missing || !(root || f64::from(here.made - here.before + 1) < here.width + 1.0) {
            if here.second {
                barren = if here.made == 0 { barren + 1 } else { 0 };
                if barren > MOST_BARREN {
                    return fail("no directory gets an entry; give it a dirwidth above 0".to_owned());
                }
                open.pop();
            } else {
                // filebench counts from 1 again, so that names could be there twice; here they go on.
                here.second = true;
                here.before = here.made;
            }
            continue;
        }
        here.made += 1;
        let (number, serial, depth) = (here.number, here.made, here.depth);
        if !here.leaf {
            if depth >= DEEPEST || tree.directories.len() as u64 >= MOST {
                return fail("its directories are too many or too deep; give it a larger dirwidth".to_owned());
            }
            open.push(begin(&mut tree, streams, number, serial, depth + 1));
        } else if here.second {
            tree.leaf_directories.push(Directory { parent: number, serial });
        } else {
            let bytes = streams.draw(&fileset.size) as u64;
            tree.files.push(File { bytes, parent: number, serial });
        }
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_at_least_eight_digits() {
        for (serial, name) in
            [(1, "/00000001"), (12_345_678, "/12345678"), (4_294_967_295, "/4294967295"), (123_456_789, "/123456789")]
        {
            let mut path = Vec::new();
            write_name(serial, &mut path);
            assert_eq!(String::from_utf8(path).expect("digits"), name);
        }
    }
}
