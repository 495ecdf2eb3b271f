//! Keys of the kernel's (keyrings(7)), which a command keeps when it becomes another user.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;

/// linux/keyctl.h
const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;

/// Becomes the command, in a new session keyring.
///
/// # Errors
/// A sentence, when the kernel gives no keyring or the command cannot be started.
pub fn without(command: &[OsString]) -> Result<u8, String> {
    // SAFETY: plain numbers; no name asks for a keyring without one.
    #[allow(unsafe_code)]
    let joined =
        unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) };
    // A kernel that was built without keys has none to keep.
    if joined < 0 && Errno::last() != Errno::ENOSYS {
        let error = io::Error::last_os_error();
        return Err(format!("the kernel gives no keyring ({error}); see the limits in /proc/key-users"));
    }
    let Some((program, arguments)) = command.split_first() else { return Err("name a command".to_owned()) };
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{} cannot be started ({error})", program.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::header::machine;

    #[test]
    fn the_number_is_the_headers() {
        let header = machine("linux/keyctl.h");
        assert_eq!(header.constant("KEYCTL_JOIN_SESSION_KEYRING"), KEYCTL_JOIN_SESSION_KEYRING);
    }
}
