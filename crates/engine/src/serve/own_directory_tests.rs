use super::*;

use std::process::Command;

/// In a mount namespace of its own, where this test runs once more: $1 its executable, $2 its name.
const MOUNT: &str = r#"mount -t tmpfs none "$TMPDIR" && mkdir "$TMPDIR/a b" "$TMPDIR/precious" &&
    echo kept >"$TMPDIR/precious/file" && PRECIOUS=$TMPDIR/precious TMPDIR="$TMPDIR/a b" "$1" --exact "$2""#;

fn mount(source: &Path, point: &Path) {
    assert!(
        Command::new("mount").arg("--bind").args([source, point]).status().expect("it can be made ready").success()
    );
}

/// Runs the test `name` of this file again where it may mount; whether this is already there. None: not root.
fn apart(name: &str) -> bool {
    if std::env::var_os("PRECIOUS").is_some() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        crate::terminal::warn("skipped: needs root to mount");
        return false;
    }
    let scratch = tempfile::tempdir().expect("it can be made ready");
    let me = std::env::current_exe().expect("it can be made ready");
    let name = format!("serve::own_directory::tests::{name}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", MOUNT, "sh"]).arg(me).arg(name);
    let done = command.env("TMPDIR", scratch.path()).output().expect("it can be made ready");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&said));
    assert!(String::from_utf8_lossy(&said).contains("1 passed"));
    false
}

#[test]
fn what_is_mounted_on_it_is_left_alone() {
    if apart("what_is_mounted_on_it_is_left_alone") {
        let precious = PathBuf::from(std::env::var_os("PRECIOUS").expect("it can be made ready"));
        let directory = OwnDirectory::new().expect("it can be made ready");
        let path = directory.path().to_owned();
        mount(&precious, &path);
        drop(directory);
        assert!(path.exists() && precious.join("file").exists());
    }
}

#[test]
fn what_is_mounted_below_it_is_left_alone_though_its_path_has_a_blank() {
    if apart("what_is_mounted_below_it_is_left_alone_though_its_path_has_a_blank") {
        let precious = PathBuf::from(std::env::var_os("PRECIOUS").expect("it can be made ready"));
        let directory = OwnDirectory::new().expect("it can be made ready");
        let point = directory.path().join("m");
        assert!(point.to_string_lossy().contains(' '));
        fs::create_dir(&point).expect("it can be made ready");
        mount(&precious, &point);
        drop(directory);
        assert!(point.exists() && precious.join("file").exists());
    }
}

#[test]
fn what_a_program_left_in_it_goes_with_it() {
    let directory = OwnDirectory::new().expect("it can be made ready");
    let path = directory.path().to_owned();
    fs::create_dir(path.join("a")).expect("it can be made ready");
    fs::write(path.join("a/file"), "left").expect("it can be made ready");
    drop(directory);
    assert!(!path.exists());
}

#[test]
fn mount_points_are_read_as_the_kernel_writes_them() {
    for (written, plain) in [("/a\\040b", "/a b"), ("/a\\134040", "/a\\040"), ("/a\\0", "/a\\0"), ("/\\303\\244", "/ä")]
    {
        assert_eq!(unescaped(written.as_bytes()), plain.as_bytes());
    }
}
