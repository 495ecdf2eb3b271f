//! Flowops that wait: for each other, for a time, for a rate; and those that end a thread or note something.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use strata_wml::{Flowop, Type};

use super::super::shared::is_none;
use super::super::system::System;
use super::{Halt, MIB, Outcome, Outcomes, Step, Worker, done};

impl<S: System> Worker<'_, S> {
    pub(super) fn meet(&mut self, step: &Step) -> Outcomes {
        let flowop = &step.flowop;
        let shared = self.shared;
        let stopped = || shared.stopped();
        let value = flowop.value.whole(&mut self.random) as i64;
        let name = flowop.target.as_ref().unwrap_or(&flowop.name);
        let start = shared.now();
        let went_on = match flowop.of {
            Type::Block => shared.points.get(name).is_none_or(|point| point.wait(stopped)),
            Type::Wakeup => {
                if let Some(point) = shared.points.get(name) {
                    point.wake();
                    // One operation for each instance; the last is counted by whoever called.
                    for _ in 1..point.instances {
                        let now = shared.now();
                        self.record(step, start, now, 0, 0);
                    }
                }
                true
            }
            Type::SemBlock => match shared.semaphores.get(name).and_then(|all| all.get(self.semaphore[step.id])) {
                Some(semaphores) => semaphores.take(value, stopped),
                None => true,
            },
            _ => shared
                .semaphores
                .get(name)
                .is_none_or(|all| all.iter().all(|semaphores| semaphores.give(value, flowop.blocking, stopped))),
        };
        if went_on { Ok(done(start, shared.now(), 0)) } else { Err(Halt::Stop) }
    }

    // Time.

    pub(super) fn use_time(&mut self, flowop: &Flowop) -> Outcomes {
        let value = flowop.value.draw(&mut self.random).max(0.0);
        let start = self.shared.now();
        if flowop.of == Type::Delay {
            self.shared.sleep(Duration::try_from_secs_f64(value.trunc()).unwrap_or(Duration::MAX));
        } else if self.memsize > 0 {
            // Always the same byte; a thread without memory of its own has none to write to.
            let memory = self.memory.piece(0, 1);
            for _ in 0..value as u64 {
                *std::hint::black_box(&mut memory[0]) = 1;
            }
        }
        Ok(done(start, self.shared.now(), 0))
    }

    /// What a limit counts: of its target in this thread, or of the whole process.
    pub(super) fn progress(&self, step: &Step) -> u64 {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of = step.flowop.of;
        let bytes = matches!(of, Type::BwLimit | Type::FinishOnBytes);
        match step.target {
            Some(target) => {
                let (counters, target) = (&self.watch.counters[target], self.watch.script.flowops[target].1);
                match of {
                    _ if bytes => load(&counters.bytes),
                    Type::IopsLimit if !(target.reads() || target.writes()) => 0,
                    _ => load(&counters.count),
                }
            }
            None => {
                let progress = &self.shared.processes[self.process];
                match of {
                    _ if bytes => load(&progress.bytes),
                    Type::IopsLimit => load(&progress.transfers),
                    _ => load(&progress.operations),
                }
            }
        }
    }

    pub(super) fn limit(&mut self, step: &Step) -> Outcomes {
        let shared = self.shared;
        if shared.events.per_s == 0 {
            return Ok(Outcome::Skipped);
        }
        let start = shared.now();
        let events = if step.flowop.of == Type::EventLimit {
            1
        } else {
            let now = self.progress(step);
            let (last, credit) = &mut self.credits[step.id];
            let before = std::mem::replace(last, now);
            // The first time, which is as often as nothing was done yet.
            if before == 0 {
                return Ok(Outcome::Skipped);
            }
            *credit -= now.saturating_sub(before) as i64;
            if *credit >= 0 {
                0
            } else {
                let deficit = credit.unsigned_abs();
                let events = if step.flowop.of == Type::BwLimit { deficit / MIB + 1 } else { deficit };
                *credit += (if step.flowop.of == Type::BwLimit { events * MIB } else { events }) as i64;
                events
            }
        };
        if events > 0 && !shared.events.take(events, || shared.stopped()) {
            return Err(Halt::Stop);
        }
        Ok(done(start, shared.now(), 0))
    }

    pub(super) fn finish(&mut self, step: &Step) -> Outcomes {
        let value = step.flowop.value.whole(&mut self.random);
        let start = self.shared.now();
        let reached = self.progress(step);
        if (step.flowop.of == Type::FinishOnCount && reached >= value) || reached > value {
            return Err(Halt::NoResource("it reached its value; use 'set mode quit firstdone' where that is the end"));
        }
        Ok(done(start, self.shared.now(), 0))
    }

    /// These are no operations.
    pub(super) fn note(&mut self, step: &Step) -> Outcomes {
        if step.flowop.of == Type::TestRandvar && !is_none(&step.flowop.value) {
            let number = step.flowop.value.draw(&mut self.random);
            let (count, sum, squares) = &mut self.drawn[step.id];
            *count += 1;
            *sum += number;
            *squares += number * number;
        }
        Ok(Outcome::Inner)
    }
}
