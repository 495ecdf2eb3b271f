//! What a power cut takes back: the bytes that were on the medium before writes that only memory has.

use std::collections::BTreeMap;

/// Old bytes by logical block. One entry a block, so it is as large as the disk's cache at most.
///
/// A block that is written again while its earlier write is on its way to the medium counts as durable with that one: a
/// disk may bring an unflushed write to the medium at any time, so this is one of the outcomes that it allows.
#[derive(Debug)]
pub struct Undo {
    block_bytes: u64,
    old: BTreeMap<u64, (u64, Box<[u8]>)>,
}

impl Undo {
    /// Nothing to take back.
    #[must_use]
    pub fn new(logical_block_bytes: u32) -> Self {
        Self { block_bytes: u64::from(logical_block_bytes), old: BTreeMap::new() }
    }

    /// Notes the bytes at `offset` as they are before the write `id` takes effect, which is not durable.
    pub fn before_write(&mut self, id: u64, offset: u64, bytes: &[u8]) {
        let first = offset / self.block_bytes;
        for (index, block) in bytes.chunks(self.block_bytes as usize).enumerate() {
            self.old.entry(first + index as u64).or_insert_with(|| (id, block.into()));
        }
    }

    /// Says that the write `id`, or a later one over it, is on the medium.
    pub fn durable(&mut self, id: u64, offset: u64, length: u64) {
        for block in offset / self.block_bytes..(offset + length).div_ceil(self.block_bytes) {
            if self.old.get(&block).is_some_and(|(first, _)| *first <= id) {
                self.old.remove(&block);
            }
        }
    }

    /// The bytes to put back, by offset, when the power goes.
    pub fn take_back(&mut self) -> impl Iterator<Item = (u64, Box<[u8]>)> {
        let block_bytes = self.block_bytes;
        std::mem::take(&mut self.old).into_iter().map(move |(block, (_, bytes))| (block * block_bytes, bytes))
    }

    /// Blocks that a power cut would take back now.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.old.len()
    }
}
