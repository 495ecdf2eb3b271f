//! Whole runs: what they count, how they end, and how threads wait for each other.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use strata_wml::Options;

use super::super::aio::Aio;
use super::super::run::Run;
use super::super::{Fix, check_text};
use super::recorder::Recorder;
use super::{around, flowop, ran, ran_with, request, temporary};

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
    // The open counts as well.
    assert_eq!((flowop(&report, "w").count, flowop(&report, "w").bytes), (51, 50 * 2048));
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
    assert_eq!((read.count, read.bytes, read.errors, read.class), (100, 99 * 4096, 0, "io"));
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
    // The first read opens the file, which counts.
    assert_eq!(flowop(&report, "f").count, 98);
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
    let mut aio = Aio::new(&shared);
    let file = std::sync::Arc::new(OwnedFd::from(fs::File::create(directory.path().join("file")).expect("works")));
    for _ in 0..100 {
        aio.submit(0, std::sync::Arc::clone(&file), 0, vec![0; 512]).expect("works");
    }
    drop(aio);
    assert!(shared.system.taken().len() <= 1);
}

#[test]
fn an_asynchronous_write_that_fails_ends_the_run_though_nothing_waits_for_it() {
    for flowops in ["", "\nflowop aiowait name=wait"] {
        let directory = temporary();
        let program = format!("flowop aiowrite name=w,filesetname=set,iosize=2k,random{flowops}");
        let system = Recorder { fail: Some(("pwrite", Errno::NOSPC)), ..Recorder::default() };
        let report = ran_with(directory.path(), &around(directory.path(), "", &program), |_| {}, system);
        let errno = Some(Errno::NOSPC.raw_os_error());
        assert_eq!((report.ended.flowop.as_deref(), report.ended.errno), (Some("w"), errno), "{}", report.ended.why);
        assert_eq!(flowop(&report, "w").errors, 1);
    }
}

#[test]
fn a_fileset_that_vanishes_is_not_made_again() {
    let directory = temporary();
    let program = around(
        directory.path(),
        "",
        "flowop createfile name=c,filesetname=set,fd=1\nflowop closefile name=cl,fd=1\nflowop deletefile name=d,filesetname=set",
    );
    let top = directory.path().join("set");
    let gone = top.clone();
    let remover = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        // At once, as when a file system is unmounted.
        fs::rename(&gone, gone.with_extension("away")).expect("works");
    });
    let report = ran(directory.path(), &program);
    remover.join().expect("works");
    assert!(report.ended.early && report.ended.errno == Some(Errno::NOENT.raw_os_error()), "{}", report.ended.why);
    assert!(!top.exists());
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
    // The post that lets the last one go on may end after the run.
    assert!((49..=130).contains(&given), "{given}");
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
