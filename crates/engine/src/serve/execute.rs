//! Runs one command for the controller: feeds it, takes in what it says until it has ended, and ends it in time.
//!
//! As hosts/child.py does on the controller's own machine: a group and an empty directory of its own; the streams are read until the process
//! itself has ended, not until they are closed, which what it leaves in the background may put off for ever.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};

use super::message::{Answer, Order, Why};
use super::own_directory::OwnDirectory;

/// More than this, both streams together, and the command is stopped: nothing is cut off in silence.
const OUTPUT_LIMIT_BYTES: usize = 512 << 20;

/// Of such a stream the beginning is passed on, for a person to read.
const BEGINNING_BYTES: usize = 1 << 16;

/// How long a group has to end itself after SIGTERM, and the kernel to end it after SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
const KILL: Duration = Duration::from_secs(10);

const READ_BYTES: usize = 1 << 16;

/// No pipe holds more: read once more after the end, however much others go on writing to it.
const PIPE_BYTES: usize = 1 << 20;

/// Debian keeps mkfs, losetup and sfdisk there, and an ordinary user's PATH leaves them out.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// Whoever asked for the command, while it runs.
pub trait Controller {
    /// Can be read when the controller says something; `None` for one that cannot while a command runs.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Takes in what it says.
    fn hear(&mut self);
    /// Shows it a sign of life when that is due; returns when the next one is.
    fn beat(&mut self) -> Option<Instant>;
    /// Whether what runs is to end.
    fn stops(&mut self) -> bool;
}

/// Runs the command to its end, or until it is stopped.
pub fn run(order: &Order, controller: &mut dyn Controller) -> Answer {
    let started = Instant::now();
    let directory = match OwnDirectory::new() {
        Ok(directory) => directory,
        Err(error) => return Answer::Unstarted(format!("no empty directory can be made for it: {}", said(&error))),
    };
    let mut running = match Running::start(order, directory.path()) {
        Ok(running) => running,
        Err(error) => return Answer::Unstarted(format!("{}: {}", order.argv[0].to_string_lossy(), said(&error))),
    };
    let heard = running.listen(started.checked_add(order.timeout), controller, true);
    if !matches!(heard, Ok(None)) {
        running.end(controller);
    }
    let duration = started.elapsed();
    let why = match heard {
        Ok(why) => why,
        Err(error) => return Answer::Failed(format!("the command could not be waited for: {}", said(&error))),
    };
    let exit_code = running.exit_code();
    let [mut stdout, mut stderr] = running.streams.map(|stream| stream.said);
    if why == Some(Why::Output) {
        stdout.truncate(BEGINNING_BYTES);
        stderr.truncate(BEGINNING_BYTES);
    }
    match (why, exit_code) {
        (None, Some(exit_code)) => Answer::Ended { exit_code, duration, stdout, stderr },
        (None, None) => Answer::Failed("the end of the command was not told by the kernel".to_owned()),
        (Some(why), _) => Answer::Stopped { why, duration, stdout, stderr },
    }
}

/// The system's own words for an error, as Python's `strerror`.
pub fn said(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| nix::errno::Errno::from_raw(code).desc().to_owned())
}

/// PATH for commands: our own first, so that a step finds the `strata-engine` that serves it.
fn path() -> OsString {
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::parent).map(|directory| directory.as_os_str().to_owned());
    let given = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let parts: Vec<OsString> = own.into_iter().chain([given, SYSTEM_PATH.into()]).collect();
    parts.join(OsStr::new(":"))
}

/// What the command writes to one of its streams.
struct Stream {
    /// `None` once it was closed.
    source: Option<File>,
    said: Vec<u8>,
}

impl Stream {
    fn new(source: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&source)?;
        Ok(Self { source: Some(source.into()), said: Vec::new() })
    }

    /// Takes in what is there, at most `limit` bytes.
    fn take(&mut self, limit: usize) {
        let mut buffer = [0; READ_BYTES];
        let mut taken = 0;
        while taken < limit {
            let Some(source) = &mut self.source else { return };
            match source.read(&mut buffer) {
                Ok(0) => self.source = None,
                Ok(count) => {
                    self.said.extend_from_slice(&buffer[..count]);
                    taken += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.source = None,
            }
        }
    }
}

/// A command that was started. It is waited for only when its group needs no signal any more: until then the number of
/// the group cannot be another's.
struct Running {
    child: Child,
    descriptor: OwnedFd,
    stdin: Option<ChildStdin>,
    unsaid: Vec<u8>,
    fed: usize,
    streams: [Stream; 2],
    ended: bool,
}

impl Running {
    fn start(order: &Order, directory: &Path) -> io::Result<Self> {
        let mut command = Command::new(&order.argv[0]);
        command.args(&order.argv[1..]).env("PATH", path()).current_dir(directory).process_group(0);
        command.envs(order.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(if order.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        match Self::attend(&mut child, order) {
            Ok((descriptor, stdin, streams)) => {
                let unsaid = order.stdin.clone().unwrap_or_default();
                Ok(Self { child, descriptor, stdin, unsaid, fed: 0, streams, ended: false })
            }
            Err(error) => {
                let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn attend(child: &mut Child, order: &Order) -> io::Result<(OwnedFd, Option<ChildStdin>, [Stream; 2])> {
        let descriptor = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            set_nonblocking(stdin)?;
        }
        let missing = || io::Error::other("a stream is missing");
        let stdout = Stream::new(child.stdout.take().ok_or_else(missing)?.into())?;
        let stderr = Stream::new(child.stderr.take().ok_or_else(missing)?.into())?;
        // Nothing to say: it is to find the end of its input at once.
        let stdin = stdin.filter(|_| order.stdin.as_ref().is_some_and(|stdin| !stdin.is_empty()));
        Ok((descriptor, stdin, [stdout, stderr]))
    }

    /// Feeds it and takes in what it says; returns `None` when it has ended, else why it must. A controller that is not
    /// `heeded` is shown signs of life, but cannot stop what is being stopped already.
    fn listen(
        &mut self,
        until: Option<Instant>,
        controller: &mut dyn Controller,
        heeded: bool,
    ) -> io::Result<Option<Why>> {
        while !self.ended {
            let beat = controller.beat();
            if heeded && controller.stops() {
                return Ok(Some(Why::Cancel));
            }
            if heeded && self.streams.iter().map(|stream| stream.said.len()).sum::<usize>() > OUTPUT_LIMIT_BYTES {
                return Ok(Some(Why::Output));
            }
            let ready =
                self.wait([until, beat].into_iter().flatten().min(), controller.descriptor().filter(|_| heeded))?;
            if ready.contains(&Source::Controller) {
                controller.hear();
            }
            // Asked before the last read: what it said before it ended is in the pipes by now.
            self.ended = ready.contains(&Source::Process);
            for (stream, source) in self.streams.iter_mut().zip([Source::Stdout, Source::Stderr]) {
                if self.ended {
                    stream.take(PIPE_BYTES);
                } else if ready.contains(&source) {
                    stream.take(READ_BYTES);
                }
            }
            if ready.contains(&Source::Stdin) {
                self.feed();
            }
            if !self.ended && until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Some(Why::Timeout));
            }
        }
        Ok(None)
    }

    /// Sleeps until something can be done, at most until `wake`; returns what can.
    fn wait(&self, wake: Option<Instant>, controller: Option<BorrowedFd<'_>>) -> io::Result<Vec<Source>> {
        let [stdout, stderr] = self.streams.each_ref().map(|stream| stream.source.as_ref().map(File::as_fd));
        let (sources, mut asked): (Vec<_>, Vec<_>) = [
            (Source::Process, Some(self.descriptor.as_fd()), PollFlags::POLLIN),
            (Source::Stdout, stdout, PollFlags::POLLIN),
            (Source::Stderr, stderr, PollFlags::POLLIN),
            (Source::Stdin, self.stdin.as_ref().map(ChildStdin::as_fd), PollFlags::POLLOUT),
            (Source::Controller, controller, PollFlags::POLLIN),
        ]
        .into_iter()
        .filter_map(|(source, descriptor, flags)| Some((source, PollFd::new(descriptor?, flags))))
        .unzip();
        match poll(&mut asked, milliseconds_until(wake)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.into_iter().zip(asked);
        Ok(ready.filter(|(_, asked)| asked.any().unwrap_or(true)).map(|(source, _)| source).collect())
    }

    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.unsaid[self.fed..]) {
            Ok(count) => self.fed += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.fed = self.unsaid.len(), // it wants no more
        }
        if self.fed == self.unsaid.len() {
            self.stdin = None;
        }
    }

    /// Asks the whole group to stop, then makes it.
    fn end(&mut self, controller: &mut dyn Controller) {
        self.signal(Signal::SIGTERM);
        let _ = self.listen(Instant::now().checked_add(GRACE), controller, false);
        // Also when the first process heeded SIGTERM: the others of its group may not have.
        self.signal(Signal::SIGKILL);
        let _ = self.listen(Instant::now().checked_add(KILL), controller, false);
    }

    fn signal(&self, signal: Signal) {
        let _ = killpg(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// -N after signal N; `None` while it has not ended.
    fn exit_code(&mut self) -> Option<i32> {
        let status = self.child.try_wait().ok().flatten()?;
        status.code().or_else(|| status.signal().map(|signal| -signal))
    }
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Process,
    Stdout,
    Stderr,
    Stdin,
    Controller,
}

/// For `poll`: rounded up, so that it does not spin during the last millisecond.
pub fn milliseconds_until(wake: Option<Instant>) -> PollTimeout {
    wake.map_or(PollTimeout::NONE, |wake| {
        let left = wake.saturating_duration_since(Instant::now());
        let ms = if left.is_zero() { 0 } else { left.as_millis() + 1 };
        PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
    })
}

fn set_nonblocking(descriptor: &impl AsFd) -> io::Result<()> {
    // Our end only: the other end of a pipe has flags of its own.
    fcntl(descriptor, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
#[path = "execute_tests.rs"]
mod tests;
