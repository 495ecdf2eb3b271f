//! `strata-engine device` as a whole program, and the devices that `sample` follows. A loop device needs root: where
//! there is none, these tests say so and check what can be checked without one.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{engine, lines};
use serde_json::Value;
use tempfile::TempDir;

/// A loop device of our own, detached at the end.
struct Loop {
    device: PathBuf,
    _folder: TempDir,
}

impl Loop {
    fn new(size_bytes: u64) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let backing = folder.path().join("backing");
        File::create(&backing).unwrap().set_len(size_bytes).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&backing).output().ok();
        let Some(output) = output.filter(|output| output.status.success()) else {
            // Root can make one: anything else is a failure, and not a reason to pass.
            assert!(!rustix::process::geteuid().is_root(), "losetup failed");
            eprintln!("skipped: only root makes loop devices");
            return None;
        };
        Some(Self { device: String::from_utf8(output.stdout).unwrap().trim().into(), _folder: folder })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn inspect(path: &Path) -> Value {
    let output = engine().arg("device").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_is_not_a_block_device_is_refused() {
    for (path, word) in
        [("/dev/null", "is not a block device"), ("/", "is not a block device"), ("/nowhere", "cannot be looked up")]
    {
        let output = engine().args(["device", path]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()), "{path}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{path}");
    }
}

#[test]
fn a_device_is_described_through_a_link() {
    let Some(disk) = Loop::new(3 << 20) else { return };
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("disk");
    std::os::unix::fs::symlink(&disk.device, &link).unwrap();
    // Others look at a new device too, udev and a losetup that searches for a free one: until they are done.
    let mut report = inspect(&link);
    for _ in 0..500 {
        if report["openers"] == serde_json::json!([]) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        report = inspect(&link);
    }
    let kernel_name = disk.device.file_name().unwrap().to_str().unwrap();
    assert_eq!(report["path"], link.to_str().unwrap());
    assert_eq!(report["real_path"], disk.device.to_str().unwrap());
    assert_eq!(report["kernel_name"], kernel_name);
    assert_eq!(report["major_minor"], fs::read_to_string(format!("/sys/block/{kernel_name}/dev")).unwrap().trim());
    assert_eq!(report["size_bytes"], 3 << 20);
    assert_eq!((&report["exclusive"], &report["exclusive_error"]), (&Value::from(true), &Value::Null));
    assert_eq!(report["openers"], serde_json::json!([]));
    assert_eq!(report["unseen_processes"], 0);
}

#[test]
fn a_device_in_use_is_told_with_who_uses_it() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(disk) = Loop::new(1 << 20) else { return };
    let shared = File::open(&disk.device).unwrap();
    let report = inspect(&disk.device);
    assert_eq!(report["exclusive"], true, "a plain reader does not claim it");
    let openers = report["openers"].as_array().unwrap();
    let own = openers.iter().find(|opener| opener["pid"] == std::process::id()).expect("this test has it open");
    assert!(own["command"].as_str().unwrap().contains("device"), "{own}");
    drop(shared);

    let _claimed = File::options().read(true).custom_flags(nix::libc::O_EXCL).open(&disk.device).unwrap();
    let report = inspect(&disk.device);
    assert_eq!(report["exclusive"], false);
    assert_eq!(report["exclusive_error"], "Device or resource busy");
}

#[test]
fn what_a_command_writes_is_seen_at_the_device() {
    let Some(disk) = Loop::new(8 << 20) else { return };
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("samples.jsonl");
    let status = engine()
        .arg("sample")
        .arg("--out")
        .arg(&out)
        .arg("--device")
        .arg(format!("top={}", disk.device.display()))
        .args(["--", "dd", "if=/dev/zero", "bs=1M", "count=4", "oflag=direct", "status=none"])
        .arg(format!("of={}", disk.device.display()))
        .status()
        .unwrap();
    assert!(status.success());
    let lines = lines(&out);
    assert_eq!(lines[0]["devices"]["top"]["path"], disk.device.to_str().unwrap());
    let written = |line: &Value| line["devices"]["top"]["write_bytes"].as_u64().unwrap();
    assert_eq!(written(&lines[lines.len() - 2]) - written(&lines[1]), 4 << 20);
}
