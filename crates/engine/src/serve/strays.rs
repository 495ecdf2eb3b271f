//! Ends what carries a mark in its environment: what a run started and left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::device::process_ids;

use super::message::Answer;

/// A killed process lives until the kernel has finished its last I/O: looked for this often, with this pause.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// Kills every living process that carries `STRATA_RUN=marker`, except this one, until none is found.
pub fn end(marker: &OsStr) -> Answer {
    let mut ended = BTreeSet::new();
    let mut left = BTreeMap::new();
    for _ in 0..LOOKS {
        left = marked(marker);
        if left.is_empty() {
            break;
        }
        for (&pid, name) in &left {
            if kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok() {
                ended.insert(described(pid, name));
            }
        }
        sleep(PAUSE);
    }
    Answer::Strays {
        ended: ended.into_iter().collect(),
        left: left.into_iter().map(|(pid, name)| described(pid, &name)).collect(),
    }
}

fn described(pid: i32, name: &str) -> String {
    format!("{name} (process {pid})")
}

/// Number and name of each; a zombie has no environment any more.
fn marked(marker: &OsStr) -> BTreeMap<i32, String> {
    let wanted = [b"STRATA_RUN=", marker.as_bytes()].concat();
    let own = Pid::this().as_raw();
    process_ids()
        .filter(|&pid| pid != own)
        .filter_map(|pid| {
            // One that ended while we looked, or is not ours to read, is not ours to end.
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted).then_some(())?;
            let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
            Some((pid, String::from_utf8_lossy(name.trim_ascii()).into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_what_carries_the_mark_is_ended() {
        let marker = format!("unit-{}", std::process::id());
        let start = |marker: &str| {
            let child = Command::new("sleep").arg("1000").env("STRATA_RUN", marker).spawn().expect("starts");
            // A parent goes on a moment before its child's environment can be seen.
            while fs::read(format!("/proc/{}/environ", child.id())).expect("it lives").is_empty() {
                sleep(Duration::from_millis(1));
            }
            child
        };
        let mut mine = start(&marker);
        let mut other = start(&format!("{marker}x"));
        let expected = Answer::Strays { ended: vec![described(mine.id() as i32, "sleep")], left: Vec::new() };
        assert_eq!(end(OsStr::new(&marker)), expected);
        assert_eq!(end(OsStr::new(&marker)), Answer::Strays { ended: Vec::new(), left: Vec::new() });
        assert!(other.try_wait().expect("can be asked").is_none());
        other.kill().expect("ours");
        mine.wait().expect("ended");
        other.wait().expect("ended");
    }
}
