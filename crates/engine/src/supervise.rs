//! Runs one command: passes signals on, ends it in time, and leaves neither it nor anything it started behind.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getppid};

use crate::device::process_ids;
use crate::procfs::parse_process_stat;

/// How long a command has to end itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How the command ended.
pub struct Ended {
    pub status: ExitStatus,
    /// From right before the command was started to the return of the wait for it.
    pub wall: Duration,
    pub timed_out: bool,
    /// The signal that asked this program to stop.
    pub stopped_by: Option<Signal>,
    /// Of the command and of those of its descendants that were waited for.
    pub usage: Option<Usage>,
}

/// A command that runs.
pub struct Supervised {
    child: Child,
    started: Instant,
    signals: SignalFd,
}

impl Supervised {
    /// Starts the command with this program's own standard streams.
    ///
    /// # Errors
    /// What the system says when it cannot be started.
    pub fn start(command: &[OsString]) -> io::Result<Self> {
        // Signals are read from a descriptor. They are blocked before any thread starts, so that every thread inherits it.
        let mut handled = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM] {
            handled.add(signal);
        }
        let inherited = SigSet::thread_get_mask()?;
        handled.thread_block()?;
        let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        // Descendants whose parent ended become children of this process: they can be found and ended.
        prctl::set_child_subreaper(true)?;

        let mut process = Command::new(&command[0]);
        process.args(&command[1..]);
        die_with_this_program(&mut process, inherited);
        let started = Instant::now();
        Ok(Self { child: process.spawn()?, started, signals })
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits until the command has ended, at most `timeout` and a grace period.
    ///
    /// # Errors
    /// What the system says when waiting is impossible.
    pub fn wait(mut self, timeout: Option<Duration>) -> io::Result<Ended> {
        let child = Pid::from_raw(self.child.id() as i32);
        let mut deadline = timeout.and_then(|timeout| self.started.checked_add(timeout));
        let mut timed_out = false;
        let mut stopped_by = None;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // The command is not waited for yet, so its number cannot be another process's: kill reaches it or nobody.
                if timed_out {
                    let _ = kill(child, Signal::SIGKILL);
                    deadline = None;
                } else {
                    let _ = kill(child, Signal::SIGTERM);
                    timed_out = true;
                    deadline = Some(Instant::now() + GRACE);
                }
            }
            self.sleep_until_signal(deadline)?;
            while let Some(info) = self.signals.read_signal()? {
                let signal = Signal::try_from(info.ssi_signo as i32)?;
                if signal != Signal::SIGCHLD && stopped_by.is_none() {
                    let _ = kill(child, Signal::SIGTERM);
                    stopped_by = Some(signal);
                }
            }
        };
        let wall = self.started.elapsed();
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        // What it had started must not go on using the target, nor hold the standard streams that whoever started this
        // program may read to their end.
        kill_descendants();
        Ok(Ended { status, wall, timed_out, stopped_by, usage })
    }

    /// Returns when a signal has come or the deadline is over.
    fn sleep_until_signal(&self, deadline: Option<Instant>) -> io::Result<()> {
        let timeout = deadline.map_or(PollTimeout::NONE, |deadline| {
            // Rounded up, so that it does not spin during the last millisecond.
            let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis() + 1;
            PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes the kernel end the command when this program is killed, and gives it the signal mask this program was given.
pub fn die_with_this_program(process: &mut Command, mask: SigSet) {
    let parent = Pid::this();
    let before_exec = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // Killed between the fork and the line above: nobody is left to send the signal.
        if getppid() != parent {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        mask.thread_set_mask()?;
        Ok(())
    };
    // SAFETY: runs in the child between fork and exec, where only async-signal-safe calls are allowed: it makes three
    // system calls (prctl, getppid, rt_sigprocmask), takes no lock and allocates nothing, errors included.
    #[allow(unsafe_code)]
    unsafe {
        process.pre_exec(before_exec);
    }
}

/// Kills every living process below this one, until a look finds none; a process stuck in the kernel is not waited for longer.
fn kill_descendants() {
    let give_up = Instant::now() + GRACE;
    while Instant::now() < give_up {
        let living = living_descendants();
        if living.is_empty() {
            return;
        }
        for pid in living {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn living_descendants() -> Vec<i32> {
    let processes: Vec<_> = process_ids()
        .filter_map(|pid| {
            let stat = parse_process_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            Some((pid, stat))
        })
        .collect();
    let mut family = vec![Pid::this().as_raw()];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(processes.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| pid));
        next += 1;
    }
    let alive = |pid: &i32| processes.iter().any(|(other, stat)| other == pid && !matches!(stat.state, 'Z' | 'X'));
    family.into_iter().skip(1).filter(alive).collect()
}

/// What a shell would report: the exit code, or 128+N after signal N.
pub fn shell_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
