//! A checked program, as plain data: what runs, without any name left to look up.

use crate::dialect::Dialect;
use crate::distribution::Number;

/// A whole program.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The dialect it was read in.
    pub dialect: Dialect,
    /// In the order of their definition. They are laid out and created in the reverse order.
    pub filesets: Vec<Fileset>,
    /// In the order of their definition.
    pub processes: Vec<Process>,
    /// What is done before the run, in order.
    pub before: Vec<Action>,
    /// When the run ends.
    pub mode: EndMode,
    /// How long the run lasts at most; None: until its threads are done.
    pub seconds: Option<u64>,
    /// Events of the event generator per second; 0: none.
    pub events_per_s: u64,
}

/// Something done before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Create the filesets now.
    CreateFiles,
    /// Say something.
    Echo(String),
    /// Run a shell command.
    System(String),
    /// Wait so many seconds.
    Sleep(u64),
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMode {
    /// After its time; a thread that ends earlier ends it as a failure.
    Timeout,
    /// When the first thread is done.
    FirstDone,
    /// When every thread is done.
    AllDone,
}

/// A set of files; a file is a set of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Fileset {
    /// Its name, which is also that of its top directory.
    pub name: String,
    /// The directory that its top directory is in.
    pub path: String,
    /// Whether it was defined as a file.
    pub single: bool,
    /// How many files.
    pub entries: u64,
    /// Bytes of each file, drawn once per file.
    pub size: Number,
    /// Mean entries of a directory; a random one is drawn for each directory.
    pub dirwidth: Number,
    /// 1000 times the gamma shape of widths and depths; 0: they are constants.
    pub dirgamma: u64,
    /// The depths, when they have a distribution of their own.
    pub dirdepth: Option<Number>,
    /// How many empty directories.
    pub leafdirs: u64,
    /// Percent of the files that exist at the start.
    pub prealloc: u64,
    /// Whether files are created in parallel.
    pub paralloc: bool,
    /// Whether a tree that is there is kept.
    pub reuse: bool,
    /// Whether it is kept without looking at it.
    pub trusttree: bool,
    /// Whether files are opened for reading only.
    pub readonly: bool,
    /// Whether files are opened for writing only.
    pub writeonly: bool,
}

/// A process, of which there are `instances`.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// How many of them.
    pub instances: u64,
    /// How much nicer it is than others.
    pub nice: u64,
    /// Its threads.
    pub threads: Vec<Thread>,
}

/// A thread, of which there are `instances` in each instance of its process.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// How many of them.
    pub instances: u64,
    /// Bytes of the buffer that all its flowops use; 0: each flowop has its own.
    pub memsize: u64,
    /// What it does, over and over.
    pub flowops: Vec<Flowop>,
}

/// One step of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// Its name in the results; that of a step inside a composite one has the composite's name and a point before it.
    pub name: String,
    /// What it does.
    pub of: Type,
    /// The number of its fileset.
    pub fileset: Option<usize>,
    /// Its slot.
    pub fd: usize,
    /// The slot whose file says how much is written.
    pub srcfd: Option<usize>,
    /// Whether slots are used in turn.
    pub opennext: bool,
    /// Bytes of one input or output.
    pub iosize: Number,
    /// Whether offsets are random.
    pub random: bool,
    /// The range of random offsets; 0: the size of the file.
    pub workingset: Number,
    /// How often it is done in one pass.
    pub iters: Number,
    /// Open with O_DIRECT.
    pub directio: bool,
    /// Open with O_SYNC.
    pub dsync: bool,
    /// Advise against reading ahead.
    pub noreadahead: bool,
    /// The number of the file, instead of the next in turn.
    pub indexed: Option<Number>,
    /// A number whose meaning depends on the type.
    pub value: Number,
    /// Another flowop, by name.
    pub target: Option<String>,
    /// Whether sempost blocks.
    pub blocking: bool,
    /// Of semblock.
    pub highwater: u64,
    /// The steps of a composite one.
    pub inner: Vec<Flowop>,
}

/// How a flowop counts in the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// In the summary.
    Io,
    /// In the summary; asynchronous.
    Aio,
    /// Not in the summary: waiting for each other.
    Sync,
    /// Not in the summary.
    Other,
}

macro_rules! types {
    ($($variant:ident $name:literal $class:ident;)*) => {
        /// What a flowop does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Type { $($variant,)* Composite }

        impl Type {
            /// Every type that has a word in the language.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its word.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Composite => "composite" }
            }

            /// How it counts.
            #[must_use]
            pub fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* Self::Composite => Class::Other }
            }
        }
    };
}

types! {
    OpenFile "openfile" Io;
    CreateFile "createfile" Io;
    CloseFile "closefile" Io;
    DeleteFile "deletefile" Io;
    StatFile "statfile" Io;
    ReadWholeFile "readwholefile" Io;
    WriteWholeFile "writewholefile" Io;
    AppendFile "appendfile" Io;
    AppendFileRand "appendfilerand" Io;
    Read "read" Io;
    Write "write" Io;
    AioWrite "aiowrite" Aio;
    AioWait "aiowait" Aio;
    Fsync "fsync" Io;
    FsyncSet "fsyncset" Io;
    MakeDir "makedir" Io;
    RemoveDir "removedir" Io;
    ListDir "listdir" Io;
    Block "block" Sync;
    Wakeup "wakeup" Sync;
    SemBlock "semblock" Sync;
    SemPost "sempost" Sync;
    Hog "hog" Other;
    Delay "delay" Other;
    EventLimit "eventlimit" Other;
    IopsLimit "iopslimit" Other;
    OpsLimit "opslimit" Other;
    BwLimit "bwlimit" Other;
    FinishOnCount "finishoncount" Other;
    FinishOnBytes "finishonbytes" Other;
    Print "print" Other;
    TestRandvar "testrandvar" Other;
}

impl Type {
    /// Whether it counts as a read.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::ReadWholeFile | Self::Read)
    }

    /// Whether it counts as a write.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::WriteWholeFile | Self::AppendFile | Self::AppendFileRand | Self::Write | Self::AioWrite)
    }

    /// Whether it cannot do without a fileset.
    #[must_use]
    pub fn needs_fileset(self) -> bool {
        matches!(
            self,
            Self::MakeDir | Self::RemoveDir | Self::ListDir | Self::FsyncSet | Self::OpenFile | Self::CreateFile
        )
    }

    /// Whether it must be told how many bytes to move.
    #[must_use]
    pub fn needs_iosize(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::AppendFile | Self::AppendFileRand | Self::AioWrite)
    }

    /// Whether it must be told which other flowop it is about.
    #[must_use]
    pub fn needs_target(self) -> bool {
        matches!(self, Self::Wakeup | Self::SemPost)
    }
}
