//! `strata-engine wml` as a user meets it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn engine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata-engine"));
    command.arg("wml").args(arguments).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_program_runs_in_its_directory_and_says_what_came_of_it() {
    let directory = tempfile::tempdir().expect("works");
    let place = shown(directory.path());
    let arguments = ["run", "builtin:varmail", "--dir", place, "--seconds", "1", "--set", "nthreads=2", "--json"];
    let (code, out, err) = said(&engine(&arguments).output().expect("starts"));
    assert_eq!(code, Some(0), "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["window_s"], 1.0);
    assert_eq!(report["filesets"][0]["files"], 10_000);
    assert_eq!(report["ended"]["early"], false);
    assert_eq!(report["fixes"], serde_json::json!([]));
    assert!(report["summary"]["count"].as_u64().expect("a number") > 0);
    assert_eq!(fs::read_dir(directory.path()).expect("works").count(), 1);
}

#[test]
fn what_cannot_run_ends_with_2_and_a_caret() {
    let directory = tempfile::tempdir().expect("works");
    let file = directory.path().join("wrong.f");
    fs::write(&file, "define process name=p {\n  thread name=t {\n    flowop opne name=o\n  }\n}\nrun 5\n")
        .expect("works");
    for arguments in [vec!["check", shown(&file)], vec!["run", shown(&file), "--dir", shown(directory.path())]] {
        let (code, out, err) = said(&engine(&arguments).output().expect("starts"));
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(err.contains("wrong.f:3:12: error: opne is no type of a flowop"), "{err}");
        assert!(err.contains("\n      |            ^^^^\n") || err.trim_end().ends_with("           ^^^^"), "{err}");
    }
    for arguments in [
        vec!["run", "builtin:mail", "--dir", shown(directory.path())],
        vec!["run", "builtin:varmail", "--dir", "/nowhere/at/all"],
        vec!["run", "builtin:varmail", "--dir", shown(directory.path()), "--set", "nofiles=3"],
        vec!["check", "/nowhere.f"],
    ] {
        assert_eq!(said(&engine(&arguments).output().expect("starts")).0, Some(2), "{arguments:?}");
    }
}

#[test]
fn a_file_without_a_run_command_runs_and_says_how_long() {
    let directory = tempfile::tempdir().expect("works");
    let file = directory.path().join("x.f");
    let load = "define fileset name=set,path=$dir,entries=4,dirwidth=20,prealloc\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=set\n\
                flowop finishoncount name=c,value=3 } }\n";
    fs::write(&file, load).expect("works");
    let (code, out, _) = said(&engine(&["check", shown(&file), "--dir", "/mnt/later"]).output().expect("starts"));
    assert_eq!(code, Some(0));
    assert!(out.contains("The file has no run command, so it runs for 60 s"), "{out}");
    fs::write(&file, format!("set mode quit alldone\n{load}")).expect("works");
    let (code, _, err) =
        said(&engine(&["run", shown(&file), "--dir", shown(directory.path())]).output().expect("starts"));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("The file has no run command, so it runs until its threads are done"), "{err}");
}

#[test]
fn a_check_says_what_comes_before_the_run_and_how_a_run_was_is_in_its_table() {
    let directory = tempfile::tempdir().expect("works");
    let file = directory.path().join("x.f");
    fs::write(
        &file,
        "set $dir=/tmp\ndefine fileset name=files,path=$dir,entries=4,dirwidth=20,prealloc\neventgen rate=50\n\
         define process name=p { thread name=t { flowop statfile name=s,filesetname=files } }\n\
         create files\nsystem \"true\"\npsrun -5 1\n",
    )
    .expect("works");
    let (code, out, _) = said(&engine(&["check", shown(&file)]).output().expect("starts"));
    assert_eq!(code, Some(0));
    for what in ["x.f:7:1: warning: ", "command 'true', refused", "50 events per second", "4 files"] {
        assert!(out.contains(what), "{what}\n{out}");
    }
    assert!(out.contains("fileset files in /tmp: "), "{out}");
    // With the directory of the run $dir is that, whatever the file says, and it need not be there yet.
    let (code, out, _) = said(&engine(&["check", shown(&file), "--dir", "/mnt/later"]).output().expect("starts"));
    assert!(code == Some(0) && out.contains("fileset files in /mnt/later: "), "{out}");
    let (code, _, err) = said(&engine(&["check", shown(&file), "--system", "refuse"]).output().expect("starts"));
    assert!(code == Some(2) && err.contains("leave them out with --system skip"), "{err}");
    // Where a built-in program is not as published, it says so.
    let (code, out, _) = said(&engine(&["check", "builtin:webproxy"]).output().expect("starts"));
    assert!(code == Some(0) && out.contains("that the published file lacks.\nbuiltin:webproxy: dialect 1.5"), "{out}");
    let place = shown(directory.path());
    let arguments = ["run", shown(&file), "--dir", place, "--system", "run", "--fix", "delete", "--data", "random"];
    let (code, out, err) = said(&engine(&arguments).output().expect("starts"));
    assert_eq!(code, Some(0), "{err}");
    for what in ["dialect 1.5, data random, without filebench's delete", "(drift +0)", "p99.9"] {
        assert!(out.contains(what), "{what}\n{out}");
    }
}

#[test]
fn a_place_that_takes_no_files_is_said() {
    // Nothing can be made there, whoever asks.
    let (code, _, err) =
        said(&engine(&["run", "builtin:varmail", "--dir", "/proc/self/fdinfo"]).output().expect("starts"));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("Fileset bigfileset cannot be created"), "{err}");
}

#[test]
fn more_memory_than_there_is_is_refused_before_anything_is_made() {
    for (memsize, iosize, instances) in [("100000g", "1k", "1"), ("0", "100000g", "1"), ("0", "1g", "60000")] {
        let directory = tempfile::tempdir().expect("works");
        let file = directory.path().join("x.f");
        fs::write(
            &file,
            format!(
                "set $dir=/tmp\ndefine fileset name=files,path=$dir,entries=4,dirwidth=20,prealloc\n\
                 define process name=p {{ thread name=t,memsize={memsize},instances={instances} {{\n\
                 flowop read name=r,filesetname=files,iosize={iosize} }} }}\nrun 1\n"
            ),
        )
        .expect("works");
        let (code, _, err) =
            said(&engine(&["run", shown(&file), "--dir", shown(directory.path())]).output().expect("starts"));
        assert!(code == Some(2) && err.contains("MiB are available"), "{err}");
        assert!(!directory.path().join("files").exists());
    }
}

#[test]
fn too_few_descriptors_end_the_run() {
    let directory = tempfile::tempdir().expect("works");
    let line = format!(
        "ulimit -n 24; exec {} wml run builtin:oltp --dir {} --seconds 20 --set nshadows=20 --set filesize=64k --set logfilesize=1m --json",
        env!("CARGO_BIN_EXE_strata-engine"),
        shown(directory.path())
    );
    let (code, out, err) = said(&Command::new("sh").args(["-c", &line]).output().expect("starts"));
    assert_eq!(code, Some(1), "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["ended"]["errno"], 24);
    assert!(err.contains("ended early"), "{err}");
}

#[test]
fn a_signal_ends_the_creation_of_files_at_once() {
    let directory = tempfile::tempdir().expect("works");
    // Minutes of it on most disks; and not more than a disk has, should the signal be lost.
    let settings = ["--set", "numactivevids=8", "--set", "numpassivevids=1", "--set", "filesize=1g"];
    let mut arguments = vec!["run", "builtin:videoserver", "--dir", shown(directory.path())];
    arguments.extend(settings);
    let mut child = engine(&arguments).spawn().expect("starts");
    while fs::read_dir(directory.path()).expect("works").count() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Not SIGINT: a shell's background jobs ignore it, and tests may be one.
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("is there");
    let status = child.wait().expect("ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGTERM as i32));
}

#[test]
fn a_signal_ends_a_run_in_good_order() {
    let directory = tempfile::tempdir().expect("works");
    let arguments = [
        "run",
        "builtin:varmail",
        "--dir",
        shown(directory.path()),
        "--seconds",
        "60",
        "--set",
        "nthreads=1",
        "--json",
    ];
    let child = engine(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // Files are created by one thread; with more the run has begun.
    let threads = || -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
    };
    while threads().is_some_and(|threads| threads < 2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("is there");
    let (code, out, err) = said(&child.wait_with_output().expect("ends"));
    assert_eq!(code, Some(1), "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["ended"]["why"], "a signal asked for it");
}
