//! What stacks asked of modelled disks in the exact lab, played to the engine's models and to the witness.
//!
//! The recordings are made by `python -m tests.lab.record_requests crates/disks/tests/witness/recorded`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;
use strata_disks::{Device, Event, Model, Nanos, Op, What};

use crate::common::request;
use crate::{Sequence, answers, figures};

/// The most requests whose times are more than a hundredth apart. One choice between two equally near places that falls
/// otherwise changes those that wait at that moment.
const MOST_APART: f64 = 0.01;

#[derive(Deserialize)]
struct Disk {
    model: Model,
    size_bytes: u64,
    seed: u64,
}

/// Arrival, operation, sector, sectors, when it is due by the model, when it was answered.
type Line = (Nanos, String, u64, u64, Nanos, Nanos);

struct Recording {
    disk: Disk,
    sequence: Sequence,
    due: Vec<Nanos>,
    answered: Vec<Nanos>,
}

fn read(path: &Path) -> Recording {
    let mut lines = BufReader::new(GzDecoder::new(File::open(path).expect("a recording"))).lines();
    let disk = serde_json::from_str(&lines.next().expect("a disk").expect("text")).expect("a disk");
    let mut recording = Recording { disk, sequence: Vec::new(), due: Vec::new(), answered: Vec::new() };
    for (id, line) in (0..).zip(lines) {
        let (arrived, name, sector, sectors, due, answered): Line =
            serde_json::from_str(&line.expect("text")).expect("a request");
        let op = match name.as_str() {
            "read" => Op::Read,
            "write" => Op::Write { fua: false },
            "fua" => Op::Write { fua: true },
            "flush" => Op::Flush,
            "discard" => Op::Discard,
            "zeroes" => Op::WriteZeroes,
            other => panic!("{other}"),
        };
        recording.sequence.push((arrived, request(id, op, sector * 512, sectors * 512)));
        recording.due.push(due);
        recording.answered.push(answered);
    }
    recording
}

fn recordings() -> Vec<(String, Recording)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/witness/recorded");
    let mut paths: Vec<PathBuf> =
        folder.read_dir().expect("recordings").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    assert!(paths.len() >= 4, "recordings of four stacks");
    paths.iter().map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), read(path))).collect()
}

/// When the engine's model answers each request, at the recorded arrivals.
fn engine(recording: &Recording) -> Vec<Nanos> {
    let Disk { model, size_bytes, seed } = &recording.disk;
    let mut device = Device::new(model, *size_bytes, *seed).expect("the model");
    let mut answered = BTreeMap::new();
    let mut events = Vec::<Event>::new();
    for (at, asked) in &recording.sequence {
        device.advance(*at, &mut events);
        device.arrive(*at, asked);
    }
    while let Some(at) = device.next() {
        device.advance(at, &mut events);
    }
    for event in events {
        if let What::Done { id, .. } = event.what {
            answered.insert(id, event.at);
        }
    }
    answered.into_values().collect()
}

#[test]
fn the_engine_answered_in_the_machine_when_its_model_says() {
    for (name, recording) in recordings() {
        assert_eq!(engine(&recording), recording.due, "{name}: record it again if a model was changed");
        let late = |index: usize| recording.answered[index] - recording.due[index];
        let mean = (0..recording.due.len()).map(late).sum::<Nanos>() as f64 / recording.due.len() as f64;
        println!("{name}: {} requests, answered {mean:.0} ns late in the mean", recording.due.len());
    }
}

#[test]
fn the_witness_agrees_on_what_stacks_ask_within_a_hundredth() {
    for (name, recording) in recordings() {
        let Disk { model, size_bytes, seed } = &recording.disk;
        let (ours, theirs) = (answers(model, *size_bytes, *seed, &recording.sequence), engine(&recording));
        let (witness, expected) = (figures(&recording.sequence, &ours), figures(&recording.sequence, &theirs));
        let count = theirs.len();
        let far = |index: &usize| {
            let took = theirs[*index] - recording.sequence[*index].0;
            ours[*index].abs_diff(theirs[*index]) as f64 > 0.01 * took as f64
        };
        let apart = (0..count).filter(far).count();
        println!(
            "{name}: {count} requests, {apart} more than 1 % apart, the first {:?}",
            (0..count).find(|at| far(at))
        );
        for (what, engine) in expected {
            let off = witness[what] / engine - 1.0;
            println!("  {what}: engine {:.1} us, witness {:+.4} %", engine / 1e3, off * 100.0);
            assert!(off.abs() <= 0.01, "{name}: {what} {} for the engine's {engine} ns", witness[what]);
        }
        assert!(apart as f64 <= MOST_APART * count as f64, "{name}: {apart} of {count} requests are apart");
    }
}
