//! The system calls of each pass of a thread through its flowops.

use std::collections::BTreeMap;
use std::path::Path;

use strata_wml::{Options, Streams, lay_out};

use super::super::builtin::{PROGRAMS, text};
use super::super::content::Content;
use super::super::files::Files;
use super::super::run::Run;
use super::super::worker::Worker;
use super::super::{Fix, check_text};
use super::recorder::Recorder;
use super::{around, request, temporary};

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
    let mut worker = Worker::new(&shared, plan).expect("has room");
    (0..passes)
        .map(|_| {
            assert!(worker.once());
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
    // At the end of the file it begins again.
    assert_eq!(passes[4], ["read 262144", "lseek start"]);
    assert_eq!(passes[5], ["read 262144"]);
}

#[test]
fn a_pass_of_the_writers_of_oltp_and_videoserver_is_as_described() {
    let directory = temporary();
    let only = |name: &str, process: &str| {
        let text = text(name).expect("is there");
        let (start, rest) = text.split_once("define process").expect("has processes");
        let at = rest.find(&format!(" name={process},")).expect("is there");
        let end = at + rest[at..].find("\n}\n").expect("ends") + 3;
        format!("{start}define process{}run 1", &rest[at..end])
    };
    // Nobody posts to it here, so that the wait for the readers is left out; the writes are waited for to be seen.
    // Each write of blocks uses the next of 128 slots, and opens a file into it for synchronous writes when it comes first.
    for (process, writes, bytes, opens) in [("dbwr", 100, 2048, [100, 28, 0]), ("lgwr", 1, 256 << 10, [1, 0, 0])] {
        let alone = only("oltp", process).replace("flowop semblock", "#");
        let set = [("ndbwriters", "1"), ("filesize", "1m"), ("logfilesize", "1m")];
        for (number, calls) in passes(directory.path(), &alone, &set, &[Fix::AioWait], 3).iter().enumerate() {
            let mut expected = BTreeMap::from([("pwrite", writes)]);
            if opens[number] > 0 {
                expected.insert("open", opens[number]);
            }
            assert_eq!(counted(calls), expected, "{process}: {calls:?}");
            let pwrite = format!("pwrite {bytes} at ");
            assert!(calls.iter().all(|call| call == "open rw sync" || call.starts_with(&pwrite)), "{calls:?}");
        }
    }
    let video = only("videoserver", "vidwriter").replace("eventgen rate=$eventrate", "");
    let set = [("filesize", "3m"), ("numactivevids", "2"), ("numpassivevids", "4"), ("repintval", "0")];
    for calls in passes(directory.path(), &video, &set, &[], 3) {
        let expected = "unlink,stat,open rw create,write 1048576,write 1048576,write 1048576,close";
        assert_eq!(calls.join(","), expected);
    }
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
