//! Runs phases of commands, some at a time, and says how long each command took by the monotonic clock.
//!
//! What is measured of container engines (create, start, stop, remove), of builds and of instances is planned as such
//! phases: the plan is data, and nothing in it depends on talking to whoever planned it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::SigSet;
use serde::{Deserialize, Serialize};

use crate::supervise::die_with_this_program;
use crate::terminal;

/// How much of what a command that failed said is kept, from its end.
const KEPT_BYTES: u64 = 4 << 10;

/// What is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    phases: Vec<Phase>,
}

/// Commands of one kind. A phase starts when every command of the one before has ended.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phase {
    name: String,
    /// How many commands run at a time.
    parallel: usize,
    commands: Vec<Vec<String>>,
    /// What every command must print, but for white space around it; it fails when it prints something else.
    #[serde(default)]
    expect: Option<String>,
    /// What the commands print is kept in the report.
    #[serde(default)]
    keep: bool,
}

#[derive(Serialize)]
struct Report {
    phases: Vec<PhaseReport>,
    /// The first command that failed; the phases after its own were not started.
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct PhaseReport {
    name: String,
    parallel: usize,
    /// From the start of the first command to the end of the last, seconds.
    wall_s: f64,
    /// In the order of the plan; those that were not started are left out.
    commands: Vec<Timed>,
}

#[derive(Serialize, Clone)]
struct Timed {
    /// When it was started, seconds after the phase.
    at_s: f64,
    /// From right before its start until it had ended.
    took_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
}

#[derive(Serialize, Clone)]
struct Failure {
    phase: String,
    argv: Vec<String>,
    /// Absent when it could not be started or a signal ended it.
    exit_code: Option<i32>,
    said: String,
}

/// Carries out the plan in the file `plan` and writes the report to `out`; 1 when a command failed.
///
/// # Errors
/// A sentence with the next thing to do.
pub fn run(plan: &Path, out: &PathBuf) -> Result<u8, String> {
    let text = std::fs::read_to_string(plan).map_err(|error| format!("{} cannot be read: {error}", plan.display()))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|error| format!("the plan is not understood: {error}"))?;
    for phase in &plan.phases {
        if phase.parallel == 0 || phase.commands.iter().any(Vec::is_empty) {
            return Err(format!("the phase {} has an empty command, or runs none at a time; mend it", phase.name));
        }
    }
    let mut report = Report { phases: Vec::new(), failure: None };
    for phase in plan.phases {
        let (done, failure) = carry_out(phase);
        report.phases.push(done);
        if failure.is_some() {
            report.failure = failure;
            break;
        }
    }
    let failed = report.failure.is_some();
    if let Some(failure) = &report.failure {
        terminal::warn(&format!("{}: {}", failure.argv.join(" "), failure.said));
    }
    std::fs::write(out, serde_json::json!(report).to_string())
        .map_err(|error| format!("{} cannot be written: {error}", out.display()))?;
    Ok(u8::from(failed))
}

/// The commands of a phase, in order, by as many threads as may run at a time. After a failure no more are started.
fn carry_out(phase: Phase) -> (PhaseReport, Option<Failure>) {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let timed: Mutex<Vec<Option<Timed>>> = Mutex::new(vec![None; phase.commands.len()]);
    let failure: Mutex<Option<Failure>> = Mutex::new(None);
    let begun = Instant::now();
    let work = || {
        while !failed.load(Ordering::Acquire) {
            let number = next.fetch_add(1, Ordering::AcqRel);
            let Some(argv) = phase.commands.get(number) else { break };
            let at_s = begun.elapsed().as_secs_f64();
            match execute(argv, &phase) {
                Ok((took_s, stdout)) => {
                    if let Ok(mut timed) = timed.lock() {
                        timed[number] = Some(Timed { at_s, took_s, stdout });
                    }
                }
                Err(why) => {
                    failed.store(true, Ordering::Release);
                    if let Ok(mut failure) = failure.lock() {
                        failure.get_or_insert(why);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..phase.parallel.min(phase.commands.len()) {
            scope.spawn(work);
        }
    });
    let wall_s = begun.elapsed().as_secs_f64();
    let commands = timed.into_inner().unwrap_or_default().into_iter().flatten().collect();
    let report = PhaseReport { name: phase.name, parallel: phase.parallel, wall_s, commands };
    (report, failure.into_inner().unwrap_or_default())
}

/// Seconds that it took, and what it printed where that is wanted.
fn execute(argv: &[String], phase: &Phase) -> Result<(f64, Option<String>), Failure> {
    let fail = |exit_code, said| Failure { phase: phase.name.clone(), argv: argv.to_vec(), exit_code, said };
    let started = |error: io::Error| fail(None, format!("it cannot be started: {error}"));
    // In memory, and not in pipes: what the command leaves running may hold a pipe for ever.
    let (mut stdout, mut stderr) = (scratch().map_err(started)?, scratch().map_err(started)?);
    let mut process = Command::new(&argv[0]);
    process
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(started)?)
        .stderr(stderr.try_clone().map_err(started)?);
    let mask = SigSet::thread_get_mask().map_err(|error| started(error.into()))?;
    die_with_this_program(&mut process, mask);
    let begun = Instant::now();
    let status = process.spawn().and_then(|mut child| child.wait()).map_err(started)?;
    let took_s = begun.elapsed().as_secs_f64();
    if !status.success() {
        let said = match (last_of(&mut stderr), last_of(&mut stdout)) {
            (said, _) | (_, said) if !said.is_empty() => said,
            _ => status.signal().map_or_else(|| "it said nothing".to_owned(), |n| format!("signal {n} ended it")),
        };
        return Err(fail(status.code(), said));
    }
    let printed = last_of(&mut stdout);
    match &phase.expect {
        Some(expected) if printed != expected.trim() => {
            Err(fail(status.code(), format!("it printed '{printed}' instead of '{}'", expected.trim())))
        }
        _ => Ok((took_s, phase.keep.then_some(printed))),
    }
}

fn scratch() -> io::Result<File> {
    Ok(File::from(memfd_create(c"said", MFdFlags::MFD_CLOEXEC)?))
}

/// The end of what was written, without white space around it.
fn last_of(file: &mut File) -> String {
    let mut said = Vec::new();
    let length = file.metadata().map_or(0, |meta| meta.len());
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(KEPT_BYTES)))
        .and_then(|_| file.take(KEPT_BYTES).read_to_end(&mut said));
    if read.is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&said).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried_out(plan: &str) -> (u8, serde_json::Value) {
        let folder = tempfile::tempdir().expect("works");
        let (input, output) = (folder.path().join("plan.json"), folder.path().join("report.json"));
        std::fs::write(&input, plan).expect("works");
        let code = run(&input, &output).expect("works");
        (code, serde_json::from_str(&std::fs::read_to_string(output).expect("works")).expect("works"))
    }

    #[test]
    fn every_command_is_timed_by_itself() {
        let (code, report) = carried_out(
            r#"{"phases": [{"name": "a", "parallel": 3, "commands": [["sleep", "0.3"], ["sleep", "0.3"], ["sleep", "0.3"]]},
                           {"name": "b", "parallel": 1, "commands": [["echo", " one "]], "keep": true, "expect": "one"}]}"#,
        );
        assert_eq!(code, 0);
        assert!(report["failure"].is_null());
        let first = &report["phases"][0];
        let took: Vec<f64> = first["commands"]
            .as_array()
            .expect("works")
            .iter()
            .map(|one| one["took_s"].as_f64().expect("works"))
            .collect();
        assert_eq!(took.len(), 3);
        assert!(took.iter().all(|took| *took >= 0.3));
        // At the same time: together they took less than one after another.
        assert!(first["wall_s"].as_f64().expect("works") < took.iter().sum());
        assert_eq!(report["phases"][1]["commands"][0]["stdout"], "one");
    }

    #[test]
    fn after_a_failure_nothing_more_is_started() {
        let (code, report) = carried_out(
            r#"{"phases": [{"name": "a", "parallel": 1, "commands": [["true"], ["sh", "-c", "echo no >&2; exit 3"], ["true"]]},
                           {"name": "b", "parallel": 1, "commands": [["true"]]}]}"#,
        );
        assert_eq!(code, 1);
        assert_eq!(report["phases"].as_array().expect("works").len(), 1);
        assert_eq!(report["phases"][0]["commands"].as_array().expect("works").len(), 1);
        assert_eq!(report["failure"]["exit_code"], 3);
        assert_eq!(report["failure"]["said"], "no");
    }

    #[test]
    fn what_is_printed_instead_is_a_failure() {
        for (command, word) in [(r#"["echo", "2"]"#, "'2' instead of '3'"), (r#"["/no/such"]"#, "cannot be started")] {
            let (code, report) = carried_out(&format!(
                r#"{{"phases": [{{"name": "a", "parallel": 2, "commands": [{command}], "expect": "3\n"}}]}}"#
            ));
            assert_eq!(code, 1);
            assert!(report["failure"]["said"].as_str().expect("works").contains(word), "{report}");
        }
    }

    #[test]
    fn a_command_that_leaves_something_running_has_ended() {
        let (_, report) = carried_out(
            r#"{"phases": [{"name": "a", "parallel": 1, "commands": [["sh", "-c", "sleep 30 & echo $!"]], "keep": true}]}"#,
        );
        let pid: i32 = report["phases"][0]["commands"][0]["stdout"].as_str().expect("works").parse().expect("works");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("works");
        assert!(report["phases"][0]["wall_s"].as_f64().expect("works") < 20.0);
    }

    #[test]
    fn what_is_no_plan_says_so() {
        let folder = tempfile::tempdir().expect("works");
        let input = folder.path().join("plan.json");
        for (text, word) in [
            ("{", "not understood"),
            (r#"{"phases": [{"name": "a", "parallel": 0, "commands": []}]}"#, "mend it"),
            (r#"{"phases": [{"name": "a", "parallel": 1, "commands": [[]]}]}"#, "mend it"),
        ] {
            std::fs::write(&input, text).expect("works");
            assert!(run(&input, &folder.path().join("out")).expect_err("is refused").contains(word));
        }
    }
}
