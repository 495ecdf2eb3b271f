//! The random numbers that decide a layout: those of the C library, so that a tree is the same everywhere.

use std::f64::consts::{E, PI};

/// A source of uniform numbers from 0 up to, but without, 1.
pub trait Uniform {
    /// The next number.
    fn uniform(&mut self) -> f64;
}

/// The linear congruential generator that POSIX fixes for `drand48()` and `erand48()`.
#[derive(Debug, Clone, Default)]
pub struct Rand48 {
    state: u64,
}

impl Rand48 {
    const MASK: u64 = (1 << 48) - 1;

    /// `drand48()` that was never seeded, or `erand48()` with these 48 bits.
    #[must_use]
    pub fn new(state: u64) -> Self {
        Self { state: state & Self::MASK }
    }

    /// `drand48()` after `srand48(seed)`.
    #[must_use]
    pub fn seeded(seed: u32) -> Self {
        Self::new((u64::from(seed) << 16) | 0x330e)
    }
}

impl Uniform for Rand48 {
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & Self::MASK;
        self.state as f64 / (1u64 << 48) as f64
    }
}

/// `rand()` of the GNU C library after `srand(seed)`; a program that never seeds it has seed 1.
#[derive(Debug, Clone)]
pub struct Rand {
    last: [u32; 31],
    next: usize,
}

impl Rand {
    /// The largest number that it gives.
    pub const MAX: u32 = 0x7fff_ffff;

    /// Seeded; 0 counts as 1.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut last = [0u32; 31];
        let mut value = i64::from(seed.max(1) as i32);
        last[0] = value as u32;
        for slot in last.iter_mut().skip(1) {
            value = 16807 * (value % 127_773) - 2836 * (value / 127_773);
            if value < 0 {
                value += i64::from(Self::MAX);
            }
            *slot = value as u32;
        }
        let mut rand = Self { last, next: 3 };
        for _ in 0..310 {
            rand.number();
        }
        rand
    }

    /// The next number, from 0 to [`Rand::MAX`].
    pub fn number(&mut self) -> u32 {
        let three_ago = self.last[(self.next + 28) % 31];
        let value = self.last[self.next].wrapping_add(three_ago);
        self.last[self.next] = value;
        self.next = (self.next + 1) % 31;
        value >> 1
    }
}

/// A number of the gamma distribution: for `shape` above 1 by rejection from a Lorentz curve, else by algorithm G of
/// Knuth's The Art of Computer Programming, volume 2.
pub fn gamma(source: &mut impl Uniform, shape: f64, scale: f64) -> f64 {
    // A shape of zero or below has no distribution.
    if shape.is_nan() || shape <= 0.0 {
        return 0.0;
    }
    // So narrow that a double cannot tell it from its mean; beyond what a double holds the loop would not end.
    if shape > 1e15 {
        return shape * scale;
    }
    let number = if shape > 1.0 {
        let root = (2.0 * shape - 1.0).sqrt();
        loop {
            let y = (PI * source.uniform()).tan();
            let x = root * y + shape - 1.0;
            if x <= 0.0 {
                continue;
            }
            let bound = (1.0 + y * y) * ((shape - 1.0) * (x / (shape - 1.0)).ln() - root * y).exp();
            if source.uniform() <= bound {
                break x;
            }
        }
    } else {
        let p = E / (shape + E);
        loop {
            let u = source.uniform();
            let mut v = source.uniform();
            while v == 0.0 {
                v = source.uniform();
            }
            let (x, q) = if u < p {
                let x = v.powf(1.0 / shape);
                (x, (-x).exp())
            } else {
                let x = 1.0 - v.ln();
                (x, x.powf(shape - 1.0))
            };
            if source.uniform() < q {
                break x;
            }
        }
    };
    number * scale
}

/// A number of the normal distribution with mean 0 and deviation 1, by the polar method.
pub(crate) fn normal(source: &mut impl Uniform) -> f64 {
    loop {
        let x = 2.0 * source.uniform() - 1.0;
        let y = 2.0 * source.uniform() - 1.0;
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rand48_is_the_one_of_posix() {
        // Printed by a C program: srand48(0), then drand48() twice, in units of 2^-48.
        let mut seeded = Rand48::seeded(0);
        let first: Vec<u64> = (0..2).map(|_| (seeded.uniform() * (1u64 << 48) as f64) as u64).collect();
        assert_eq!(first, [48_083_817_484_545, 211_078_642_492_280]);
        assert!((Rand48::new(0).uniform() - 11.0 / (1u64 << 48) as f64).abs() < f64::EPSILON);
    }

    #[test]
    fn rand_is_the_one_of_the_gnu_c_library() {
        // The well-known first numbers of an unseeded rand().
        let mut rand = Rand::new(1);
        let first: [u32; 5] = std::array::from_fn(|_| rand.number());
        assert_eq!(first, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793]);
    }

    #[test]
    fn gamma_has_its_mean_and_spread() {
        for (shape, scale) in [(0.5, 2.0), (1.0, 3.0), (1.5, 100.0), (9.0, 1.0)] {
            let mut source = Rand48::seeded(7);
            let numbers: Vec<f64> = (0..40_000).map(|_| gamma(&mut source, shape, scale)).collect();
            let mean = numbers.iter().sum::<f64>() / 4e4;
            let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 4e4;
            assert!((mean / (shape * scale) - 1.0).abs() < 0.03, "{shape}: {mean}");
            assert!((variance / (shape * scale * scale) - 1.0).abs() < 0.1, "{shape}: {variance}");
        }
    }

    #[test]
    fn gamma_ends_with_any_shape() {
        for shape in [f64::MIN_POSITIVE, 1e14, 1e16, 1e308] {
            let mean = gamma(&mut Rand48::seeded(7), shape, 100.0 / shape);
            assert!(shape < 1.0 || (mean / 100.0 - 1.0).abs() < 1e-5, "{shape}: {mean}");
        }
    }

    #[test]
    fn normal_has_its_mean_and_spread() {
        let mut source = Rand48::seeded(7);
        let numbers: Vec<f64> = (0..40_000).map(|_| normal(&mut source)).collect();
        let mean = numbers.iter().sum::<f64>() / 4e4;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 4e4;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
