//! `strata-engine sample` as a whole program.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Instant;

use common::{engine, lines};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

struct Run {
    output: Output,
    lines: Vec<Value>,
}

impl Run {
    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
    fn end(&self) -> &Value {
        self.lines.last().expect("an end line")
    }
    fn samples(&self) -> &[Value] {
        &self.lines[1..self.lines.len() - 1]
    }
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

fn sample(options: &[&str], command: &[&str]) -> Run {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("samples.jsonl");
    let output = engine().arg("sample").arg("--out").arg(&out).args(options).arg("--").args(command).output().unwrap();
    Run { output, lines: lines(&out) }
}

/// A program that writes its process number into a file, when it is ready to be signalled.
struct Started {
    folder: TempDir,
    engine: std::process::Child,
}

impl Started {
    fn new(options: &[&str], script: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let engine = engine()
            .arg("sample")
            .arg("--out")
            .arg(folder.path().join("samples.jsonl"))
            .args(options)
            .args(["--", "sh", "-c", script])
            .env("FOLDER", folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { folder, engine }
    }
    fn out(&self) -> PathBuf {
        self.folder.path().join("samples.jsonl")
    }
    /// The number that the script wrote into the file called `name`.
    fn pid(&self, name: &str) -> i32 {
        let path = self.folder.path().join(name);
        let mut pid = None;
        wait_until("the script has written its number", || {
            pid = std::fs::read_to_string(&path).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok());
            pid.is_some()
        });
        pid.unwrap()
    }
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.engine.id() as i32), signal).unwrap();
    }
}

/// State letter and parent of a process; `None` when it is gone.
fn state(pid: i32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

impl Drop for Started {
    /// A test that failed leaves nothing running.
    fn drop(&mut self) {
        let _ = self.engine.kill();
        let _ = self.engine.wait();
        for name in ["top", "below"] {
            let pid =
                std::fs::read_to_string(self.folder.path().join(name)).ok().and_then(|text| text.trim().parse().ok());
            if let Some(pid) = pid.filter(|&pid| !matches!(state(pid), None | Some('Z'))) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

/// Waits until `done` holds; panics after 20 s, which is far longer than any of it takes.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited in vain until {what}");
}

#[test]
fn the_exit_code_and_the_streams_are_the_commands() {
    let run = sample(&[], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(run.code(), Some(7));
    assert_eq!((run.output.stdout.as_slice(), run.stderr().as_str()), (b"out\n".as_slice(), "err\n"));
    assert_eq!(run.end()["exit_code"], 7);
    assert_eq!(run.end()["signal"], Value::Null);
    assert_eq!(run.end()["timed_out"], false);
}

#[test]
fn arguments_reach_the_command_unchanged() {
    let run = sample(&[], &["printf", "%s|", "--out", "a b", "", "--"]);
    assert_eq!(run.output.stdout, b"--out|a b||--|");
}

#[test]
fn a_command_ended_by_a_signal_gives_128_and_its_number() {
    let run = sample(&[], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(run.code(), Some(128 + 9));
    assert_eq!((&run.end()["exit_code"], &run.end()["signal"]), (&Value::Null, &Value::from(9)));
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let run = sample(&[], &["/nowhere/to/be/found"]);
    assert_eq!(run.code(), Some(127));
    assert!(run.stderr().starts_with("strata-engine: /nowhere/to/be/found cannot be started"), "{}", run.stderr());
    assert_eq!(run.end()["exit_code"], 127);
    assert_eq!(run.end()["wall_s"], Value::Null);
}

#[test]
fn the_file_tells_what_the_machine_did() {
    // 300 ms of work in user space, some memory, then a sleep: sampled every 50 ms.
    let run =
        sample(&["--interval", "50ms"], &["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.4"]);
    let header = &run.lines[0];
    assert_eq!((&header["version"], &header["interval_s"]), (&Value::from(1), &Value::from(0.05)));
    assert!(header["cpus"].as_u64().unwrap() >= 1);
    assert!(header["started_unix_s"].as_f64().unwrap() > 1.5e9);
    assert_eq!(header["devices"], serde_json::json!({}));

    let times: Vec<f64> = run.samples().iter().map(|sample| sample["t_s"].as_f64().unwrap()).collect();
    let end = run.end();
    let wall_s = end["wall_s"].as_f64().unwrap();
    assert_eq!(times[0], 0.0);
    assert!(times.is_sorted(), "{times:?}");
    assert!(*times.last().unwrap() >= wall_s, "the last sample follows the end");
    // A busy machine may miss ticks but never adds any: the first, one per whole interval, the last.
    let (ticks, last_s) = (times.len() - 2, times.last().unwrap());
    assert!(ticks >= 2 && ticks <= (last_s / 0.05) as usize, "{times:?} in {wall_s} s");
    for pair in run.samples().windows(2) {
        for mode in ["user", "system", "idle"] {
            let of = |sample: &Value| sample["cpu_s"][mode].as_f64().unwrap();
            assert!(of(&pair[1]) >= of(&pair[0]), "{mode} is cumulative");
        }
    }
    assert!(run.samples()[0]["memory"]["available_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(end["user_s"].as_f64().unwrap() > 0.0);
    assert!(end["system_s"].as_f64().is_some());
    assert!(end["max_rss_bytes"].as_u64().unwrap() > 100_000);
    assert_eq!(end["end"], true);
}

#[test]
fn the_processor_time_of_another_process_is_sampled_while_it_lives() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pid");
    // Busy until it is told to end, which the command does; then it is waited for here and gone.
    let mut other = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    std::fs::write(&file, format!("{}\n", other.id())).unwrap();
    let options = ["--interval", "50ms", "--process", &format!("qemu={}", file.display())];
    let run = sample(&options, &["sleep", "0.5"]);
    other.kill().unwrap();
    other.wait().unwrap();
    let of = |sample: &Value| sample["processes"]["qemu"].as_f64();
    let (first, last) = (of(&run.samples()[0]).unwrap(), of(run.samples().last().unwrap()).unwrap());
    assert!(last > first, "{first} s, then {last} s");
    let after = sample(&options, &["true"]);
    assert_eq!(after.samples()[0]["processes"]["qemu"], Value::Null);
}

#[test]
fn the_wall_time_lies_inside_the_run_and_is_not_a_multiple_of_the_interval() {
    let before = Instant::now();
    let run = sample(&["--interval", "30s"], &["sleep", "0.2"]);
    let around_s = before.elapsed().as_secs_f64();
    let wall_s = run.end()["wall_s"].as_f64().unwrap();
    assert!((0.2..=around_s).contains(&wall_s), "{wall_s} s in {around_s} s");
    assert_eq!(run.samples().len(), 2, "one before, one after");
}

#[test]
fn a_command_past_its_time_is_asked_to_end() {
    let run =
        sample(&["--timeout", "200ms"], &["sh", "-c", "trap 'echo asked; exit 3' TERM; while :; do sleep 0.01; done"]);
    assert_eq!(run.code(), Some(124));
    assert_eq!(run.output.stdout, b"asked\n");
    assert_eq!((&run.end()["timed_out"], &run.end()["exit_code"]), (&Value::from(true), &Value::from(3)));
}

#[test]
fn a_command_that_will_not_end_is_killed_and_nothing_of_it_is_left() {
    let mut started = Started::new(
        &["--timeout", "100ms"],
        "trap '' TERM; sleep 600 & echo $! > $FOLDER/below; echo $$ > $FOLDER/top; while :; do sleep 0.05; done",
    );
    let (top, below) = (started.pid("top"), started.pid("below"));
    assert_eq!(started.engine.wait().unwrap().code(), Some(124));
    let end = lines(&started.out()).pop().unwrap();
    assert_eq!((&end["timed_out"], &end["signal"]), (&Value::from(true), &Value::from(9)));
    assert!(end["wall_s"].as_f64().unwrap() >= 5.1, "it had its grace");
    wait_until("the killed ones are gone", || [top, below].iter().all(|&pid| matches!(state(pid), None | Some('Z'))));
}

#[test]
fn what_a_command_leaves_in_the_background_is_ended_with_it() {
    let mut started = Started::new(
        &[],
        "sh -c 'echo $$ > $FOLDER/below; exec setsid sleep 600' & sleep 600 & echo $! > $FOLDER/top; \
         while ! [ -s $FOLDER/below ]; do sleep 0.01; done; exit 3",
    );
    let (left, apart) = (started.pid("top"), started.pid("below"));
    assert_eq!(started.engine.wait().unwrap().code(), Some(3), "the outcome is the command's own");
    let end = lines(&started.out()).pop().unwrap();
    assert_eq!((&end["exit_code"], &end["timed_out"]), (&Value::from(3), &Value::from(false)));
    wait_until("they are gone", || [left, apart].iter().all(|&pid| matches!(state(pid), None | Some('Z'))));
}

#[test]
fn the_streams_are_closed_when_the_command_has_ended_whoever_else_held_them() {
    // `output` reads to the end of both streams: it would come back after the ten minutes of the sleep.
    let run = sample(&[], &["sh", "-c", "(sleep 600; echo late) & echo out"]);
    assert_eq!((run.code(), run.output.stdout.as_slice()), (Some(0), b"out\n".as_slice()));
}

#[test]
fn a_signal_is_passed_on_as_sigterm_once_and_the_end_is_written() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut started = Started::new(
            &[],
            "trap 'echo x >> $FOLDER/asked' TERM; echo $$ > $FOLDER/top; while ! [ -e $FOLDER/go ]; do sleep 0.01; done; exit 5",
        );
        started.pid("top");
        started.signal(signal);
        let asked = started.folder.path().join("asked");
        wait_until("the command was asked", || asked.exists());
        started.signal(signal);
        started.signal(Signal::SIGTERM);
        // Whether the second one was passed on shows only if it had the time: a sample's worth of it.
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::fs::write(started.folder.path().join("go"), "").unwrap();
        assert_eq!(started.engine.wait().unwrap().code(), Some(128 + signal as i32));
        assert_eq!(std::fs::read_to_string(asked).unwrap(), "x\n");
        let end = lines(&started.out()).pop().unwrap();
        assert_eq!((&end["exit_code"], &end["timed_out"]), (&Value::from(5), &Value::from(false)));
    }
}

#[test]
fn the_command_dies_with_a_killed_engine() {
    let mut started = Started::new(&[], "echo $$ > $FOLDER/top; exec sleep 600");
    let top = started.pid("top");
    started.signal(Signal::SIGKILL);
    started.engine.wait().unwrap();
    wait_until("the command is gone", || matches!(state(top), None | Some('Z')));
    assert_ne!(lines(&started.out()).pop().unwrap()["end"], true, "a killed engine leaves a file without an end");
}

#[test]
fn the_command_starts_with_the_signals_the_engine_was_given() {
    // Without this, a command could not be ended by the signals that the engine reads itself. Asked without a shell,
    // which would unblock them for its own use.
    let run = sample(&[], &["grep", "SigBlk", "/proc/self/status"]);
    assert_eq!(run.output.stdout, b"SigBlk:\t0000000000000000\n");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    let touched = folder.path().join("touched");
    let out = folder.path().join("samples.jsonl").to_string_lossy().into_owned();
    let script = format!("touch {}", touched.display());
    for (options, word) in [
        (vec!["--out", "/nowhere/samples"], "cannot be written to /nowhere/samples"),
        (vec!["--out", &out, "--device", "top=/dev/null"], "/dev/null is not a block device"),
        (vec!["--out", &out, "--device", "top=/nowhere"], "/nowhere cannot be looked up"),
        (vec!["--out", &out, "--device", "top"], "NAME=PATH"),
        (vec!["--out", &out, "--process", "qemu=/nowhere"], "/nowhere does not hold the number of a process"),
        (vec!["--out", &out, "--process", "qemu=/dev/null"], "/dev/null does not hold the number of a process"),
        (vec!["--out", &out, "--interval", "0s"], "longer than zero"),
        (vec!["--out", &out, "--timeout", "10"], "is not a time"),
    ] {
        let output = engine().arg("sample").args(&options).args(["--", "sh", "-c", &script]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(word), "{options:?}: {stderr}");
        assert!(!touched.exists(), "{options:?}");
    }
}

#[test]
fn a_full_disk_does_not_change_what_the_command_did() {
    // /dev/full takes no byte: not even the header, so nothing is started.
    let output = engine().args(["sample", "--out", "/dev/full", "--", "echo", "ran"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("make room there"));
}
