//! The disk with arms: seeks, rotation, zones, a queue by shortest positioning time, a write cache, read-ahead.

use strata_disks::{Hdd, Nanos, Op};

use crate::{Plan, Sequence, have, transfer};

/// Where bytes are, in turns of the disk and tracks.
struct Layout<'a> {
    parameters: &'a Hdd,
    turn: f64,
    /// Where the platters stand at moment 0.
    phase: f64,
    cylinders: u64,
    /// Of each zone: first byte, first track, bytes of a track.
    zones: Vec<(u64, u64, u64)>,
}

impl<'a> Layout<'a> {
    fn new(parameters: &'a Hdd, size: u64, phase: f64) -> Self {
        // Times are whole nanoseconds.
        let turn = (60e9 / f64::from(parameters.rpm)).floor();
        // A sustained rate has a switch after each turn.
        let track = |rate: f64| (rate * (turn / 1e9 + parameters.track_switch_ms / 1e3)) as u64 / 4096 * 4096;
        let (outer, inner) = (parameters.outer_bytes_per_s as f64, parameters.inner_bytes_per_s as f64);
        let heads = u64::from(parameters.heads);
        let cylinders = size.div_ceil(heads * track((outer + inner) / 2.0));
        let count = u64::from(parameters.zones);
        let (mut zones, mut byte, mut first) = (Vec::new(), 0, 0);
        for zone in 0..count {
            let bytes = track(outer - (outer - inner) * (zone as f64 + 0.5) / count as f64);
            zones.push((byte, first, bytes));
            let next = cylinders * (zone + 1) / count * heads;
            byte += (next - first) * bytes;
            first = next;
        }
        let mut layout = Self { parameters, turn, phase, cylinders, zones };
        // The stroke ends where the device does.
        layout.cylinders = layout.place(size - 1).0 / heads + 1;
        layout
    }

    /// Track and share of it before a byte.
    fn place(&self, byte: u64) -> (u64, f64) {
        let (first_byte, first, bytes) = self.zones.iter().rev().find(|zone| zone.0 <= byte).copied().expect("a zone");
        let within = byte - first_byte;
        (first + within / bytes, (within % bytes) as f64 / bytes as f64)
    }

    /// From a track to a byte: the arm moves, then the platter comes round. Tracks are skewed by a switch each.
    fn way(&self, now: Nanos, from: u64, byte: u64, write: bool) -> f64 {
        let (track, share) = self.place(byte);
        let (ms, heads) = (1e6, u64::from(self.parameters.heads));
        let cylinders = (from / heads).abs_diff(track / heads);
        let hdd = self.parameters;
        let seek = if from == track {
            0.0
        } else if cylinders == 0 || from.abs_diff(track) == 1 {
            hdd.track_switch_ms * ms
        } else {
            let d = cylinders as f64 / self.cylinders as f64;
            let curve = if d <= hdd.seek_knee {
                hdd.seek_short_ms + hdd.seek_short_sqrt_ms * d.sqrt()
            } else {
                hdd.seek_long_ms + hdd.seek_long_linear_ms * d
            };
            (curve.max(hdd.track_switch_ms) + if write { hdd.write_settle_ms } else { 0.0 }) * ms
        };
        let wanted = share * self.turn + track as f64 * hdd.track_switch_ms * ms;
        seek + (wanted - (now as f64 + seek + self.phase)).rem_euclid(self.turn)
    }

    /// The byte that a head is at that was at another one some time ago, in whole sectors.
    fn byte_after(&self, byte: u64, time: f64) -> u64 {
        let (track, share) = self.place(byte);
        let whole = self.turn + self.parameters.track_switch_ms * 1e6;
        let reached = track as f64 * whole + share * self.turn + time;
        let (track, within) = ((reached / whole) as u64, (reached % whole).min(self.turn));
        let zone = self.zones.iter().rev().find(|zone| zone.1 <= track).expect("a zone");
        (zone.0 + (track - zone.1) * zone.2 + (within / self.turn * zone.2 as f64) as u64) / 512 * 512
    }

    /// Time under the head.
    fn passing(&self, byte: u64, bytes: u64) -> f64 {
        let switch = self.parameters.track_switch_ms * 1e6;
        let reached = |byte: u64| {
            let (track, share) = self.place(byte);
            track as f64 * (self.turn + switch) + share * self.turn
        };
        // At the end of a track there is no switch yet.
        reached(byte + bytes) - reached(byte) - if self.place(byte + bytes).1 == 0.0 { switch } else { 0.0 }
    }
}

enum Then {
    Arrived(usize),
    Understood(usize),
    Landed(usize),
    ArmDone,
    Answered(usize),
    Look,
}

#[derive(Clone, Copy, PartialEq)]
enum Job {
    Request(usize),
    Cached(usize),
}

/// When each request is answered, with a volatile cache.
pub(crate) fn answers(parameters: &Hdd, size: u64, depth: u32, phase: f64, sequence: &Sequence) -> Vec<Nanos> {
    let layout = Layout::new(parameters, size, phase);
    let (command, age, idle) = (
        (parameters.command_us * 1e3) as Nanos,
        (parameters.destage_age_ms * 1e6) as Nanos,
        (parameters.destage_idle_ms * 1e6) as Nanos,
    );
    let window = parameters.destage_window as usize;
    let over = |index: usize| transfer(sequence[index].1.length, parameters.interface_bytes_per_s);
    let mut plan = Plan::new();
    for (index, (at, _)) in sequence.iter().enumerate() {
        plan.add(*at, Then::Arrived(index));
    }
    let mut answered = vec![Nanos::MAX; sequence.len()];
    let (mut outside, mut inside) = (Vec::new(), 0);
    let mut interface = 0;
    // Waiting for the arm, with the time since when; waiting for room; cached, with the time since when; flushes.
    let (mut waiting, mut crowded, mut cached, mut flushes) =
        (Vec::<(usize, Nanos)>::new(), Vec::<usize>::new(), Vec::<(usize, Nanos)>::new(), Vec::<usize>::new());
    // On their way into the cache, and from there to the medium.
    let (mut coming, mut pass) = (Vec::<usize>::new(), Vec::<usize>::new());
    let (mut arm, mut track, mut last_was_request, mut last_read): (Option<Job>, u64, bool, Option<Nanos>) =
        (None, 0, false, None);
    let mut passed_over = (usize::MAX, 0);
    // Bytes in memory, those read last at the end; and since when the head reads on behind the last of them.
    let (mut segments, mut reads_on) = (Vec::<(u64, u64)>::new(), None);
    let read_on = |segment: (u64, u64), since: Nanos, now: Nanos| {
        let most = segment.1 + parameters.read_ahead_bytes;
        (segment.0, layout.byte_after(segment.1, (now - since) as f64).clamp(segment.1, most))
    };
    let in_memory = |segments: &mut Vec<(u64, u64)>, reads_on: Option<Nanos>, now: Nanos, index: usize| {
        let asked = sequence[index].1;
        let last = segments.len().saturating_sub(1);
        let covers = |(at, segment): (usize, &(u64, u64))| {
            let segment = reads_on.filter(|_| at == last).map_or(*segment, |since| read_on(*segment, since, now));
            segment.0 <= asked.offset && asked.end() <= segment.1
        };
        let found = segments.iter().enumerate().position(covers);
        if let Some(at) = found.filter(|&at| at < last) {
            // It was used last, but for the one that the head is reading into.
            let segment = segments.remove(at);
            segments.insert(last - 1, segment);
        }
        found.is_some()
    };
    let is_write = |index: usize| matches!(sequence[index].1.op, Op::Write { .. });
    while let Some((now, then)) = plan.take() {
        match then {
            Then::Arrived(index) => outside.push(index),
            Then::Understood(index) => match sequence[index].1.op {
                Op::Read => {
                    if in_memory(&mut segments, reads_on, now, index) {
                        last_read = Some(now);
                        plan.add(have(&mut interface, now, over(index)), Then::Answered(index));
                    } else {
                        waiting.push((index, now));
                    }
                }
                Op::Flush => flushes.push(index),
                Op::Write { fua: true } => plan.add(have(&mut interface, now, over(index)), Then::Landed(index)),
                _ => crowded.push(index),
            },
            Then::Landed(index) if sequence[index].1.op == (Op::Write { fua: true }) => waiting.push((index, now)),
            Then::Landed(index) => {
                coming.retain(|&other| other != index);
                // What it covers is gone.
                let place = sequence[index].1.offset;
                cached.retain(|(other, _)| sequence[*other].1.offset != place);
                cached.push((index, now));
                plan.add(now, Then::Answered(index));
            }
            Then::ArmDone => match arm.take() {
                Some(Job::Request(index)) if is_write(index) => plan.add(now, Then::Answered(index)),
                Some(Job::Request(index)) => {
                    last_read = Some(now);
                    plan.add(have(&mut interface, now, over(index)), Then::Answered(index));
                    segments.push((sequence[index].1.offset, sequence[index].1.end()));
                    if segments.len() > parameters.read_segments as usize {
                        segments.remove(0);
                    }
                    reads_on = Some(now);
                }
                _ => {}
            },
            Then::Answered(index) => {
                answered[index] = now;
                inside -= 1;
            }
            Then::Look => {}
        }
        while inside < depth && !outside.is_empty() {
            inside += 1;
            plan.add(now + command, Then::Understood(outside.remove(0)));
        }
        let destaging: &[usize] = if matches!(arm, Some(Job::Cached(_))) { &pass } else { &[] };
        // Room in the cache, by number and by bytes.
        while let Some(&index) = crowded.first() {
            let held =
                cached.iter().map(|(index, _)| *index).chain(coming.iter().copied()).chain(destaging.iter().copied());
            let (count, bytes) =
                held.fold((0, 0), |(count, bytes), index| (count + 1, bytes + sequence[index].1.length));
            if count >= parameters.cached_writes || bytes + sequence[index].1.length > parameters.cache_bytes {
                break;
            }
            coming.push(crowded.remove(0));
            plan.add(have(&mut interface, now, over(index)), Then::Landed(index));
        }
        // A flush is answered when nothing that was written before it is anywhere but on the medium.
        while let Some(&flush) = flushes.first() {
            let open = (0..flush).any(|index| is_write(index) && answered[index] == Nanos::MAX);
            let held = cached.iter().any(|(index, _)| *index < flush) || destaging.iter().any(|&index| index < flush);
            if open || held {
                break;
            }
            flushes.remove(0);
            plan.add(now, Then::Answered(flush));
        }
        if arm.is_some() || plan.next() == Some(now) {
            continue;
        }
        // Reads whose bytes have come into memory need no arm.
        let (come, still): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(index, _)| !is_write(*index) && in_memory(&mut segments, reads_on, now, *index));
        waiting = still;
        for (index, _) in come {
            last_read = Some(now);
            plan.add(have(&mut interface, now, over(index)), Then::Answered(index));
        }
        // A head that reads on is where it reads.
        if let (Some(since), Some(last)) = (reads_on, segments.last()) {
            track = layout.place(read_on(*last, since, now).1 - 1).0;
        }
        // A read is on the way when the head has read its beginning and goes on.
        let on_the_way = |index: usize| {
            let (asked, since) = (sequence[index].1, reads_on?);
            let last = *segments.last()?;
            let at = read_on(last, since, now).1;
            let begun = (last.0..=at).contains(&asked.offset) && at < last.1 + parameters.read_ahead_bytes;
            (begun && !is_write(index)).then_some((since, last.1))
        };
        let way = |index: usize| match on_the_way(index) {
            Some(_) => 0.0,
            None => layout.way(now, track, sequence[index].1.offset, is_write(index)),
        };
        let nearest = |of: &mut dyn Iterator<Item = usize>| of.min_by(|&a, &b| way(a).total_cmp(&way(b)));
        let among = if passed_over.1 >= 4 * window { 1 } else { window };
        let flushed = flushes.last().and_then(|&flush| {
            nearest(&mut cached.iter().map(|(index, _)| *index).filter(|&index| index < flush).take(among))
        });
        let is_idle = last_read.is_none_or(|at| now >= at + idle);
        let bytes: u64 = cached.iter().map(|(index, _)| sequence[*index].1.length).sum();
        let pressed = !crowded.is_empty()
            || cached.len() > window
            || bytes as f64 > parameters.cache_bytes as f64 * parameters.destage_share
            || is_idle && waiting.is_empty();
        let turn = waiting.is_empty() || last_was_request;
        let destage = || {
            let old = cached.iter().take(among).filter(|(_, since)| pressed || now >= since + age);
            nearest(&mut old.map(|(index, _)| *index)).filter(|_| turn)
        };
        let late = || {
            let oldest = waiting.iter().copied().min_by_key(|(index, _)| *index);
            oldest.filter(|(_, since)| (now - since) as f64 > parameters.longest_wait_ms * 1e6).map(|(index, _)| index)
        };
        let cached_next = flushed.or_else(destage).map(Job::Cached);
        // Of requests that follow each other on the disk the first goes first.
        let follows = |index: usize| {
            let goes_on = |other: usize| {
                is_write(other) == is_write(index) && sequence[other].1.end() == sequence[index].1.offset
            };
            waiting.iter().any(|(other, _)| goes_on(*other))
        };
        let request_next = || {
            let firsts = || nearest(&mut waiting.iter().map(|(index, _)| *index).filter(|&index| !follows(index)));
            late().or_else(firsts).map(Job::Request)
        };
        let Some(job) = cached_next.or_else(request_next) else {
            let aged = cached.first().map(|(_, since)| since + age);
            let idle = last_read.map(|at| at + idle).filter(|_| !cached.is_empty());
            if let Some(at) = aged.into_iter().chain(idle).filter(|&at| at > now).min() {
                plan.add(at, Then::Look);
            }
            continue;
        };
        let (Job::Request(index) | Job::Cached(index)) = job;
        if let Job::Cached(index) = job {
            let oldest = cached[0].0;
            passed_over = match passed_over {
                _ if oldest == index => (usize::MAX, 0),
                (same, count) if same == oldest => (same, count + 1),
                _ => (oldest, 1),
            };
        }
        // Cached neighbours go along, up to 2 MiB.
        let start = sequence[index].1.offset;
        let mut end = sequence[index].1.end();
        pass = vec![index];
        if matches!(job, Job::Cached(_)) {
            while let Some((next, _)) = cached.iter().find(|(other, _)| sequence[*other].1.offset == end) {
                if sequence[*next].1.end() - start > 2 << 20 {
                    break;
                }
                pass.push(*next);
                end = sequence[*next].1.end();
            }
        }
        let done = match on_the_way(index) {
            Some((since, from)) => since as f64 + layout.passing(from, end - from),
            None => now as f64 + way(index) + layout.passing(start, end - start),
        };
        if let (Some(since), Some(last)) = (reads_on.take(), segments.last_mut()) {
            *last = read_on(*last, since, now);
        }
        last_was_request = matches!(job, Job::Request(_));
        waiting.retain(|(other, _)| *other != index);
        cached.retain(|(other, _)| matches!(job, Job::Request(_)) || !pass.contains(other));
        track = layout.place(end - 512).0;
        arm = Some(job);
        plan.add(now.max(done.round() as Nanos), Then::ArmDone);
    }
    answered
}
