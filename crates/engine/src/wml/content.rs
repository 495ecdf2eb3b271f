//! What is written, and the memory that reads and writes use.

use crate::random::Random;

/// Steps in which every piece of written data is different.
const STAMP_EVERY: usize = 4096;
/// What O_DIRECT may ask for, and the size of a page.
const ALIGNMENT: usize = 4096;
/// Where else in a page memory begins: processors copy slowly between addresses that are alike in their last twelve bits,
/// as pages of the cache and of aligned memory are (4K aliasing; 3 % to 9 % of the processor time of fileserver).
const APART: usize = ALIGNMENT / 2;

/// What written data are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// All zero, as filebench writes.
    Zeros,
    /// Bytes that do not compress, and no block like another.
    Random,
    /// So many percent of every 4 KiB are zero, and no block is like another.
    Compressible(u8),
}

impl Content {
    /// As on the command line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let percent = text.strip_prefix("compressible=").and_then(|percent| percent.parse().ok());
        match (text, percent) {
            ("zeros", _) => Ok(Self::Zeros),
            ("random", _) => Ok(Self::Random),
            (_, Some(percent @ 0..=100)) => Ok(Self::Compressible(percent)),
            _ => Err(format!("'{text}' is no kind of data; write zeros, random or compressible=50")),
        }
    }

    /// As on the command line.
    pub fn shown(self) -> String {
        match self {
            Self::Zeros => "zeros".to_owned(),
            Self::Random => "random".to_owned(),
            Self::Compressible(percent) => format!("compressible={percent}"),
        }
    }

    fn fill(self, buffer: &mut [u8], random: &mut Random) {
        let incompressible = match self {
            Self::Zeros => 0,
            Self::Random => STAMP_EVERY,
            Self::Compressible(percent) => STAMP_EVERY * (100 - usize::from(percent)) / 100,
        };
        for block in buffer.chunks_mut(STAMP_EVERY) {
            let part = incompressible.min(block.len());
            random.fill(&mut block[..part]);
            block[part..].fill(0);
        }
    }
}

/// Memory to read into and to write from.
pub struct Memory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    direct: bool,
}

impl Memory {
    /// Nothing yet. `direct`: it is to begin at an address which direct input and output can use.
    pub fn new(direct: bool) -> Self {
        Self { bytes: Vec::new(), start: 0, length: 0, direct }
    }

    /// So many bytes, all zero and all there; None when there is not enough memory.
    pub fn of(length: usize, direct: bool) -> Option<Self> {
        let mut memory = Self::new(direct);
        memory.try_grow(length).then_some(memory)
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Makes it at least so long.
    pub fn grow(&mut self, length: usize) {
        if length > self.length {
            self.take(length, vec![0; length + ALIGNMENT + APART]);
        }
    }

    /// The same; false when there is not enough memory.
    pub fn try_grow(&mut self, length: usize) -> bool {
        if length > self.length {
            // What is there is not needed any more.
            self.bytes = Vec::new();
            self.length = 0;
            let mut bytes = Vec::new();
            let Some(all) = length.checked_add(ALIGNMENT + APART) else { return false };
            if bytes.try_reserve_exact(all).is_err() {
                return false;
            }
            bytes.resize(all, 0);
            self.take(length, bytes);
        }
        true
    }

    fn take(&mut self, length: usize, bytes: Vec<u8>) {
        self.bytes = bytes;
        // The pages are put there now and not while something is measured.
        for byte in self.bytes.iter_mut().step_by(ALIGNMENT) {
            *std::hint::black_box(byte) = 0;
        }
        self.start = self.bytes.as_ptr().align_offset(ALIGNMENT) + if self.direct { 0 } else { APART };
        self.length = length;
    }

    pub fn piece(&mut self, offset: usize, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start + offset..self.start + offset + length]
    }
}

/// Where a thread takes what it writes, unless that is zeros.
pub struct Source {
    content: Content,
    memory: Memory,
    random: Random,
    written: u64,
    stream: u64,
}

impl Source {
    /// `direct`: as for `Memory`.
    pub fn new(content: Content, seed: u64, stream: u64, direct: bool) -> Self {
        Self { content, memory: Memory::new(direct), random: Random::new(seed, !stream), written: 0, stream }
    }

    /// So many bytes to write; None: what the caller has in its own memory will do.
    pub fn next(&mut self, length: usize) -> Option<&[u8]> {
        if self.content == Content::Zeros {
            return None;
        }
        if length > self.memory.len() {
            self.memory.grow(length.next_multiple_of(STAMP_EVERY));
            let all = self.memory.len();
            self.content.fill(self.memory.piece(0, all), &mut self.random);
        }
        let piece = self.memory.piece(0, length);
        for block in piece.chunks_mut(STAMP_EVERY) {
            self.written += 1;
            let stamp = [self.stream.to_le_bytes(), self.written.to_le_bytes()].concat();
            let part = stamp.len().min(block.len());
            block[..part].copy_from_slice(&stamp[..part]);
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_their_words() {
        for content in [Content::Zeros, Content::Random, Content::Compressible(50)] {
            assert_eq!(Content::parse(&content.shown()), Ok(content));
        }
        for wrong in ["", "ones", "compressible", "compressible=101", "compressible=-1"] {
            assert!(Content::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_block_is_like_another() {
        let mut source = Source::new(Content::Random, 1, 0, false);
        let mut other = Source::new(Content::Random, 1, 1, false);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            for source in [&mut source, &mut other] {
                for block in source.next(3 * 4096).expect("not zeros").chunks(4096) {
                    assert!(seen.insert(block.to_vec()));
                }
            }
        }
    }

    #[test]
    fn half_of_half_compressible_data_is_zero() {
        let mut source = Source::new(Content::Compressible(50), 1, 0, false);
        let zeros = source.next(1 << 20).expect("not zeros").iter().filter(|&&byte| byte == 0).count();
        assert!((519_000..535_000).contains(&zeros), "{zeros}");
        assert!(Source::new(Content::Zeros, 1, 0, false).next(10).is_none());
    }

    #[test]
    fn memory_is_aligned_for_direct_input_and_output_and_apart_from_pages_otherwise() {
        for (direct, start) in [(true, 0), (false, 2048)] {
            let mut memory = Memory::of(5000, direct).expect("is available");
            assert_eq!(memory.piece(0, 5000).as_ptr() as usize % 4096, start);
            memory.grow(10);
            assert_eq!(memory.len(), 5000);
            assert!(!memory.try_grow(usize::MAX) && !memory.try_grow(usize::MAX / 4));
        }
    }
}
