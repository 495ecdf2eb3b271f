//! What is to happen, in the order of time; at one moment in the order in which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::request::Nanos;

/// Planned happenings.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    planned: BinaryHeap<Reverse<Planned<T>>>,
    count: u64,
}

#[derive(Debug)]
struct Planned<T> {
    key: (Nanos, u64),
    what: T,
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Planned<T> {}

impl<T> PartialOrd for Planned<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Planned<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { planned: BinaryHeap::new(), count: 0 }
    }

    pub(crate) fn plan(&mut self, at: Nanos, what: T) {
        self.planned.push(Reverse(Planned { key: (at, self.count), what }));
        self.count += 1;
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.planned.peek().map(|Reverse(planned)| planned.key.0)
    }

    /// The least of what `moment` says of everything planned.
    pub(crate) fn least(&self, moment: impl Fn(Nanos, &T) -> Option<Nanos>) -> Option<Nanos> {
        self.planned.iter().filter_map(|Reverse(planned)| moment(planned.key.0, &planned.what)).min()
    }

    pub(crate) fn take(&mut self) -> Option<(Nanos, T)> {
        self.planned.pop().map(|Reverse(planned)| (planned.key.0, planned.what))
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.planned.capacity() * size_of::<Planned<T>>()
    }
}

/// Time to move `bytes` at `bytes_per_s`, in nanoseconds, rounded up.
pub(crate) fn transfer(bytes: u64, bytes_per_s: u64) -> Nanos {
    let rate = bytes_per_s.max(1);
    match bytes.checked_mul(1_000_000_000) {
        // Many times faster than the division of 128 bits, and nearly always enough.
        Some(product) => product.div_ceil(rate),
        None => (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)) as Nanos,
    }
}

/// A thing that one request at a time has, in the order in which they ask.
#[derive(Debug, Default)]
pub(crate) struct Line {
    free: Nanos,
}

impl Line {
    /// Has it for `time` as soon as it is free; the moment when that is over.
    pub(crate) fn have(&mut self, now: Nanos, time: Nanos) -> Nanos {
        self.free = self.earliest(now, time);
        self.free
    }

    /// What [`Line::have`] would return. A later call never returns less.
    pub(crate) fn earliest(&self, now: Nanos, time: Nanos) -> Nanos {
        self.free.max(now) + time
    }
}
