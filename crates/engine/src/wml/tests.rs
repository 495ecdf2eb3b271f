//! Runs in directories of their own; what the kernel is asked is recorded.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::OFlags;
use rustix::io::Errno;
use strata_wml::{Options, Streams, lay_out};
use tempfile::TempDir;

use super::aio::Aio;
use super::builtin::{PROGRAMS, text};
use super::content::Content;
use super::files::{Files, Kind, locked};
use super::report::{FlowopReport, Report};
use super::run::{Run, execute};
use super::system::{Kernel, System};
use super::worker::Worker;
use super::{Fix, Request, Stage, SystemCommands, check_text};

/// The kernel, with a note of each call and, where asked for, a failure in its place.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<String>>,
    fail: Option<(&'static str, Errno)>,
    hang: Option<&'static str>,
}

impl Recorder {
    fn note<T>(&self, call: &str, detail: String, go: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        locked(&self.calls).push(format!("{call}{detail}"));
        if self.hang == Some(call) {
            std::thread::sleep(std::time::Duration::from_secs(3));
        }
        match self.fail {
            Some((which, errno)) if which == call => Err(errno),
            _ => go(),
        }
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.calls))
    }
}

impl System for Recorder {
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
        let kind = match flags & (OFlags::RDONLY | OFlags::WRONLY | OFlags::RDWR) {
            OFlags::RDWR => " rw",
            OFlags::WRONLY => " w",
            _ => " r",
        };
        let extra: String = [
            (OFlags::CREATE, " create"),
            (OFlags::SYNC, " sync"),
            (OFlags::DIRECT, " direct"),
            (OFlags::TRUNC, " trunc"),
            (OFlags::EXCL, " excl"),
        ]
        .iter()
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, name)| *name)
        .collect();
        self.note("open", format!("{kind}{extra}"), || Kernel.open(path, flags, mode))
    }

    fn close(&self, fd: OwnedFd) -> Result<(), Errno> {
        self.note("close", String::new(), || Kernel.close(fd))
    }

    fn read(&self, fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        self.note("read", format!(" {}", into.len()), || Kernel.read(fd, into))
    }

    fn pread(&self, fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let detail = format!(" {} at {offset}", into.len());
        self.note("pread", detail, || Kernel.pread(fd, into, offset))
    }

    fn write(&self, fd: BorrowedFd<'_>, from: &[u8]) -> Result<usize, Errno> {
        self.note("write", format!(" {}", from.len()), || Kernel.write(fd, from))
    }

    fn pwrite(&self, fd: BorrowedFd<'_>, from: &[u8], offset: u64) -> Result<usize, Errno> {
        self.note("pwrite", format!(" {} at {offset}", from.len()), || Kernel.pwrite(fd, from, offset))
    }

    fn seek_start(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.note("lseek", " start".to_owned(), || Kernel.seek_start(fd))
    }

    fn seek_end(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.note("lseek", " end".to_owned(), || Kernel.seek_end(fd))
    }

    fn seek_here(&self, fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        self.note("lseek", " here".to_owned(), || Kernel.seek_here(fd))
    }

    fn fsync(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("fsync", String::new(), || Kernel.fsync(fd))
    }

    fn advise_random(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("fadvise", String::new(), || Kernel.advise_random(fd))
    }

    fn stat(&self, path: &CStr) -> Result<(), Errno> {
        self.note("stat", String::new(), || Kernel.stat(path))
    }

    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.note("fstat", String::new(), || Kernel.fstat(fd))
    }

    fn unlink(&self, path: &CStr) -> Result<(), Errno> {
        self.note("unlink", String::new(), || Kernel.unlink(path))
    }

    fn mkdir(&self, path: &CStr, mode: u32) -> Result<(), Errno> {
        self.note("mkdir", String::new(), || Kernel.mkdir(path, mode))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), Errno> {
        self.note("rmdir", String::new(), || Kernel.rmdir(path))
    }

    fn list(&self, path: &CStr) -> Result<u64, Errno> {
        self.note("list", String::new(), || Kernel.list(path))
    }
}

fn request(directory: &Path) -> Request {
    Request {
        file: "test".to_owned(),
        dialect: None,
        set: Vec::new(),
        directory: directory.to_owned(),
        seconds: None,
        seed: None,
        layout_seed: None,
        stage: Stage::All,
        content: Content::Zeros,
        fixes: Vec::new(),
        allowed: Vec::new(),
        system: SystemCommands::Refuse,
        cpu_per_flowop: false,
        stuck_after_s: 300,
        json: true,
    }
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("works")
}

/// A program with `before`, `flowops` in one thread, and an end.
fn around(directory: &Path, before: &str, flowops: &str) -> String {
    format!(
        "{before}\ndefine fileset name=set,path=\"{}\",entries=8,dirwidth=20,size=10k,prealloc=50,leafdirs=4\n\
         define process name=p {{ thread name=t {{\n{flowops}\n}} }}\nset mode quit firstdone\nrun 20\n",
        directory.display()
    )
}

fn ran_with(directory: &Path, program: &str, change: impl FnOnce(&mut Request), system: Recorder) -> Report {
    let mut request = request(directory);
    change(&mut request);
    let real = directory.canonicalize().expect("works");
    let checked = check_text(
        "test",
        program,
        &Options { directory: Some(real.display().to_string()), set: request.set.clone(), ..Options::default() },
    );
    execute(&request, &real, checked.expect("is right"), system, || ()).expect("begins")
}

fn ran(directory: &Path, program: &str) -> Report {
    ran_with(directory, program, |_| {}, Recorder::default())
}

fn flowop<'a>(report: &'a Report, name: &str) -> &'a FlowopReport {
    report.flowops.iter().find(|flowop| flowop.name == name).expect("is there")
}

/// The system calls of each pass of the first thread through its flowops.
fn passes(directory: &Path, program: &str, set: &[(&str, &str)], fixes: &[Fix], passes: usize) -> Vec<Vec<String>> {
    let mut request = request(directory);
    request.fixes = fixes.to_vec();
    let real = directory.canonicalize().expect("works");
    let options = Options {
        directory: Some(real.display().to_string()),
        set: set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Options::default()
    };
    let program = check_text("test", program, &options).expect("is right").program;
    let mut streams = Streams::new(None);
    let mut files = Vec::new();
    for fileset in program.filesets.iter().rev() {
        let tree = lay_out(fileset, &mut streams).expect("works");
        files.push(Files::new(fileset, &real.join(&fileset.name), tree));
    }
    files.reverse();
    for (fileset, files) in program.filesets.iter().zip(&mut files).rev() {
        files.create(fileset, &mut streams, Content::Zeros).expect("works");
    }
    let Run { shared, plans } = Run::new(&request, &program, files, Recorder::default());
    let plan = plans.into_iter().next().expect("a thread");
    let (mut worker, steps) = Worker::new(&shared, plan);
    (0..passes)
        .map(|_| {
            assert!(worker.once(&steps));
            shared.system.taken()
        })
        .collect()
}

fn counted(calls: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.split(' ').next().unwrap_or_default()).or_insert(0) += 1;
    }
    counts
}

const SMALL: &[(&str, &str)] = &[("nfiles", "200"), ("nthreads", "1"), ("memsize", "1m")];

#[test]
fn a_pass_of_varmail_is_what_was_traced_of_filebench() {
    let directory = temporary();
    for calls in passes(directory.path(), text("varmail").expect("is there"), SMALL, &[], 20) {
        let expected = [
            ("close", 3),
            ("fsync", 2),
            ("lseek", 4),
            ("open", 3),
            ("read", 4),
            ("stat", 1),
            ("unlink", 1),
            ("write", 2),
        ];
        assert_eq!(counted(&calls), BTreeMap::from(expected), "{calls:?}");
        let order: Vec<&str> = calls.iter().map(|call| call.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(
            order.join(" "),
            "unlink stat open lseek write fsync close open lseek read read lseek write fsync close open lseek read read close"
        );
        assert_eq!(calls[2], "open rw create");
    }
}

#[test]
fn a_pass_of_fileserver_is_as_described() {
    let directory = temporary();
    for calls in passes(directory.path(), text("fileserver").expect("is there"), SMALL, &[], 20) {
        let order: Vec<&str> = calls.iter().map(|call| call.split(' ').next().unwrap_or_default()).collect();
        // Files of 128 KiB in the mean are written with one write, and read with one read and one that finds the end.
        assert_eq!(
            order.join(" "),
            "stat open write close open lseek write close open lseek read read close unlink stat"
        );
    }
}

#[test]
fn a_pass_of_webserver_is_ten_reads_and_an_append() {
    let directory = temporary();
    let passes = passes(directory.path(), text("webserver").expect("is there"), SMALL, &[], 5);
    for (number, calls) in passes.iter().enumerate() {
        let mut expected = BTreeMap::from([("close", 10), ("lseek", 11), ("open", 10), ("read", 20), ("write", 1)]);
        // The log is opened once.
        *expected.entry("open").or_insert(0) += usize::from(number == 0);
        assert_eq!(counted(calls), expected, "{calls:?}");
        assert_eq!(calls[0], "open r");
    }
}

#[test]
fn a_pass_of_webproxy_is_as_described() {
    let directory = temporary();
    for calls in passes(directory.path(), text("webproxy").expect("is there"), SMALL, &[], 5) {
        let expected =
            [("close", 6), ("lseek", 6), ("open", 6), ("read", 10), ("stat", 1), ("unlink", 1), ("write", 1)];
        assert_eq!(counted(&calls), BTreeMap::from(expected), "{calls:?}");
    }
}

#[test]
fn a_pass_of_the_readers_of_oltp_and_videoserver_is_one_read() {
    let directory = temporary();
    // The first process is the one looked at: the others go.
    let only = |name: &str, process: &str| {
        let text = text(name).expect("is there");
        let (start, rest) = text.split_once("define process").expect("has processes");
        let at = rest.find(&format!(" name={process},")).expect("is there");
        let end = at + rest[at..].find("\n}\n").expect("ends") + 3;
        format!("{start}define process{}run 1", &rest[at..end])
    };
    let oltp = only("oltp", "shadow").replace("flowop sempost", "#");
    for (number, calls) in
        passes(directory.path(), &oltp, &[("usermode", "10"), ("filesize", "1m"), ("nshadows", "1")], &[], 3)
            .iter()
            .enumerate()
    {
        // Each pass uses the next slot, which is opened when it comes.
        assert_eq!(calls.len(), 2, "{number} {calls:?}");
        assert_eq!(calls[0], "open rw");
        assert!(calls[1].starts_with("pread 2048 at "), "{calls:?}");
        assert_eq!(calls[1].rsplit(' ').next().and_then(|at| at.parse::<u64>().ok()).expect("an offset") % 2048, 0);
    }
    let video = only("videoserver", "vidreaders").replace("eventgen rate=$eventrate", "");
    let passes = passes(
        directory.path(),
        &video,
        &[("filesize", "1m"), ("numactivevids", "2"), ("numpassivevids", "2"), ("nthreads", "1")],
        &[],
        6,
    );
    assert_eq!(passes[0], ["open rw", "read 262144"]);
    assert_eq!(passes[3], ["read 262144"]);
    // At the end of the file it begins anew.
    assert_eq!(passes[4], ["read 262144", "lseek start"]);
    assert_eq!(passes[5], ["read 262144"]);
}

#[test]
fn every_built_in_program_can_run() {
    for (name, text) in PROGRAMS {
        let checked = check_text(name, text, &Options::default()).unwrap_or_else(|shown| panic!("{shown}"));
        assert!(checked.warnings.is_empty(), "{name}: {:?}", checked.warnings);
        assert_eq!(checked.program.seconds, Some(60), "{name}");
    }
    let threads = |name: &str| -> u64 {
        let program = check_text(name, text(name).expect("is there"), &Options::default()).expect("is right").program;
        program
            .processes
            .iter()
            .map(|process| process.instances * process.threads.iter().map(|thread| thread.instances).sum::<u64>())
            .sum()
    };
    let found: Vec<u64> = PROGRAMS.iter().map(|(name, _)| threads(name)).collect();
    assert_eq!(found, [50, 211, 16, 49, 100, 100]);
    assert!(text("mailserver").expect_err("refused").ends_with("webproxy, webserver."));
}

#[test]
fn the_quirks_are_there_and_can_be_switched_off() {
    let directory = temporary();
    let calls = |flowops: &str, fixes: &[Fix], count: usize| -> Vec<String> {
        passes(directory.path(), &around(directory.path(), "", flowops), &[], fixes, count).concat()
    };
    // Ten kilobytes in whole pieces of four are twelve.
    let whole = "flowop openfile name=o,filesetname=set,fd=1\nflowop writewholefile name=w,fd=1,srcfd=1,iosize=4k\nflowop closefile name=c,fd=1";
    assert_eq!(calls(whole, &[], 1)[1..4], ["write 4096", "write 4096", "write 4096"]);
    assert_eq!(calls(whole, &[Fix::WriteWhole], 1)[1..4], ["write 4096", "write 4096", "write 2048"]);
    // The last block is never read.
    let random = "flowop read name=r,filesetname=set,iosize=2k,random,iters=200";
    assert!(!calls(random, &[], 1).contains(&"pread 2048 at 8192".to_owned()));
    assert!(calls(random, &[], 1).contains(&"pread 2048 at 6144".to_owned()));
    assert!(calls(random, &[Fix::LastBlock], 1).contains(&"pread 2048 at 8192".to_owned()));
    // Sequential writes never come back.
    let sequential = "flowop write name=w,filesetname=set,iosize=5k";
    assert!(!calls(sequential, &[], 4).contains(&"lseek start".to_owned()));
    assert_eq!(calls(sequential, &[Fix::Wrap], 2)[3..], ["write 5120", "lseek here", "lseek start"]);
    let sync = "flowop openfile name=o,filesetname=set,fd=1,dsync,directio,noreadahead\nflowop closefile name=c,fd=1";
    assert_eq!(calls(sync, &[], 1), ["open rw sync direct", "fadvise", "close"]);
    assert_eq!(calls(sync, &[Fix::Dsync], 1)[0], "open rw direct");
    // A slot that is closed is still of the set.
    let set = format!("{sync}\nflowop fsyncset name=f,filesetname=set").replace("directio,", "");
    assert!(!calls(&set, &[], 1).contains(&"fsync".to_owned()));
}

#[test]
fn every_other_flowop_does_what_its_name_says() {
    let directory = temporary();
    let flowops = "flowop statfile name=s,filesetname=set\nflowop openfile name=o,filesetname=set,fd=3\nflowop statfile name=fs,fd=3\n\
                   flowop appendfile name=a,fd=3,iosize=1k\nflowop fsync name=f,fd=3\nflowop fsyncset name=fset,filesetname=set\n\
                   flowop deletefile name=d,fd=3\nflowop closefile name=c,fd=3\nflowop removedir name=rd,filesetname=set\n\
                   flowop makedir name=md,filesetname=set\nflowop listdir name=ld,filesetname=set\nflowop hog name=h,value=100\n\
                   flowop print name=pr\nflowop testrandvar name=tr,value=5\nflowop eventlimit name=el\nflowop opslimit name=ol\n\
                   flowop createfile name=cr,filesetname=set,fd=4\nflowop closefile name=cc,fd=4";
    let calls = passes(directory.path(), &around(directory.path(), "", flowops), &[], &[], 1).concat();
    let expected =
        "stat,open rw,fstat,lseek end,write 1024,fsync,fsync,unlink,close,rmdir,mkdir,list,stat,open rw create,close";
    assert_eq!(calls.join(","), expected);
}

#[test]
fn asynchronous_writes_arrive() {
    let directory = temporary();
    let flowops = "flowop aiowrite name=w,filesetname=set,iosize=2k,random,iters=50\nflowop aiowait name=wait\nflowop finishoncount name=f,value=50,target=w";
    let report = ran_with(
        directory.path(),
        &around(directory.path(), "", flowops),
        |request| request.fixes = vec![Fix::AioWait],
        Recorder::default(),
    );
    assert!(!report.ended.early, "{}", report.ended.why);
    assert_eq!((flowop(&report, "w").count, flowop(&report, "w").bytes), (50, 50 * 2048));
}

#[test]
fn a_run_is_counted_and_timed() {
    let directory = temporary();
    let flowops = "flowop read name=r,filesetname=set,iosize=4k,random\nflowop finishoncount name=f,value=100,target=r";
    let report = ran_with(
        directory.path(),
        &around(directory.path(), "", flowops),
        |request| request.cpu_per_flowop = true,
        Recorder::default(),
    );
    assert!(!report.ended.early && report.ended.why == "its threads were done");
    let read = flowop(&report, "r");
    assert_eq!((read.count, read.bytes, read.errors, read.class), (100, 409_600, 0, "io"));
    let latency = &read.latency_ms;
    assert!(
        latency.min <= latency.p50
            && latency.p50 <= latency.p99
            && latency.p99 <= latency.max
            && latency.min > Some(0.0)
    );
    assert!(read.cpu_us_per_op.is_some_and(|cpu| cpu > 0.0));
    assert_eq!(report.summary.count, 100);
    assert!(report.peak_memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    assert_eq!((report.filesets[0].files, report.filesets[0].leaf_directories, report.filesets[0].drift), (8, 4, 0));
    assert_eq!(flowop(&report, "f").count, 99);
}

#[test]
fn a_timed_run_has_a_series_and_ends_to_the_moment() {
    let directory = temporary();
    let program = around(directory.path(), "", "flowop statfile name=s,filesetname=set")
        .replace("run 20", "set mode quit timeout\nrun 2");
    let report = ran(directory.path(), &program);
    assert!(!report.ended.early);
    assert!((report.window_s - 2.0).abs() < 1e-9, "{}", report.window_s);
    let series = &flowop(&report, "s").series;
    assert_eq!(series.count.len(), report.summary.count_series.len());
    assert!(!series.count.is_empty() && series.count.iter().sum::<u64>() <= report.summary.count);
}

#[test]
fn a_run_that_ends_early_says_why() {
    let directory = temporary();
    // Eight files, of which some exist: soon all do.
    let create = "flowop createfile name=cr,filesetname=set,fd=1\nflowop closefile name=c,fd=1";
    let program = around(directory.path(), "", create).replace("firstdone", "timeout");
    let report = ran(directory.path(), &program);
    assert!(report.ended.early);
    assert_eq!(report.ended.flowop.as_deref(), Some("cr"));
    assert!(report.ended.why.contains("every file of its fileset was there already"), "{}", report.ended.why);
    assert_eq!(report.filesets[0].at_end, 8);
    assert_eq!(report.filesets[0].drift, flowop(&report, "cr").count as i64);
}

#[test]
fn a_failed_call_ends_the_run_with_what_happened_where() {
    for (call, errno, name) in [
        ("write", Errno::NOSPC, "w"),
        ("fsync", Errno::IO, "f"),
        ("open", Errno::MFILE, "o"),
        ("unlink", Errno::ROFS, "d"),
        ("close", Errno::IO, "c"),
    ] {
        let directory = temporary();
        let flowops = "flowop openfile name=o,filesetname=set,fd=1\nflowop appendfile name=w,fd=1,iosize=1k\nflowop fsync name=f,fd=1\n\
                       flowop closefile name=c,fd=1\nflowop deletefile name=d,filesetname=set";
        let system = Recorder { fail: Some((call, errno)), ..Recorder::default() };
        let report = ran_with(directory.path(), &around(directory.path(), "", flowops), |_| {}, system);
        assert!(report.ended.early, "{call}");
        assert_eq!(
            (report.ended.flowop.as_deref(), report.ended.errno),
            (Some(name), Some(errno.raw_os_error())),
            "{call}"
        );
        assert!(report.ended.why.contains("of p-1/t-1 failed"), "{}", report.ended.why);
        assert_eq!((flowop(&report, name).errors, report.summary.errors), (1, 1), "{call}");
    }
}

#[test]
fn a_failure_names_the_file_that_it_was_about() {
    let directory = temporary();
    let flowops = "flowop openfile name=o,filesetname=set,fd=1\nflowop statfile name=s,filesetname=set\n\
                   flowop appendfile name=w,fd=1,iosize=1k\nflowop closefile name=c,fd=1";
    let program = around(directory.path(), "", flowops).replace("prealloc=50", "prealloc");
    let system = Recorder { fail: Some(("write", Errno::NOSPC)), ..Recorder::default() };
    let report = ran_with(directory.path(), &program, |_| {}, system);
    // The file that was opened, not the one that was looked at since.
    assert!(report.ended.why.ends_with("/set/00000001/00000001)"), "{}", report.ended.why);
}

#[test]
fn writes_that_have_not_begun_when_the_run_is_over_are_left_out() {
    let directory = temporary();
    let text = around(directory.path(), "", "flowop statfile name=s,filesetname=set");
    let program = check_text("test", &text, &Options::default()).expect("is right").program;
    let system = Recorder { hang: Some("pwrite"), ..Recorder::default() };
    let shared = Run::new(&request(directory.path()), &program, Vec::new(), system).shared;
    let mut aio = Aio::start(&shared);
    let file = std::sync::Arc::new(OwnedFd::from(fs::File::create(directory.path().join("file")).expect("works")));
    for _ in 0..100 {
        aio.submit(std::sync::Arc::clone(&file), 0, vec![0; 512]).expect("works");
    }
    drop(aio);
    assert!(shared.system.taken().len() <= 1);
}

#[test]
fn a_directory_that_vanishes_ends_the_run() {
    let directory = temporary();
    let inside = directory.path().join("inside");
    fs::create_dir(&inside).expect("works");
    let program = around(&inside, "", "flowop statfile name=s,filesetname=set");
    let gone = inside.clone();
    let remover = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        fs::remove_dir_all(gone).expect("works");
    });
    let report = ran(&inside, &program);
    remover.join().expect("works");
    assert!(report.ended.early && report.ended.errno == Some(Errno::NOENT.raw_os_error()), "{}", report.ended.why);
    assert!(report.summary.count > 0);
}

#[test]
fn a_run_in_which_nothing_goes_on_is_ended() {
    let directory = temporary();
    let program = around(directory.path(), "", "flowop statfile name=s,filesetname=set");
    let system = Recorder { hang: Some("stat"), ..Recorder::default() };
    let report = ran_with(directory.path(), &program, |request| request.stuck_after_s = 1, system);
    assert!(report.ended.early && report.ended.why.contains("p-1/t-1 in s"), "{}", report.ended.why);
}

#[test]
fn a_thread_that_sleeps_is_not_stuck() {
    let directory = temporary();
    let program = around(directory.path(), "", "flowop statfile name=s,filesetname=set\nflowop delay name=d,value=4")
        .replace("run 20", "set mode quit timeout\nrun 3");
    let report = ran_with(directory.path(), &program, |request| request.stuck_after_s = 1, Recorder::default());
    assert!(!report.ended.early, "{}", report.ended.why);
}

#[test]
fn deletes_of_open_files_are_skipped_and_said() {
    let directory = temporary();
    let flowops = "flowop openfile name=o,filesetname=set,fd=1\nflowop deletefile name=d,filesetname=set,iters=2\n\
                   flowop closefile name=c,fd=1\nflowop finishoncount name=f,value=1,target=c";
    // Of two files one is open: the first delete finds the other, the second one finds the open one.
    let before = |entries: &str| {
        around(directory.path(), "", flowops).replace("entries=8", entries).replace("prealloc=50", "prealloc")
    };
    let report = ran(directory.path(), &before("entries=2"));
    assert!(!report.ended.early, "{}", report.ended.why);
    assert_eq!((flowop(&report, "d").count, flowop(&report, "d").skipped, report.summary.skipped_deletes), (1, 1, 1));
    assert_eq!(report.filesets[0].drift, -1);
    let fixed = ran_with(
        directory.path(),
        &before("entries=3"),
        |request| request.fixes = vec![Fix::Delete],
        Recorder::default(),
    );
    assert_eq!((flowop(&fixed, "d").count, flowop(&fixed, "d").skipped), (2, 0));
}

#[test]
fn threads_wait_for_each_other() {
    let directory = temporary();
    let program = format!(
        "define fileset name=set,path=\"{}\",entries=4,dirwidth=20,prealloc\n\
         define process name=p,instances=2 {{ thread name=take {{ flowop semblock name=take,value=10,highwater=20\n flowop wakeup name=w,target=b\n flowop finishoncount name=f,value=5,target=take }} }}\n\
         define process name=q {{ thread name=give {{ flowop sempost name=give,target=take,value=1,blocking }} thread name=b {{ flowop block name=b }} }}\n\
         set mode quit firstdone\nrun 30\n",
        directory.path().display()
    );
    let report = ran(directory.path(), &program);
    assert!(!report.ended.early, "{}", report.ended.why);
    let (taken, given) = (flowop(&report, "take").count, flowop(&report, "give").count);
    assert!((5..=10).contains(&taken), "{taken}");
    assert!((50..=130).contains(&given), "{given}");
    assert_eq!(flowop(&report, "take").class, "sync");
    assert_eq!(report.threads, 4);
}

#[test]
fn a_rate_is_kept() {
    let directory = temporary();
    for limit in ["eventlimit name=l", "opslimit name=l", "iopslimit name=l,target=r", "opslimit name=l,target=r"] {
        let flowops = format!("flowop read name=r,filesetname=set,iosize=1k\nflowop {limit}");
        let program =
            around(directory.path(), "eventgen rate=50", &flowops).replace("run 20", "set mode quit timeout\nrun 2");
        let report = ran(directory.path(), &program);
        let count = flowop(&report, "r").count;
        // Never more than the rate and what one call of each flowop is ahead of it.
        assert!((10..=102).contains(&count), "{limit}: {count}");
    }
    let flowops = "flowop read name=r,filesetname=set,iosize=10k\nflowop bwlimit name=l,target=r";
    let program =
        around(directory.path(), "eventgen rate=50", flowops).replace("run 20", "set mode quit timeout\nrun 1");
    let report = ran(directory.path(), &program);
    assert!(flowop(&report, "r").bytes <= 52 << 20);
}

#[test]
fn a_tree_is_kept_where_that_is_asked_for() {
    let directory = temporary();
    let flowops = "flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=1,target=s";
    let program = around(directory.path(), "", flowops).replace("prealloc=50", "prealloc,reuse,paralloc");
    let first = ran(directory.path(), &program);
    assert_eq!(first.filesets[0].written_bytes, 8 * 10_240);
    let files = || {
        let mut found: Vec<_> = Vec::new();
        let mut left = vec![directory.path().join("set")];
        while let Some(path) = left.pop() {
            for entry in fs::read_dir(path).expect("works") {
                let entry = entry.expect("works");
                if entry.file_type().expect("works").is_dir() {
                    left.push(entry.path())
                } else {
                    found.push(entry.path())
                }
            }
        }
        found.sort();
        found
    };
    let found = files();
    assert_eq!(found.len(), 8);
    fs::write(&found[0], b"short").expect("works");
    fs::write(&found[1], vec![1; 20_000]).expect("works");
    let second = ran(directory.path(), &program);
    assert_eq!(second.filesets[0].written_bytes, 10_240);
    assert!(files().iter().all(|path| fs::metadata(path).expect("works").len() == 10_240));
    let anew = ran(directory.path(), &program.replace("reuse,", ""));
    assert_eq!(anew.filesets[0].written_bytes, 8 * 10_240);
}

#[test]
fn a_run_finds_the_files_that_were_created_before() {
    let directory = temporary();
    let program = around(
        directory.path(),
        "",
        "flowop deletefile name=d,filesetname=set\nflowop finishoncount name=f,value=2,target=d",
    );
    let all = ran(directory.path(), &program);
    ran_with(
        directory.path(),
        &program.replace("flowop deletefile name=d,filesetname=set", "flowop statfile name=d,filesetname=set"),
        |_| {},
        Recorder::default(),
    );
    let later = ran_with(directory.path(), &program, |request| request.stage = Stage::Run, Recorder::default());
    assert!(!later.ended.early, "{}", later.ended.why);
    assert_eq!((later.filesets[0].at_start, later.filesets[0].written_bytes), (all.filesets[0].at_start, 0));
    assert_eq!(flowop(&later, "d").errors, 0);
}

#[test]
fn what_is_written_is_as_asked() {
    let directory = temporary();
    let flowops = "flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=1,target=s";
    let program = around(directory.path(), "", flowops);
    let zeros = |content| {
        let report = ran_with(directory.path(), &program, |request| request.content = content, Recorder::default());
        assert!(report.filesets[0].at_start > 0);
        let mut left = vec![directory.path().join("set")];
        let (mut zeros, mut all) = (0, 0);
        while let Some(path) = left.pop() {
            for entry in fs::read_dir(path).expect("works") {
                let path = entry.expect("works").path();
                if path.is_dir() {
                    left.push(path);
                } else {
                    let bytes = fs::read(path).expect("works");
                    zeros += bytes.iter().filter(|&&byte| byte == 0).count();
                    all += bytes.len();
                }
            }
        }
        zeros * 100 / all
    };
    assert_eq!(zeros(Content::Zeros), 100);
    assert!(zeros(Content::Random) < 3);
    assert!((35..65).contains(&zeros(Content::Compressible(50))));
}

#[test]
fn files_outside_the_directory_and_commands_are_refused() {
    let (directory, elsewhere) = (temporary(), temporary());
    let program = around(elsewhere.path(), "", "flowop statfile name=s,filesetname=set");
    let real = directory.path().canonicalize().expect("works");
    let try_it = |program: &str| {
        let checked = check_text("test", program, &Options::default()).expect("is right");
        execute(&request(directory.path()), &real, checked, Recorder::default(), || ()).map(drop).expect_err("refused")
    };
    assert!(try_it(&program).contains("--allow-path"));
    assert_eq!(fs::read_dir(elsewhere.path()).expect("works").count(), 0);
    // Nor is anything removed that cannot be a tree of ours.
    fs::write(directory.path().join("set"), b"mine").expect("works");
    assert!(
        try_it(&around(directory.path(), "", "flowop statfile name=s,filesetname=set")).contains("is no directory")
    );
    assert!(directory.path().join("set").is_file());
    let commands = around(directory.path(), "system \"touch x\"", "flowop statfile name=s,filesetname=set");
    assert!(try_it(&commands).contains("--system run"));
}

#[test]
fn a_link_in_a_tree_that_is_kept_is_not_followed() {
    let load = "flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=1,target=s";
    for stage in [Stage::All, Stage::Run] {
        for link in ["set", "set/00000001", "set/00000001/00000001"] {
            let (directory, elsewhere) = (temporary(), temporary());
            let program = around(directory.path(), "", load).replace("prealloc=50", "prealloc,reuse");
            let place = directory.path().join(link);
            fs::create_dir_all(place.parent().expect("has one")).expect("works");
            std::os::unix::fs::symlink(elsewhere.path(), &place).expect("works");
            if stage == Stage::Run && link != "set" {
                continue;
            }
            let mut request = request(directory.path());
            request.stage = stage;
            let real = directory.path().canonicalize().expect("works");
            let checked = check_text("test", &program, &Options::default()).expect("is right");
            let why = execute(&request, &real, checked, Recorder::default(), || ()).map(drop).expect_err("refused");
            assert!(why.contains("no directory") || why.contains("no file"), "{link}: {why}");
            assert_eq!(fs::read_dir(elsewhere.path()).expect("works").count(), 0, "{link}");
        }
    }
}

#[test]
fn a_directory_whose_name_is_no_text_is_the_one_that_is_used() {
    use std::os::unix::ffi::OsStrExt;
    let base = temporary();
    let directory = base.path().join(std::ffi::OsStr::from_bytes(b"x\xff"));
    fs::create_dir(&directory).expect("works");
    let load = "flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=1,target=s";
    let program = around(Path::new("inside"), "", load);
    let report = ran(&directory, &program);
    assert!(!report.ended.early, "{}", report.ended.why);
    assert_eq!(fs::read_dir(base.path()).expect("works").count(), 1);
}

#[test]
fn the_common_rotor_goes_round() {
    let directory = temporary();
    let flowops = "flowop statfile name=s,filesetname=set";
    let program = around(directory.path(), "", flowops).replace("prealloc=50", "prealloc");
    let options = Options { directory: None, ..Options::default() };
    let program = check_text("test", &program, &options).expect("is right").program;
    let tree = lay_out(&program.filesets[0], &mut Streams::new(None)).expect("works");
    let mut files = Files::new(&program.filesets[0], &directory.path().join("set"), tree);
    files.create(&program.filesets[0], &mut Streams::new(None), Content::Zeros).expect("works");
    let picks: Vec<u32> = (0..10)
        .filter_map(|_| {
            let member = files.pick(Kind::File, || true, |population| population.pick_existing(None))?;
            files.release(Kind::File, member, |_| {});
            Some(member)
        })
        .collect();
    assert_eq!(picks, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
}

#[test]
fn a_thread_counts_for_its_process_only_where_that_is_asked_for() {
    let directory = temporary();
    let program =
        around(directory.path(), "", "flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=30");
    let report = ran(directory.path(), &program);
    assert_eq!(flowop(&report, "s").count, 30);
    let run = |flowops: &str| {
        let program =
            check_text("test", &around(directory.path(), "", flowops), &Options::default()).expect("is right").program;
        Run::new(&request(directory.path()), &program, Vec::new(), Recorder::default()).shared.processes[0].wanted
    };
    assert!(run("flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=30"));
    assert!(!run("flowop statfile name=s,filesetname=set\nflowop finishoncount name=f,value=30,target=s"));
}
