//! Calls through shared memory, made while the virtual CPU is blocked. The other end, which also says how QEMU is
//! started for it, is python/strata/hosts/mailbox.py.
//!
//! A turn: this program writes a part of its answer into the memory, then a serial number n, then one byte to port
//! 0x6f0 + n % 2. The host keeps that pipe full, so the instruction that writes the byte does not end, and no virtual
//! time passes, before the host has put the next part into the memory. There is one thread and nothing is awaited, so
//! what is executed here depends on the requests alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Instant;

use nix::fcntl::OFlag;

use super::execute::Controller;
use super::runner;

/// Shared with hosts/mailbox.py. Offsets and lengths of every access are multiples of BLOCK_BYTES, as O_DIRECT wants.
const MAGIC: &[u8; 8] = b"STRATAM1";
const SERIAL_AT: u64 = 4096;
const REQUEST_AT: u64 = 64 << 10;
const ANSWER_AT: u64 = 2 << 20;
const PART_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 4096;
const HEAD_BYTES: usize = 24;

const PORT: u64 = 0x6f0;

/// What a part of a message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Bytes of the whole message, bytes that follow here.
    Data { total: usize, here: usize },
    /// The next part, please.
    GoOn,
}

impl Part {
    fn head(self) -> [u8; HEAD_BYTES] {
        let (kind, total, here) = match self {
            Self::Data { total, here } => (1u64, total as u64, here as u64),
            Self::GoOn => (2, 0, 0),
        };
        let mut head = [0; HEAD_BYTES];
        for (place, number) in head.chunks_exact_mut(8).zip([kind, total, here]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        head
    }

    fn read(block: &[u8]) -> Option<Self> {
        let mut numbers = block.get(..HEAD_BYTES)?.chunks_exact(8).map(|place| {
            let bytes = place.try_into().map_or(0, u64::from_le_bytes);
            usize::try_from(bytes).ok()
        });
        match (numbers.next()??, numbers.next()??, numbers.next()??) {
            (1, total, here) if here <= PART_BYTES.min(total) && here > 0 => Some(Self::Data { total, here }),
            (2, 0, 0) => Some(Self::GoOn),
            _ => None,
        }
    }
}

/// The memory and the bell.
trait Line {
    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Returns when the host has put the next part into the memory.
    fn ring(&mut self, serial: u64) -> io::Result<()>;
}

struct Hardware {
    memory: File,
    ports: File,
}

impl Line for Hardware {
    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.memory.read_exact_at(buffer, at)
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.memory.write_all_at(bytes, at)
    }

    fn ring(&mut self, serial: u64) -> io::Result<()> {
        self.ports.write_all_at(b"!", PORT + serial % 2)
    }
}

/// The host says nothing while a command runs, and wants no sign of life.
struct Absent;

impl Controller for Absent {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn hear(&mut self) {}

    fn beat(&mut self) -> Option<Instant> {
        None
    }

    fn stops(&mut self) -> bool {
        false
    }
}

/// Serves as long as the machine lives.
///
/// # Errors
/// A sentence, when this machine has no mailbox or the host uses another version of the protocol.
pub fn serve() -> Result<(), String> {
    let ports = OpenOptions::new().write(true).open("/dev/port").map_err(|error| {
        format!("/dev/port cannot be written to ({error}); run this as root in a machine that Strata's lab has started")
    })?;
    let Some(memory) = memory() else {
        return Err(
            "none of /dev/pmem* is the lab's mailbox; run this in a machine that Strata's lab has started".into()
        );
    };
    let broken = |error| format!("the mailbox cannot be used ({error}); start another machine");
    let mut mailbox = Mailbox::new(Hardware { memory, ports });
    let mut answer = runner::hello().encode();
    loop {
        let request = mailbox.exchange(&answer).map_err(broken)?;
        answer = runner::answer(&request, &mut Absent).encode();
        runner::bury_orphans();
    }
}

/// The NVDIMM that begins with the magic.
fn memory() -> Option<File> {
    let mut paths: Vec<PathBuf> = fs::read_dir("/dev").ok()?.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pmem")));
    paths.sort();
    let direct = |write| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(OFlag::O_DIRECT.bits());
        options
    };
    let mut block = Block::new(BLOCK_BYTES);
    let path = paths.into_iter().find(|path| {
        let read = direct(false).open(path).and_then(|file| file.read_exact_at(block.bytes(), 0));
        read.is_ok() && block.bytes().starts_with(MAGIC)
    })?;
    direct(true).open(path).ok()
}

/// Bytes that begin at a multiple of BLOCK_BYTES in memory.
struct Block {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    fn new(length: usize) -> Self {
        let room = vec![0; length + BLOCK_BYTES];
        let start = room.as_ptr().align_offset(BLOCK_BYTES);
        Self { room, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.room[self.start..self.start + self.length]
    }
}

fn whole_blocks(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

struct Mailbox<L> {
    line: L,
    serial: u64,
    block: Block,
}

impl<L: Line> Mailbox<L> {
    fn new(line: L) -> Self {
        Self { line, serial: 0, block: Block::new(whole_blocks(HEAD_BYTES + PART_BYTES)) }
    }

    /// Hands over an answer and takes the next request.
    fn exchange(&mut self, answer: &[u8]) -> io::Result<Vec<u8>> {
        let mut parts = answer.chunks(PART_BYTES).peekable();
        let mut come = None;
        while let Some(part) = parts.next() {
            come = Some(self.turn(Part::Data { total: answer.len(), here: part.len() }, part)?);
            if parts.peek().is_some() && come != Some(Part::GoOn) {
                return Err(unexpected());
            }
        }
        let mut request = Vec::new();
        loop {
            let Some(Part::Data { total, here }) = come else { return Err(unexpected()) };
            request.extend_from_slice(&self.block.bytes()[HEAD_BYTES..HEAD_BYTES + here]);
            if request.len() >= total {
                return Ok(request);
            }
            come = Some(self.turn(Part::GoOn, &[])?);
        }
    }

    /// Puts a part, blocks, and takes what the host has put meanwhile; its bytes are in the block, after the head.
    fn turn(&mut self, part: Part, bytes: &[u8]) -> io::Result<Part> {
        let used = HEAD_BYTES + bytes.len();
        let block = self.block.bytes();
        // Where the host is gone the bell blocks nobody, and the last request would be carried out again for ever.
        block[..HEAD_BYTES].fill(0);
        self.line.write(&block[..BLOCK_BYTES], REQUEST_AT)?;
        block[..HEAD_BYTES].copy_from_slice(&part.head());
        block[HEAD_BYTES..used].copy_from_slice(bytes);
        self.line.write(&block[..whole_blocks(used)], ANSWER_AT)?;
        // On its own and last: the host takes it as the sign that all before it is there.
        self.serial += 1;
        block[..8].copy_from_slice(&self.serial.to_le_bytes());
        self.line.write(&block[..BLOCK_BYTES], SERIAL_AT)?;
        self.line.ring(self.serial)?;
        self.line.read(&mut block[..BLOCK_BYTES], REQUEST_AT)?;
        let come = Part::read(block).ok_or_else(unexpected)?;
        if let Part::Data { here, .. } = come {
            let all = whole_blocks(HEAD_BYTES + here);
            self.line.read(&mut block[BLOCK_BYTES..all], REQUEST_AT + BLOCK_BYTES as u64)?;
        }
        Ok(come)
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the host is gone, or says what this version does not know")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;

    const FIRST: usize = REQUEST_AT as usize;

    /// A host that hands over `requests` and keeps what it is given, in the memory of the lab.
    struct Host {
        memory: RefCell<Vec<u8>>,
        requests: VecDeque<Vec<u8>>,
        putting: Vec<u8>,
        put: usize,
        taking: Vec<u8>,
        answers: Vec<Vec<u8>>,
        bells: Vec<u64>,
    }

    impl Host {
        fn new(requests: &[Vec<u8>]) -> Self {
            Self {
                memory: RefCell::new(vec![0; 4 << 20]),
                requests: requests.iter().cloned().collect(),
                putting: Vec::new(),
                put: 0,
                taking: Vec::new(),
                answers: Vec::new(),
                bells: Vec::new(),
            }
        }

        fn put(&mut self, part: Part, from: usize, to: usize) {
            let memory = self.memory.get_mut();
            memory[FIRST..FIRST + HEAD_BYTES].copy_from_slice(&part.head());
            let bytes = &self.putting[from..to];
            memory[FIRST + HEAD_BYTES..FIRST + HEAD_BYTES + bytes.len()].copy_from_slice(bytes);
        }
    }

    impl Line for Host {
        fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
            assert!(buffer.len() % BLOCK_BYTES == 0 && buffer.as_ptr().addr() % BLOCK_BYTES == 0);
            let at = at as usize;
            buffer.copy_from_slice(&self.memory.borrow()[at..at + buffer.len()]);
            Ok(())
        }

        fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            assert!(bytes.len() % BLOCK_BYTES == 0 && bytes.as_ptr().addr() % BLOCK_BYTES == 0);
            let at = at as usize;
            self.memory.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn ring(&mut self, serial: u64) -> io::Result<()> {
            self.bells.push(serial);
            let memory = self.memory.get_mut();
            assert_eq!(memory[SERIAL_AT as usize..][..8], serial.to_le_bytes());
            let answer = &memory[ANSWER_AT as usize..];
            match Part::read(answer).expect("a part") {
                Part::Data { total, here } => {
                    self.taking.extend_from_slice(&answer[HEAD_BYTES..HEAD_BYTES + here]);
                    if self.taking.len() < total {
                        self.put(Part::GoOn, 0, 0);
                        return Ok(());
                    }
                    self.answers.push(std::mem::take(&mut self.taking));
                    self.putting = self.requests.pop_front().ok_or_else(|| io::Error::other("no more requests"))?;
                    self.put = 0;
                }
                Part::GoOn => {}
            }
            let end = (self.put + PART_BYTES).min(self.putting.len());
            self.put(Part::Data { total: self.putting.len(), here: end - self.put }, self.put, end);
            self.put = end;
            Ok(())
        }
    }

    /// Answers each request with itself; returns the host that saw it.
    fn echoed(requests: &[Vec<u8>]) -> Host {
        let mut mailbox = Mailbox::new(Host::new(requests));
        let mut answer = b"hello".to_vec();
        while let Ok(request) = mailbox.exchange(&answer) {
            answer = request;
        }
        mailbox.line
    }

    #[test]
    fn what_is_longer_than_the_memory_goes_in_parts() {
        let requests: Vec<Vec<u8>> = [1, PART_BYTES - HEAD_BYTES, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES]
            .into_iter()
            .map(|length| (0..length).map(|at| (at % 251) as u8).collect())
            .collect();
        let host = echoed(&requests);
        assert!(host.answers[1..] == requests);
        // hello; one turn each for what fits; two and three to take it, as many to give it, the first given while taken
        assert_eq!(host.bells, (1..=1 + 1 + 1 + 1 + 3 + 5).collect::<Vec<u64>>());
    }

    #[test]
    fn a_request_is_not_taken_twice_when_the_host_is_gone() {
        /// Puts one request, and then lets every bell pass.
        struct Gone(Host);

        impl Line for Gone {
            fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
                self.0.read(buffer, at)
            }

            fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
                self.0.write(bytes, at)
            }

            fn ring(&mut self, serial: u64) -> io::Result<()> {
                if serial == 1 { self.0.ring(serial) } else { Ok(()) }
            }
        }

        let mut mailbox = Mailbox::new(Gone(Host::new(&[b"do it".to_vec()])));
        assert_eq!(mailbox.exchange(b"hello").expect("a request"), b"do it");
        let error = mailbox.exchange(b"done").expect_err("no request");
        assert!(error.to_string().contains("the host is gone"));
    }

    #[test]
    fn a_head_that_makes_no_sense_is_refused() {
        let head = |numbers: [u64; 3]| numbers.map(u64::to_le_bytes).concat();
        for wrong in [[0, 0, 0], [1, 5, 6], [1, 0, 0], [1, u64::MAX, 1 + PART_BYTES as u64], [2, 1, 0], [3, 1, 1]] {
            assert_eq!(Part::read(&head(wrong)), None, "{wrong:?}");
        }
        assert_eq!(Part::read(&[1, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn messages_come_through(requests in vec(vec(any::<u8>(), 1..9000), 0..6)) {
            let host = echoed(&requests);
            prop_assert_eq!(&host.answers[1..], &requests[..]);
            prop_assert_eq!(host.bells.len(), requests.len() + 1);
        }

        #[test]
        fn heads_come_back(total in 1usize..1 << 40, here in 1usize..=PART_BYTES) {
            let part = Part::Data { total: total.max(here), here };
            prop_assert_eq!(Part::read(&part.head()), Some(part));
        }
    }
}
