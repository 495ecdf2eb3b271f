//! Serving a disk in the background, and ending that.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, setsid};
use strata_disks::{Device, Model};

use super::live::{Live, check_unused, free_number, node, take_away};
use super::place::{Name, Note};
use super::{Serve, cost, find_model};
use crate::terminal;

/// The variable that marks the processes of a run. A disk outlives the command that started it, so its server must not
/// carry the mark.
const MARK: &str = "STRATA_RUN";
/// How long a server has to take its disk away.
const GRACE: Duration = Duration::from_secs(30);

/// Serves a disk as requested.
///
/// # Errors
/// A sentence, when nothing is served.
pub fn serve(asked: &Serve) -> Result<u8, String> {
    let model = find_model(&asked.model)?;
    let least = Device::new(&model, asked.size, asked.seed)?.least();
    if asked.name.read()?.is_some() {
        let name = &asked.name;
        return Err(format!("there is a disk called '{name}'; take it away first: strata-engine disk stop {name}"));
    }
    if let Some(link) = asked.link.as_deref().filter(|link| link.symlink_metadata().is_ok()) {
        return Err(format!("{} exists; give another --link or remove it", link.display()));
    }
    if asked.foreground {
        if asked.least_times_cost > 0 {
            let cost_ns = match asked.cost_ns {
                Some(cost_ns) => cost_ns,
                None => cost::measure()?.cost_ns,
            };
            check_cost(&model, least, cost_ns, asked.least_times_cost)?;
        }
        return serve_here(asked, &model);
    }
    in_background(asked, &model)
}

fn check_cost(model: &Model, least: u64, cost_ns: u64, times: u64) -> Result<(), String> {
    if least >= cost_ns.saturating_mul(times) {
        return Ok(());
    }
    Err(format!(
        "model '{}' answers within {:.1} us at least, less than {times} times the {:.1} us that serving costs here, so its \
         figures would be the server's in part; accept that with --least-times-cost 0",
        model.name,
        least as f64 / 1e3,
        cost_ns as f64 / 1e3
    ))
}

/// Starts this program again without the mark, in a session of its own, and waits until it says that the disk is live.
fn in_background(asked: &Serve, model: &Model) -> Result<u8, String> {
    let cannot = |error: std::io::Error| format!("the server cannot be started ({error}); try again");
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(["disk", "serve", "--foreground", "--model", "-"]);
    command.arg("--size").arg(asked.size.to_string());
    command.arg("--seed").arg(asked.seed.to_string());
    command.arg("--name").arg(asked.name.to_string());
    command.arg("--least-times-cost").arg(asked.least_times_cost.to_string());
    if let Some(link) = &asked.link {
        command.arg("--link").arg(link);
    }
    if let Some(record) = &asked.record {
        let record = std::path::absolute(record).map_err(cannot)?;
        command.arg("--record").arg(record);
    }
    if let Some(cost_ns) = asked.cost_ns {
        command.arg("--cost-ns").arg(cost_ns.to_string());
    }
    command.env_remove(MARK).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: runs in the child between fork and exec: one system call, no lock, no allocation.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| setsid().map(|_| ()).map_err(std::io::Error::from));
    }
    let mut child = command.spawn().map_err(cannot)?;
    let text = serde_json::to_string(model).map_err(|error| cannot(error.into()))?;
    if let Some(mut input) = child.stdin.take() {
        // When it has ended already, what it said tells more than this failure.
        let _ = input.write_all(text.as_bytes());
    }
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(cannot)?;
    }
    if line.is_empty() {
        let mut said = String::new();
        if let Some(mut errors) = child.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        let _ = child.wait();
        let said = said.trim().trim_start_matches("strata-engine: ");
        return Err(if said.is_empty() { "the server ended silently; see dmesg".to_owned() } else { said.to_owned() });
    }
    terminal::say(line.trim_end())?;
    Ok(0)
}

fn serve_here(asked: &Serve, model: &Model) -> Result<u8, String> {
    // Waited for below; blocked before any thread starts, so that no thread is interrupted.
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    signals.thread_block().map_err(|error| format!("signals cannot be blocked ({error}); try again"))?;
    let own_pid = Pid::this().as_raw();
    let note = Note { number: free_number(), server_pid: own_pid, link: asked.link.clone() };
    let lock = asked.name.write(&note)?;
    let served = serve_until_ended(asked, model, &note, &signals);
    remove_link(&note);
    asked.name.forget()?;
    drop(lock);
    served.map(|()| 0)
}

fn serve_until_ended(asked: &Serve, model: &Model, note: &Note, signals: &SigSet) -> Result<(), String> {
    let wake = || {
        let _ = kill(Pid::this(), Signal::SIGTERM);
    };
    let mut live = Live::start(note.number, model, asked.size, asked.seed, asked.record.as_deref(), wake)?;
    let node = node(note.number);
    if let Some(link) = &asked.link {
        std::os::unix::fs::symlink(&node, link)
            .map_err(|error| format!("{} cannot be made ({error}); give another --link", link.display()))?;
    }
    terminal::say(&node.display().to_string())?;
    let_go_of_streams();
    let _ = signals.wait();
    live.end().map(|_| ())
}

/// Whoever started this reads its streams until nobody holds them.
fn let_go_of_streams() {
    let Ok(null) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: replaces one descriptor by another that is open; the standard streams are used by number only.
        #[allow(unsafe_code)]
        unsafe {
            libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), stream);
        }
    }
}

/// Takes a served disk away.
///
/// # Errors
/// A sentence, when it is in use or cannot be removed.
pub fn stop(name: &Name) -> Result<u8, String> {
    if let Some(note) = name.read()? {
        check_unused(note.number)?;
        end_server(name, &note);
        take_away(note.number)?;
        remove_link(&note);
    }
    name.forget()?;
    Ok(0)
}

/// Lets the server end, which takes the disk away; one that does not is killed.
fn end_server(name: &Name, note: &Note) {
    let server = Pid::from_raw(note.server_pid);
    for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, GRACE)] {
        let began = Instant::now();
        if name.is_served() {
            let _ = kill(server, signal);
        }
        while name.is_served() && began.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes the link if it leads to the disk.
fn remove_link(note: &Note) {
    if let Some(link) = &note.link {
        if fs::read_link(link).is_ok_and(|target| target == node(note.number)) {
            let _ = fs::remove_file(link);
        }
    }
}
