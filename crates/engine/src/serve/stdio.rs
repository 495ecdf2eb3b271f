//! Frames on the standard streams. Everything happens in one thread: what the controller says is looked for between
//! two requests and while a command runs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};

use super::execute::{Controller, milliseconds_until};
use super::frame::{self, Decoder, Frame};
use super::runner;

/// What this begins with, so that whatever a login shell printed before is told from it. The number is the protocol's.
const GREETING: &[u8] = b"\nstrata-engine serve 1\n";

/// Also between two requests: the controller tells by it that the way to this machine is open.
const BEAT: Duration = Duration::from_secs(5);

const READ_BYTES: usize = 1 << 16;

/// Serves until the controller closes its end; what runs then is ended.
///
/// # Errors
/// A sentence, when what comes in is not what a controller says.
pub fn serve() -> Result<(), String> {
    let own = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned().map(File::from);
    let streams = own(io::stdin().as_fd()).and_then(|input| Ok((input, own(io::stdout().as_fd())?)));
    let (input, output) =
        streams.map_err(|error| format!("the standard streams cannot be used ({error}); open them"))?;
    Wire::new(input, output).serve()
}

/// The way to the controller.
struct Wire {
    input: File,
    output: File,
    decoder: Decoder,
    next_beat: Instant,
    cancelled: bool,
    /// Why there is no controller any more: it closed its end (`Ok`), or says what cannot be understood.
    gone: Option<Result<(), String>>,
}

impl Wire {
    fn new(input: File, output: File) -> Self {
        let decoder = Decoder::default();
        Self { input, output, decoder, next_beat: Instant::now() + BEAT, cancelled: false, gone: None }
    }

    fn serve(mut self) -> Result<(), String> {
        self.say(GREETING);
        loop {
            if let Some(outcome) = self.gone {
                return outcome;
            }
            match self.decoder.next() {
                // Of a cancel that crossed with the answer it was meant to prevent, nothing is left to do.
                Ok(Some(Frame::Cancel)) => {}
                Ok(Some(Frame::Request(message))) => {
                    self.cancelled = false;
                    let answer = runner::answer(&message, &mut self).encode();
                    self.say(&frame::answer_head(answer.len()));
                    self.say(&answer);
                    runner::bury_orphans();
                }
                Ok(None) => self.wait(),
                Err(why) => return Err(why),
            }
        }
    }

    /// Sleeps until the controller says something or wants a sign of life.
    fn wait(&mut self) {
        let wake = self.beat();
        let mut asked = [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)];
        // What poll cannot do, the read will say.
        let ready = poll(&mut asked, milliseconds_until(wake)).map_or(true, |count| count > 0);
        if ready {
            self.take_in();
        }
    }

    fn take_in(&mut self) {
        let mut buffer = [0; READ_BYTES];
        match self.input.read(&mut buffer) {
            Ok(0) => self.gone = Some(Ok(())),
            Ok(count) => self.decoder.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = Some(Ok(())),
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        if self.gone.is_none() && self.output.write_all(bytes).is_err() {
            self.gone = Some(Ok(()));
        }
        self.next_beat = Instant::now() + BEAT;
    }
}

impl Controller for Wire {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.input.as_fd())
    }

    fn hear(&mut self) {
        self.take_in();
    }

    fn beat(&mut self) -> Option<Instant> {
        if Instant::now() >= self.next_beat {
            self.say(&frame::heartbeat());
        }
        Some(self.next_beat)
    }

    fn stops(&mut self) -> bool {
        // Also what came in one piece with the request.
        match self.decoder.next() {
            Ok(None) => {}
            Ok(Some(Frame::Cancel)) => self.cancelled = true,
            Ok(Some(Frame::Request(_))) => {
                let why = "a request came while another was being done; let one Strata alone speak to this";
                self.gone = Some(Err(why.to_owned()));
            }
            Err(why) => self.gone = Some(Err(why)),
        }
        self.cancelled || self.gone.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{decode, encode};
    use super::*;
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u64).to_le_bytes(), body].concat()
    }

    fn connected() -> (UnixStream, thread::JoinHandle<Result<(), String>>) {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let input = File::from(OwnedFd::from(theirs.try_clone().expect("a copy")));
        let output = File::from(OwnedFd::from(theirs));
        (ours, thread::spawn(|| Wire::new(input, output).serve()))
    }

    /// Says all of `spoken`, closes that end, and returns what the other end said to that.
    fn heard(spoken: &[u8]) -> (Vec<u8>, Result<(), String>) {
        let (mut ours, served) = connected();
        ours.write_all(spoken).expect("it listens");
        ours.shutdown(Shutdown::Write).expect("can be closed");
        let mut heard = Vec::new();
        // What it did not read any more is an error of the last read; what it said came before.
        let _ = ours.read_to_end(&mut heard);
        (heard, served.join().expect("no panic"))
    }

    fn sleeping() -> Vec<u8> {
        framed(b'Q', &encode(&[b"run", b"60000000000000", b"", b"sleep\x001000\x00"]))
    }

    #[test]
    fn requests_are_answered_one_after_the_other() {
        let request = framed(b'Q', &encode(&[b"read", b"/no/such/file"]));
        let cancel = framed(b'C', b"");
        let answer = framed(b'A', &encode(&[b"missing"]));
        let (said, outcome) = heard(&[&request[..], &cancel, &request].concat());
        assert_eq!(said, [GREETING, &answer, &answer].concat());
        assert_eq!(outcome, Ok(()));
    }

    #[test]
    fn a_running_command_is_cancelled_though_all_came_in_one_piece() {
        let (mut ours, served) = connected();
        ours.write_all(&[sleeping(), framed(b'C', b"")].concat()).expect("it listens");
        let mut answer = vec![0; GREETING.len() + 9 + 8 + 7 + 8 + 6];
        ours.read_exact(&mut answer).expect("an answer");
        assert_eq!(decode(&answer[GREETING.len() + 9..]), Some(vec![&b"stopped"[..], b"cancel"]));
        drop(ours);
        assert_eq!(served.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn a_controller_that_is_gone_takes_what_runs_with_it() {
        // It would run for longer than any test may take.
        assert_eq!(heard(&sleeping()), (GREETING.to_vec(), Ok(())));
    }

    #[test]
    fn a_second_request_meanwhile_is_an_error() {
        assert!(heard(&[sleeping(), sleeping()].concat()).1.is_err());
    }

    #[test]
    fn another_language_ends_it() {
        assert!(heard(b"GET / HTTP/1.1\r\n").1.is_err());
    }
}
