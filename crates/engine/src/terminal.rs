//! The only writer to standard output and standard error.
//!
//! What is said holds text of strangers: a program's `echo`, names of filesets, files and devices. Such text can hold
//! characters that drive a terminal (OSC 52 writes the clipboard), reorder a line or hide. Each is replaced by its escape,
//! such as `\x1b` or `\u202e`, as `visible` of `strata/text.py` does.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Writes lines to standard output; whoever closed it has read enough.
///
/// # Errors
/// A sentence, when nothing can be written there.
pub fn say(text: &str) -> Result<(), String> {
    match line(&mut io::stdout().lock(), &visible(text)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("The result cannot be written ({error}); lead standard output elsewhere."))
        }
        _ => Ok(()),
    }
}

/// Writes `data` to standard output as a line of JSON.
///
/// # Errors
/// As `say`.
pub fn say_json(data: &impl Serialize) -> Result<(), String> {
    say(&as_json(data))
}

/// Writes lines to standard error. Where that cannot be written, nobody can be told.
pub fn warn(text: &str) {
    let _ = line(&mut io::stderr().lock(), &visible(text));
}

/// One write, so that lines of several threads and processes do not mix.
fn line(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(format!("{text}\n").as_bytes())?;
    stream.flush()
}

/// The text with everything escaped but printable characters, line feeds and tabs.
fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for sign in text.replace("\r\n", "\n").chars() {
        let code = u32::from(sign);
        let _ = match code {
            _ if is_harmless(sign) => shown.write_char(sign),
            0x0d => shown.write_str("\\r"),
            0..=0xff => write!(shown, "\\x{code:02x}"),
            0x100..=0xffff => write!(shown, "\\u{code:04x}"),
            _ => write!(shown, "\\U{code:08x}"),
        };
    }
    Cow::Owned(shown)
}

/// The same as JSON, in which these characters are written as `\uXXXX`.
fn as_json(data: &impl Serialize) -> String {
    let mut shown = String::new();
    for sign in serde_json::json!(data).to_string().chars() {
        if is_harmless(sign) {
            shown.push(sign);
        } else {
            for unit in sign.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    shown
}

/// As `str.isprintable` of Python, or a line feed or tab. `escape_debug` leaves the same characters as they are; but also
/// escapes a mark that combines with the one before, unless there is one, and quotes.
fn is_harmless(sign: char) -> bool {
    match sign {
        ' '..='~' | '\n' | '\t' => true,
        _ if sign.is_ascii() => false,
        // Printable, and shown as nothing: `_BLANK` in python/strata/text.py names them.
        '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}' => false,
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}' => false,
        _ => {
            let mut text = [0; 5];
            text[0] = b'a';
            let end = 1 + sign.encode_utf8(&mut text[1..]).len();
            std::str::from_utf8(&text[..end]).is_ok_and(|text| text.escape_debug().nth(1) == Some(sign))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_or_hides_is_escaped() {
        for (text, shown) in [
            ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
            ("\u{9b}2J", "\\x9b2J"),
            ("disk\u{202e}4txe", "disk\\u202e4txe"),
            ("\u{e0041}", "\\U000e0041"),
            ("a\r\nb\rc", "a\nb\\rc"),
            ("a\tb\n'\"\\ é e\u{301} 漢 💣", "a\tb\n'\"\\ é e\u{301} 漢 💣"),
            ("\0\x7f\u{a0}", "\\x00\\x7f\\xa0"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(visible(shown), shown);
        }
    }

    #[test]
    fn json_says_the_same_without_these_characters() {
        let said = "\x1b\x7f\u{9b}\u{202e}\u{e0041}é\r\n\"";
        let json = as_json(&said);
        assert_eq!(json, r#""\u001b\u007f\u009b\u202e\udb40\udc41é\r\n\"""#);
        assert_eq!(serde_json::from_str::<String>(&json).expect("is JSON"), said);
    }
}
