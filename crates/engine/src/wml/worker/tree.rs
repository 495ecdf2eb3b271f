//! Flowops on the tree of files: pick, open, create, close, delete, ask, and directories.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use strata_wml::Flowop;

use super::super::Fix;
use super::super::files::Kind;
use super::super::system::System;
use super::{Halt, Outcome, Outcomes, SLOTS, Slot, Step, Worker, add, closed, done, text, thread_cpu_ns};

impl<S: System> Worker<'_, S> {
    /// The slot that a flowop uses.
    pub(super) fn slot(&mut self, flowop: &Flowop) -> usize {
        if flowop.opennext && flowop.fd == 0 {
            self.slot_rotor = self.slot_rotor.checked_sub(1).unwrap_or(SLOTS - 1);
            self.slot_rotor = self.slot_rotor.min(SLOTS - 1);
            self.slot_rotor
        } else {
            flowop.fd
        }
    }

    pub(super) fn fileset(flowop: &Flowop) -> Result<usize, Halt> {
        flowop.fileset.ok_or_else(|| {
            let why = "it has neither an open file in its slot nor a fileset; give it filesetname=NAME";
            Halt::Failed(why.to_owned(), None)
        })
    }

    /// Takes a file that exists, or does not.
    pub(super) fn pick(&mut self, flowop: &Flowop, kind: Kind, exists: bool) -> Result<(usize, u32), Halt> {
        let set = Self::fileset(flowop)?;
        let index = flowop.indexed.as_ref().map(|number| number.draw(&mut self.random));
        let shared = self.shared;
        let files = &shared.files[set];
        let own = if flowop.opennext && exists { Some(&mut self.rotors[set]) } else { None };
        let mut own = own;
        let member = files.pick(
            kind,
            || shared.stopped(),
            |population| match index {
                Some(index) if kind == Kind::LeafDirectory => {
                    population.pick_indexed((index * f64::from(population.members() / 2)) as u64, exists)
                }
                Some(index) => population.pick_indexed(index as u64, exists),
                None if exists => population.pick_existing(own.as_deref_mut()),
                None => population.pick_missing(),
            },
        );
        match member {
            Some(member) => Ok((set, member)),
            None if shared.stopped() => Err(Halt::Stop),
            None if exists => Err(Halt::NoResource("no file of its fileset was there and free")),
            None => Err(Halt::NoResource("every file of its fileset was there already")),
        }
    }

    pub(super) fn flags(&self, flowop: &Flowop, set: usize, create: bool) -> OFlags {
        let files = &self.shared.files[set];
        let mut flags = match (files.readonly, files.writeonly) {
            (true, _) => OFlags::RDONLY,
            (_, true) => OFlags::WRONLY,
            _ => OFlags::RDWR,
        };
        // A link in a tree that was there before may lead elsewhere.
        flags |= OFlags::NOFOLLOW;
        if create {
            flags |= OFlags::CREATE;
        }
        if flowop.dsync {
            // O_DSYNC from nix: what rustix calls so is O_SYNC.
            let dsync = OFlags::from_bits_retain(nix::fcntl::OFlag::O_DSYNC.bits() as u32);
            flags |= if self.shared.fixed(Fix::Dsync) { dsync } else { OFlags::SYNC };
        }
        if flowop.directio {
            flags |= OFlags::DIRECT;
        }
        flags
    }

    pub(super) fn open_file(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        if self.slots[slot].fd.is_some() {
            return Err(Halt::Failed(format!("slot {slot} is open already; close it first"), None));
        }
        let start = self.open_into(flowop, slot)?;
        Ok(done(start, self.shared.now(), 0))
    }

    /// Opens an existing file into a slot; returns when that began.
    pub(super) fn open_into(&mut self, flowop: &Flowop, slot: usize) -> Result<u64, Halt> {
        let (set, member) = self.pick(flowop, Kind::File, true)?;
        let flags = self.flags(flowop, set, false);
        let start = self.shared.now();
        self.shared.files[set].file_path(member, &mut self.path);
        let opened = self.shared.system.open(text(&self.path), flags, 0);
        let fd = match opened {
            Ok(fd) => fd,
            Err(errno) => {
                self.shared.files[set].release(Kind::File, member, |_| {});
                return Err(errno.into());
            }
        };
        self.shared.files[set].release(Kind::File, member, |population| population.opened(member));
        if flowop.noreadahead {
            self.shared.system.advise_random(fd.as_fd())?;
        }
        self.slots[slot] = Slot::new(fd, (set, member));
        Ok(start)
    }

    pub(super) fn create_file(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        if self.slots[slot].fd.is_some() {
            return Err(Halt::Failed(format!("slot {slot} is open already; close it first"), None));
        }
        let (set, member) = self.pick(flowop, Kind::File, false)?;
        let flags = self.flags(flowop, set, true);
        let shared = self.shared;
        let files = &shared.files[set];
        let start = shared.now();
        files.parent_path(member, &mut self.parent);
        let created = self.make_parent(files.top_length()).and_then(|()| {
            files.file_path(member, &mut self.path);
            shared.system.open(text(&self.path), flags, 0o666)
        });
        let fd = match created {
            Ok(fd) => fd,
            Err(errno) => {
                files.release(Kind::File, member, |_| {});
                return Err(errno.into());
            }
        };
        files.release(Kind::File, member, |population| {
            population.set_exists(member, true);
            population.opened(member);
        });
        if flowop.noreadahead {
            shared.system.advise_random(fd.as_fd())?;
        }
        self.slots[slot] = Slot::new(fd, (set, member));
        Ok(done(start, shared.now(), 0))
    }

    /// Looks whether the directory in `self.parent` is there, and makes it and those above it when not: but not that of the
    /// fileset. When that is gone, so may be the file system it was on, and what lies under its mount point is not ours.
    pub(super) fn make_parent(&mut self, top_length: usize) -> Result<(), Errno> {
        let system = &self.shared.system;
        match system.stat(text(&self.parent)) {
            Err(Errno::NOENT) => {}
            outcome => return outcome,
        }
        let ends: Vec<usize> = self
            .parent
            .iter()
            .enumerate()
            .skip(top_length + 1)
            .filter(|(_, byte)| matches!(byte, b'/' | 0))
            .map(|(at, _)| at)
            .collect();
        for end in ends {
            self.path.clear();
            self.path.extend_from_slice(&self.parent[..end]);
            self.path.push(0);
            match system.mkdir(text(&self.path), 0o755) {
                Err(Errno::EXIST) | Ok(()) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    pub(super) fn close_file(&mut self, flowop: &Flowop) -> Outcomes {
        let slot = self.slot(flowop);
        let Some(file) = self.slots[slot].file.filter(|_| self.slots[slot].fd.is_some()) else {
            return Err(closed(slot));
        };
        self.close(slot, file)
    }

    pub(super) fn close(&mut self, slot: usize, (set, member): (usize, u32)) -> Outcomes {
        let shared = self.shared;
        let files = &shared.files[set];
        if !files.take(Kind::File, member, || shared.stopped()) {
            return Err(Halt::Stop);
        }
        self.handled = Some((set, member));
        let mut fd = self.slots[slot].fd.take();
        let start = shared.now();
        // Asynchronous writes to it are on their way: they hold it as well.
        if let (Some(aio), true) = (&mut self.aio, fd.as_ref().is_some_and(|fd| Arc::strong_count(fd) > 1)) {
            aio.finish();
        }
        let outcome = match fd.take().map(Arc::try_unwrap) {
            Some(Ok(fd)) => shared.system.close(fd),
            _ => Ok(()),
        };
        let end = shared.now();
        files.release(Kind::File, member, |population| population.closed(member));
        outcome?;
        Ok(done(start, end, 0))
    }

    pub(super) fn delete_file(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let shared = self.shared;
        let held = if flowop.fd > 0 { self.slots[flowop.fd].known() } else { None };
        self.slots[flowop.fd].deleted |= held.is_some();
        let own_open = i32::from(flowop.fd > 0 && self.slots[flowop.fd].fd.is_some());
        let mut tries = 0;
        let (set, member) = loop {
            let (set, member) = match held {
                Some((set, member)) => {
                    if !shared.files[set].take(Kind::File, member, || shared.stopped()) {
                        return Err(Halt::Stop);
                    }
                    (set, member)
                }
                None => self.pick(flowop, Kind::File, true)?,
            };
            let files = &shared.files[set];
            if files.with(Kind::File, |population| population.open_count(member)) <= own_open {
                break (set, member);
            }
            files.release(Kind::File, member, |_| {});
            tries += 1;
            if held.is_some() || !shared.fixed(Fix::Delete) || tries > files.tree.files.len() {
                return Ok(Outcome::InUse);
            }
        };
        let files = &shared.files[set];
        files.file_path(member, &mut self.path);
        let start = shared.now();
        let outcome = shared.system.unlink(text(&self.path));
        let end = shared.now();
        files.release(Kind::File, member, |population| population.deleted(member));
        match outcome {
            // A file that this slot remembers may be deleted by another thread already.
            Err(Errno::NOENT) if held.is_some() => add(&self.watch.counters[step.id].errors, 1),
            outcome => outcome?,
        }
        Ok(done(start, end, 0))
    }

    pub(super) fn stat_file(&mut self, flowop: &Flowop) -> Outcomes {
        if let (Some(fd), true) = (&self.slots[flowop.fd].fd, flowop.fd > 0) {
            self.handled = self.slots[flowop.fd].file;
            let start = self.shared.now();
            self.shared.system.fstat(fd.as_fd())?;
            return Ok(done(start, self.shared.now(), 0));
        }
        let (set, member) = self.pick(flowop, Kind::File, true)?;
        let shared = self.shared;
        shared.files[set].file_path(member, &mut self.path);
        let start = shared.now();
        let outcome = shared.system.stat(text(&self.path));
        let end = shared.now();
        shared.files[set].release(Kind::File, member, |_| {});
        outcome?;
        Ok(done(start, end, 0))
    }

    /// The slot and file of a flowop that moves data. When the slot is closed the file is opened, which is one more operation
    /// of the flowop.
    pub(super) fn opened(&mut self, step: &Step) -> Result<(usize, Arc<OwnedFd>, u64), Halt> {
        let slot = self.slot(&step.flowop);
        if self.slots[slot].fd.is_none() {
            let cpu = if self.shared.cpu_per_flowop { thread_cpu_ns() } else { 0 };
            let start = self.open_into(&step.flowop, slot)?;
            let end = self.shared.now();
            self.count(step, start, end, 0, cpu)?;
        }
        self.handled = self.slots[slot].file;
        let bytes = self.slot_bytes(slot).unwrap_or(0);
        match &self.slots[slot].fd {
            Some(fd) => Ok((slot, Arc::clone(fd), bytes)),
            None => Err(closed(slot)),
        }
    }

    /// The size that the file of a slot was laid out with.
    pub(super) fn slot_bytes(&self, slot: usize) -> Option<u64> {
        self.slots[slot].file.map(|(set, member)| self.shared.files[set].tree.files[member as usize].bytes)
    }

    pub(super) fn leaf_directory(&mut self, flowop: &Flowop, make: bool) -> Outcomes {
        let (set, member) = self.pick(flowop, Kind::LeafDirectory, !make)?;
        let shared = self.shared;
        let files = &shared.files[set];
        files.leaf_path(member, &mut self.path);
        let start = shared.now();
        let outcome =
            if make { shared.system.mkdir(text(&self.path), 0o755) } else { shared.system.rmdir(text(&self.path)) };
        let end = shared.now();
        files.release(Kind::LeafDirectory, member, |population| population.set_exists(member, make));
        outcome?;
        Ok(done(start, end, 0))
    }

    pub(super) fn list_directory(&mut self, flowop: &Flowop) -> Outcomes {
        let set = Self::fileset(flowop)?;
        self.shared.files[set].next_directory_path(&mut self.path);
        let start = self.shared.now();
        let bytes = self.shared.system.list(text(&self.path))?;
        Ok(done(start, self.shared.now(), bytes))
    }
}
