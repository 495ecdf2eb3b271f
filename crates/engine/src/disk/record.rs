//! The requests of a served disk and when they were answered, for tests that play them to another implementation.
//!
//! They stay in memory while the disk is served, and go to the file when its queue ends: until then a request costs the
//! processor a few instructions more, and no request waits for the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use strata_disks::{Model, Nanos, Op, Request};

/// Requests for which there is room before the memory has to grow.
const ROOM: usize = 1 << 16;
const SECTOR: u64 = 512;

/// What the requests were put to.
#[derive(Serialize)]
struct Disk<'a> {
    model: &'a Model,
    size_bytes: u64,
    seed: u64,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    arrived: Nanos,
    request: Request,
    /// When the model says that it completes; `None` while it does not.
    due: Option<Nanos>,
    /// When the server gave the answer to the kernel.
    answered: Nanos,
}

/// A record that is being made.
pub struct Record {
    file: File,
    disk: String,
    entries: Vec<Entry>,
}

impl Record {
    /// An empty record of a disk, in a new file.
    ///
    /// # Errors
    /// A sentence, when the file exists or cannot be made.
    pub fn new(path: &Path, model: &Model, size_bytes: u64, seed: u64) -> Result<Self, String> {
        let cannot =
            |error: io::Error| format!("the record {} cannot be made ({error}); give a new path", path.display());
        let file = File::create_new(path).map_err(cannot)?;
        let disk = serde_json::to_string(&Disk { model, size_bytes, seed }).map_err(|error| cannot(error.into()))?;
        Ok(Self { file, disk, entries: Vec::with_capacity(ROOM) })
    }

    /// Adds a request. Their numbers are 1, 2, 3 and so on.
    pub fn arrive(&mut self, now: Nanos, request: &Request) {
        self.entries.push(Entry { arrived: now, request: *request, due: None, answered: 0 });
    }

    /// Adds the moments of an answer.
    pub fn answer(&mut self, id: u64, due: Nanos, answered: Nanos) {
        if let Some(entry) = id.checked_sub(1).and_then(|index| self.entries.get_mut(index as usize)) {
            (entry.due, entry.answered) = (Some(due), answered);
        }
    }

    /// Writes the file: a line for the disk, then one for each request that was answered.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(self) -> io::Result<()> {
        let mut file = BufWriter::new(self.file);
        writeln!(file, "{}", self.disk)?;
        for Entry { arrived, request, due, answered } in self.entries {
            let Some(due) = due else { continue };
            let (sector, sectors) = (request.offset / SECTOR, request.length / SECTOR);
            writeln!(file, "[{arrived},\"{}\",{sector},{sectors},{due},{answered}]", name(request.op))?;
        }
        file.flush()
    }
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write { fua: false } => "write",
        Op::Write { fua: true } => "fua",
        Op::Flush => "flush",
        Op::Discard => "discard",
        Op::WriteZeroes => "zeroes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_line_for_the_disk_and_for_each_answered_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record");
        let model = strata_disks::builtin().remove(0);
        let mut record = Record::new(&path, &model, 1 << 30, 7).expect("a record");
        assert!(Record::new(&path, &model, 1 << 30, 7).is_err(), "it would be lost");
        let request = |id, op, offset, length| Request { id, op, offset, length };
        record.arrive(10, &request(1, Op::Write { fua: true }, 8192, 4096));
        record.arrive(20, &request(2, Op::Read, 0, 512));
        record.arrive(30, &request(3, Op::Flush, 0, 0));
        record.answer(3, 40, 41);
        record.answer(1, 50, 55);
        record.write().expect("written");
        let text = std::fs::read_to_string(&path).expect("the record");
        let mut lines = text.lines();
        let disk: serde_json::Value = serde_json::from_str(lines.next().expect("the disk")).expect("JSON");
        assert_eq!(disk["model"]["name"], model.name);
        assert_eq!((disk["size_bytes"].as_u64(), disk["seed"].as_u64()), (Some(1 << 30), Some(7)));
        assert_eq!(lines.collect::<Vec<_>>(), ["[10,\"fua\",16,8,50,55]", "[30,\"flush\",0,0,40,41]"]);
    }
}
