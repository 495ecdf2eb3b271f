//! Fixed times: equal servers before one queue, in order of arrival.

use strata_disks::{Fixed, Nanos, Op};

use crate::{Plan, Sequence, transfer};

/// When each request is answered, with a volatile cache.
///
/// A flush waits for the writes that arrived before it, and then has the next free server, before what is queued.
pub(crate) fn answers(parameters: &Fixed, sequence: &Sequence) -> Vec<Nanos> {
    let us = |us: f64| (us * 1e3) as Nanos;
    let is_write = |index: usize| matches!(sequence[index].1.op, Op::Write { .. });
    let mut answered = vec![Nanos::MAX; sequence.len()];
    let (mut queue, mut flushes) = (Vec::<usize>::new(), Vec::<usize>::new());
    let (mut busy, mut arrived) = (0, 0);
    let mut plan = Plan::new();
    loop {
        // Of what happens at one moment, answers come before arrivals.
        let arrival = sequence.get(arrived).map(|(at, _)| *at);
        let now = if plan.next().is_some_and(|at| arrival.is_none_or(|arrival| at <= arrival)) {
            let (now, index): (Nanos, usize) = plan.take().expect("an answer");
            (answered[index], busy) = (now, busy - 1);
            now
        } else {
            let Some(now) = arrival else { return answered };
            if sequence[arrived].1.op == Op::Flush {
                flushes.push(arrived)
            } else {
                queue.push(arrived)
            }
            arrived += 1;
            now
        };
        while busy < parameters.servers {
            let may_go = |flush: usize| (0..flush).all(|index| !is_write(index) || answered[index] != Nanos::MAX);
            let index = if flushes.first().is_some_and(|&flush| may_go(flush)) {
                flushes.remove(0)
            } else if queue.is_empty() {
                break;
            } else {
                queue.remove(0)
            };
            let asked = sequence[index].1;
            let bytes = parameters.bytes_per_s.map_or(0, |rate| transfer(asked.length, rate));
            let time = match asked.op {
                Op::Read => us(parameters.read_us) + bytes,
                Op::Write { fua: false } => us(parameters.write_us) + bytes,
                Op::Write { fua: true } => us(parameters.write_us) + bytes + us(parameters.flush_us),
                _ => us(parameters.flush_us),
            };
            busy += 1;
            plan.add(now + time, index);
        }
    }
}
