//! Flash: a controller, an interface, channels and dies that each do one thing at a time, and a write buffer.

use std::collections::BTreeMap;

use strata_disks::{Nanos, Op, Ssd};

use crate::{Plan, Sequence, have, transfer};

enum Then {
    Arrived(usize),
    Understood(usize),
    Landed(usize),
    /// A die has read a page for a request.
    PageRead {
        die: usize,
        index: usize,
        bytes: u64,
    },
    /// A page is in the controller.
    PageThere(usize),
    /// A die has programmed units.
    Programmed {
        die: usize,
        units: Vec<(u64, u64)>,
    },
    Answered(usize),
}

/// When each request is answered, with a volatile cache; nothing has to be collected.
pub(crate) fn answers(parameters: &Ssd, size: u64, depth: u32, sequence: &Sequence) -> Vec<Nanos> {
    let us = |us: f64| (us * 1e3) as Nanos;
    let unit = u64::from(parameters.mapping_bytes);
    let per_program = u64::from(parameters.program_bytes) / unit;
    let per_page = u64::from(parameters.page_bytes) / unit;
    let channels = parameters.channels as usize;
    let dies = channels * parameters.dies_per_channel as usize;
    let over = |bytes: u64| transfer(bytes, parameters.interface_bytes_per_s);
    // Die and page of each unit; it was filled in order, die after die from the second on.
    let filled = (size as f64 * parameters.filled_share) as u64 / unit;
    let mut place: BTreeMap<u64, (usize, u64)> =
        (0..filled).map(|at| (at, ((at / per_program + 1) as usize % dies, at / per_page))).collect();
    let mut next_page = size;
    let mut plan = Plan::new();
    for (index, (at, _)) in sequence.iter().enumerate() {
        plan.add(*at, Then::Arrived(index));
    }
    let mut answered = vec![Nanos::MAX; sequence.len()];
    let (mut outside, mut inside, mut controller, mut interface) = (Vec::new(), 0, 0, 0);
    let mut channel = vec![0; channels];
    // What each die is to read (request and bytes), how many it read in a row, and whether it works.
    let mut to_read: Vec<Vec<(usize, u64)>> = vec![Vec::new(); dies];
    let (mut in_a_row, mut works) = (vec![0; dies], vec![false; dies]);
    let mut pages_left = vec![0; sequence.len()];
    let (mut crowded, mut taken) = (Vec::<usize>::new(), 0);
    // Units with their places in line: waiting, and being programmed.
    let (mut buffer, mut leaving) = (Vec::<(u64, u64)>::new(), Vec::<(u64, u64)>::new());
    let (mut ticket, mut turn) = (0, 0);
    let mut flushes = Vec::<usize>::new();
    // Requests that wait until everything before a place in line is programmed, and their time after that.
    let mut settling: Vec<(u64, usize, Nanos)> = Vec::new();
    while let Some((now, then)) = plan.take() {
        match then {
            Then::Arrived(index) => outside.push(index),
            Then::Understood(index) => {
                let asked = sequence[index].1;
                match asked.op {
                    Op::Flush => flushes.push(index),
                    Op::Read => {
                        let mut pages: Vec<((usize, u64), u64)> = Vec::new();
                        for at in asked.offset / unit..asked.end().div_ceil(unit) {
                            let in_memory = buffer.iter().chain(&leaving).any(|(held, _)| *held == at);
                            let Some(&page) = place.get(&at).filter(|_| !in_memory) else { continue };
                            match pages.iter_mut().find(|(other, _)| *other == page) {
                                Some((_, bytes)) => *bytes += unit,
                                None => pages.push((page, unit)),
                            }
                        }
                        pages_left[index] = pages.len();
                        pages.iter().for_each(|((die, _), bytes)| to_read[*die].push((index, *bytes)));
                        if pages.is_empty() {
                            let at = have(&mut interface, now, over(asked.length));
                            plan.add(at + us(parameters.read_latency_us), Then::Answered(index));
                        }
                    }
                    Op::Write { .. } => crowded.push(index),
                    // Both change the map only, for whole units.
                    Op::Discard | Op::WriteZeroes => {
                        for at in asked.offset.div_ceil(unit)..asked.end() / unit {
                            place.remove(&at);
                            let before = buffer.len();
                            buffer.retain(|(held, _)| *held != at);
                            taken -= (before - buffer.len()) as u64 * unit;
                        }
                        plan.add(now + us(parameters.write_latency_us), Then::Answered(index));
                    }
                }
            }
            Then::Landed(index) => {
                let asked = sequence[index].1;
                let mut last = 0;
                for at in asked.offset / unit..asked.end().div_ceil(unit) {
                    if let Some((_, place)) = buffer.iter().find(|(held, _)| *held == at) {
                        taken -= unit;
                        last = last.max(*place);
                    } else {
                        buffer.push((at, ticket));
                        last = ticket;
                        ticket += 1;
                    }
                }
                let latency = us(parameters.write_latency_us);
                if asked.op == (Op::Write { fua: true }) {
                    settling.push((last + 1, index, latency));
                } else {
                    plan.add(now + latency, Then::Answered(index));
                }
            }
            Then::PageRead { die, index, bytes } => {
                works[die] = false;
                let time = transfer(bytes, parameters.channel_bytes_per_s);
                plan.add(have(&mut channel[die % channels], now, time), Then::PageThere(index));
            }
            Then::PageThere(index) => {
                pages_left[index] -= 1;
                if pages_left[index] == 0 {
                    let at = have(&mut interface, now, over(sequence[index].1.length));
                    plan.add(at + us(parameters.read_latency_us), Then::Answered(index));
                }
            }
            Then::Programmed { die, units } => {
                works[die] = false;
                taken -= units.len() as u64 * unit;
                leaving.retain(|held| !units.contains(held));
            }
            Then::Answered(index) => {
                answered[index] = now;
                inside -= 1;
            }
        }
        while inside < depth && !outside.is_empty() {
            inside += 1;
            let at = have(&mut controller, now, us(parameters.command_us));
            plan.add(at, Then::Understood(outside.remove(0)));
        }
        while let Some(&index) = crowded.first() {
            let asked = sequence[index].1;
            let bytes = (asked.end().div_ceil(unit) - asked.offset / unit) * unit;
            if taken > 0 && taken + bytes > parameters.buffer_bytes {
                break;
            }
            taken += bytes;
            crowded.remove(0);
            plan.add(have(&mut interface, now, over(asked.length)), Then::Landed(index));
        }
        while let Some(&flush) = flushes.first() {
            let is_open =
                |index: usize| !matches!(sequence[index].1.op, Op::Read | Op::Flush) && answered[index] == Nanos::MAX;
            if (0..flush).any(is_open) {
                break;
            }
            settling.push((ticket, flushes.remove(0), us(parameters.flush_us)));
        }
        // Dies, beginning with the one whose turn it is; a read goes first unless so many went before.
        for offset in 0..dies {
            let die = (turn + offset) % dies;
            if works[die] {
                continue;
            }
            let waited_for = settling.iter().map(|(place, ..)| *place).max().unwrap_or(0);
            let lacks_room = !crowded.is_empty() && leaving.is_empty();
            let programs = buffer.len() as u64 >= per_program
                || buffer.first().is_some_and(|held| lacks_room || held.1 < waited_for);
            let must_program = programs && in_a_row[die] >= parameters.reads_before_program;
            let reads = !to_read[die].is_empty() && !must_program;
            if reads {
                let (index, bytes) = to_read[die].remove(0);
                in_a_row[die] += 1;
                plan.add(now + us(parameters.read_us), Then::PageRead { die, index, bytes });
            } else if programs {
                let units: Vec<(u64, u64)> = buffer.drain(..buffer.len().min(per_program as usize)).collect();
                for (count, (at, _)) in (0..).zip(&units) {
                    place.insert(*at, (die, next_page + count / per_page));
                }
                next_page += per_program;
                leaving.extend(&units);
                in_a_row[die] = 0;
                turn = (die + 1) % dies;
                let time = transfer(parameters.program_bytes.into(), parameters.channel_bytes_per_s);
                let at = have(&mut channel[die % channels], now, time) + us(parameters.program_us);
                plan.add(at, Then::Programmed { die, units });
            } else {
                continue;
            }
            works[die] = true;
        }
        let first = buffer.iter().chain(&leaving).map(|held| held.1).min().unwrap_or(Nanos::MAX);
        for (_, index, time) in settling.iter().filter(|(place, ..)| *place <= first) {
            plan.add(now + time, Then::Answered(*index));
        }
        settling.retain(|(place, ..)| *place > first);
    }
    answered
}
