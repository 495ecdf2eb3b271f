//! Where the pages of a disk of flash are: a page map over blocks, with greedy garbage collection on every die.
//!
//! Knows places and counts, not times. Greedy: the block with the fewest valid units is freed first (Rosenblum and
//! Ousterhout's cleaning, 1992; for flash Bux and Iliadis, Performance Evaluation 67(11), 2010).

use crate::parameters::Ssd;
use crate::random::Random;

/// No place, or nothing there.
const NOTHING: u32 = u32::MAX;
/// Blocks that a die has beyond its share of the over-provisioning: the open one, and one that keeps collection possible.
const SPARE_BLOCKS: u32 = 2;
/// Collection starts when a die has no more free blocks than this.
const FEW_FREE: usize = 2;
/// A die has at least this many blocks, if need be smaller ones than the real disk's.
const FEWEST_BLOCKS: u64 = 64;

struct Die {
    free: Vec<u32>,
    open: Option<u32>,
    /// Units written in the open block.
    filled: u32,
    /// Valid units by block.
    valid: Vec<u32>,
    /// Blocks written to their end.
    full: Vec<bool>,
    /// Valid units in all of its blocks.
    valid_units: u64,
    victim: Option<Victim>,
    /// Units that collection may move for the host's writes so far.
    credit: i64,
}

#[derive(Clone, Copy)]
struct Victim {
    block: u32,
    /// The next unit to look at.
    next: u32,
    /// Valid units when it was chosen.
    valid: u32,
}

/// What one step of collection did: read pages, programmed their valid units once, erased blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Read operations.
    pub pages: u32,
    /// Erase operations.
    pub erased: u32,
}

/// The map and the blocks.
pub struct Flash {
    units_per_page: u32,
    units_per_program: u32,
    units_per_block: u32,
    blocks_per_die: u32,
    place: Vec<u32>,
    owner: Vec<u32>,
    dies: Vec<Die>,
    host_units: u64,
    programmed_units: u64,
}

impl Flash {
    /// Fresh flash for a device of `size_bytes`.
    ///
    /// # Errors
    /// A sentence, when the device is too small for so many dies or too large for the map.
    pub fn new(parameters: &Ssd, size_bytes: u64) -> Result<Self, String> {
        let unit = u64::from(parameters.mapping_bytes);
        let dies = parameters.channels * parameters.dies_per_channel;
        let program = u64::from(parameters.program_bytes);
        let physical = (size_bytes as f64 * (1.0 + parameters.over_provisioning)) as u64;
        let per_die = physical.div_ceil(u64::from(dies));
        let block = parameters.block_bytes.min(per_die / FEWEST_BLOCKS / program * program);
        if block == 0 {
            return Err(format!(
                "a device of {size_bytes} bytes has less than {FEWEST_BLOCKS} program operations on each of {dies} dies; \
                 take a larger device or fewer dies"
            ));
        }
        let blocks_per_die = per_die.div_ceil(block) + u64::from(SPARE_BLOCKS);
        let units_per_block = block / unit;
        let units = blocks_per_die * units_per_block * u64::from(dies);
        if units >= u64::from(NOTHING) {
            return Err(format!("a device of {size_bytes} bytes has too many units; raise mapping_bytes"));
        }
        let fresh = || Die {
            free: (0..blocks_per_die as u32).rev().collect(),
            open: None,
            filled: 0,
            valid: vec![0; blocks_per_die as usize],
            full: vec![false; blocks_per_die as usize],
            valid_units: 0,
            victim: None,
            credit: 0,
        };
        Ok(Self {
            units_per_page: (u64::from(parameters.page_bytes) / unit) as u32,
            units_per_program: (program / unit) as u32,
            units_per_block: units_per_block as u32,
            blocks_per_die: blocks_per_die as u32,
            place: vec![NOTHING; size_bytes.div_ceil(unit) as usize],
            owner: vec![NOTHING; units as usize],
            dies: (0..dies).map(|_| fresh()).collect(),
            host_units: 0,
            programmed_units: 0,
        })
    }

    /// Dies in all.
    #[must_use]
    pub fn dies(&self) -> usize {
        self.dies.len()
    }

    /// Units that one program operation takes.
    #[must_use]
    pub fn units_per_program(&self) -> u32 {
        self.units_per_program
    }

    /// Bytes of a block, in units; smaller than the real disk's on a small device.
    #[must_use]
    pub fn units_per_block(&self) -> u32 {
        self.units_per_block
    }

    /// Units of flash in all, those included that keep collection possible.
    #[must_use]
    pub fn physical_units(&self) -> u64 {
        self.owner.len() as u64
    }

    /// The die and the page in which a unit is; `None` when it was never written or was discarded.
    #[must_use]
    pub fn page_of(&self, unit: u32) -> Option<(usize, u32)> {
        let place = self.place[unit as usize];
        (place != NOTHING).then(|| ((place / self.units_per_die()) as usize, place / self.units_per_page))
    }

    /// Units programmed per unit that the host wrote, since [`Flash::count_anew`]; `None` before the first.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_units > 0).then(|| self.programmed_units as f64 / self.host_units as f64)
    }

    /// Resets the counts of [`Flash::write_amplification`].
    pub fn count_anew(&mut self) {
        (self.host_units, self.programmed_units) = (0, 0);
    }

    /// Whether a die can take a program operation of the host's: it keeps a free block for collection, and is not so full
    /// of valid units that collection would gain nothing.
    #[must_use]
    pub fn takes_host_writes(&self, die: usize) -> bool {
        let at = &self.dies[die];
        let room = at.open.is_some() && at.filled < self.units_per_block;
        let most = u64::from(self.blocks_per_die - SPARE_BLOCKS) * u64::from(self.units_per_block);
        let keeps_one = at.free.len() > usize::from(!room);
        keeps_one && at.valid_units + u64::from(self.units_per_program) <= most
    }

    /// Whether a die should collect before the host's next program operation there.
    #[must_use]
    pub fn owes_collection(&self, die: usize) -> bool {
        let at = &self.dies[die];
        self.wants_collection(die) && (at.credit > 0 || !self.takes_host_writes(die))
    }

    /// Whether a die has few free blocks and something to gain.
    #[must_use]
    pub fn wants_collection(&self, die: usize) -> bool {
        let at = &self.dies[die];
        at.free.len() <= FEW_FREE && (at.victim.is_some() || self.next_victim(die).is_some())
    }

    /// Programs units of the host's on a die that takes them; at most those of one operation.
    pub fn program(&mut self, die: usize, units: &[u32]) {
        for &unit in units {
            self.put(die, unit);
        }
        self.pad(die, units.len() as u32);
        self.host_units += units.len() as u64;
        self.programmed_units += u64::from(self.units_per_program);
        if let Some(victim) = self.dies[die].victim {
            let gain = (self.units_per_block - victim.valid).max(1);
            self.dies[die].credit += i64::from(self.units_per_program.saturating_mul(victim.valid).div_ceil(gain));
        }
    }

    /// Does one step of collection: gathers the valid units of one or more blocks for one program operation. `None` when
    /// there is nothing to gain.
    pub fn collect(&mut self, die: usize) -> Option<Collected> {
        let mut did = Collected::default();
        let mut moved = 0;
        while moved < self.units_per_program {
            let Some(mut victim) = self.dies[die].victim.or_else(|| self.next_victim(die)) else { break };
            let first = self.first_unit(die, victim.block);
            let mut last_page = NOTHING;
            while victim.next < self.units_per_block && moved < self.units_per_program {
                let place = first + victim.next;
                let unit = self.owner[place as usize];
                if unit != NOTHING {
                    let page = place / self.units_per_page;
                    did.pages += u32::from(page != last_page);
                    last_page = page;
                    self.put(die, unit);
                    moved += 1;
                }
                victim.next += 1;
            }
            let at = &mut self.dies[die];
            at.victim = Some(victim);
            if victim.next == self.units_per_block {
                at.victim = None;
                at.full[victim.block as usize] = false;
                at.free.insert(0, victim.block);
                did.erased += 1;
            }
        }
        if moved > 0 {
            self.pad(die, moved);
            self.programmed_units += u64::from(self.units_per_program);
            self.dies[die].credit -= i64::from(moved);
        }
        (moved > 0 || did.erased > 0).then_some(did)
    }

    /// Forgets a unit.
    pub fn discard(&mut self, unit: u32) {
        let place = std::mem::replace(&mut self.place[unit as usize], NOTHING);
        self.invalidate(place);
    }

    /// Writes the first share of the device in order, then random units of it over and over, in no time.
    pub fn wear_in(&mut self, filled_share: f64, overwritten: f64, random: &mut Random) {
        let filled = ((self.place.len() as f64 * filled_share) as u64).min(self.place.len() as u64);
        let mut die = 0;
        let mut write = |flash: &mut Self, units: &[u32]| {
            die = (die + 1) % flash.dies.len();
            while !flash.takes_host_writes(die) || flash.owes_collection(die) {
                if !flash.wants_collection(die) || flash.collect(die).is_none() {
                    die = (die + 1) % flash.dies.len();
                }
            }
            flash.program(die, units);
        };
        let in_order: Vec<u32> = (0..filled as u32).collect();
        for units in in_order.chunks(self.units_per_program as usize) {
            write(self, units);
        }
        let mut left = (filled as f64 * overwritten) as u64;
        let mut units = Vec::new();
        while left > 0 && filled > 0 {
            units.clear();
            let count = left.min(u64::from(self.units_per_program));
            units.extend((0..count).map(|_| random.below(filled) as u32));
            write(self, &units);
            left -= count;
        }
        self.count_anew();
    }

    /// Bytes of memory held, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        (self.place.len() + self.owner.len()) * size_of::<u32>()
            + self.dies.len() * self.blocks_per_die as usize * (2 * size_of::<u32>() + 1)
    }

    fn units_per_die(&self) -> u32 {
        self.blocks_per_die * self.units_per_block
    }

    fn first_unit(&self, die: usize, block: u32) -> u32 {
        die as u32 * self.units_per_die() + block * self.units_per_block
    }

    fn invalidate(&mut self, place: u32) {
        if place != NOTHING {
            self.owner[place as usize] = NOTHING;
            let die = &mut self.dies[(place / (self.blocks_per_die * self.units_per_block)) as usize];
            die.valid[(place / self.units_per_block % self.blocks_per_die) as usize] -= 1;
            die.valid_units -= 1;
        }
    }

    /// Writes a unit to the next place of the open block. There is one: both kinds of writing keep a free block.
    fn put(&mut self, die: usize, unit: u32) {
        let old = self.place[unit as usize];
        self.invalidate(old);
        let at = &mut self.dies[die];
        let block = match at.open {
            Some(block) => block,
            None => {
                let Some(block) = at.free.pop() else { return };
                (at.open, at.filled) = (Some(block), 0);
                block
            }
        };
        let place = die as u32 * self.blocks_per_die * self.units_per_block + block * self.units_per_block + at.filled;
        at.valid[block as usize] += 1;
        at.valid_units += 1;
        at.filled += 1;
        self.owner[place as usize] = unit;
        self.place[unit as usize] = place;
        self.close_if_full(die);
    }

    /// Leaves the places of an operation empty for which there were no units.
    fn pad(&mut self, die: usize, used: u32) {
        let missing = self.units_per_program - used;
        let at = &mut self.dies[die];
        if at.open.is_some() && missing > 0 {
            at.filled += missing;
            self.close_if_full(die);
        }
    }

    fn close_if_full(&mut self, die: usize) {
        let at = &mut self.dies[die];
        if at.filled >= self.units_per_block {
            if let Some(block) = at.open.take() {
                at.full[block as usize] = true;
            }
        }
    }

    fn next_victim(&self, die: usize) -> Option<Victim> {
        let at = &self.dies[die];
        let blocks = at.valid.iter().zip(&at.full).enumerate();
        let (block, (&valid, _)) = blocks.filter(|(_, (_, full))| **full).min_by_key(|(_, (valid, _))| **valid)?;
        (valid < self.units_per_block).then_some(Victim { block: block as u32, next: 0, valid })
    }
}
