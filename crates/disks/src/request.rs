//! What goes into a model and what comes out.

/// A moment or a length of time, in nanoseconds; moments are counted from when the device went live.
pub type Nanos = u64;

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Reads bytes.
    Read,
    /// Writes bytes; with `fua` it completes only once they are on the medium.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Completes once every write that arrived before is on the medium.
    Flush,
    /// Says that the bytes are not needed any more; they read as zeros afterwards.
    Discard,
    /// Writes zeros.
    WriteZeroes,
}

/// One request. Its number is greater than that of every request that arrived before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub id: u64,
    /// What is asked.
    pub op: Op,
    /// First byte; a multiple of the logical block.
    pub offset: u64,
    /// Bytes; a multiple of the logical block, 0 for a flush.
    pub length: u64,
}

impl Request {
    /// The first byte after it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// What happened, and when. Events come in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The moment.
    pub at: Nanos,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A request completed. A write takes effect at this moment.
    Done {
        /// The request's number.
        id: u64,
        /// Whether it succeeded; a write that did not has no effect.
        ok: bool,
        /// Whether a write survives a power cut from now on; of a flush, whether it did what it promises.
        durable: bool,
    },
    /// These bytes, as written by the completed request of this number or by a later one, survive a power cut from now on.
    Durable {
        /// The write's number.
        id: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// The power went: what is not durable may be lost.
    PowerCut,
}

/// A state machine that says when requests complete. It knows no clock: time is what it is told.
pub trait Serve {
    /// Takes a request at `now`, which is not before the last event or arrival. Every event up to `now` has been taken.
    fn arrive(&mut self, now: Nanos, request: &Request);

    /// When the next event happens if nothing else arrives.
    fn next(&self) -> Option<Nanos>;

    /// A moment before which no request is answered if nothing else arrives; `None` only if none ever is.
    fn next_answer(&self) -> Option<Nanos> {
        self.next()
    }

    /// Takes the next event and adds what can be seen of it from outside.
    fn step(&mut self, events: &mut Vec<Event>);

    /// The shortest time that any read or write of 4 KiB can take.
    fn least(&self) -> Nanos;

    /// Bytes of memory held, about; bounded for any number of requests.
    fn held_bytes(&self) -> usize;
}
