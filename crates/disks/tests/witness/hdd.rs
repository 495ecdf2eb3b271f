//! The disk with arms: seeks, rotation, zones, a queue by shortest positioning time, a write cache, read-ahead.

use strata_disks::{Hdd, Nanos, Op, Request};

use crate::{Plan, Sequence, have, transfer};

/// Moments of the models are rounded to nanoseconds several times on a request's way.
const ROUNDING_NS: f64 = 5.0;

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
        let wait = (wanted - (now as f64 + seek + self.phase)).rem_euclid(self.turn);
        // A place just one switch away is reached without waiting; what is rounded must not make a turn of that.
        seek + if self.turn - wait < ROUNDING_NS { 0.0 } else { wait }
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

enum Job {
    Request(usize),
    /// Runs that follow each other.
    Pass(Vec<Run>),
}

/// Written bytes that are not on the medium: where, the first request that they stand for, and since when.
#[derive(Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    order: usize,
    since: Nanos,
}

/// Takes a range out of all runs; returns the oldest that it touched.
fn cut(cached: &mut Vec<Run>, start: u64, end: u64) -> Option<Run> {
    let touched: Vec<Run> = cached.iter().copied().filter(|run| run.start < end && start < run.end).collect();
    cached.retain(|run| run.end <= start || end <= run.start);
    for run in &touched {
        if run.start < start {
            cached.push(Run { end: start, ..*run });
        }
        if end < run.end {
            cached.push(Run { start: end, ..*run });
        }
    }
    cached.sort_by_key(|run| (run.order, run.start));
    touched.into_iter().min_by_key(|run| run.order)
}

/// Bytes of the medium in memory, and when they were used last.
#[derive(Clone, Copy)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
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
    // Waiting for the arm, with the time since when; waiting for room; cached, oldest first; flushes.
    let (mut waiting, mut crowded, mut cached, mut flushes) =
        (Vec::<(usize, Nanos)>::new(), Vec::<usize>::new(), Vec::<Run>::new(), Vec::<usize>::new());
    // On their way into the cache.
    let mut coming = Vec::<usize>::new();
    let (mut arm, mut track, mut last_was_request, mut last_read): (Option<Job>, u64, bool, Option<Nanos>) =
        (None, 0, false, None);
    let mut reading_into = 0;
    let mut passed_over = ((usize::MAX, 0), 0);
    // Bytes in memory; and into which of them the head reads on, behind what it has, since when.
    let mut segments = vec![Segment { start: 0, end: 0, used: 0 }; parameters.read_segments as usize];
    let (mut reads_on, mut uses) = (None::<(usize, u64, Nanos)>, 0);
    let read_on = |(_, from, since): (usize, u64, Nanos), now: Nanos| {
        let most = (from + parameters.read_ahead_bytes).min(size);
        layout.byte_after(from, (now - since) as f64).clamp(from, most)
    };
    let is_write = |index: usize| matches!(sequence[index].1.op, Op::Write { .. });
    while let Some((now, then)) = plan.take() {
        let mut looked_up = None;
        match then {
            Then::Arrived(index) => outside.push(index),
            Then::Understood(index) => match sequence[index].1.op {
                Op::Read => {
                    waiting.push((index, now));
                    looked_up = Some(index);
                }
                Op::Flush => flushes.push(index),
                Op::Write { fua: true } => plan.add(have(&mut interface, now, over(index)), Then::Landed(index)),
                _ => crowded.push(index),
            },
            Then::Landed(index) if sequence[index].1.op == (Op::Write { fua: true }) => waiting.push((index, now)),
            Then::Landed(index) => {
                coming.retain(|&other| other != index);
                // What it covers is gone, but a flush that waits for that waits for this.
                let (start, end) = (sequence[index].1.offset, sequence[index].1.end());
                let (order, since) =
                    cut(&mut cached, start, end).map_or((index, now), |run| (run.order.min(index), run.since.min(now)));
                cached.push(Run { start, end, order, since });
                cached.sort_by_key(|run| (run.order, run.start));
                plan.add(now, Then::Answered(index));
            }
            Then::ArmDone => match arm.take() {
                Some(Job::Request(index)) if is_write(index) => {
                    cut(&mut cached, sequence[index].1.offset, sequence[index].1.end());
                    plan.add(now, Then::Answered(index));
                }
                Some(Job::Request(index)) => {
                    last_read = Some(now);
                    let end = sequence[index].1.end();
                    plan.add(have(&mut interface, now, over(index)), Then::Answered(index));
                    let segment = &mut segments[reading_into];
                    segment.end = segment.end.max(end);
                    segment.start = segment.start.max(segment.end.saturating_sub(parameters.read_ahead_bytes));
                    reads_on = Some((reading_into, end, now));
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
        let destaging: &[Run] = if let Some(Job::Pass(runs)) = &arm { runs } else { &[] };
        // Room in the cache, by number and by bytes.
        while let Some(&index) = crowded.first() {
            let runs = cached.iter().chain(destaging).map(|run| run.end - run.start);
            let held = runs.chain(coming.iter().map(|&index| sequence[index].1.length));
            let (count, bytes) = held.fold((0, 0), |(count, bytes), length| (count + 1, bytes + length));
            if count >= parameters.cached_writes || bytes + sequence[index].1.length > parameters.cache_bytes {
                break;
            }
            coming.push(crowded.remove(0));
            plan.add(have(&mut interface, now, over(index)), Then::Landed(index));
        }
        // A flush is answered when nothing that was written before it is anywhere but on the medium.
        while let Some(&flush) = flushes.first() {
            let open = (0..flush).any(|index| is_write(index) && answered[index] == Nanos::MAX);
            let held = cached.iter().chain(destaging).any(|run| run.order < flush);
            if open || held {
                break;
            }
            flushes.remove(0);
            plan.add(now, Then::Answered(flush));
        }
        let is_free = arm.is_none() && plan.next() != Some(now);
        // Reads whose bytes are in memory, or have come there, need no arm.
        if let Some(on) = reads_on {
            segments[on.0].end = read_on(on, now);
        }
        let in_cache = |asked: &Request| {
            let mut from = asked.offset;
            while let Some(run) = cached.iter().find(|run| run.start <= from && from < run.end) {
                from = run.end;
            }
            from >= asked.end()
        };
        let mut in_memory = |index: usize| {
            let asked = &sequence[index].1;
            if let Some(segment) = segments.iter_mut().find(|one| one.start <= asked.offset && asked.end() <= one.end) {
                uses += 1;
                segment.used = uses;
                return true;
            }
            in_cache(asked)
        };
        let (come, still): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(index, _)| !is_write(*index) && (is_free || looked_up == Some(*index)) && in_memory(*index));
        waiting = still;
        for (index, _) in come {
            last_read = Some(now);
            plan.add(have(&mut interface, now, over(index)), Then::Answered(index));
        }
        if !is_free {
            continue;
        }
        // A head that reads on is where it reads.
        if let Some(on) = reads_on {
            track = layout.place(read_on(on, now) - 1).0;
        }
        // A read is on the way when the head has read its beginning and goes on.
        let on_the_way = |index: usize| {
            let (asked, on) = (sequence[index].1, reads_on?);
            let at = read_on(on, now);
            let most = (on.1 + parameters.read_ahead_bytes).min(size);
            let begun = (segments[on.0].start..=at).contains(&asked.offset) && at < most;
            (begun && !is_write(index)).then_some(on)
        };
        let way = |index: usize| match on_the_way(index) {
            Some(_) => 0.0,
            None => layout.way(now, track, sequence[index].1.offset, is_write(index)),
        };
        let nearest = |of: &mut dyn Iterator<Item = usize>| of.min_by(|&a, &b| way(a).total_cmp(&way(b)));
        let run_way = |run: &Run| layout.way(now, track, run.start, true);
        let among = if passed_over.1 >= 4 * window { 1 } else { window };
        let nearest_run = |of: &mut dyn Iterator<Item = Run>| of.min_by(|a, b| run_way(a).total_cmp(&run_way(b)));
        let flushed = flushes
            .last()
            .and_then(|&flush| nearest_run(&mut cached.iter().copied().filter(|run| run.order < flush).take(among)));
        let is_idle = last_read.is_none_or(|at| now >= at + idle);
        let bytes = cached.iter().map(|run| run.end - run.start).sum::<u64>()
            + coming.iter().map(|&index| sequence[index].1.length).sum::<u64>();
        let pressed = !crowded.is_empty()
            || cached.len() > window
            || bytes as f64 > parameters.cache_bytes as f64 * parameters.destage_share
            || is_idle && waiting.is_empty();
        let turn = waiting.is_empty() || last_was_request;
        let destage = || {
            let old = cached.iter().copied().take(among).filter(|run| pressed || now >= run.since + age);
            nearest_run(&mut { old }).filter(|_| turn)
        };
        let late = || {
            let oldest = waiting.iter().copied().min_by_key(|(index, _)| *index);
            oldest.filter(|(_, since)| (now - since) as f64 > parameters.longest_wait_ms * 1e6).map(|(index, _)| index)
        };
        let cached_next = flushed.or_else(destage);
        // Of requests that follow each other on the disk the first goes first.
        let follows = |index: usize| {
            let goes_on = |other: usize| {
                is_write(other) == is_write(index) && sequence[other].1.end() == sequence[index].1.offset
            };
            waiting.iter().any(|(other, _)| goes_on(*other))
        };
        let request_next = || {
            let firsts = || nearest(&mut waiting.iter().map(|(index, _)| *index).filter(|&index| !follows(index)));
            late().or_else(firsts)
        };
        let (start, mut end, done);
        let job = if let Some(run) = cached_next {
            let oldest = (cached[0].order, cached[0].start);
            passed_over = match passed_over {
                _ if oldest.1 == run.start => ((usize::MAX, 0), 0),
                (same, count) if same == oldest => (same, count + 1),
                _ => (oldest, 1),
            };
            // Cached neighbours go along, up to 2 MiB.
            let mut pass = vec![run];
            (start, end) = (run.start, run.end);
            while let Some(next) = cached.iter().find(|next| next.start == end && next.end - start <= 2 << 20) {
                pass.push(*next);
                end = next.end;
            }
            done = now as f64 + run_way(&run) + layout.passing(start, end - start);
            cached.retain(|run| run.end <= start || end <= run.start);
            Job::Pass(pass)
        } else if let Some(index) = request_next() {
            (start, end) = (sequence[index].1.offset, sequence[index].1.end());
            let continued = on_the_way(index);
            done = match continued {
                Some((_, from, since)) => since as f64 + layout.passing(from, end - from),
                None => now as f64 + way(index) + layout.passing(start, end - start),
            };
            if !is_write(index) {
                // It continues with bytes that are in memory, or takes the place of those not used for longest.
                let joins = |one: &Segment| one.start < one.end && (one.start..=one.end).contains(&start);
                uses += 1;
                let joined = continued.map(|on| on.0).or_else(|| segments.iter().position(joins));
                reading_into = joined.unwrap_or_else(|| {
                    let oldest = (0..segments.len()).min_by_key(|&at| segments[at].used);
                    let oldest = oldest.expect("a segment");
                    segments[oldest] = Segment { start, end: start, used: 0 };
                    oldest
                });
                segments[reading_into].used = uses;
            }
            waiting.retain(|(other, _)| *other != index);
            Job::Request(index)
        } else {
            let aged = cached.first().map(|run| run.since + age);
            let idle = last_read.map(|at| at + idle).filter(|_| !cached.is_empty());
            if let Some(at) = aged.into_iter().chain(idle).filter(|&at| at > now).min() {
                plan.add(at, Then::Look);
            }
            continue;
        };
        reads_on = None;
        last_was_request = matches!(job, Job::Request(_));
        track = layout.place(end - 512).0;
        arm = Some(job);
        plan.add(now.max(done.round() as Nanos), Then::ArmDone);
    }
    answered
}
