//! What the controller asks and what it is answered. The other end is python/strata/hosts/messages.py, which also
//! says what each field is.
//!
//! A message is a list of fields, each its length (64 bits, little-endian) and its bytes: whatever a program says or a
//! path holds goes through unchanged.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

const LENGTH_BYTES: usize = 8;

/// What the controller wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Hello,
    Run(Order),
    Write {
        path: PathBuf,
        content: Vec<u8>,
    },
    Read {
        path: PathBuf,
    },
    /// Kill everything that carries this mark.
    Strays {
        marker: OsString,
    },
    /// Keep the CPU busy.
    Spin {
        duration: Duration,
    },
}

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub timeout: Duration,
    /// On top of this program's own environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Never empty.
    pub argv: Vec<OsString>,
    /// `None`: there is nothing to read for it.
    pub stdin: Option<Vec<u8>>,
}

/// Why a command was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Timeout,
    Cancel,
    Output,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Hello {
        pid: u32,
        monotonic: Duration,
        engine: PathBuf,
    },
    /// `exit_code` is -N after signal N.
    Ended {
        exit_code: i32,
        duration: Duration,
        stdout: Vec<u8>,
        stderr: Vec<u8>,
    },
    Stopped {
        why: Why,
        duration: Duration,
        stdout: Vec<u8>,
        stderr: Vec<u8>,
    },
    Unstarted(String),
    Done,
    Content(Vec<u8>),
    Missing,
    /// Both lists say `name (process PID)`.
    Strays {
        ended: Vec<String>,
        left: Vec<String>,
    },
    Failed(String),
}

/// Joins fields to a message.
pub fn encode(fields: &[&[u8]]) -> Vec<u8> {
    let mut message = Vec::with_capacity(fields.iter().map(|field| LENGTH_BYTES + field.len()).sum());
    for field in fields {
        message.extend_from_slice(&(field.len() as u64).to_le_bytes());
        message.extend_from_slice(field);
    }
    message
}

/// Splits a message into its fields; `None` when it is not one.
pub fn decode(mut message: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (length, rest) = message.split_first_chunk::<LENGTH_BYTES>()?;
        let (field, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        fields.push(field);
        message = rest;
    }
    Some(fields)
}

impl Request {
    /// Reads a message.
    ///
    /// # Errors
    /// A sentence for the controller when it is none that this version knows.
    pub fn parse(message: &[u8]) -> Result<Self, String> {
        decode(message).as_deref().and_then(Self::from_fields).ok_or_else(|| {
            format!("strata-engine {} does not know this request; use the same version at both ends", VERSION)
        })
    }

    fn from_fields(fields: &[&[u8]]) -> Option<Self> {
        Some(match fields {
            [b"hello"] => Self::Hello,
            [b"run", timeout_ns, environment, argv, stdin @ ..] if stdin.len() <= 1 => Self::Run(Order {
                timeout: Duration::from_nanos(number(timeout_ns)?),
                environment: items(environment)?.into_iter().map(variable).collect::<Option<_>>()?,
                argv: items(argv).filter(|argv| !argv.is_empty())?.into_iter().map(text).collect(),
                stdin: stdin.first().map(|stdin| stdin.to_vec()),
            }),
            [b"write", path, content] => Self::Write { path: text(path).into(), content: content.to_vec() },
            [b"read", path] => Self::Read { path: text(path).into() },
            [b"strays", marker] => Self::Strays { marker: text(marker) },
            [b"spin", milliseconds] => Self::Spin { duration: Duration::from_millis(number(milliseconds)?) },
            _ => return None,
        })
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Answer {
    /// The message that carries it.
    pub fn encode(&self) -> Vec<u8> {
        let decimal = |number: u128| number.to_string().into_bytes();
        match self {
            Self::Hello { pid, monotonic, engine } => encode(&[
                b"hello",
                VERSION.as_bytes(),
                &decimal((*pid).into()),
                &decimal(monotonic.as_nanos()),
                engine.as_os_str().as_bytes(),
            ]),
            Self::Ended { exit_code, duration, stdout, stderr } => {
                encode(&[b"ended", exit_code.to_string().as_bytes(), &decimal(duration.as_nanos()), stdout, stderr])
            }
            Self::Stopped { why, duration, stdout, stderr } => {
                let why: &[u8] = match why {
                    Why::Timeout => b"timeout",
                    Why::Cancel => b"cancel",
                    Why::Output => b"output",
                };
                encode(&[b"stopped", why, &decimal(duration.as_nanos()), stdout, stderr])
            }
            Self::Unstarted(why) => encode(&[b"unstarted", why.as_bytes()]),
            Self::Done => encode(&[b"done"]),
            Self::Content(content) => encode(&[b"content", content]),
            Self::Missing => encode(&[b"missing"]),
            Self::Strays { ended, left } => encode(&[b"strays", &listed(ended), &listed(left)]),
            Self::Failed(why) => encode(&[b"failed", why.as_bytes()]),
        }
    }
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn text(field: &[u8]) -> OsString {
    OsString::from_vec(field.to_vec())
}

/// The items of a list, each ended by a zero byte.
fn items(field: &[u8]) -> Option<Vec<&[u8]>> {
    match field.split_last() {
        None => Some(Vec::new()),
        Some((0, rest)) => Some(rest.split(|&byte| byte == 0).collect()),
        Some(_) => None,
    }
}

fn variable(item: &[u8]) -> Option<(OsString, OsString)> {
    let equals = item.iter().position(|&byte| byte == b'=').filter(|&at| at > 0)?;
    Some((text(&item[..equals]), text(&item[equals + 1..])))
}

fn listed(items: &[String]) -> Vec<u8> {
    items.iter().flat_map(|item| item.bytes().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_command_is_read() {
        let message = encode(&[b"run", b"1500000000", b"A=b=c\0D=\0", b"printf\0\0\xff\0", b""]);
        let expected = Order {
            timeout: Duration::from_millis(1500),
            environment: vec![("A".into(), "b=c".into()), ("D".into(), "".into())],
            argv: vec!["printf".into(), "".into(), text(b"\xff")],
            stdin: Some(Vec::new()),
        };
        assert_eq!(Request::parse(&message), Ok(Request::Run(expected)));
        let without = encode(&[b"run", b"0", b"", b"true\0"]);
        assert!(matches!(Request::parse(&without), Ok(Request::Run(Order { stdin: None, .. }))));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let wrong: [&[&[u8]]; 9] = [
            &[],
            &[b"dance"],
            &[b"hello", b""],
            &[b"run", b"1", b"", b""],
            &[b"run", b"-1", b"", b"true\0"],
            &[b"run", b"1", b"", b"true"],
            &[b"run", b"1", b"=x\0", b"true\0"],
            &[b"run", b"1", b"", b"true\0", b"", b""],
            &[b"spin", b""],
        ];
        for fields in wrong {
            assert!(Request::parse(&encode(fields)).is_err(), "{fields:?}");
        }
    }

    #[test]
    fn lists_keep_their_items_apart() {
        let answer = Answer::Strays { ended: vec!["a b".to_owned(), String::new()], left: Vec::new() };
        assert_eq!(decode(&answer.encode()), Some(vec![&b"strays"[..], b"a b\0\0", b""]));
    }

    proptest! {
        #[test]
        fn fields_come_back(fields in vec(vec(any::<u8>(), 0..40), 0..8)) {
            let slices: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
            let message = encode(&slices);
            prop_assert_eq!(decode(&message), Some(slices));
        }

        #[test]
        fn a_message_cut_short_is_none(field in vec(any::<u8>(), 0..40), cut in 1usize..8) {
            let message = encode(&[&field]);
            prop_assert_eq!(decode(&message[..message.len() - cut.min(message.len() - 1)]), None);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Request::parse(&bytes);
        }
    }
}
