//! What the tests of the built program share.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The program under test, without standard input.
pub fn engine() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata-engine"));
    command.stdin(Stdio::null());
    command
}

/// The lines of a samples file.
#[allow(dead_code)] // every test program compiles this file for itself, and not each reads samples
pub fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the samples file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}
