//! The ceiling for `strata-engine wml run`: the system calls of varmail, fileserver or webserver in a plain loop.
//!
//! The same files, the same choice of files, the same memory and two looks at the clock for each operation, but no
//! language, no slots, no statistics and no limits: paths are made beforehand. Used by `benchmarks/wml_speed.py`.
//!
//! Usage: `wml_plain_loop varmail|fileserver|webserver DIRECTORY FILES THREADS SECONDS`, in a directory with the files that
//! `strata-engine wml run builtin:NAME --stage create` has made. Prints operations per second and CPU microseconds for each.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::fs::{Mode, OFlags, SeekFrom, fsync, open, seek, stat, unlink};
use rustix::io::{Errno, read, write};
use strata_wml::{Options, Pick, Population, Streams, lay_out, parse, resolve};

const MEMORY: usize = 10 << 20;
const PIECE: usize = 1 << 20;
const APPEND: u64 = 16 << 10;

struct Files {
    paths: Vec<CString>,
    parents: Vec<CString>,
    sizes: Vec<u64>,
    population: Mutex<Population>,
}

impl Files {
    fn locked(&self) -> MutexGuard<'_, Population> {
        self.population.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pick(&self, exists: bool) -> Result<usize, Errno> {
        let mut population = self.locked();
        match if exists { population.pick_existing(None) } else { population.pick_missing() } {
            Pick::Taken(member) => Ok(member as usize),
            _ => Err(Errno::NOENT),
        }
    }

    fn release(&self, member: usize, change: impl FnOnce(&mut Population)) {
        let mut population = self.locked();
        change(&mut population);
        population.release(member as u32);
    }
}

struct Thread<'a> {
    files: &'a Files,
    memory: Vec<u8>,
    random: u64,
    clock: Instant,
    seen: Duration,
    operations: u64,
}

impl Thread<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    /// Where in the memory so many bytes are moved from or to: filebench draws it, so that data come from cold memory.
    fn place(&mut self, length: usize) -> usize {
        let places = MEMORY.checked_div(length).unwrap_or(1);
        self.below(places as u64) as usize * length
    }

    /// One operation with the clock looked at before and after.
    fn timed<T>(&mut self, go: impl FnOnce(&mut Self) -> Result<T, Errno>) -> Result<T, Errno> {
        let before = self.clock.elapsed();
        let outcome = go(self);
        self.seen += self.clock.elapsed() - before;
        self.operations += 1;
        outcome
    }

    fn open(&mut self, flags: OFlags) -> Result<(OwnedFd, usize), Errno> {
        let member = self.files.pick(true)?;
        let fd = self.timed(|thread| {
            let fd = open(&*thread.files.paths[member], flags, Mode::empty());
            thread.files.release(member, |population| population.opened(member as u32));
            fd
        })?;
        Ok((fd, member))
    }

    fn create(&mut self) -> Result<(OwnedFd, usize), Errno> {
        let member = self.files.pick(false)?;
        let fd = self.timed(|thread| {
            stat(&*thread.files.parents[member])?;
            let fd = open(&*thread.files.paths[member], OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o666));
            thread.files.release(member, |population| {
                population.set_exists(member as u32, true);
                population.opened(member as u32);
            });
            fd
        })?;
        Ok((fd, member))
    }

    fn close(&mut self, (fd, member): (OwnedFd, usize)) -> Result<(), Errno> {
        self.timed(|thread| {
            drop(fd);
            thread.files.release(member, |population| population.closed(member as u32));
            Ok(())
        })
    }

    fn delete(&mut self) -> Result<(), Errno> {
        let member = self.files.pick(true)?;
        if self.files.locked().open_count(member as u32) > 0 {
            self.files.release(member, |_| {});
            return Ok(());
        }
        self.timed(|thread| {
            let outcome = unlink(&*thread.files.paths[member]);
            thread.files.release(member, |population| population.set_exists(member as u32, false));
            outcome
        })
    }

    fn read_whole(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        let at = self.place(PIECE);
        self.timed(|thread| {
            seek(fd, SeekFrom::Start(0))?;
            while read(fd, &mut thread.memory[at..at + PIECE])? > 0 {}
            Ok(())
        })
    }

    fn append(&mut self, fd: &OwnedFd) -> Result<(), Errno> {
        let length = self.below(APPEND - 1) as usize;
        let at = self.place(length);
        self.timed(|thread| {
            if length > 0 {
                seek(fd, SeekFrom::End(0))?;
                write(fd, &thread.memory[at..at + length])?;
            }
            Ok(())
        })
    }

    fn varmail(&mut self) -> Result<(), Errno> {
        self.delete()?;
        let file = self.create()?;
        self.append(&file.0)?;
        self.timed(|_| fsync(&file.0))?;
        self.close(file)?;
        let file = self.open(OFlags::RDWR)?;
        self.read_whole(&file.0)?;
        self.append(&file.0)?;
        self.timed(|_| fsync(&file.0))?;
        self.close(file)?;
        let file = self.open(OFlags::RDWR)?;
        self.read_whole(&file.0)?;
        self.close(file)
    }

    fn fileserver(&mut self) -> Result<(), Errno> {
        let file = self.create()?;
        let length = self.files.sizes[file.1] as usize;
        let at = self.place(length);
        self.timed(|thread| write(&file.0, &thread.memory[at..at + length]))?;
        self.close(file)?;
        let file = self.open(OFlags::RDWR)?;
        self.append(&file.0)?;
        self.close(file)?;
        let file = self.open(OFlags::RDWR)?;
        self.read_whole(&file.0)?;
        self.close(file)?;
        self.delete()?;
        let member = self.files.pick(true)?;
        self.timed(|thread| {
            let outcome = stat(&*thread.files.paths[member]).map(drop);
            thread.files.release(member, |_| {});
            outcome
        })
    }

    fn webserver(&mut self, log: &OwnedFd) -> Result<(), Errno> {
        for _ in 0..10 {
            let file = self.open(OFlags::RDONLY)?;
            self.read_whole(&file.0)?;
            self.close(file)?;
        }
        self.append(log)
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn cpu_us() -> Result<f64, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64)
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory, files, threads, seconds] = arguments.as_slice() else {
        return Err("usage: wml_plain_loop varmail|fileserver|webserver DIRECTORY FILES THREADS SECONDS".into());
    };
    let (threads, seconds): (usize, u64) = (threads.parse()?, seconds.parse()?);
    let text = std::fs::read_to_string(format!("{}/src/wml/builtin/{name}.f", env!("CARGO_MANIFEST_DIR")))?;
    let (script, findings) = parse(&text);
    let set = vec![("nfiles".to_owned(), files.clone())];
    let program = resolve(&script, findings, &Options { set, ..Options::default() }).program.ok_or("cannot run")?;
    let (mut streams, mut log) = (Streams::new(None), None);
    let mut found = Err("no fileset".into());
    for fileset in program.filesets.iter().rev() {
        let tree = lay_out(fileset, &mut streams).map_err(|error| error.to_string())?;
        let path = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut path = format!("{directory}/{}", fileset.name).into_bytes();
            write(&mut path);
            CString::new(path)
        };
        let count = tree.files.len() as u32;
        let paths = (0..count).map(|file| path(&|to| tree.write_file(file, to))).collect::<Result<Vec<_>, _>>()?;
        if fileset.name == "logfiles" {
            log = Some(paths[0].clone());
            continue;
        }
        let parents = (0..count)
            .map(|file| path(&|to| tree.write_directory(tree.files[file as usize].parent, to)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut population = Population::new(count);
        for (member, path) in paths.iter().enumerate() {
            let path: &CStr = path;
            population.set_exists(member as u32, stat(path).is_ok());
        }
        let sizes = tree.files.iter().map(|file| file.bytes).collect();
        found = Ok::<_, Failure>(Files { paths, parents, sizes, population: Mutex::new(population) });
    }
    let files = Arc::new(found?);
    let (stop, total) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let go = Arc::new(Barrier::new(threads + 1));
    let mut handles = Vec::new();
    for number in 0..threads {
        let (files, stop, total, go) = (Arc::clone(&files), Arc::clone(&stop), Arc::clone(&total), Arc::clone(&go));
        let (name, log) = (name.clone(), log.clone());
        handles.push(std::thread::spawn(move || -> Result<(), Errno> {
            let log = log.map(|path| open(&*path, OFlags::RDWR, Mode::empty())).transpose()?;
            let mut thread = Thread {
                files: &files,
                memory: vec![1; MEMORY],
                random: number as u64 + 1,
                clock: Instant::now(),
                seen: Duration::ZERO,
                operations: 0,
            };
            go.wait();
            while !stop.load(Ordering::Relaxed) {
                match (name.as_str(), &log) {
                    ("varmail", _) => thread.varmail()?,
                    ("fileserver", _) => thread.fileserver()?,
                    (_, Some(log)) => thread.webserver(log)?,
                    _ => return Err(Errno::INVAL),
                }
            }
            std::hint::black_box(thread.seen);
            total.fetch_add(thread.operations, Ordering::Relaxed);
            Ok(())
        }));
    }
    go.wait();
    let (began, cpu) = (Instant::now(), cpu_us()?);
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let outcomes: Vec<_> = handles.into_iter().map(std::thread::JoinHandle::join).collect();
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_us()? - cpu);
    for outcome in outcomes {
        outcome.map_err(|_| "a thread failed")??;
    }
    let operations = total.load(Ordering::Relaxed) as f64;
    println!("{} {}", operations / seconds, cpu / operations);
    Ok(())
}
