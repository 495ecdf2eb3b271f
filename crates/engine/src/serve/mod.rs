//! Executes on the measured machine what the controller asks, one request after the other.

mod execute;
mod frame;
mod mailbox;
mod message;
mod own_directory;
mod runner;
mod stdio;
mod strays;

/// How the controller is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Frames on the standard streams, with signs of life.
    Stdio,
    /// Shared memory, with the virtual CPU blocked between two requests.
    Mailbox,
}

/// Serves until the controller is gone.
///
/// # Errors
/// A sentence, when there is no controller to be found or it uses another version of the protocol.
pub fn run(transport: Transport) -> Result<u8, String> {
    match transport {
        Transport::Stdio => stdio::serve(),
        Transport::Mailbox => mailbox::serve(),
    }
    .map(|()| 0)
}
