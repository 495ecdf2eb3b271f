//! The write cache of a disk: what is in memory and not yet on the medium.

use std::collections::{BTreeMap, BTreeSet};

use crate::request::Nanos;

/// A run of bytes that one request wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dirty {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The request that wrote it last.
    pub id: u64,
    /// The oldest request whose bytes it stands for, itself or one that it wrote over: a flush after that one needs it.
    pub order: u64,
    /// When the oldest of those bytes came.
    pub since: Nanos,
}

/// Written runs, none over another.
#[derive(Debug, Default)]
pub struct Cache {
    by_place: BTreeMap<u64, Dirty>,
    by_order: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl Cache {
    /// Bytes in it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Runs in it.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.by_place.len()
    }

    /// Puts a run in; what it covers of others is gone.
    pub fn insert(&mut self, now: Nanos, offset: u64, length: u64, id: u64) {
        let (order, since) = self.cut(offset, length).map_or((id, now), |covered| covered.min((id, now)));
        self.add(Dirty { offset, length, id, order, since });
    }

    /// Takes a range out of every run; order and time of the oldest among those it touched.
    pub fn cut(&mut self, offset: u64, length: u64) -> Option<(u64, Nanos)> {
        let end = offset + length;
        let mut least = None;
        while let Some((_, &run)) =
            self.by_place.range(..end).next_back().filter(|(_, run)| run.offset + run.length > offset)
        {
            self.remove(&run);
            let oldest = (run.order, run.since);
            least = Some(least.map_or(oldest, |least: (u64, Nanos)| least.min(oldest)));
            if run.offset < offset {
                self.add(Dirty { length: offset - run.offset, ..run });
            }
            if run.offset + run.length > end {
                self.add(Dirty { offset: end, length: run.offset + run.length - end, ..run });
            }
        }
        least
    }

    /// The runs that have waited longest, oldest first, of orders below `limit`.
    pub fn oldest(&self, limit: u64) -> impl Iterator<Item = &Dirty> {
        self.by_order
            .iter()
            .take_while(move |(order, _)| *order < limit)
            .filter_map(|(_, offset)| self.by_place.get(offset))
    }

    /// Takes out the run at `offset` and those that follow it without a gap, up to `most` bytes (but at least the first).
    pub fn take_from(&mut self, offset: u64, most: u64) -> Vec<Dirty> {
        let mut taken: Vec<Dirty> = Vec::new();
        let mut next = offset;
        while let Some(&run) = self.by_place.get(&next) {
            if !taken.is_empty() && run.offset + run.length - offset > most {
                break;
            }
            self.remove(&run);
            taken.push(run);
            next = run.offset + run.length;
        }
        taken
    }

    /// Whether every byte of a range is in it.
    #[must_use]
    pub fn covers(&self, offset: u64, length: u64) -> bool {
        let end = offset + length;
        let mut from = offset;
        while from < end {
            match self.by_place.range(..=from).next_back() {
                Some((_, run)) if run.offset + run.length > from => from = run.offset + run.length,
                _ => return false,
            }
        }
        true
    }

    fn add(&mut self, run: Dirty) {
        self.bytes += run.length;
        self.by_order.insert((run.order, run.offset));
        self.by_place.insert(run.offset, run);
    }

    fn remove(&mut self, run: &Dirty) {
        self.bytes -= run.length;
        self.by_order.remove(&(run.order, run.offset));
        self.by_place.remove(&run.offset);
    }

    /// Bytes of memory held, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.by_place.len() * (size_of::<Dirty>() + 4 * size_of::<u64>())
    }
}
