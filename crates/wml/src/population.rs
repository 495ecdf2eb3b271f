//! Which file a flowop gets: round robin in the order of the index, among those that exist or those that do not.

/// What picking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This one; it is busy until [`Population::release`].
    Taken(u32),
    /// None exists (or every one does), or all of them are busy: the thread that wanted one ends.
    None,
    /// Every single one is busy: ask again after a release.
    Wait,
}

/// Which members of a fileset exist, are busy and are open.
#[derive(Debug, Clone)]
pub struct Population {
    existing: Set,
    missing: Set,
    busy: Vec<u64>,
    busy_count: u32,
    /// By how many slots; below 0 for a file that was deleted while it was open, once it is closed.
    open: Vec<i32>,
    /// Where the next look among the existing begins, for every flowop that has no rotor of its own.
    existing_rotor: u32,
    missing_rotor: u32,
}

impl Population {
    /// So many members, of which none exists.
    #[must_use]
    pub fn new(members: u32) -> Self {
        Self {
            existing: Set::empty(members),
            missing: Set::full(members),
            busy: vec![0; (members as usize).div_ceil(64)],
            busy_count: 0,
            open: vec![0; members as usize],
            existing_rotor: 0,
            missing_rotor: 0,
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.open.len() as u32
    }

    /// How many exist.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.existing.count
    }

    /// Whether a member exists.
    #[must_use]
    pub fn exists(&self, member: u32) -> bool {
        self.existing.has(member)
    }

    /// Says whether a member exists from now on.
    pub fn set_exists(&mut self, member: u32, exists: bool) {
        if exists {
            self.missing.remove(member);
            self.existing.insert(member);
        } else {
            self.existing.remove(member);
            self.missing.insert(member);
        }
    }

    /// Takes the next member that exists; a rotor of the caller's own takes the place of the common one.
    pub fn pick_existing(&mut self, own_rotor: Option<&mut u32>) -> Pick {
        let rotor = own_rotor.unwrap_or(&mut self.existing_rotor);
        let first = self.existing.at_or_after(*rotor);
        if let Some(first) = first {
            *rotor = first + 1;
        }
        let taken = first.and_then(|first| idle(&self.existing, &self.busy, first));
        self.take(taken)
    }

    /// Takes the next member that does not exist.
    pub fn pick_missing(&mut self) -> Pick {
        let first = self.missing.at_or_after(self.missing_rotor);
        if let Some(first) = first {
            self.missing_rotor = first + 1;
        }
        let taken = first.and_then(|first| idle(&self.missing, &self.busy, first));
        self.take(taken)
    }

    /// Takes member `number` modulo their count, or the next one that exists (or does not).
    pub fn pick_indexed(&mut self, number: u64, exists: bool) -> Pick {
        let members = u64::from(self.members());
        let set = if exists { &self.existing } else { &self.missing };
        let first = number.checked_rem(members).and_then(|index| set.at_or_after(index as u32));
        let taken = first.and_then(|first| idle(set, &self.busy, first));
        self.take(taken)
    }

    /// Takes a certain member; false: it is busy.
    pub fn take_this(&mut self, member: u32) -> bool {
        let free = !self.is_busy(member);
        if free {
            self.take(Some(member));
        }
        free
    }

    fn take(&mut self, member: Option<u32>) -> Pick {
        match member {
            Some(member) => {
                self.busy[member as usize / 64] |= 1 << (member % 64);
                self.busy_count += 1;
                Pick::Taken(member)
            }
            None if self.busy_count > 0 && self.busy_count == self.members() => Pick::Wait,
            None => Pick::None,
        }
    }

    /// Whether a member is taken.
    #[must_use]
    pub fn is_busy(&self, member: u32) -> bool {
        self.busy[member as usize / 64] & (1 << (member % 64)) != 0
    }

    /// Gives a member back.
    pub fn release(&mut self, member: u32) {
        if self.is_busy(member) {
            self.busy[member as usize / 64] &= !(1 << (member % 64));
            self.busy_count -= 1;
        }
    }

    /// By how many slots a member is open.
    #[must_use]
    pub fn open_count(&self, member: u32) -> i32 {
        self.open[member as usize]
    }

    /// A slot has opened a member.
    pub fn opened(&mut self, member: u32) {
        self.open[member as usize] += 1;
    }

    /// A slot has closed a member.
    pub fn closed(&mut self, member: u32) {
        self.open[member as usize] -= 1;
    }

    /// A member was deleted: it counts as closed, though slots may hold it open still.
    pub fn deleted(&mut self, member: u32) {
        self.set_exists(member, false);
        self.open[member as usize] = 0;
    }
}

/// The first member of `set` from `first` on, around the end, that is not busy.
fn idle(set: &Set, busy: &[u64], first: u32) -> Option<u32> {
    let free = |member: u32| busy[member as usize / 64] & (1 << (member % 64)) == 0;
    if free(first) {
        return Some(first);
    }
    // As many steps as there are busy members at most: those are as many as there are threads.
    let mut member = first;
    loop {
        member = set.at_or_after(member + 1)?;
        if free(member) {
            return Some(member);
        }
        if member == first {
            return None;
        }
    }
}

/// A set of numbers below a limit, with the next one found in a few steps: each level has a bit for each word below it.
#[derive(Debug, Clone)]
struct Set {
    levels: Vec<Vec<u64>>,
    count: u32,
}

impl Set {
    fn empty(limit: u32) -> Self {
        let mut levels = Vec::new();
        let mut words = (limit as usize).div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels, count: 0 };
            }
            words = words.div_ceil(64);
        }
    }

    fn full(limit: u32) -> Self {
        let mut set = Self::empty(limit);
        let mut bits = limit as usize;
        for level in &mut set.levels {
            for (at, word) in level.iter_mut().enumerate() {
                let left = bits.saturating_sub(at * 64);
                *word = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
            }
            bits = bits.div_ceil(64);
        }
        set.count = limit;
        set
    }

    fn has(&self, number: u32) -> bool {
        self.levels[0][number as usize / 64] & (1 << (number % 64)) != 0
    }

    fn insert(&mut self, number: u32) {
        if self.has(number) {
            return;
        }
        self.count += 1;
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                break;
            }
            at /= 64;
        }
    }

    fn remove(&mut self, number: u32) {
        if !self.has(number) {
            return;
        }
        self.count -= 1;
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// The least number from `start` on, or, when there is none, the least of all.
    fn at_or_after(&self, start: u32) -> Option<u32> {
        self.from(start as usize).or_else(|| self.from(0)).map(|number| number as u32)
    }

    fn from(&self, start: usize) -> Option<usize> {
        let mut at = start;
        for (height, level) in self.levels.iter().enumerate() {
            let rest = level.get(at / 64).map_or(0, |word| word & (u64::MAX << (at % 64)));
            if rest != 0 {
                let mut found = at / 64 * 64 + rest.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = found * 64 + below[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn population(members: u32, existing: &[u32]) -> Population {
        let mut population = Population::new(members);
        for &member in existing {
            population.set_exists(member, true);
        }
        population
    }

    #[test]
    fn picking_goes_round_in_the_order_of_the_index() {
        let mut population = population(10, &[1, 4, 7]);
        let mut picks = Vec::new();
        for _ in 0..7 {
            let Pick::Taken(member) = population.pick_existing(None) else { panic!("one is idle") };
            population.release(member);
            picks.push(member);
        }
        assert_eq!(picks, [1, 4, 7, 1, 4, 7, 1]);
        assert_eq!(population.pick_missing(), Pick::Taken(0));
        assert_eq!(population.pick_missing(), Pick::Taken(2));
    }

    #[test]
    fn busy_members_are_passed_over_but_the_rotor_stays_behind_them() {
        let mut population = population(4, &[0, 1, 2, 3]);
        assert!(population.take_this(0));
        assert!(!population.take_this(0));
        assert_eq!(population.pick_existing(None), Pick::Taken(1));
        // The rotor stood after 0, not after 1.
        population.release(1);
        assert_eq!(population.pick_existing(None), Pick::Taken(1));
        assert_eq!(population.pick_existing(None), Pick::Taken(2));
        assert_eq!(population.pick_existing(None), Pick::Taken(3));
        assert_eq!(population.pick_existing(None), Pick::Wait);
        assert_eq!(population.pick_missing(), Pick::Wait);
        population.release(2);
        assert_eq!(population.pick_missing(), Pick::None);
        assert_eq!(population.pick_existing(None), Pick::Taken(2));
    }

    #[test]
    fn a_rotor_of_ones_own_leaves_the_common_one_alone() {
        let mut population = population(3, &[0, 1, 2]);
        let mut own = 2;
        assert_eq!(population.pick_existing(Some(&mut own)), Pick::Taken(2));
        assert_eq!(own, 3);
        assert_eq!(population.pick_existing(None), Pick::Taken(0));
    }

    #[test]
    fn an_index_is_taken_modulo_the_members() {
        let mut population = population(5, &[0, 3]);
        assert_eq!(population.pick_indexed(8, true), Pick::Taken(3));
        assert_eq!(population.pick_indexed(8, true), Pick::Taken(0));
        assert_eq!(population.pick_indexed(4, false), Pick::Taken(4));
        assert_eq!(Population::new(0).pick_indexed(4, true), Pick::None);
    }

    #[test]
    fn who_is_open_is_counted() {
        let mut population = population(2, &[0]);
        population.opened(0);
        population.opened(0);
        population.closed(0);
        assert_eq!(population.open_count(0), 1);
        population.deleted(0);
        assert_eq!(population.open_count(0), 0);
        // As filebench counts: the next who opens it is not seen.
        population.closed(0);
        population.opened(0);
        assert_eq!(population.open_count(0), 0);
    }

    proptest! {
        #[test]
        fn the_set_is_a_set(limit in 1u32..20_000, changes: Vec<(bool, u32)>, start: u32) {
            let mut set = Set::full(limit);
            let mut model: BTreeSet<u32> = (0..limit).collect();
            let start = start % (limit + 1);
            for (insert, number) in changes {
                let number = number % limit;
                if insert {
                    set.insert(number);
                    model.insert(number);
                } else {
                    // Most of it goes, so that whole words are empty.
                    for number in number..limit.min(number.saturating_add(limit / 3)) {
                        set.remove(number);
                        model.remove(&number);
                    }
                }
                prop_assert_eq!(set.count as usize, model.len());
                let expected = model.range(start..).next().or(model.iter().next()).copied();
                prop_assert_eq!(set.at_or_after(start), expected);
            }
        }
    }
}
