//! `strata-engine disk` as a whole program, as far as it goes without the module ublk_drv.

mod common;

use std::io::Write;
use std::process::{Output, Stdio};

use common::engine;
use serde_json::{Value, json};

fn disk(arguments: &[&str], input: &str) -> Output {
    let mut command = engine();
    command.arg("disk").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    // It may end without reading.
    let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
    child.wait_with_output().expect("its output")
}

fn refusal(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn serial(change: impl FnOnce(&mut Value)) -> String {
    let mut model = json!({
        "name": "mine",
        "queue_depth": 4,
        "write_cache": "none",
        "service": {"fixed": {"servers": 1, "read_us": 8000, "write_us": 4000}},
    });
    change(&mut model);
    model.to_string()
}

#[test]
fn a_model_is_shown_with_what_it_claims() {
    let output = disk(&["models", "--model", "-", "--json"], &serial(|_| ()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(shown[0]["model"]["name"], "mine");
    assert_eq!(shown[0]["claims"]["random_reads_deep_per_s"], 125.0);
    assert_eq!(shown[0]["claims"]["random_writes_per_s"], 250.0);
    assert_eq!(shown[0]["claims"]["least_service_us"], 4000.0);
}

#[test]
fn what_is_no_model_is_refused_with_what_is_wrong() {
    for (text, word) in [
        ("{}".to_owned(), "missing field `name`"),
        (serial(|model| model["service"]["fixed"]["speed"] = json!(1)), "unknown field `speed`"),
        (serial(|model| model["queue_depth"] = json!(0)), "queue_depth is 0; give a number from 1 to 128"),
        (serial(|model| model["faults"] = json!({"power_back_s": 1})), "power_back_s is not after power_cut_s"),
    ] {
        let said = refusal(&disk(&["models", "--model", "-"], &text));
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn serving_refuses_what_it_cannot_serve_before_anything_is_made() {
    let said = refusal(&disk(&["serve", "--model", "nothing", "--size", "1073741824", "--name", "a"], ""));
    assert!(said.contains("no model is called 'nothing'") && said.contains("hdd-7200, ssd-sata, nvme"), "{said}");
    let said = refusal(&disk(&["serve", "--model", "hdd-7200", "--size", "1000", "--name", "a"], ""));
    assert!(said.contains("the device's size in bytes is 1000"), "{said}");
    let said = refusal(&disk(&["serve", "--model", "hdd-7200", "--size", "1073741824", "--name", "a/b"], ""));
    assert!(said.contains("is no name for a disk"), "{said}");
}

#[test]
fn too_fast_a_model_is_refused_with_the_cost() {
    let arguments =
        ["serve", "--foreground", "--cost-ns", "30000", "--model", "nvme", "--size", "1073741824", "--name"];
    let said = refusal(&disk(&[arguments.as_slice(), &["too-fast"]].concat(), ""));
    assert!(said.contains("less than 10 times the 30.0 us") && said.contains("--least-times-cost 0"), "{said}");
}

#[test]
fn stopping_what_is_not_served_does_nothing() {
    let output = disk(&["stop", "strata-test-never-served"], "");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"".as_slice()));
}
