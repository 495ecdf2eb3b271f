//! What may survive a power cut, sector by sector: docs/disk-models.md, "What a power cut leaves", is the specification.
//!
//! Every model has these semantics from here: it reports when requests complete and what has reached the medium, and
//! promises nothing by itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::random::Random;
use crate::request::{Op, Request};

/// What a sector may hold after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survivor {
    /// The last durable bytes.
    Durable,
    /// The bytes of this write, which was acknowledged and is not durable, or was not acknowledged.
    Write(u64),
}

/// Which of the possible images a power cut leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Everything that is not durable is lost.
    Least,
    /// Nothing is lost, requests in flight included.
    Most,
    /// Drawn: a write is lost, whole, or torn between sectors, each independent of every other.
    Seed(u64),
}

/// Where the bytes of a changed sector come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes {
    /// They were there before.
    Old(Box<[u8]>),
    /// They are those of this unacknowledged request.
    Open(u64),
}

/// A sector that a power cut changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// First byte of the sector.
    pub offset: u64,
    /// What it holds afterwards.
    pub bytes: Bytes,
}

/// A write that took effect and is not durable, in one sector.
#[derive(Debug, Clone)]
struct Version {
    id: u64,
    /// Its place in the order in which writes took effect.
    effect: u64,
    /// The bytes of the sector before it.
    before: Box<[u8]>,
}

/// An unacknowledged request.
#[derive(Debug, Clone)]
struct Open {
    request: Request,
    /// Writes that had taken effect when it arrived.
    effects: u64,
    /// Parts that reached the medium before the acknowledgement: offset and length.
    on_medium: Vec<(u64, u64)>,
}

/// What is at risk: acknowledged writes that are not durable, by sector, and open requests.
#[derive(Debug, Clone)]
pub struct CrashState {
    sector_bytes: u64,
    effects: u64,
    /// By sector, in the order in which they took effect; never empty.
    versions: BTreeMap<u64, Vec<Version>>,
    open: BTreeMap<u64, Open>,
}

impl CrashState {
    /// Nothing at risk. A sector is a logical block: what a disk writes whole or not at all.
    #[must_use]
    pub fn new(logical_block_bytes: u32) -> Self {
        Self {
            sector_bytes: u64::from(logical_block_bytes),
            effects: 0,
            versions: BTreeMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// Takes a request.
    pub fn arrive(&mut self, request: &Request) {
        let open = Open { request: *request, effects: self.effects, on_medium: Vec::new() };
        self.open.insert(request.id, open);
    }

    /// Takes an acknowledgement, before the write takes effect: `before` holds the bytes of its range until then. One with
    /// an error has no effect. A durable flush makes every write durable that was acknowledged before the flush arrived.
    pub fn done(&mut self, id: u64, ok: bool, durable: bool, before: &[u8]) {
        let Some(Open { request, effects, on_medium }) = self.open.remove(&id).filter(|_| ok) else { return };
        match request.op {
            Op::Read => {}
            Op::Flush if durable => self.settle(0..u64::MAX, |version| version.effect <= effects),
            Op::Flush => {}
            Op::Write { .. } | Op::Discard | Op::WriteZeroes => {
                self.effects += 1;
                if durable {
                    self.settle(self.sectors(request.offset, request.length), |_| true);
                    return;
                }
                let first = request.offset / self.sector_bytes;
                for (sector, bytes) in (first..).zip(before.chunks(self.sector_bytes as usize)) {
                    let version = Version { id, effect: self.effects, before: bytes.into() };
                    self.versions.entry(sector).or_default().push(version);
                }
                for (offset, length) in on_medium {
                    self.durable(id, offset, length);
                }
            }
        }
    }

    /// Takes the news that the write `id`, or a later one over it, is on the medium in this range.
    pub fn durable(&mut self, id: u64, offset: u64, length: u64) {
        if let Some(open) = self.open.get_mut(&id) {
            open.on_medium.push((offset, length));
            return;
        }
        self.settle(self.sectors(offset, length), |version| version.id == id);
    }

    /// What a sector may hold after a cut now, in the order in which it took or would take effect.
    #[must_use]
    pub fn survivors(&self, sector: u64) -> Vec<Survivor> {
        let versions = self.versions.get(&sector).into_iter().flatten().map(|version| version.id);
        let open = self.open.values().filter(|open| {
            !matches!(open.request.op, Op::Read | Op::Flush)
                && self.sectors(open.request.offset, open.request.length).contains(&sector)
        });
        let writes = versions.chain(open.map(|open| open.request.id));
        std::iter::once(Survivor::Durable).chain(writes.map(Survivor::Write)).collect()
    }

    /// Sectors with acknowledged writes that are not durable.
    #[must_use]
    pub fn sectors_at_risk(&self) -> usize {
        self.versions.len()
    }

    /// Cuts the power: what changes, by sector. Nothing is at risk afterwards, and no request open.
    pub fn cut(&mut self, choice: Choice) -> Vec<Change> {
        let mut sectors: BTreeSet<u64> = self.versions.keys().copied().collect();
        for open in self.open.values().filter(|open| !matches!(open.request.op, Op::Read | Op::Flush)) {
            sectors.extend(self.sectors(open.request.offset, open.request.length));
        }
        let changes = sectors.into_iter().filter_map(|sector| {
            let survivor = choose(choice, sector, &self.survivors(sector));
            let bytes = self.bytes_of(sector, survivor)?;
            Some(Change { offset: sector * self.sector_bytes, bytes })
        });
        let changes = changes.collect();
        self.versions.clear();
        self.open.clear();
        changes
    }

    /// The bytes of a survivor; none where they are there already.
    fn bytes_of(&self, sector: u64, survivor: Survivor) -> Option<Bytes> {
        let versions = self.versions.get(&sector).map_or(&[][..], Vec::as_slice);
        let after = match survivor {
            Survivor::Durable => 0,
            Survivor::Write(id) if self.open.contains_key(&id) => return Some(Bytes::Open(id)),
            Survivor::Write(id) => versions.iter().position(|version| version.id == id)? + 1,
        };
        versions.get(after).map(|version| Bytes::Old(version.before.clone()))
    }

    fn sectors(&self, offset: u64, length: u64) -> std::ops::Range<u64> {
        offset / self.sector_bytes..(offset + length).div_ceil(self.sector_bytes)
    }

    /// In every sector of a range, makes the last version that is meant durable, with all before it.
    fn settle(&mut self, sectors: std::ops::Range<u64>, is_meant: impl Fn(&Version) -> bool) {
        let mut settled = Vec::new();
        for (&sector, versions) in self.versions.range_mut(sectors) {
            if let Some(last) = versions.iter().rposition(&is_meant) {
                versions.drain(..=last);
                if versions.is_empty() {
                    settled.push(sector);
                }
            }
        }
        for sector in settled {
            self.versions.remove(&sector);
        }
    }
}

/// A sector holds the last of its survivors that reached the medium.
fn choose(choice: Choice, sector: u64, survivors: &[Survivor]) -> Survivor {
    let reached = |survivor: &&Survivor| match (choice, survivor) {
        (Choice::Most, _) | (_, Survivor::Durable) => true,
        (Choice::Least, Survivor::Write(_)) => false,
        (Choice::Seed(seed), Survivor::Write(id)) => reaches_medium(seed, *id, sector),
    };
    survivors.iter().rev().find(reached).copied().unwrap_or(Survivor::Durable)
}

/// Whether a sector of a write reaches the medium: of a quarter of the writes none does, of a quarter all do, of the rest
/// each by itself does or does not.
fn reaches_medium(seed: u64, id: u64, sector: u64) -> bool {
    let of_write = Random::new(Random::new(seed).bits() ^ id).bits();
    match of_write >> 62 {
        0 => false,
        1 => true,
        _ => Random::new(of_write ^ sector).bits() >> 63 == 1,
    }
}
