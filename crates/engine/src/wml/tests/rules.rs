//! Rules of filebench that readings of its source found broken here: what a flowop counts, moves and refuses.

use std::sync::{Arc, Barrier, Mutex};

use super::super::{Fix, Request};
use super::recorder::Recorder;
use super::{around, flowop, ran, ran_with, temporary};

/// What the kernel is asked by a program that ends by itself, joined by commas.
fn asked(program: &str, directory: &std::path::Path) -> String {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let system = Recorder { seen: Some(Arc::clone(&calls)), ..Recorder::default() };
    let report = ran_with(directory, program, |_| {}, system);
    assert!(!report.ended.early, "{}", report.ended.why);
    let calls = calls.lock().expect("whole");
    calls.join(",")
}

const END: &str = "\nflowop finishoncount name=end,value=1,target=last";

#[test]
fn an_open_that_a_read_or_write_needs_counts_as_one_of_its_operations() {
    let directory = temporary();
    let flowops = format!("flowop readwholefile name=r,filesetname=set,fd=1\nflowop closefile name=last,fd=1{END}");
    let report = ran(directory.path(), &around(directory.path(), "", &flowops));
    assert_eq!((flowop(&report, "r").count, flowop(&report, "r").bytes, report.summary.count), (2, 10_240, 3));
    for of in ["write", "read", "appendfile"] {
        let flowops = format!("flowop {of} name=last,filesetname=set,fd=1,iosize=1k{END}");
        let report = ran(directory.path(), &around(directory.path(), "", &flowops));
        assert_eq!((flowop(&report, "last").count, flowop(&report, "last").bytes), (2, 1024), "{of}");
    }
}

#[test]
fn an_append_of_nothing_counts_and_opens_nothing() {
    let directory = temporary();
    let flowops = format!("flowop appendfilerand name=last,filesetname=set,fd=1,iosize=1{END}");
    let program = around(directory.path(), "", &flowops);
    assert_eq!(asked(&program, directory.path()), "");
    assert_eq!(flowop(&ran(directory.path(), &program), "last").count, 1);
}

#[test]
fn random_offsets_need_a_range_that_holds_a_piece() {
    for of in ["read", "write", "aiowrite"] {
        let directory = temporary();
        for (sizes, fits) in [("iosize=10k", true), ("iosize=11k", false), ("iosize=4k,workingset=2k", false)] {
            let flowops = format!("flowop {of} name=last,filesetname=set,random,{sizes}{END}");
            let report = ran(directory.path(), &around(directory.path(), "", &flowops));
            assert_eq!(!report.ended.early, fits, "{of} {sizes}: {}", report.ended.why);
            if !fits {
                assert!(report.ended.why.contains("make it smaller, or the file larger"), "{}", report.ended.why);
                assert_eq!(flowop(&report, "last").bytes, 0);
            }
        }
    }
}

#[test]
fn fsyncset_counts_each_file_that_it_syncs() {
    let directory = temporary();
    let two = "flowop openfile name=o,filesetname=set,fd=1\nflowop openfile name=p,filesetname=set,fd=2\n\
               flowop fsyncset name=f,filesetname=set\nflowop closefile name=c,fd=1\nflowop closefile name=last,fd=2";
    let report = ran(directory.path(), &around(directory.path(), "", &format!("{two}{END}")));
    assert_eq!((flowop(&report, "f").count, report.summary.count), (2, 6));
    let none = "flowop fsyncset name=f,filesetname=set\nflowop statfile name=last,filesetname=set";
    let report = ran(directory.path(), &around(directory.path(), "", &format!("{none}{END}")));
    assert_eq!((flowop(&report, "f").count, report.summary.count), (0, 1));
}

#[test]
fn a_file_is_read_whole_in_pieces_of_its_own_size_or_of_the_workingset() {
    let directory = temporary();
    let read = "flowop openfile name=o,filesetname=set,fd=1\nflowop appendfile name=a,fd=1,iosize=1k\n\
                flowop readwholefile name=r,fd=1\nflowop closefile name=last,fd=1";
    let program = around(directory.path(), "", &format!("{read}{END}"));
    assert_eq!(
        asked(&program, directory.path()),
        "open rw,lseek end,write 1024,lseek start,read 10240,read 10240,read 10240,close"
    );
    let of_two = program.replace("name=r,fd=1", "name=r,fd=1,workingset=6k");
    assert_eq!(
        asked(&of_two, directory.path()),
        "open rw,lseek end,write 1024,lseek start,read 6144,read 6144,read 6144,close"
    );
    // Laid out empty: nothing is read of it, though it holds something by now.
    let empty = program.replace("size=10k", "size=0");
    assert_eq!(asked(&empty, directory.path()), "open rw,lseek end,write 1024,lseek start,read 0,close");
}

#[test]
fn a_file_is_written_whole_in_pieces_of_its_own_size() {
    let directory = temporary();
    let place = directory.path().display();
    let small = format!("define fileset name=small,path=\"{place}\",entries=4,dirwidth=20,size=4k,prealloc");
    let write = |from: &str, to: &str, more: &str| {
        let flowops = format!(
            "flowop openfile name=o,filesetname={from},fd=2\nflowop openfile name=p,filesetname={to},fd=1\n\
             flowop writewholefile name=w,fd=1,srcfd=2{more}\nflowop closefile name=c,fd=1\nflowop closefile name=last,fd=2{END}"
        );
        around(directory.path(), &small, &flowops)
    };
    let calls = |program: &str| asked(program, directory.path());
    assert_eq!(calls(&write("set", "small", "")), "open rw,open rw,write 4096,write 4096,write 4096,close,close");
    assert_eq!(calls(&write("small", "set", "")), "open rw,open rw,write 4096,close,close");
    // The source without a file, and pieces of nothing.
    for (program, why) in [
        (write("set", "small", "").replace("srcfd=2", "srcfd=9"), "slot 9 knows no file"),
        (write("set", "small", "").replace("size=4k", "size=0"), "give it iosize="),
    ] {
        let report = ran(directory.path(), &program);
        assert!(report.ended.early && report.ended.why.contains(why), "{}", report.ended.why);
    }
}

#[test]
fn a_slot_forgets_the_file_that_it_deleted() {
    let directory = temporary();
    let flowops = format!(
        "flowop openfile name=o,filesetname=set,fd=1\nflowop deletefile name=d,filesetname=set,fd=1,iters=2\n\
         flowop closefile name=last,fd=1{END}"
    );
    let program = around(directory.path(), "", &flowops).replace("prealloc=50", "prealloc");
    let report = ran(directory.path(), &program);
    // The second one takes another file.
    assert_eq!((flowop(&report, "d").count, flowop(&report, "d").errors, report.filesets[0].drift), (2, 0, -2));
}

#[test]
fn a_file_of_a_readonly_set_is_created_for_reading() {
    let directory = temporary();
    let flowops = format!("flowop createfile name=cr,filesetname=set,fd=1\nflowop closefile name=last,fd=1{END}");
    let program = around(directory.path(), "", &flowops).replace("prealloc=50", "prealloc=50,readonly");
    assert!(asked(&program, directory.path()).ends_with("open r create,close"));
}

#[test]
fn an_append_that_is_cut_short_ends_the_run() {
    let directory = temporary();
    for (of, early) in [("appendfile", true), ("writewholefile", true), ("write", false)] {
        let flowops = format!("flowop {of} name=last,filesetname=set,fd=1,iosize=4k{END}");
        let system = Recorder { most: Some(100), ..Recorder::default() };
        let report = ran_with(directory.path(), &around(directory.path(), "", &flowops), |_| {}, system);
        assert_eq!(report.ended.early, early, "{of}: {}", report.ended.why);
        assert_eq!(report.ended.why.contains("100 of 4096 bytes were written"), early, "{}", report.ended.why);
    }
}

#[test]
fn writes_to_several_files_are_carried_out_beside_each_other() {
    let directory = temporary();
    let flowops = format!(
        "flowop aiowrite name=last,filesetname=set,iosize=2k,random,opennext,iters=4\nflowop aiowait name=w{END}"
    );
    let program = around(directory.path(), "", &flowops).replace("prealloc=50", "prealloc");
    // Each waits for the others: in turn none would ever be done.
    let system = Recorder { meet: Some(("pwrite", Barrier::new(4))), ..Recorder::default() };
    let change = |request: &mut Request| {
        request.fixes = vec![Fix::AioWait];
        request.stuck_after_s = 20;
    };
    let report = ran_with(directory.path(), &program, change, system);
    assert!(!report.ended.early, "{}", report.ended.why);
    assert_eq!((flowop(&report, "last").count, flowop(&report, "last").bytes), (8, 4 * 2048));
}
