//! The files of a run: where they are, what is in them, what is kept.

use std::fs;
use std::path::Path;

use strata_wml::{Options, Streams, lay_out};

use super::super::content::Content;
use super::super::files::{Files, Kind};
use super::super::run::execute;
use super::super::{Stage, check_text};
use super::recorder::Recorder;
use super::{around, flowop, ran, ran_with, request, temporary};

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
    let again = ran(directory.path(), &program.replace("reuse,", ""));
    assert_eq!(again.filesets[0].written_bytes, 8 * 10_240);
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
    for (stage, links) in
        [(Stage::All, &["set", "set/00000001", "set/00000001/00000001"][..]), (Stage::Run, &["set", "set/00000001"])]
    {
        for link in links {
            let (directory, elsewhere) = (temporary(), temporary());
            let program = around(directory.path(), "", load).replace("prealloc=50", "prealloc,reuse");
            let place = directory.path().join(link);
            fs::create_dir_all(place.parent().expect("has one")).expect("works");
            std::os::unix::fs::symlink(elsewhere.path(), &place).expect("works");
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
fn a_link_in_place_of_a_file_ends_a_run_that_comes_to_it() {
    let elsewhere = temporary();
    let kept = elsewhere.path().join("kept");
    fs::write(&kept, b"mine").expect("works");
    let load = "flowop openfile name=o,filesetname=set,fd=1\nflowop writewholefile name=w,fd=1,srcfd=1,iosize=4k";
    for load in [load.to_owned(), load.replace("openfile", "createfile")] {
        let directory = temporary();
        let program = around(directory.path(), "", &load);
        ran_with(directory.path(), &program, |request| request.seconds = Some(1), Recorder::default());
        for number in 1..=8 {
            let file = directory.path().join(format!("set/00000001/{number:08}"));
            let _ = fs::remove_file(&file);
            std::os::unix::fs::symlink(&kept, &file).expect("works");
        }
        let report = ran_with(directory.path(), &program, |request| request.stage = Stage::Run, Recorder::default());
        assert_eq!(report.ended.errno, Some(40), "{}", report.ended.why);
        assert_eq!(fs::read(&kept).expect("works"), b"mine");
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
