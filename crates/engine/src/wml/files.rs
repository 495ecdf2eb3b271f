//! The files of a fileset while a program runs, and their creation beforehand.

use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_wml::{Fileset, Pick, Population, Rand, Streams, Tree};

use super::content::{Content, Source};

/// The largest piece in which a file is written beforehand.
const PIECE: u64 = 1 << 20;
/// Threads that create the files of a fileset with `paralloc`.
const CREATORS: usize = 32;
/// How often a thread that waits looks whether it is to stop.
pub const LOOK: Duration = Duration::from_millis(100);

/// The lock's content; a thread that panicked while it held it has left whole data behind.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fileset while a program runs.
pub struct Files {
    pub name: String,
    pub tree: Tree,
    pub readonly: bool,
    pub writeonly: bool,
    /// How many files there were at the start.
    pub at_start: u32,
    top: Vec<u8>,
    members: Members,
    leaf_directories: Members,
    directory: AtomicUsize,
}

/// Members of a fileset of which each is used by one thread at a time. On cache lines of their own (two, as processors
/// fetch them): the lock in it is written all the time, and what lies beside it in `Files` is read for every path.
#[repr(align(128))]
struct Members {
    population: Mutex<Population>,
    released: Condvar,
    waiting: AtomicU32,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    LeafDirectory,
}

impl Files {
    pub fn new(fileset: &Fileset, top: &Path, tree: Tree) -> Self {
        let (files, leaves) = (tree.files.len() as u32, tree.leaf_directories.len() as u32);
        Self {
            name: fileset.name.clone(),
            tree,
            readonly: fileset.readonly,
            writeonly: fileset.writeonly,
            at_start: 0,
            top: top.as_os_str().as_bytes().to_vec(),
            members: Members::new(files),
            leaf_directories: Members::new(leaves),
            directory: AtomicUsize::new(0),
        }
    }

    /// How many files exist.
    pub fn count(&self) -> u32 {
        locked(&self.members.population).count()
    }

    fn members(&self, kind: Kind) -> &Members {
        match kind {
            Kind::File => &self.members,
            Kind::LeafDirectory => &self.leaf_directories,
        }
    }

    /// Takes a member; None when there is none to have, or `stopped` while waiting for one.
    pub fn pick(
        &self,
        kind: Kind,
        stopped: impl Fn() -> bool,
        mut pick: impl FnMut(&mut Population) -> Pick,
    ) -> Option<u32> {
        let members = self.members(kind);
        let mut population = locked(&members.population);
        loop {
            match pick(&mut population) {
                Pick::Taken(member) => return Some(member),
                Pick::None => return None,
                Pick::Wait if stopped() => return None,
                Pick::Wait => population = members.wait(population),
            }
        }
    }

    /// Waits until a certain member is nobody else's, and takes it; false: `stopped` meanwhile.
    pub fn take(&self, kind: Kind, member: u32, stopped: impl Fn() -> bool) -> bool {
        self.pick(
            kind,
            stopped,
            |population| {
                if population.take_this(member) { Pick::Taken(member) } else { Pick::Wait }
            },
        )
        .is_some()
    }

    /// Looks at the population, or changes it.
    pub fn with<T>(&self, kind: Kind, look: impl FnOnce(&mut Population) -> T) -> T {
        look(&mut locked(&self.members(kind).population))
    }

    /// Changes a member that was taken, and gives it back.
    pub fn release(&self, kind: Kind, member: u32, change: impl FnOnce(&mut Population)) {
        let members = self.members(kind);
        {
            let mut population = locked(&members.population);
            change(&mut population);
            population.release(member);
        }
        if members.waiting.load(Ordering::Acquire) > 0 {
            members.released.notify_all();
        }
    }

    /// How long the path of the fileset's own directory is.
    pub fn top_length(&self) -> usize {
        self.top.len()
    }

    /// The path of a file, with the zero at its end.
    pub fn file_path(&self, member: u32, path: &mut Vec<u8>) {
        self.path(path, |path| self.tree.write_file(member, path));
    }

    /// The path of the directory that a file is in.
    pub fn parent_path(&self, member: u32, path: &mut Vec<u8>) {
        self.path(path, |path| self.tree.write_directory(self.tree.files[member as usize].parent, path));
    }

    /// The path of an empty directory.
    pub fn leaf_path(&self, member: u32, path: &mut Vec<u8>) {
        self.path(path, |path| self.tree.write_leaf_directory(member, path));
    }

    /// The path of the next directory in turn.
    pub fn next_directory_path(&self, path: &mut Vec<u8>) {
        let number = self.directory.fetch_add(1, Ordering::Relaxed) % self.tree.directories.len();
        self.path(path, |path| self.tree.write_directory(number as u32, path));
    }

    fn path(&self, path: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        path.clear();
        path.extend_from_slice(&self.top);
        write(path);
        path.push(0);
    }

    fn path_buf(&self, write: impl FnOnce(&Self, &mut Vec<u8>)) -> PathBuf {
        let mut path = Vec::new();
        write(self, &mut path);
        path.pop();
        PathBuf::from(std::ffi::OsString::from_vec(path))
    }

    /// Makes the directories and those files that exist at the start; returns how many bytes were written.
    ///
    /// # Errors
    /// A sentence.
    pub fn create(&mut self, fileset: &Fileset, streams: &mut Streams, content: Content) -> Result<u64, String> {
        let top = self.path_buf(|files, path| files.path(path, |_| {}));
        let refuse = |error: io::Error| {
            let name = &fileset.name;
            format!("Fileset {name} cannot be created in {} ({error}); free or change the place.", top.display())
        };
        let is_there = fs::symlink_metadata(&top).is_ok();
        let reuse = fileset.reuse && is_there;
        if is_there && (top.is_symlink() || !top.is_dir()) {
            let (name, top) = (&fileset.name, top.display());
            return Err(format!(
                "Fileset {name} would be made in place of {top}, which is no directory; move that away."
            ));
        }
        if is_there && !reuse {
            fs::remove_dir_all(&top).map_err(refuse)?;
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o755);
        builder.create(&top).map_err(refuse)?;
        // Parents have smaller numbers than what is in them.
        builder.recursive(false);
        for number in 1..self.tree.directories.len() as u32 {
            let path = self.path_buf(|files, path| files.path(path, |path| files.tree.write_directory(number, path)));
            make_or_keep(&builder, &path).map_err(refuse)?;
        }
        let chosen = choose(self.tree.files.len() as u32, fileset.prealloc, streams);
        for &member in &chosen {
            locked(&self.members.population).set_exists(member, true);
        }
        let bytes = self.write_files(fileset, &chosen, reuse, content).map_err(refuse)?;
        for member in choose(self.tree.leaf_directories.len() as u32, fileset.prealloc, streams) {
            make_or_keep(&builder, &self.path_buf(|files, path| files.leaf_path(member, path))).map_err(refuse)?;
            locked(&self.leaf_directories.population).set_exists(member, true);
        }
        self.at_start = self.count();
        Ok(bytes)
    }

    /// Takes the files as [`Files::create`] left them.
    ///
    /// # Errors
    /// A sentence, when nothing was created.
    pub fn assume(&mut self, fileset: &Fileset, streams: &mut Streams) -> Result<u64, String> {
        let top = self.path_buf(|files, path| files.path(path, |_| {}));
        // A link in its place leads elsewhere.
        if !fs::symlink_metadata(&top).is_ok_and(|there| there.is_dir()) {
            return Err(format!(
                "{} is no directory that is there; create the files first, with --stage create.",
                top.display()
            ));
        }
        for number in 1..self.tree.directories.len() as u32 {
            let path = self.path_buf(|files, path| files.path(path, |path| files.tree.write_directory(number, path)));
            if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_dir()) {
                let (path, name) = (path.display(), &fileset.name);
                return Err(format!("{path} of fileset {name} is there and is no directory; move it away."));
            }
        }
        for member in choose(self.tree.files.len() as u32, fileset.prealloc, streams) {
            locked(&self.members.population).set_exists(member, true);
        }
        for member in choose(self.tree.leaf_directories.len() as u32, fileset.prealloc, streams) {
            locked(&self.leaf_directories.population).set_exists(member, true);
        }
        self.at_start = self.count();
        Ok(0)
    }

    fn write_files(&self, fileset: &Fileset, chosen: &[u32], reuse: bool, content: Content) -> io::Result<u64> {
        let creators = if fileset.paralloc { CREATORS.min(chosen.len()).max(1) } else { 1 };
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let creator = |number: usize| {
                let mut source = Source::new(content, 0, u64::MAX / 2 + number as u64, false);
                let zeros = vec![0; PIECE as usize];
                let mut bytes = 0;
                while let Some(&member) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let path = self.path_buf(|files, path| files.file_path(member, path));
                    let size = self.tree.files[member as usize].bytes;
                    bytes += write_file(&path, size, reuse, fileset.trusttree, &mut source, &zeros)?;
                }
                Ok(bytes)
            };
            let threads: Vec<_> = (1..creators).map(|number| scope.spawn(move || creator(number))).collect();
            let mut bytes: u64 = creator(0)?;
            for thread in threads {
                bytes += thread.join().unwrap_or_else(|_| Err(io::Error::other("a creating thread failed")))?;
            }
            Ok(bytes)
        })
    }
}

/// Which members exist at the start, in the order in which they are created. Each draws a number, also where all exist.
fn choose(members: u32, percent: u64, streams: &mut Streams) -> Vec<u32> {
    let mut unallocated = Population::new(members);
    let limit = (u64::from(Rand::MAX) * (100 - percent) / 100) as u32;
    let mut chosen = Vec::new();
    for _ in 0..members {
        let start = (streams.uniform() * f64::from(members)) as u64;
        let Pick::Taken(member) = unallocated.pick_indexed(start, false) else { break };
        unallocated.set_exists(member, true);
        unallocated.release(member);
        if streams.rand.number() > limit || limit == 0 {
            chosen.push(member);
        }
    }
    chosen
}

/// Makes a directory unless it is there; what is there in its place may be a link to elsewhere, and is not followed.
fn make_or_keep(builder: &fs::DirBuilder, path: &Path) -> io::Result<()> {
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::symlink_metadata(path)?.is_dir() {
            true => Ok(()),
            false => Err(io::Error::other(format!("{} is there and is no directory", path.display()))),
        },
        outcome => outcome,
    }
}

fn write_file(path: &Path, size: u64, reuse: bool, trust: bool, source: &mut Source, zeros: &[u8]) -> io::Result<u64> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o644).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    if reuse {
        match fs::symlink_metadata(path) {
            Ok(there) if !there.is_file() => {
                return Err(io::Error::other(format!("{} is there and is no file", path.display())));
            }
            Ok(_) if trust => return options.open(path).map(|_| 0),
            Ok(there) if there.len() == size => return Ok(0),
            Ok(there) if there.len() > size => {
                options.open(path)?.set_len(size)?;
                return Ok(0);
            }
            _ => {}
        }
    }
    let file = options.open(path)?;
    let mut left = size;
    while left > 0 {
        let length = left.min(PIECE) as usize;
        let piece = source.next(length).unwrap_or(&zeros[..length]);
        io::Write::write_all(&mut &file, piece)?;
        left -= length as u64;
    }
    Ok(size)
}

impl Members {
    fn new(members: u32) -> Self {
        Self { population: Mutex::new(Population::new(members)), released: Condvar::new(), waiting: AtomicU32::new(0) }
    }

    fn wait<'a>(&self, population: MutexGuard<'a, Population>) -> MutexGuard<'a, Population> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let (population, _) = self.released.wait_timeout(population, LOOK).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        population
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_exist_at_the_start_as_the_c_library_says() {
        let count = |members, percent| choose(members, percent, &mut Streams::new(None)).len();
        assert_eq!((count(1000, 80), count(10_000, 80)), (805, 7979));
        assert_eq!((count(1000, 100), count(1000, 0), count(0, 50)), (1000, 0, 0));
    }

    #[test]
    fn a_set_that_is_there_whole_draws_numbers_as_well() {
        let mut streams = Streams::new(None);
        choose(5, 100, &mut streams);
        // The sixth number of the C library after five.
        assert_eq!(streams.rand.number(), 424_238_335);
    }
}
