//! The bytes of a disk: memory that is taken from the machine only where something was written.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

const PAGE: u64 = 4096;

/// A private mapping without a file. It reads as zeros where nothing was written.
pub struct Memory {
    start: NonNull<u8>,
    length: u64,
}

// SAFETY: the mapping belongs to this value alone, and is reached through `&self` and `&mut self` only.
#[allow(unsafe_code)]
unsafe impl Send for Memory {}

impl Memory {
    /// Maps `length` bytes.
    ///
    /// # Errors
    /// A sentence, when the address space does not suffice.
    pub fn new(length: u64) -> Result<Self, String> {
        let refused =
            |error: String| format!("{length} bytes of memory cannot be mapped ({error}); take a smaller size");
        let size =
            usize::try_from(length).ok().and_then(NonZeroUsize::new).ok_or_else(|| refused("too many".into()))?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        #[allow(unsafe_code)]
        let start = unsafe { mmap_anonymous(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) }
            .map_err(|error| refused(error.to_string()))?
            .cast::<u8>();
        // One written byte shall take one small page. A kernel without huge pages refuses the question: also fine.
        // SAFETY: the range is exactly the mapping made above.
        #[allow(unsafe_code)]
        let _ = unsafe { madvise(start.cast(), size.get(), MmapAdvise::MADV_NOHUGEPAGE) };
        Ok(Self { start, length })
    }

    /// A range that lies inside, cut off at the end where it does not.
    fn range(&self, offset: u64, length: u64) -> (u64, usize) {
        let offset = offset.min(self.length);
        (offset, length.min(self.length - offset) as usize)
    }

    /// The bytes of a range.
    pub fn get(&self, offset: u64, length: u64) -> &[u8] {
        let (offset, length) = self.range(offset, length);
        // SAFETY: `range` keeps it within the mapping, which lives as long as `self`; writing needs `&mut self`.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(offset as usize), length)
        }
    }

    /// The bytes of a range, to be written.
    pub fn get_mut(&mut self, offset: u64, length: u64) -> &mut [u8] {
        let (offset, length) = self.range(offset, length);
        // SAFETY: as in `get`, and `&mut self` makes the borrow the only one.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset as usize), length)
        }
    }

    /// Makes a range read as zeros; whole pages go back to the machine.
    pub fn zero(&mut self, offset: u64, length: u64) {
        let (offset, length) = self.range(offset, length);
        let end = offset + length as u64;
        let (first, last) = (offset.div_ceil(PAGE) * PAGE, end / PAGE * PAGE);
        if first >= last {
            self.get_mut(offset, length as u64).fill(0);
            return;
        }
        self.get_mut(offset, first - offset).fill(0);
        self.get_mut(last, end - last).fill(0);
        // SAFETY: whole pages of the mapping, which nobody borrows (`&mut self`); they are zeros afterwards.
        #[allow(unsafe_code)]
        let given_back = unsafe {
            let start = NonNull::new_unchecked(self.start.as_ptr().add(first as usize));
            madvise(start.cast(), (last - first) as usize, MmapAdvise::MADV_DONTNEED)
        };
        if given_back.is_err() {
            self.get_mut(first, last - first).fill(0);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, whole, and never used again.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.start.cast(), self.length as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_bytes_are_zeros_and_ranges_end_with_the_memory() {
        let mut memory = Memory::new(1 << 20).expect("a mebibyte of memory");
        assert!(memory.get(0, 1 << 20).iter().all(|&byte| byte == 0));
        memory.get_mut(4095, 2).copy_from_slice(b"ab");
        assert_eq!(memory.get(4094, 4), b"\0ab\0");
        assert_eq!(memory.get((1 << 20) - 1, 10).len(), 1);
        assert_eq!(memory.get(1 << 21, 10).len(), 0);
    }

    #[test]
    fn zeroing_takes_exactly_the_range() {
        let mut memory = Memory::new(1 << 16).expect("64 kibibytes of memory");
        for (offset, length) in [(0, 1 << 16), (1, 4095), (4096, 4096), (4000, 9000), (5000, 10), (8191, 2)] {
            memory.get_mut(0, 1 << 16).fill(7);
            memory.zero(offset, length);
            for (index, byte) in memory.get(0, 1 << 16).iter().enumerate() {
                let inside = (offset..offset + length).contains(&(index as u64));
                assert_eq!(*byte, if inside { 0 } else { 7 }, "{offset} {length}: {index}");
            }
        }
    }
}
