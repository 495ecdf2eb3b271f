//! Numbers that a program draws while it runs.

use std::sync::Arc;

use crate::ast::Operator;
use crate::random::{Uniform, gamma, normal};

/// A number of a program: fixed, or drawn each time it is used.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// Fixed.
    Whole(u64),
    /// Drawn.
    Random(Arc<Distribution>),
}

impl Number {
    /// Whether it is 0 whenever it is used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::Whole(0)
    }

    /// The next number, as a fraction.
    pub fn draw(&self, source: &mut impl Uniform) -> f64 {
        match self {
            Self::Whole(number) => *number as f64,
            Self::Random(distribution) => distribution.draw(source),
        }
    }

    /// The next number, without what follows the point; never below 0.
    pub fn whole(&self, source: &mut impl Uniform) -> u64 {
        match self {
            Self::Whole(number) => *number,
            Self::Random(distribution) => distribution.draw(source) as u64,
        }
    }

    /// The number that is to be expected.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Whole(number) => *number as f64,
            Self::Random(distribution) => distribution.mean(),
        }
    }
}

/// Where a distribution takes its uniform numbers from while files are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The stream of the layout itself, `drand48()`.
    Layout,
    /// `erand48()` with a state of its own that begins with this.
    Own(u64),
    /// One that filebench does not fix; its numbers are ours.
    Free,
}

/// A row of a table: so many percent of the numbers lie evenly between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Of 100.
    pub percent: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

/// What the numbers are like.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Evenly from `min` to twice the mean less `min`.
    Even {
        /// The least.
        min: f64,
        /// The mean.
        mean: f64,
    },
    /// `min` and a gamma distribution above it.
    Gamma {
        /// The least.
        min: f64,
        /// The mean of the whole.
        mean: f64,
        /// Its shape.
        shape: f64,
    },
    /// By rows, moved so that their least is `min` and their mean `mean`.
    Table {
        /// They make 100 percent.
        rows: Vec<Row>,
        /// The least.
        min: f64,
        /// The mean.
        mean: f64,
    },
    /// The sum of `shape` exponential waits.
    Erlang {
        /// How many.
        shape: u64,
        /// Of each.
        rate: f64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// The exponential of a normal distribution.
    Lognormal {
        /// Deviation of the logarithm.
        shape: f64,
        /// Mean of the logarithm.
        scale: f64,
    },
    /// Normal.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its deviation.
        sigma: f64,
    },
    /// A triangle.
    Triangular {
        /// The least.
        lower: f64,
        /// The greatest.
        upper: f64,
        /// The most frequent.
        mode: f64,
    },
    /// Weibull.
    Weibull {
        /// Its shape.
        shape: f64,
        /// Its scale.
        scale: f64,
    },
    /// Made of two other numbers.
    Arithmetic {
        /// One.
        left: Number,
        /// How.
        operator: Operator,
        /// The other.
        right: Number,
    },
}

/// A random or custom variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The same for every use of one variable.
    pub id: usize,
    /// What the numbers are like.
    pub shape: Shape,
    /// A number is rounded to the nearest multiple of this; 0 leaves it.
    pub round: f64,
    /// No number is below this.
    pub least: Option<f64>,
    /// No number is above this.
    pub most: Option<f64>,
    /// Where its uniform numbers come from.
    pub stream: Stream,
}

impl Distribution {
    /// The next number.
    pub fn draw(&self, source: &mut impl Uniform) -> f64 {
        let raw = match &self.shape {
            Shape::Even { min, mean } => min + source.uniform() * 2.0 * (mean - min),
            Shape::Gamma { min, mean, shape } => min + gamma(source, *shape, (mean - min) / shape),
            Shape::Table { rows, min, mean } => {
                let share = source.uniform() * 100.0;
                let mut sum = 0.0;
                let row = rows.iter().find(|row| {
                    sum += row.percent;
                    share < sum
                });
                let Some(row) = row.or(rows.last()) else { return 0.0 };
                // The same number tells where in the row: a percent is a step from its low end to its high one.
                let number = row.low + share.fract() * (row.high - row.low);
                let (table_min, table_mean) = (table_min(rows), table_mean(rows));
                if table_mean > table_min {
                    min + (number - table_min) * (mean - min) / (table_mean - table_min)
                } else {
                    *mean
                }
            }
            Shape::Erlang { shape, rate } => {
                // Above a few hundred the sum is a gamma number in all but name.
                (0..(*shape).min(1000)).map(|_| -(1.0 - source.uniform()).ln()).sum::<f64>() / rate
            }
            Shape::Exponential { mean } => -mean * (1.0 - source.uniform()).ln(),
            Shape::Lognormal { shape, scale } => (scale + shape * normal(source)).exp(),
            Shape::Normal { mean, sigma } => mean + sigma * normal(source),
            Shape::Triangular { lower, upper, mode } => {
                let u = source.uniform();
                let turn = if upper > lower { (mode - lower) / (upper - lower) } else { 1.0 };
                if u <= turn {
                    lower + ((upper - lower) * (mode - lower) * u).sqrt()
                } else {
                    upper - ((upper - lower) * (upper - mode) * (1.0 - u)).sqrt()
                }
            }
            Shape::Weibull { shape, scale } => scale * (-(1.0 - source.uniform()).ln()).powf(1.0 / shape),
            Shape::Arithmetic { left, operator, right } => {
                let (left, right) = (left.draw(source), right.draw(source));
                calculate(left, *operator, right)
            }
        };
        let rounded = if self.round > 0.0 {
            let down = (raw / self.round).floor() * self.round;
            // Half way goes down.
            if raw - down > self.round / 2.0 { down + self.round } else { down }
        } else {
            raw
        };
        let floor = self.least.map_or(rounded, |least| rounded.max(least));
        self.most.map_or(floor, |most| floor.min(most))
    }

    /// The number that is to be expected, rounding and limits left out.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match &self.shape {
            Shape::Even { mean, .. }
            | Shape::Gamma { mean, .. }
            | Shape::Table { mean, .. }
            | Shape::Exponential { mean }
            | Shape::Normal { mean, .. } => *mean,
            Shape::Erlang { shape, rate } => *shape as f64 / rate,
            Shape::Lognormal { shape, scale } => (scale + shape * shape / 2.0).exp(),
            Shape::Triangular { lower, upper, mode } => (lower + upper + mode) / 3.0,
            // Near enough: the exact one takes the gamma function, and nothing is laid out by it.
            Shape::Weibull { scale, .. } => *scale,
            Shape::Arithmetic { left, operator, right } => calculate(left.mean(), *operator, right.mean()),
        }
    }

    /// The same with another mean, where the shape has one that can be given.
    #[must_use]
    pub fn with_mean(&self, new: f64) -> Self {
        let mut changed = self.clone();
        match &mut changed.shape {
            Shape::Even { mean, .. }
            | Shape::Gamma { mean, .. }
            | Shape::Table { mean, .. }
            | Shape::Exponential { mean }
            | Shape::Normal { mean, .. } => *mean = new,
            _ => {}
        }
        changed
    }
}

fn table_min(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.low).fold(f64::INFINITY, f64::min)
}

pub(crate) fn table_mean(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.percent / 100.0 * (row.low + row.high) / 2.0).sum()
}

pub(crate) fn calculate(left: f64, operator: Operator, right: f64) -> f64 {
    match operator {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Times => left * right,
        Operator::Over if right == 0.0 => 0.0,
        Operator::Over => left / right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rand48;
    use proptest::prelude::*;

    fn distribution(shape: Shape) -> Distribution {
        Distribution { id: 0, shape, round: 0.0, least: None, most: None, stream: Stream::Free }
    }

    fn mean_of(shape: Shape) -> f64 {
        let mut source = Rand48::seeded(3);
        let distribution = distribution(shape);
        (0..60_000).map(|_| distribution.draw(&mut source)).sum::<f64>() / 6e4
    }

    fn table() -> Vec<Row> {
        vec![Row { percent: 80.0, low: 0.0, high: 10.0 }, Row { percent: 20.0, low: 100.0, high: 200.0 }]
    }

    #[test]
    fn a_table_draws_one_number_that_tells_row_and_place() {
        struct Given(Vec<f64>);
        impl Uniform for Given {
            fn uniform(&mut self) -> f64 {
                self.0.remove(0)
            }
        }
        let rows = vec![Row { percent: 80.0, low: 0.0, high: 10.0 }, Row { percent: 20.0, low: 100.0, high: 200.0 }];
        let (min, mean) = (0.0, table_mean(&rows));
        let table = distribution(Shape::Table { rows, min, mean });
        // Each percent is a step through its row.
        for (drawn, number) in [(0.0, 0.0), (0.005, 5.0), (0.7925, 2.5), (0.805, 150.0), (0.9975, 175.0)] {
            let mut source = Given(vec![drawn]);
            assert!((table.draw(&mut source) - number).abs() < 1e-9, "{drawn}");
            assert!(source.0.is_empty());
        }
    }

    #[test]
    fn every_shape_has_its_mean() {
        for shape in [
            Shape::Even { min: 10.0, mean: 50.0 },
            Shape::Gamma { min: 10.0, mean: 50.0, shape: 1.5 },
            Shape::Table { rows: table(), min: 5.0, mean: 70.0 },
            Shape::Erlang { shape: 4, rate: 2.0 },
            Shape::Exponential { mean: 30.0 },
            Shape::Lognormal { shape: 0.5, scale: 1.0 },
            Shape::Normal { mean: 20.0, sigma: 3.0 },
            Shape::Triangular { lower: 0.0, upper: 10.0, mode: 2.0 },
            Shape::Arithmetic { left: Number::Whole(6), operator: Operator::Over, right: Number::Whole(4) },
        ] {
            let (told, seen) = (distribution(shape.clone()).mean(), mean_of(shape.clone()));
            assert!((seen / told - 1.0).abs() < 0.03, "{shape:?}: {seen}, not {told}");
        }
        let weibull = mean_of(Shape::Weibull { shape: 1.0, scale: 8.0 });
        assert!((weibull / 8.0 - 1.0).abs() < 0.03, "{weibull}");
    }

    #[test]
    fn a_table_begins_at_its_least() {
        let mut source = Rand48::seeded(1);
        let moved = distribution(Shape::Table { rows: table(), min: 5.0, mean: 70.0 });
        let least = (0..10_000).map(|_| moved.draw(&mut source)).fold(f64::INFINITY, f64::min);
        assert!((5.0..5.1).contains(&least), "{least}");
    }

    proptest! {
        #[test]
        fn a_number_is_rounded_and_kept_within_its_limits(seed: u32, round in 1u32..9000) {
            let mut source = Rand48::seeded(seed);
            let shape = Shape::Even { min: 0.0, mean: 1e6 };
            let round = f64::from(round);
            let rounded = Distribution { round, ..distribution(shape.clone()) };
            prop_assert_eq!(rounded.draw(&mut source) % round, 0.0);
            let limited = Distribution { least: Some(10.0), most: Some(12.0), ..distribution(shape) };
            prop_assert!((10.0..=12.0).contains(&limited.draw(&mut source)));
        }
    }
}
