//! The model of a disk of flash; see [`Ssd`] for its parameters.

mod buffer;
mod flash;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use buffer::{Buffer, Held};
pub use flash::{Collected, Flash};

use crate::agenda::{Agenda, Line, transfer};
use crate::parameters::{Ssd, WriteCache, ns_of_ms, ns_of_us};
use crate::random::Random;
use crate::request::{Event, Nanos, Op, Request, Serve, What};

/// State of a disk of flash.
pub struct SsdDisk {
    parameters: Ssd,
    write_cache: WriteCache,
    queue_depth: u32,
    flash: Flash,
    erase: Nanos,
    /// What happens, and a moment before which it answers no request.
    agenda: Agenda<(Happening, Nanos)>,
    controller: Line,
    to_host: Line,
    from_host: Line,
    channels: Vec<Line>,
    dies: Vec<Die>,
    /// The die that is offered the next program operation first.
    turn: usize,
    outside: VecDeque<Request>,
    inside: u32,
    /// Parts that a read still waits for, by number.
    reads: BTreeMap<u64, (Request, u32)>,
    buffer: Buffer,
    buffer_bytes: u64,
    /// Bytes of writes that have room in the buffer and are not programmed.
    taken_bytes: u64,
    /// Writes that wait for room.
    crowded: VecDeque<Request>,
    open_writes: BTreeSet<u64>,
    flushes: VecDeque<u64>,
    /// Requests that wait until every unit before a ticket is programmed, in the order of tickets.
    settling: BTreeMap<(u64, u64), Settling>,
    /// Tickets that are being programmed.
    leaving: BTreeSet<u64>,
}

#[derive(Default)]
struct Die {
    work: Option<Work>,
    reads: VecDeque<PageRead>,
    reads_in_a_row: u32,
}

enum Work {
    Read(PageRead),
    Program(Vec<Held>),
    Collect,
}

#[derive(Clone, Copy)]
struct PageRead {
    id: u64,
    bytes: u64,
    /// Bytes of the whole request.
    request_bytes: u64,
}

#[derive(Clone, Copy)]
enum Settling {
    Write,
    Flush,
}

enum Happening {
    /// The controller has understood a request.
    Understood(Request),
    /// The bytes of a write have arrived.
    Landed(Request),
    /// A die has done its work.
    DieDone(usize),
    /// A part of a read is in the controller.
    Part(PageRead),
    /// A request is answered.
    Answered { id: u64, durable: bool },
}

impl SsdDisk {
    /// A disk as full and worn in as its parameters say; the seed says by which writes.
    ///
    /// # Errors
    /// A sentence, when the device's size does not fit the flash.
    pub fn new(
        parameters: &Ssd,
        write_cache: WriteCache,
        queue_depth: u32,
        size_bytes: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let mut flash = Flash::new(parameters, size_bytes)?;
        flash.wear_in(parameters.filled_share, parameters.overwritten, &mut Random::new(seed));
        let block = u64::from(flash.units_per_block()) * u64::from(parameters.mapping_bytes);
        let erase = u128::from(ns_of_ms(parameters.erase_ms)) * u128::from(block) / u128::from(parameters.block_bytes);
        // Without a cache a write still passes through memory on its way; there is room for two operations of each die.
        let passing = 2 * u64::from(parameters.program_bytes) * flash.dies() as u64;
        let buffer_bytes = if write_cache == WriteCache::None { passing } else { parameters.buffer_bytes };
        Ok(Self {
            parameters: parameters.clone(),
            write_cache,
            queue_depth,
            erase: erase as Nanos,
            agenda: Agenda::new(),
            controller: Line::default(),
            to_host: Line::default(),
            from_host: Line::default(),
            channels: (0..parameters.channels).map(|_| Line::default()).collect(),
            dies: (0..flash.dies()).map(|_| Die::default()).collect(),
            turn: 0,
            outside: VecDeque::new(),
            inside: 0,
            reads: BTreeMap::new(),
            buffer: Buffer::default(),
            buffer_bytes,
            taken_bytes: 0,
            crowded: VecDeque::new(),
            open_writes: BTreeSet::new(),
            flushes: VecDeque::new(),
            settling: BTreeMap::new(),
            leaving: BTreeSet::new(),
            flash,
        })
    }

    /// The map and the blocks.
    #[must_use]
    pub fn flash(&self) -> &Flash {
        &self.flash
    }

    /// Resets the counts of write amplification.
    pub fn count_anew(&mut self) {
        self.flash.count_anew();
    }

    fn unit_bytes(&self) -> u64 {
        u64::from(self.parameters.mapping_bytes)
    }

    /// The units that a request touches.
    fn units(&self, request: &Request) -> std::ops::Range<u32> {
        (request.offset / self.unit_bytes()) as u32..request.end().div_ceil(self.unit_bytes()) as u32
    }

    fn admit(&mut self, now: Nanos, request: Request) {
        self.inside += 1;
        let at = self.controller.have(now, ns_of_us(self.parameters.command_us));
        let answer = self.answer_of_understood(at, &request);
        self.agenda.plan(at, (Happening::Understood(request), answer));
    }

    fn answer(&mut self, at: Nanos, id: u64, durable: bool) {
        self.agenda.plan(at, (Happening::Answered { id, durable }, at));
    }

    /// A moment before which a request is not answered that is understood at `at`.
    fn answer_of_understood(&self, at: Nanos, request: &Request) -> Nanos {
        match request.op {
            Op::Read if self.needs_die(request) => {
                let read = at + ns_of_us(self.parameters.read_us);
                let there = read + transfer(self.unit_bytes(), self.parameters.channel_bytes_per_s);
                self.answer_of_part(there, request.length)
            }
            Op::Read => self.answer_of_part(at, request.length),
            Op::Write { .. } => {
                let time = transfer(request.length, self.parameters.interface_bytes_per_s);
                self.from_host.earliest(at, time) + ns_of_us(self.parameters.write_latency_us)
            }
            Op::Flush if self.write_cache == WriteCache::Volatile => at + ns_of_us(self.parameters.flush_us),
            Op::Flush => at,
            // What is discarded need not be programmed any more: who waited for it is answered as well.
            Op::Discard | Op::WriteZeroes => at + self.least_settling(),
        }
    }

    /// Whether a read that arrives now has to wait for a die. Requests are understood in order of arrival, so that with no
    /// write open nothing gets into the buffer, and nothing is discarded, before this read is.
    fn needs_die(&self, request: &Request) -> bool {
        self.open_writes.is_empty()
            && self.units(request).any(|unit| !self.buffer.holds(unit) && self.flash.page_of(unit).is_some())
    }

    /// A moment before which a read is not answered of which a part is in the controller at `at`.
    fn answer_of_part(&self, at: Nanos, request_bytes: u64) -> Nanos {
        let time = transfer(request_bytes, self.parameters.interface_bytes_per_s);
        let line = if self.parameters.full_duplex { &self.to_host } else { &self.from_host };
        line.earliest(at, time) + ns_of_us(self.parameters.read_latency_us)
    }

    /// The least time from a program operation's end to an answer that waited for it.
    fn least_settling(&self) -> Nanos {
        ns_of_us(self.parameters.write_latency_us.min(self.parameters.flush_us))
    }

    /// The least time from the begin of a die's work to an answer that waited for it.
    fn least_begun(&self) -> Nanos {
        let parameters = &self.parameters;
        let read = ns_of_us(parameters.read_us)
            + transfer(self.unit_bytes(), parameters.channel_bytes_per_s)
            + ns_of_us(parameters.read_latency_us);
        read.min(ns_of_us(parameters.program_us) + self.least_settling())
    }

    fn understood(&mut self, now: Nanos, request: Request) {
        match request.op {
            Op::Read => self.read(now, request),
            Op::Write { .. } => {
                self.crowded.push_back(request);
                self.let_in(now);
            }
            Op::Flush => self.flushes.push_back(request.id),
            // Both change the map only.
            Op::Discard | Op::WriteZeroes => {
                let unit = self.unit_bytes();
                let whole = (request.offset.div_ceil(unit) as u32)..((request.end() / unit) as u32);
                for unit in whole {
                    self.flash.discard(unit);
                    if self.buffer.discard(unit) {
                        self.taken_bytes -= self.unit_bytes();
                    }
                }
                let at = now + ns_of_us(self.parameters.write_latency_us);
                self.answer(at, request.id, true);
                self.let_in(now);
            }
        }
    }

    fn read(&mut self, now: Nanos, request: Request) {
        let mut parts: Vec<(usize, u32, u64)> = Vec::new();
        for unit in self.units(&request) {
            if self.buffer.holds(unit) {
                continue;
            }
            if let Some((die, page)) = self.flash.page_of(unit) {
                match parts.iter_mut().find(|part| (part.0, part.1) == (die, page)) {
                    Some(part) => part.2 += self.unit_bytes(),
                    None => parts.push((die, page, self.unit_bytes())),
                }
            }
        }
        if parts.is_empty() {
            self.hand_over(now, &request);
            return;
        }
        self.reads.insert(request.id, (request, parts.len() as u32));
        for (die, _, bytes) in parts {
            self.dies[die].reads.push_back(PageRead { id: request.id, bytes, request_bytes: request.length });
            self.use_die(now, die);
        }
    }

    /// Sends the bytes of a read to the host.
    fn hand_over(&mut self, now: Nanos, request: &Request) {
        let time = transfer(request.length, self.parameters.interface_bytes_per_s);
        let line = if self.parameters.full_duplex { &mut self.to_host } else { &mut self.from_host };
        let at = line.have(now, time) + ns_of_us(self.parameters.read_latency_us);
        self.answer(at, request.id, false);
    }

    /// Lets writes into the buffer as long as there is room; one that is larger than all of it has it alone.
    fn let_in(&mut self, now: Nanos) {
        while let Some(request) = self.crowded.front().copied() {
            let units = self.units(&request);
            let bytes = u64::from(units.end - units.start) * self.unit_bytes();
            if self.taken_bytes > 0 && self.taken_bytes + bytes > self.buffer_bytes {
                if self.lacks_room() {
                    self.use_idle_dies(now);
                }
                return;
            }
            self.crowded.pop_front();
            self.taken_bytes += bytes;
            let time = transfer(request.length, self.parameters.interface_bytes_per_s);
            let at = self.from_host.have(now, time);
            let answer = at + ns_of_us(self.parameters.write_latency_us);
            self.agenda.plan(at, (Happening::Landed(request), answer));
        }
    }

    fn landed(&mut self, now: Nanos, request: Request) {
        let (mut last, mut doubled) = (0, 0);
        for unit in self.units(&request) {
            let waiting = self.buffer.waiting();
            last = self.buffer.insert(unit, request.id).max(last);
            doubled += u64::from(self.buffer.waiting() == waiting);
        }
        self.taken_bytes -= doubled * self.unit_bytes();
        let through = match self.write_cache {
            WriteCache::None => true,
            WriteCache::Volatile => request.op == Op::Write { fua: true },
            WriteCache::Protected => false,
        };
        if through {
            self.settling.insert((last + 1, request.id), Settling::Write);
        } else {
            let durable = self.write_cache == WriteCache::Protected;
            self.answer(now + ns_of_us(self.parameters.write_latency_us), request.id, durable);
        }
        if doubled > 0 {
            self.let_in(now);
        }
        self.use_idle_dies(now);
    }

    /// Whether there is a program operation to do: a full one, or one that somebody waits for.
    fn has_program(&self) -> bool {
        let waited_for = self.settling.last_key_value().map_or(0, |((ticket, _), _)| *ticket);
        self.buffer.waiting() >= self.flash.units_per_program() as usize
            || (self.buffer.waiting() > 0
                && (self.lacks_room() || self.buffer.first_ticket().is_some_and(|ticket| ticket < waited_for)))
    }

    /// Whether a write waits for room that no operation is about to make.
    fn lacks_room(&self) -> bool {
        !self.crowded.is_empty() && self.leaving.is_empty()
    }

    /// Gives program operations to idle dies in turn.
    fn use_idle_dies(&mut self, now: Nanos) {
        for offset in 0..self.dies.len() {
            if !self.has_program() {
                return;
            }
            let die = (self.turn + offset) % self.dies.len();
            if self.dies[die].work.is_none() && self.flash.takes_host_writes(die) && !self.flash.owes_collection(die) {
                self.use_die(now, die);
            }
        }
        // Where no die takes a write, the idle ones collect.
        if self.has_program() {
            for die in 0..self.dies.len() {
                self.use_die(now, die);
            }
        }
    }

    fn use_die(&mut self, now: Nanos, die: usize) {
        if self.dies[die].work.is_some() {
            return;
        }
        let can_program = self.has_program() && self.flash.takes_host_writes(die) && !self.flash.owes_collection(die);
        let must_collect = self.has_program() && self.flash.owes_collection(die);
        let at = &mut self.dies[die];
        let turn_of_writes = (can_program || must_collect) && at.reads_in_a_row >= self.parameters.reads_before_program;
        let read = if turn_of_writes { None } else { at.reads.pop_front() };
        if let Some(read) = read {
            at.reads_in_a_row += 1;
            at.work = Some(Work::Read(read));
            let done = now + ns_of_us(self.parameters.read_us);
            let time = transfer(read.bytes, self.parameters.channel_bytes_per_s);
            let there = self.channels[die % self.parameters.channels as usize].earliest(done, time);
            let answer = self.answer_of_part(there, read.request_bytes);
            self.agenda.plan(done, (Happening::DieDone(die), answer));
            return;
        }
        let bytes = u64::from(self.parameters.program_bytes);
        let (read, program) = (ns_of_us(self.parameters.read_us), ns_of_us(self.parameters.program_us));
        if can_program {
            let units = self.buffer.take(self.flash.units_per_program());
            let numbers: Vec<u32> = units.iter().map(|held| held.unit).collect();
            self.flash.program(die, &numbers);
            self.leaving.extend(units.iter().map(|held| held.ticket));
            self.turn = (die + 1) % self.dies.len();
            let channel = &mut self.channels[die % self.parameters.channels as usize];
            let there = channel.have(now, transfer(bytes, self.parameters.channel_bytes_per_s));
            self.dies[die].work = Some(Work::Program(units));
            self.dies[die].reads_in_a_row = 0;
            let done = there + program;
            self.agenda.plan(done, (Happening::DieDone(die), done + self.least_settling()));
        } else if let Some(did) = self.collect(die) {
            let time = read * u64::from(did.pages) + program + self.erase * u64::from(did.erased);
            self.dies[die].work = Some(Work::Collect);
            self.dies[die].reads_in_a_row = 0;
            // Who waits for it waits for a later operation as well, see `next_answer`.
            self.agenda.plan(now + time, (Happening::DieDone(die), Nanos::MAX));
        }
    }

    fn collect(&mut self, die: usize) -> Option<Collected> {
        if self.flash.wants_collection(die) { self.flash.collect(die) } else { None }
    }

    fn die_done(&mut self, now: Nanos, die: usize, events: &mut Vec<Event>) {
        match self.dies[die].work.take() {
            Some(Work::Read(read)) => {
                let channel = &mut self.channels[die % self.parameters.channels as usize];
                let at = channel.have(now, transfer(read.bytes, self.parameters.channel_bytes_per_s));
                let answer = self.answer_of_part(at, read.request_bytes);
                self.agenda.plan(at, (Happening::Part(read), answer));
            }
            Some(Work::Program(units)) => {
                self.buffer.programmed(&units);
                self.taken_bytes -= units.len() as u64 * self.unit_bytes();
                for held in &units {
                    self.leaving.remove(&held.ticket);
                    if self.write_cache == WriteCache::Volatile {
                        let (offset, length) = (u64::from(held.unit) * self.unit_bytes(), self.unit_bytes());
                        events.push(Event { at: now, what: What::Durable { id: held.id, offset, length } });
                    }
                }
                self.let_in(now);
            }
            Some(Work::Collect) | None => {}
        }
        self.use_idle_dies(now);
        self.use_die(now, die);
    }

    fn part_done(&mut self, now: Nanos, id: u64) {
        let Some((request, parts)) = self.reads.get_mut(&id) else { return };
        *parts -= 1;
        if *parts == 0 {
            let request = *request;
            self.reads.remove(&id);
            self.hand_over(now, &request);
        }
    }

    /// Answers what waited for units that are programmed by now.
    fn settle(&mut self, now: Nanos) {
        let first_open = self.open_writes.first().copied().unwrap_or(u64::MAX);
        while let Some(id) = self.flushes.front().copied().filter(|&id| id < first_open) {
            self.flushes.pop_front();
            if self.write_cache == WriteCache::Volatile {
                self.settling.insert((self.buffer.next_ticket(), id), Settling::Flush);
                self.use_idle_dies(now);
            } else {
                self.answer(now, id, true);
            }
        }
        let least = |a: Option<u64>, b: Option<u64>| a.unwrap_or(u64::MAX).min(b.unwrap_or(u64::MAX));
        let done = least(self.buffer.first_ticket(), self.leaving.first().copied());
        while let Some(entry) = self.settling.first_entry().filter(|entry| entry.key().0 <= done) {
            let ((_, id), settling) = entry.remove_entry();
            let time = match settling {
                Settling::Write => self.parameters.write_latency_us,
                Settling::Flush => self.parameters.flush_us,
            };
            self.answer(now + ns_of_us(time), id, true);
        }
    }
}

impl Serve for SsdDisk {
    fn arrive(&mut self, now: Nanos, request: &Request) {
        if !matches!(request.op, Op::Read | Op::Flush) {
            self.open_writes.insert(request.id);
        }
        if self.inside < self.queue_depth {
            self.admit(now, *request);
        } else {
            self.outside.push_back(*request);
        }
    }

    fn next(&self) -> Option<Nanos> {
        self.agenda.next()
    }

    /// A request has something planned that answers it; or waits for a program operation that has begun, or for work of a
    /// die that begins with something planned; or is answered after another one: those outside, and flushes before which a
    /// write is open.
    fn next_answer(&self) -> Option<Nanos> {
        let waits_for_program = !(self.settling.is_empty() && self.crowded.is_empty());
        let planned = self.agenda.least(|_, (happening, answer)| match happening {
            Happening::DieDone(die) if !waits_for_program => {
                matches!(self.dies[*die].work, Some(Work::Read(_))).then_some(*answer)
            }
            _ => Some(*answer),
        });
        let waits = waits_for_program || !self.reads.is_empty();
        let begun = self.agenda.next().filter(|_| waits).map(|at| at + self.least_begun());
        planned.into_iter().chain(begun).min()
    }

    fn step(&mut self, events: &mut Vec<Event>) {
        let Some((at, (happening, _))) = self.agenda.take() else { return };
        match happening {
            Happening::Understood(request) => self.understood(at, request),
            Happening::Landed(request) => self.landed(at, request),
            Happening::DieDone(die) => self.die_done(at, die, events),
            Happening::Part(read) => self.part_done(at, read.id),
            Happening::Answered { id, durable } => {
                self.open_writes.remove(&id);
                self.inside -= 1;
                events.push(Event { at, what: What::Done { id, ok: true, durable } });
                if let Some(request) = self.outside.pop_front() {
                    self.admit(at, request);
                }
            }
        }
        self.settle(at);
    }

    fn least(&self) -> Nanos {
        let parameters = &self.parameters;
        let over = ns_of_us(parameters.command_us) + transfer(4096, parameters.interface_bytes_per_s);
        let read = ns_of_us(parameters.read_latency_us);
        let mut write = ns_of_us(parameters.write_latency_us);
        if self.write_cache == WriteCache::None {
            write += ns_of_us(parameters.program_us);
        }
        // A read of what was never written, or is in the buffer, needs no die.
        over + read.min(write)
    }

    fn held_bytes(&self) -> usize {
        self.flash.held_bytes()
            + self.buffer.held_bytes()
            + self.agenda.held_bytes()
            + self.dies.iter().map(|die| die.reads.capacity() * size_of::<PageRead>()).sum::<usize>()
            + (self.outside.capacity() + self.crowded.capacity()) * size_of::<Request>()
            + (self.reads.len() + self.settling.len() + self.leaving.len() + self.open_writes.len()) * 64
    }
}
