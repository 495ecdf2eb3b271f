//! A disk with its faults: the model that [`Model`] describes, and what goes wrong with it.

use std::collections::{BTreeSet, VecDeque};

use crate::fixed::FixedDisk;
use crate::hdd::HddDisk;
use crate::parameters::{Errors, Model, On, Service, Stalls, ns_of_ms, ns_of_s};
use crate::random::Random;
use crate::request::{Event, Nanos, Op, Request, Serve, What};
use crate::ssd::SsdDisk;

/// A disk.
pub struct Device {
    model: Model,
    size_bytes: u64,
    seed: u64,
    disk: Box<dyn Serve + Send>,
    errors: Vec<(Errors, u64)>,
    stalls: Vec<(Stalls, u64)>,
    random: Random,
    dropped_flush_every: Option<u64>,
    flushes: u64,
    power_cut: Option<Nanos>,
    power_back: Option<Nanos>,
    without_power: bool,
    stalled_until: Nanos,
    /// Requests that arrived and have not completed, and of them those that will fail.
    open: BTreeSet<u64>,
    failing: BTreeSet<u64>,
    /// Events that a stall, or nothing, holds back, in the order of time.
    held: VecDeque<Event>,
    inner: Vec<Event>,
}

impl Device {
    /// A disk of `size_bytes` at rest. All that is random comes from the seed.
    ///
    /// # Errors
    /// A sentence, when the parameters are out of range or do not fit the size.
    pub fn new(model: &Model, size_bytes: u64, seed: u64) -> Result<Self, String> {
        model.check(size_bytes)?;
        let disk = at_rest(model, size_bytes, seed)?;
        Ok(Self {
            disk,
            errors: model.faults.errors.iter().map(|errors| (errors.clone(), 0)).collect(),
            stalls: model.faults.stalls.iter().map(|stalls| (stalls.clone(), 0)).collect(),
            random: Random::new(seed),
            model: model.clone(),
            size_bytes,
            seed,
            power_back: model.faults.power_back_s.map(ns_of_s),
            dropped_flush_every: model.faults.dropped_flush_every,
            flushes: 0,
            power_cut: model.faults.power_cut_s.map(ns_of_s),
            without_power: false,
            stalled_until: 0,
            open: BTreeSet::new(),
            failing: BTreeSet::new(),
            held: VecDeque::new(),
            inner: Vec::new(),
        })
    }

    /// Takes a request at `now`; every event up to `now` has been taken by [`Device::advance`].
    pub fn arrive(&mut self, now: Nanos, request: &Request) {
        self.open.insert(request.id);
        if self.without_power {
            self.hold(now, What::Done { id: request.id, ok: false, durable: false });
            return;
        }
        let mut fails = false;
        for (errors, count) in &mut self.errors {
            if matches(errors, now, request) {
                *count += 1;
                fails |= errors.every.is_none_or(|every| *count % every == 0);
            }
        }
        if fails {
            self.failing.insert(request.id);
        }
        if request.op == Op::Flush {
            self.flushes += 1;
            if self.dropped_flush_every.is_some_and(|every| self.flushes % every == 0) {
                self.hold(now, What::Done { id: request.id, ok: true, durable: false });
                return;
            }
        }
        self.disk.arrive(now, request);
    }

    /// When the next event happens if nothing else arrives.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        let (disk, power) =
            if self.without_power { (None, self.power_back) } else { (self.disk.next(), self.power_cut) };
        [self.held.front().map(|event| event.at), disk, power].into_iter().flatten().min()
    }

    /// A moment before which no request is answered and no power fails if nothing else arrives; `None` if neither ever
    /// happens. Who needs only answers has to [`Device::advance`] at these moments and when a request arrives: whatever the
    /// disk did in between comes out as it would have at every [`Device::next`].
    #[must_use]
    pub fn next_answer(&self) -> Option<Nanos> {
        let held = self.held.iter().find(|event| !matches!(event.what, What::Durable { .. })).map(|event| event.at);
        if self.without_power {
            return held;
        }
        let disk = self.disk.next_answer().map(|at| at.max(self.stalled_until));
        [held, disk, self.power_cut].into_iter().flatten().min()
    }

    /// Adds every event up to `until` (included), in the order of time.
    pub fn advance(&mut self, until: Nanos, events: &mut Vec<Event>) {
        while let Some(at) = self.next().filter(|&at| at <= until) {
            if self.held.front().is_some_and(|event| event.at == at) {
                events.extend(self.held.pop_front());
            } else if self.without_power {
                self.give_power_back();
            } else if self.power_cut == Some(at) {
                self.cut_power(at, events);
            } else {
                let mut inner = std::mem::take(&mut self.inner);
                self.disk.step(&mut inner);
                for event in inner.drain(..) {
                    self.pass_on(event);
                }
                self.inner = inner;
            }
        }
    }

    /// The shortest time that any read or write of 4 KiB can take.
    #[must_use]
    pub fn least(&self) -> Nanos {
        self.disk.least()
    }

    /// Bytes of memory held, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.disk.held_bytes()
            + (self.held.capacity() + self.inner.capacity()) * size_of::<Event>()
            + (self.open.len() + self.failing.len()) * 16
    }

    fn pass_on(&mut self, event: Event) {
        match event.what {
            What::Done { id, durable, .. } => {
                self.begin_stalls(event.at);
                let ok = !self.failing.remove(&id);
                self.hold(event.at, What::Done { id, ok, durable: durable && ok });
            }
            What::Durable { .. } | What::PowerCut => self.hold(event.at, event.what),
        }
    }

    fn begin_stalls(&mut self, at: Nanos) {
        for (stall, count) in &mut self.stalls {
            *count += 1;
            let starts = stall.every.is_some_and(|every| *count % every == 0)
                || stall.share.is_some_and(|share| self.random.unit() < share);
            if starts {
                self.stalled_until = self.stalled_until.max(at + ns_of_ms(stall.length_ms));
            }
            let once = stall.at_s.map(ns_of_s).filter(|&start| start <= at);
            if let Some(end) = once.map(|start| start + ns_of_ms(stall.length_ms)) {
                self.stalled_until = self.stalled_until.max(end);
            }
        }
    }

    /// Lets an event happen at its time or when the stall is over; never before one that is held already.
    fn hold(&mut self, at: Nanos, what: What) {
        let at = at.max(self.stalled_until).max(self.held.back().map_or(0, |event| event.at));
        if let What::Done { id, .. } = what {
            self.open.remove(&id);
        }
        self.held.push_back(Event { at, what });
    }

    fn give_power_back(&mut self) {
        self.power_back = None;
        // It was made from the same parameters once, so it can be made again.
        if let Ok(disk) = at_rest(&self.model, self.size_bytes, self.seed) {
            self.disk = disk;
            self.without_power = false;
        }
    }

    fn cut_power(&mut self, at: Nanos, events: &mut Vec<Event>) {
        self.power_cut = None;
        self.without_power = true;
        self.stalled_until = 0;
        self.failing.clear();
        events.push(Event { at, what: What::PowerCut });
        let unanswered = std::mem::take(&mut self.held).into_iter().filter_map(|event| match event.what {
            What::Done { id, .. } => Some(id),
            What::Durable { .. } | What::PowerCut => None,
        });
        let mut lost = std::mem::take(&mut self.open);
        lost.extend(unanswered);
        events.extend(lost.into_iter().map(|id| Event { at, what: What::Done { id, ok: false, durable: false } }));
    }
}

fn at_rest(model: &Model, size_bytes: u64, seed: u64) -> Result<Box<dyn Serve + Send>, String> {
    // Not the stream of the stalls: those shall not change what the disk itself draws.
    let own_seed = Random::new(!seed).bits();
    let (depth, cache) = (model.queue_depth, model.write_cache);
    Ok(match &model.service {
        Service::Fixed(fixed) => Box::new(FixedDisk::new(fixed, cache)),
        Service::Hdd(hdd) => Box::new(HddDisk::new(hdd, cache, depth, size_bytes, own_seed)),
        Service::Ssd(ssd) => Box::new(
            SsdDisk::new(ssd, cache, depth, size_bytes, own_seed)
                .map_err(|sentence| format!("model '{}': {sentence}", model.name))?,
        ),
    })
}

fn matches(errors: &Errors, now: Nanos, request: &Request) -> bool {
    let about = match errors.on {
        On::Any => true,
        On::Read => request.op == Op::Read,
        On::Write => matches!(request.op, Op::Write { .. } | Op::Discard | Op::WriteZeroes),
        On::Flush => request.op == Op::Flush,
    };
    let touches = match (errors.start_bytes, errors.length_bytes) {
        (Some(start), Some(length)) => request.offset < start + length && start < request.end(),
        _ => true,
    };
    about && touches && errors.from_s.is_none_or(|from| ns_of_s(from) <= now)
}
