//! The write buffer of a disk of flash: units that are written and not yet programmed, first come first programmed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// A unit in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The unit.
    pub unit: u32,
    /// Its place in the line; every later one is greater.
    pub ticket: u64,
    /// The request that wrote it last.
    pub id: u64,
}

/// Units in order.
#[derive(Debug, Default)]
pub struct Buffer {
    line: VecDeque<(u64, u32)>,
    waiting: BTreeMap<u32, Held>,
    /// Units that are being programmed, with how many operations write them.
    leaving: BTreeMap<u32, u32>,
    next_ticket: u64,
}

impl Buffer {
    /// The ticket that the next unit gets.
    #[must_use]
    pub fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    /// Units that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a unit; one that waits already keeps its place. Returns its ticket.
    pub fn insert(&mut self, unit: u32, id: u64) -> u64 {
        if let Some(held) = self.waiting.get_mut(&unit) {
            held.id = id;
            return held.ticket;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(unit, Held { unit, ticket, id });
        self.line.push_back((ticket, unit));
        ticket
    }

    /// Takes out up to `most` units to be programmed.
    pub fn take(&mut self, most: u32) -> Vec<Held> {
        let mut taken = Vec::with_capacity(most as usize);
        while taken.len() < most as usize {
            let Some((ticket, unit)) = self.line.pop_front() else { break };
            // A unit that was discarded, and perhaps came again, left its old place in the line behind.
            if let Entry::Occupied(held) = self.waiting.entry(unit) {
                if held.get().ticket == ticket {
                    taken.push(held.remove());
                    *self.leaving.entry(unit).or_insert(0) += 1;
                }
            }
        }
        self.drop_left_behind();
        taken
    }

    /// Says that units are programmed.
    pub fn programmed(&mut self, units: &[Held]) {
        for held in units {
            if let Some(count) = self.leaving.get_mut(&held.unit) {
                *count -= 1;
                if *count == 0 {
                    self.leaving.remove(&held.unit);
                }
            }
        }
    }

    /// Forgets a unit; whether it waited.
    pub fn discard(&mut self, unit: u32) -> bool {
        let waited = self.waiting.remove(&unit).is_some();
        if waited {
            self.drop_left_behind();
        }
        waited
    }

    /// Whether a unit can be read from here.
    #[must_use]
    pub fn holds(&self, unit: u32) -> bool {
        self.waiting.contains_key(&unit) || self.leaving.contains_key(&unit)
    }

    /// The ticket of the first unit that waits.
    #[must_use]
    pub fn first_ticket(&self) -> Option<u64> {
        self.line.front().map(|&(ticket, _)| ticket)
    }

    /// Bytes of memory held, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.line.capacity() * 16 + self.waiting.len() * 40 + self.leaving.len() * 16
    }

    /// Takes places out of the line whose units were discarded.
    fn drop_left_behind(&mut self) {
        if self.line.len() > 2 * self.waiting.len() + 64 {
            let waiting = &self.waiting;
            self.line.retain(|(ticket, unit)| waiting.get(unit).is_some_and(|held| held.ticket == *ticket));
        }
        while self
            .line
            .front()
            .is_some_and(|(ticket, unit)| self.waiting.get(unit).is_none_or(|held| held.ticket != *ticket))
        {
            self.line.pop_front();
        }
    }
}
