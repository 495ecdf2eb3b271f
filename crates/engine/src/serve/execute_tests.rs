use super::*;

/// Says nothing, or that it is enough from the start.
struct Quiet {
    stops: bool,
}

impl Controller for Quiet {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn hear(&mut self) {}
    fn beat(&mut self) -> Option<Instant> {
        None
    }
    fn stops(&mut self) -> bool {
        self.stops
    }
}

fn order(script: &str) -> Order {
    Order {
        timeout: Duration::from_secs(60),
        environment: vec![("STRATA_RUN".into(), "unit".into())],
        argv: vec!["sh".into(), "-c".into(), script.into()],
        stdin: None,
    }
}

fn ended(order: &Order) -> (i32, Vec<u8>, Vec<u8>) {
    match run(order, &mut Quiet { stops: false }) {
        Answer::Ended { exit_code, stdout, stderr, .. } => (exit_code, stdout, stderr),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_is_fed_and_heard() {
    let fed = Order { stdin: Some(b"in\xff".to_vec()), ..order("cat; echo \"$STRATA_RUN\" >&2; exit 3") };
    assert_eq!(ended(&fed), (3, b"in\xff".to_vec(), b"unit\n".to_vec()));
    assert_eq!(ended(&Order { stdin: Some(Vec::new()), ..order("cat") }), (0, Vec::new(), Vec::new()));
    assert_eq!(ended(&order("kill -9 $$")).0, -9);
}

#[test]
fn more_than_the_pipes_hold_goes_both_ways() {
    let much: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    assert!(ended(&Order { stdin: Some(much.clone()), ..order("cat") }).1 == much);
    assert_eq!(ended(&Order { stdin: Some(much), ..order("exec true") }).0, 0);
}

#[test]
fn what_is_left_in_the_background_is_not_waited_for() {
    // Closes its copies later; it must only outlive the shell.
    assert_eq!(ended(&order("sleep 2 & echo said")).1, b"said\n".to_vec());
}

#[test]
fn our_own_directory_and_the_systems_are_in_path() {
    let (_, said, _) = ended(&order("echo $PATH"));
    let said = String::from_utf8_lossy(&said).into_owned();
    let own = std::env::current_exe().expect("the test has a path");
    assert!(said.starts_with(&*own.parent().expect("a directory").to_string_lossy()));
    assert!(said.trim_end().ends_with(SYSTEM_PATH));
}

#[test]
fn what_takes_too_long_or_is_cancelled_is_stopped() {
    let late = Order { timeout: Duration::from_millis(10), ..order("echo said; exec sleep 1000") };
    assert!(matches!(run(&late, &mut Quiet { stops: false }), Answer::Stopped { why: Why::Timeout, .. }));
    let cancelled = run(&order("exec sleep 1000"), &mut Quiet { stops: true });
    assert!(matches!(cancelled, Answer::Stopped { why: Why::Cancel, .. }));
}

#[test]
fn what_cannot_be_started_says_why() {
    let missing = Order { argv: vec!["no-such-program".into()], ..order("") };
    let expected = Answer::Unstarted("no-such-program: No such file or directory".to_owned());
    assert_eq!(run(&missing, &mut Quiet { stops: false }), expected);
}

#[test]
fn every_command_has_an_empty_directory_of_its_own_which_goes_with_it() {
    let script = "pwd; ls -A | wc -l; stat -c %a .; echo kept > file; mkdir sub; ln -s / link; echo x > sub/file";
    let (code, output, _) = ended(&order(script));
    let output = String::from_utf8(output).expect("text");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((code, &lines[1..]), (0, &["0", "700"][..]));
    assert!(!Path::new(lines[0]).exists() && Path::new("/bin").exists());
    let (_, first, _) = ended(&order("pwd; exec sleep 0"));
    assert!(first.starts_with(std::env::temp_dir().as_os_str().as_encoded_bytes()));
    assert!(!String::from_utf8(first).is_ok_and(|path| Path::new(path.trim()).exists()));
}
