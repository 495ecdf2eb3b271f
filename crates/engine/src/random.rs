//! Seeded random numbers and content: xoshiro256** by Blackman and Vigna (<https://prng.di.unimi.it/>).
//!
//! Written out here, and not taken from a crate, because crates change their streams between versions: what a seed
//! writes to a disk must be the same in every Strata.

/// A stream of random numbers. Streams of one seed with different numbers have nothing to do with each other.
#[derive(Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Stream `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mix = split_mix(seed).wrapping_add(stream);
        let state = std::array::from_fn(|_| {
            mix = mix.wrapping_add(GOLDEN);
            split_mix(mix)
        });
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 to `limit` - 1; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Fills `buffer` with bytes that do not compress.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64, which the authors recommend for seeding.
fn split_mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_published_generator() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let first: [u64; 5] = std::array::from_fn(|_| random.next());
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240, 1_216_172_134_540_287_360]);
    }

    #[test]
    fn a_seed_always_writes_the_same() {
        // Kept: a change here changes what every fill(...) and age(...) ever run has written.
        let mut bytes = [0; 12];
        Random::new(1, 0).fill(&mut bytes);
        assert_eq!(bytes, [94, 65, 247, 83, 130, 21, 114, 252, 177, 88, 13, 178]);
    }

    #[test]
    fn streams_and_seeds_differ() {
        let firsts: std::collections::BTreeSet<u64> =
            (0..100).flat_map(|seed| (0..100).map(move |stream| Random::new(seed, stream).next())).collect();
        assert_eq!(firsts.len(), 10_000);
    }

    proptest! {
        #[test]
        fn numbers_stay_below_the_limit(seed: u64, stream: u64, limit: u64) {
            let number = Random::new(seed, stream).below(limit);
            prop_assert!(number < limit.max(1));
        }

        #[test]
        fn content_does_not_depend_on_how_long_it_is(seed: u64, length in 0usize..100) {
            let mut long = [0; 100];
            let mut short = vec![0; length];
            Random::new(seed, 7).fill(&mut long);
            Random::new(seed, 7).fill(&mut short);
            prop_assert_eq!(&long[..length], &short[..]);
        }
    }
}
