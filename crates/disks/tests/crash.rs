//! What may survive a power cut: the specification in docs/disk-models.md, written down again, against the one
//! implementation, for every small history.

mod common;

use std::collections::BTreeSet;

use common::request;
use strata_disks::{Bytes, Choice, CrashState, Op, Survivor};

const SECTOR: u64 = 512;
const SECTORS: u64 = 3;

/// A request of a history: sectors from `first` on.
#[derive(Debug, Clone, Copy)]
struct Asked {
    op: Op,
    first: u64,
    count: u64,
}

impl Asked {
    fn covers(&self, sector: u64) -> bool {
        self.op != Op::Flush && (self.first..self.first + self.count).contains(&sector)
    }

    fn is_durable_when_acknowledged(&self) -> bool {
        matches!(self.op, Op::Write { fua: true } | Op::Discard)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happened {
    Arrived(usize),
    Acknowledged(usize),
}

/// The specification, sector by sector. A sector holds the last durable write over it in the order of acknowledgement, or
/// any acknowledged after that one, or any that is not acknowledged. Durable is an acknowledged FUA write or discard, and
/// a write that was acknowledged before a flush arrived that is acknowledged.
fn specified(asked: &[Asked], history: &[Happened], sector: u64) -> BTreeSet<Survivor> {
    let at = |what: Happened| history.iter().position(|&happened| happened == what);
    let is_flushed = |write: usize| {
        let acknowledged = at(Happened::Acknowledged(write));
        (0..asked.len())
            .filter(|&flush| asked[flush].op == Op::Flush)
            .any(|flush| at(Happened::Acknowledged(flush)).is_some() && at(Happened::Arrived(flush)) > acknowledged)
    };
    let mut allowed = BTreeSet::from([Survivor::Durable]);
    for happened in history {
        let Happened::Acknowledged(write) = *happened else { continue };
        if !asked[write].covers(sector) {
            continue;
        }
        if asked[write].is_durable_when_acknowledged() || is_flushed(write) {
            allowed.clear();
            // it is what the medium surely has
            allowed.insert(Survivor::Durable);
        } else {
            allowed.insert(Survivor::Write(write as u64));
        }
    }
    let open = (0..asked.len()).filter(|&write| {
        asked[write].covers(sector)
            && at(Happened::Arrived(write)).is_some()
            && at(Happened::Acknowledged(write)).is_none()
    });
    allowed.extend(open.map(|write| Survivor::Write(write as u64)));
    allowed
}

/// A disk's bytes with the state that says what is at risk. Each sector holds the number of its write plus one.
#[derive(Clone)]
struct Disk {
    state: CrashState,
    memory: Vec<u8>,
}

fn content(asked: &Asked, write: usize) -> u8 {
    if asked.op == Op::Discard { 0 } else { write as u8 + 1 }
}

impl Disk {
    fn new() -> Self {
        Self { state: CrashState::new(SECTOR as u32), memory: vec![200; (SECTORS * SECTOR) as usize] }
    }

    fn take(&mut self, asked: &[Asked], happened: Happened) {
        match happened {
            Happened::Arrived(index) => {
                let Asked { op, first, count } = asked[index];
                self.state.arrive(&request(index as u64, op, first * SECTOR, count * SECTOR));
            }
            Happened::Acknowledged(index) => {
                let Asked { op, first, count } = asked[index];
                let range = (first * SECTOR) as usize..((first + count) * SECTOR) as usize;
                let durable = op == Op::Flush || asked[index].is_durable_when_acknowledged();
                self.state.done(index as u64, true, durable, &self.memory[range.clone()]);
                self.memory[range].fill(content(&asked[index], index));
            }
        }
    }

    /// The first byte of each sector after a cut.
    fn image(&self, asked: &[Asked], choice: Choice) -> Vec<u8> {
        let mut cut = self.clone();
        for change in cut.state.cut(choice) {
            let range = change.offset as usize..(change.offset + SECTOR) as usize;
            match change.bytes {
                Bytes::Old(bytes) => cut.memory[range].copy_from_slice(&bytes),
                Bytes::Open(id) => cut.memory[range].fill(content(&asked[id as usize], id as usize)),
            }
        }
        cut.memory.chunks(SECTOR as usize).map(|sector| sector[0]).collect()
    }
}

/// Goes through every order in which the requests can arrive (by number) and be acknowledged, and stops at every moment.
fn every_moment(asked: &[Asked], look: &mut impl FnMut(&Disk, &[Happened])) {
    fn go(
        asked: &[Asked],
        disk: &Disk,
        history: &mut Vec<Happened>,
        open: &[usize],
        look: &mut impl FnMut(&Disk, &[Happened]),
    ) {
        look(disk, history);
        let arrived = history.iter().filter(|happened| matches!(happened, Happened::Arrived(_))).count();
        let next = (arrived < asked.len()).then_some(Happened::Arrived(arrived));
        for happened in next.into_iter().chain(open.iter().map(|&index| Happened::Acknowledged(index))) {
            let mut then = disk.clone();
            then.take(asked, happened);
            let mut open = open.to_vec();
            match happened {
                Happened::Arrived(index) => open.push(index),
                Happened::Acknowledged(index) => open.retain(|&other| other != index),
            }
            history.push(happened);
            go(asked, &then, history, &open, look);
            history.pop();
        }
    }
    go(asked, &Disk::new(), &mut Vec::new(), &[], look);
}

/// Every sequence of so many of these requests.
fn every_sequence(of: &[Asked], length: usize, look: &mut impl FnMut(&[Asked])) {
    let mut digits = vec![0; length];
    loop {
        let asked: Vec<Asked> = digits.iter().map(|&digit: &usize| of[digit]).collect();
        look(&asked);
        let Some(place) = digits.iter().rposition(|&digit| digit + 1 < of.len()) else { return };
        digits[place] += 1;
        digits[place + 1..].fill(0);
    }
}

fn all_requests() -> Vec<Asked> {
    let ranges = [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)];
    let ops = [Op::Write { fua: false }, Op::Write { fua: true }, Op::Discard];
    let writes = ops.iter().flat_map(|&op| ranges.map(|(first, count)| Asked { op, first, count }));
    writes.chain([Asked { op: Op::Flush, first: 0, count: 0 }]).collect()
}

/// Enough of them to meet in every way; sectors are alike.
fn some_requests() -> Vec<Asked> {
    let write = |fua, first, count| Asked { op: Op::Write { fua }, first, count };
    vec![
        write(false, 0, 1),
        write(false, 0, 3),
        write(false, 1, 2),
        write(true, 0, 2),
        write(true, 1, 1),
        Asked { op: Op::Discard, first: 1, count: 2 },
        Asked { op: Op::Flush, first: 0, count: 0 },
    ]
}

fn check_survivors(asked: &[Asked], moments: &mut u64) {
    every_moment(asked, &mut |disk, history| {
        *moments += 1;
        for sector in 0..SECTORS {
            let survivors: BTreeSet<Survivor> = disk.state.survivors(sector).into_iter().collect();
            let specified = specified(asked, history, sector);
            assert_eq!(survivors, specified, "sector {sector} of {asked:?} after {history:?}");
        }
    });
}

#[test]
fn what_may_survive_is_what_is_specified_at_every_moment_of_every_small_history() {
    let mut moments = 0;
    for length in 1..=3 {
        every_sequence(&all_requests(), length, &mut |asked| check_survivors(asked, &mut moments));
    }
    every_sequence(&some_requests(), 4, &mut |asked| check_survivors(asked, &mut moments));
    assert!(moments > 500_000, "{moments}");
}

/// The images that the specification allows: any combination, since sectors are independent.
fn specified_images(asked: &[Asked], history: &[Happened]) -> BTreeSet<Vec<u8>> {
    let mut images = BTreeSet::from([Vec::new()]);
    for sector in 0..SECTORS {
        let mut bytes = BTreeSet::new();
        for survivor in specified(asked, history, sector) {
            bytes.insert(match survivor {
                Survivor::Write(id) => content(&asked[id as usize], id as usize),
                Survivor::Durable => durable_content(asked, history, sector),
            });
        }
        images = images
            .iter()
            .flat_map(|image| bytes.iter().map(move |&byte| [image.as_slice(), &[byte]].concat()))
            .collect();
    }
    images
}

/// The bytes of the last write that is surely on the medium.
fn durable_content(asked: &[Asked], history: &[Happened], sector: u64) -> u8 {
    let mut content_there = 200;
    for happened in history {
        let Happened::Acknowledged(write) = *happened else { continue };
        let at_risk = specified(asked, history, sector).contains(&Survivor::Write(write as u64));
        if asked[write].covers(sector) && !at_risk {
            content_there = content(&asked[write], write);
        }
    }
    content_there
}

/// Draws seeds until every image was seen, or a great many.
fn check_images(asked: &[Asked], images: &mut u64) {
    every_moment(asked, &mut |disk, history| {
        let specified = specified_images(asked, history);
        *images += specified.len() as u64;
        let mut seen = BTreeSet::from([disk.image(asked, Choice::Least), disk.image(asked, Choice::Most)]);
        for seed in 0..20_000 {
            if seen.len() >= specified.len() && seed >= 8 {
                break;
            }
            seen.insert(disk.image(asked, Choice::Seed(seed)));
        }
        assert_eq!(seen, specified, "{asked:?} after {history:?}");
    });
}

#[test]
fn every_image_that_is_specified_comes_with_some_seed_and_no_other() {
    let mut images = 0;
    every_sequence(&all_requests(), 2, &mut |asked| check_images(asked, &mut images));
    let write = |fua, first, count| Asked { op: Op::Write { fua }, first, count };
    let few = [write(false, 0, 3), write(false, 1, 1), write(true, 0, 2), Asked { op: Op::Flush, first: 0, count: 0 }];
    every_sequence(&few, 3, &mut |asked| check_images(asked, &mut images));
    assert!(images > 5_000, "{images}");
}

#[test]
fn a_cached_write_over_a_fua_write_in_flight_does_not_take_its_promise_back() {
    let write = |fua| Asked { op: Op::Write { fua }, first: 0, count: 1 };
    let asked = [write(true), write(false)];
    let mut disk = Disk::new();
    for happened in [Happened::Arrived(0), Happened::Arrived(1), Happened::Acknowledged(1), Happened::Acknowledged(0)] {
        disk.take(&asked, happened);
    }
    for seed in 0..100 {
        assert_eq!(disk.image(&asked, Choice::Seed(seed))[0], 1, "seed {seed}");
    }
}

/// A journal without a barrier between its record and the data it describes: the data may be there without the record.
#[test]
fn a_missing_barrier_shows_and_a_flush_prevents_it() {
    let write = |first| Asked { op: Op::Write { fua: false }, first, count: 1 };
    let flush = Asked { op: Op::Flush, first: 0, count: 0 };
    let later_without_earlier = |asked: &[Asked]| {
        let mut disk = Disk::new();
        for index in 0..asked.len() {
            disk.take(asked, Happened::Arrived(index));
            disk.take(asked, Happened::Acknowledged(index));
        }
        (0..100).any(|seed| {
            let image = disk.image(asked, Choice::Seed(seed));
            image[0] == 200 && image[1] != 200
        })
    };
    assert!(later_without_earlier(&[write(0), write(1)]));
    assert!(!later_without_earlier(&[write(0), flush, write(1)]));
}

/// The medium may have bytes before the model acknowledges them.
#[test]
fn what_reached_the_medium_before_its_acknowledgement_is_durable_after_it() {
    let asked = [Asked { op: Op::Write { fua: false }, first: 0, count: 2 }];
    let mut disk = Disk::new();
    disk.take(&asked, Happened::Arrived(0));
    disk.state.durable(0, 0, SECTOR);
    disk.take(&asked, Happened::Acknowledged(0));
    assert_eq!(disk.state.survivors(0), [Survivor::Durable]);
    assert_eq!(disk.state.survivors(1), [Survivor::Durable, Survivor::Write(0)]);
    assert_eq!(disk.image(&asked, Choice::Least), [1, 200, 200]);
}

#[test]
fn an_error_has_no_effect_and_a_flush_that_did_nothing_promises_nothing() {
    let write = Asked { op: Op::Write { fua: false }, first: 0, count: 1 };
    let flush = Asked { op: Op::Flush, first: 0, count: 0 };
    let asked = [write, flush, write];
    let mut disk = Disk::new();
    disk.take(&asked, Happened::Arrived(0));
    disk.take(&asked, Happened::Acknowledged(0));
    disk.take(&asked, Happened::Arrived(1));
    disk.state.done(1, true, false, &[]);
    disk.take(&asked, Happened::Arrived(2));
    disk.state.done(2, false, false, &[]);
    assert_eq!(disk.state.survivors(0), [Survivor::Durable, Survivor::Write(0)]);
    assert_eq!(disk.state.sectors_at_risk(), 1);
}
