//! A run from its start to its report.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeValLike;
use strata_wml::{Action, EndMode, Flowop, Number, Options, Program, Streams, lay_out};

use super::content::Content;
use super::files::{Files, locked};
use super::report::{Cpu, Created, Ended, FilesetReport, Report, table};
use super::shared::{Ending, Events, Progress, Shared, meeting_points, wants_progress};
use super::system::{Kernel, System};
use super::tally::{Names, Totals, summary, whereabouts};
use super::worker::{Drawn, Plan, Script, Watch, Worker};
use super::{Checked, DIFFERENCES, Fix, Request, Stage, SystemCommands, check_text, environment, place, source};
use crate::gate::Gate;
use crate::procfs::parse_meminfo;
use crate::terminal;

/// How long threads have to end after the run; a sync may take its time.
const GRACE: Duration = Duration::from_secs(60);
/// Enough for what a thread calls.
const STACK_BYTES: usize = 256 << 10;
/// A run that did not go as requested.
const ENDED_EARLY: u8 = 1;

/// Runs a program; returns the exit code.
///
/// # Errors
/// A sentence, when nothing could be run because of what was asked.
pub fn run(request: &Request) -> Result<u8, String> {
    let directory = request
        .directory
        .canonicalize()
        .ok()
        .filter(|directory| directory.is_dir())
        .ok_or_else(|| format!("{} is no directory; make it first.", request.directory.display()))?;
    let text = source(&request.file)?;
    let options = Options {
        dialect: request.dialect,
        set: request.set.clone(),
        directory: Some(directory.to_string_lossy().into_owned()),
        seconds: request.seconds,
        environment: environment(),
    };
    let checked = check_text(&request.file, &text, &options)?;
    if request.stage == Stage::Create {
        terminal::say_json(&create(request, &directory, &checked.program)?)?;
        return Ok(0);
    }
    if !request.json {
        checked.warnings.iter().for_each(|warning| terminal::warn(warning));
    }
    let report = execute(request, &directory, checked, Kernel, block_signals)?;
    if request.json {
        terminal::say_json(&report)?;
    } else {
        terminal::say(&table(&report))?;
    }
    let code = if report.ended.early { ENDED_EARLY } else { 0 };
    if code != 0 {
        terminal::warn(&format!(
            "strata-engine: the run ended early, after {} operations: {}",
            report.summary.count, report.ended.why
        ));
    }
    Ok(code)
}

/// # Errors
/// A sentence, when the program has commands for the shell and they are to be refused.
pub fn commands_allowed(program: &Program, system: SystemCommands) -> Result<(), String> {
    let commands = program.before.iter().any(|action| matches!(action, Action::System(_)));
    if commands && system == SystemCommands::Refuse {
        return Err("The program wants to run commands (system); allow it with --system run, or leave them out with \
                    --system skip."
            .to_owned());
    }
    Ok(())
}

/// What the threads of a program read into and write from takes, as far as it is known beforehand.
fn memory_bytes(program: &Program, content: Content) -> u64 {
    fn largest_and_all(flowops: &[Flowop]) -> (u64, u64) {
        let each = flowops.iter().map(|flowop| {
            let own = if let Number::Whole(bytes) = flowop.iosize { bytes } else { 0 };
            let (largest, all) = largest_and_all(&flowop.inner);
            (own.max(largest), own.saturating_add(all))
        });
        each.fold((0, 0), |sum, one| (sum.0.max(one.0), sum.1.saturating_add(one.1)))
    }
    let threads = program.processes.iter().flat_map(|process| {
        process.threads.iter().map(|thread| {
            let (largest, all) = largest_and_all(&thread.flowops);
            let own = if thread.memsize > 0 { thread.memsize } else { all };
            let written = if content == Content::Zeros { 0 } else { largest };
            own.saturating_add(written).saturating_mul(thread.instances).saturating_mul(process.instances)
        })
    });
    threads.fold(0, u64::saturating_add)
}

/// # Errors
/// A sentence, when the threads want more memory than there is: the kernel would end the run, or something else.
fn memory_suffices(program: &Program, content: Content) -> Result<(), String> {
    let wanted = memory_bytes(program, content);
    let known = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_meminfo(&text));
    match known.and_then(|memory| memory.available_bytes) {
        Some(available) if wanted > available => Err(format!(
            "Its threads want {} MiB of memory, and {} MiB are available; give them less memsize and iosize, or run fewer.",
            wanted >> 20,
            available >> 20
        )),
        _ => Ok(()),
    }
}

/// Says what a program will do.
///
/// # Errors
/// A sentence, when its files cannot be laid out.
pub fn described(name: &str, program: &Program) -> Result<String, String> {
    let mut text = String::new();
    let mode = mode_name(program.mode);
    let time = program.seconds.map_or("until its threads are done".to_owned(), |seconds| format!("{seconds} s"));
    let _ = writeln!(text, "{name}: dialect {}, mode {mode}, {time}", program.dialect.name());
    for action in &program.before {
        let _ = match action {
            Action::CreateFiles => writeln!(text, "first: create the files"),
            Action::Echo(said) => writeln!(text, "first: say '{said}'"),
            Action::Sleep(seconds) => writeln!(text, "first: sleep {seconds} s"),
            Action::System(command) => {
                writeln!(text, "first: the command '{command}', refused unless --system is run or skip")
            }
        };
    }
    if program.events_per_s > 0 {
        let _ = writeln!(text, "event generator: {} events per second", program.events_per_s);
    }
    let mut streams = Streams::new(None);
    let mut lines = Vec::new();
    for fileset in program.filesets.iter().rev() {
        let tree = lay_out(fileset, &mut streams).map_err(|error| error.to_string())?;
        lines.push(format!(
            "fileset {} in {}: {} files in {} directories, {:.3} MiB, {} % of them at the start",
            fileset.name,
            fileset.path,
            tree.files.len(),
            tree.directories.len(),
            tree.bytes() as f64 / 1_048_576.0,
            fileset.prealloc
        ));
    }
    lines.reverse();
    for process in &program.processes {
        for thread in &process.threads {
            let steps: Vec<&str> = thread.flowops.iter().map(|flowop| flowop.name.as_str()).collect();
            lines.push(format!(
                "{} x {} of process {}: {}",
                thread.instances * process.instances,
                thread.name,
                process.name,
                steps.join(", ")
            ));
        }
    }
    Ok(text + &lines.join("\n"))
}

fn mode_name(mode: EndMode) -> &'static str {
    match mode {
        EndMode::Timeout => "timeout",
        EndMode::FirstDone => "firstdone",
        EndMode::AllDone => "alldone",
    }
}

/// SIGINT and SIGTERM end a run in good order: they are waited for, not handled.
fn block_signals() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    let _ = signals.thread_block();
}

/// As many open files as this process may have.
fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if soft < hard {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}

/// Creates the files, runs the threads and reports. `ready` is called when the files are there: a signal before that ends
/// the process at once, because nothing is measured yet.
///
/// # Errors
/// A sentence, when the run could not begin.
pub fn execute<S: System>(
    request: &Request,
    directory: &Path,
    checked: Checked,
    system: S,
    ready: impl FnOnce(),
) -> Result<Report, String> {
    let Checked { program, warnings } = checked;
    let began = Instant::now();
    raise_file_limit();
    commands_allowed(&program, request.system)?;
    memory_suffices(&program, request.content)?;
    let mut created = Creation::new(request, directory, &program)?;
    for action in &program.before {
        match action {
            Action::CreateFiles => created.carry_out(request.stage, &program, request.content)?,
            Action::Echo(said) => terminal::warn(said),
            Action::Sleep(seconds) => std::thread::sleep(Duration::from_secs(*seconds)),
            Action::System(command) if request.system == SystemCommands::Run => {
                Command::new("/bin/sh")
                    .args(["-c", command])
                    .status()
                    .map_err(|error| format!("The command '{command}' cannot be run ({error}); take it out."))?;
            }
            Action::System(_) => {}
        }
    }
    created.carry_out(request.stage, &program, request.content)?;
    ready();
    let Creation { filesets, written, .. } = created;
    let setup_s = began.elapsed().as_secs_f64();
    let run = Run::new(request, &program, filesets, system);
    let mut report = run.carry_out(request, &program)?;
    report.setup_s = setup_s;
    report.warnings = warnings;
    for (set, written) in report.filesets.iter_mut().zip(written) {
        set.written_bytes = written;
    }
    Ok(report)
}

/// Creates the files of a program, and forces them to the disk.
///
/// # Errors
/// A sentence.
fn create(request: &Request, directory: &Path, program: &Program) -> Result<Created, String> {
    let began = Instant::now();
    let mut created = Creation::new(request, directory, program)?;
    created.carry_out(Stage::Create, program, request.content)?;
    fs::File::open(directory)
        .and_then(|place| Ok(nix::unistd::syncfs(place)?))
        .map_err(|error| format!("{} cannot be forced to the disk ({error}).", directory.display()))?;
    let mut filesets: Vec<FilesetReport> = created.filesets.iter().map(fileset_report).collect();
    for (set, written) in filesets.iter_mut().zip(&created.written) {
        set.written_bytes = *written;
    }
    Ok(Created { filesets, setup_s: began.elapsed().as_secs_f64() })
}

/// The files of a program, laid out and then created.
struct Creation {
    streams: Streams,
    filesets: Vec<Files>,
    /// Bytes of each fileset, when it is done.
    written: Vec<u64>,
    done: bool,
}

impl Creation {
    fn new(request: &Request, directory: &Path, program: &Program) -> Result<Self, String> {
        let mut streams = Streams::new(request.layout_seed);
        let mut filesets = Vec::new();
        for fileset in program.filesets.iter().rev() {
            let top = place::top(directory, &request.allowed, &fileset.path, &fileset.name)?;
            let tree = lay_out(fileset, &mut streams).map_err(|error| error.to_string())?;
            filesets.push(Files::new(fileset, &top, tree));
        }
        filesets.reverse();
        Ok(Self { streams, written: vec![0; filesets.len()], filesets, done: false })
    }

    /// Creates what is not created yet.
    fn carry_out(&mut self, stage: Stage, program: &Program, content: Content) -> Result<(), String> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        for (index, fileset) in program.filesets.iter().enumerate().rev() {
            let files = &mut self.filesets[index];
            self.written[index] = match stage {
                Stage::Run => files.assume(fileset, &mut self.streams)?,
                _ => files.create(fileset, &mut self.streams, content)?,
            };
        }
        Ok(())
    }
}

pub struct Run<S: System> {
    pub shared: Arc<Shared<S>>,
    pub plans: Vec<Plan>,
}

impl<S: System> Run<S> {
    pub fn new(request: &Request, program: &Program, files: Vec<Files>, system: S) -> Self {
        let (points, semaphores) = meeting_points(program);
        let wanted = wants_progress(program);
        let (mut plans, mut processes) = (Vec::new(), Vec::new());
        let mut semblocks = BTreeMap::new();
        for process in &program.processes {
            let scripts: Vec<_> = process.threads.iter().map(|thread| Arc::new(Script::new(&thread.flowops))).collect();
            for instance in 1..=process.instances {
                let number = processes.len();
                processes.push(Progress { wanted, ..Progress::default() });
                for (thread, script) in process.threads.iter().zip(&scripts) {
                    for each in 1..=thread.instances {
                        let names = (format!("{}-{instance}", process.name), format!("{}-{each}", thread.name));
                        let stream = plans.len() as u64;
                        let (nice, memsize) = (process.nice, thread.memsize);
                        plans.push(Plan::new(names, number, nice, memsize, script, stream, &mut semblocks));
                    }
                }
            }
        }
        let shared = Shared {
            system,
            files,
            fixes: request.fixes.clone(),
            content: request.content,
            seed: u64::from(request.seed.unwrap_or(1)),
            mode: program.mode,
            cpu_per_flowop: request.cpu_per_flowop,
            origin: Instant::now(),
            deadline: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            ending: Mutex::new(None),
            changed: Condvar::new(),
            running: AtomicU32::new(plans.len() as u32),
            events: Events::new(program.events_per_s),
            points,
            semaphores,
            processes,
        };
        Self { shared: Arc::new(shared), plans }
    }

    fn carry_out(self, request: &Request, program: &Program) -> Result<Report, String> {
        let Self { shared, plans } = self;
        let started = Instant::now();
        let watches: Vec<Arc<Watch>> = plans.iter().map(|plan| Arc::clone(&plan.watch)).collect();
        let names = Names::new(&watches);
        let threads = start(&shared, plans)?;
        let start_s = started.elapsed().as_secs_f64();
        let gate = Gate::given();
        if let Some(gate) = &gate {
            gate.pass()?;
        }

        let cpu_before = cpu_s();
        let window = Window::begin(&shared, program.seconds);
        threads.go.wait();
        event_generator(&shared)?;
        signals(&shared);
        let series = window.watch(&shared, &names, request.stuck_after_s);
        // What completes from here on does not count any more.
        let cpu_after = cpu_s();
        let window_s = window.length_s(&shared);
        if let Some(gate) = &gate {
            gate.passed()?;
        }
        let (drawn, left) = join(threads.handles, &watches);
        let totals = names.totals();

        let mut ending = locked(&shared.ending).clone().unwrap_or(Ending::Time);
        if !left.is_empty() && !matches!(ending, Ending::Failed { .. }) {
            ending = Ending::Stuck { seconds: GRACE.as_secs(), at: left };
        }
        let (flowops, histogram) = names.reports(&totals, &drawn, &series, window_s, request.cpu_per_flowop);
        let summary = summary(&flowops, histogram, window_s);
        let cpu = match (cpu_before, cpu_after) {
            (Some(before), Some(after)) => {
                let (user, system) = (after.0 - before.0, after.1 - before.1);
                let per_op = (summary.count > 0).then(|| (user + system) * 1e6 / summary.count as f64);
                Cpu { user_s: Some(user), system_s: Some(system), us_per_op: per_op }
            }
            _ => Cpu::default(),
        };
        Ok(Report {
            version: 1,
            file: request.file.clone(),
            directory: request.directory.display().to_string(),
            dialect: program.dialect.name(),
            seconds: program.seconds,
            mode: mode_name(program.mode),
            seed: request.seed,
            layout_seed: request.layout_seed,
            set: request.set.iter().cloned().collect(),
            data: request.content.shown(),
            fixes: request.fixes.iter().copied().map(Fix::name).collect(),
            differences: DIFFERENCES,
            threads: watches.len() as u64,
            filesets: shared.files.iter().map(fileset_report).collect(),
            setup_s: 0.0,
            start_s,
            window_s,
            ended: ended(&ending),
            summary,
            flowops,
            cpu,
            peak_memory_bytes: peak_memory(),
            warnings: Vec::new(),
        })
    }
}

struct Threads {
    handles: Vec<JoinHandle<Drawn>>,
    go: Arc<Barrier>,
}

/// Starts the threads; they wait until all of them are ready and [`Threads::go`] is passed.
fn start<S: System>(shared: &Arc<Shared<S>>, plans: Vec<Plan>) -> Result<Threads, String> {
    let count = plans.len();
    let ready = Arc::new((Mutex::new(0usize), Condvar::new()));
    let go = Arc::new(Barrier::new(count + 1));
    let mut handles = Vec::with_capacity(count);
    for plan in plans {
        let (shared, all_ready, go) = (Arc::clone(shared), Arc::clone(&ready), Arc::clone(&go));
        let body = move || {
            let Some(worker) = Worker::new(&shared, plan) else { return Drawn::new() };
            *locked(&all_ready.0) += 1;
            all_ready.1.notify_one();
            go.wait();
            worker.run()
        };
        let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
        handles.push(started.map_err(|error| {
            format!("Thread {} of {count} cannot be started ({error}); ask for fewer.", handles.len() + 1)
        })?);
    }
    let mut number = locked(&ready.0);
    while *number < count {
        if handles.iter().any(JoinHandle::is_finished) {
            return Err("A thread could not be made ready; it has no room for its memory.".to_owned());
        }
        number = ready.1.wait_timeout(number, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
    }
    Ok(Threads { handles, go })
}

/// The time in which operations count.
struct Window {
    start_ns: u64,
    end_ns: Option<u64>,
}

impl Window {
    fn begin<S: System>(shared: &Shared<S>, seconds: Option<u64>) -> Self {
        shared.events.reset();
        let start_ns = shared.now();
        let end_ns = seconds.map(|seconds| start_ns.saturating_add(seconds.saturating_mul(1_000_000_000)));
        shared.deadline.store(end_ns.unwrap_or(u64::MAX), Ordering::Relaxed);
        Self { start_ns, end_ns }
    }

    /// Waits until the run is over; returns the counters at each full second.
    fn watch<S: System>(&self, shared: &Shared<S>, names: &Names, stuck_after_s: u64) -> Vec<Totals> {
        let mut series = vec![names.totals()];
        let (mut seen, mut since) = (0u64, Instant::now());
        loop {
            let tick = self.start_ns + series.len() as u64 * 1_000_000_000;
            let until = self.end_ns.map_or(tick, |end| end.min(tick));
            shared.sleep(Duration::from_nanos(until.saturating_sub(shared.now())));
            if shared.stopped() {
                return series;
            }
            if until == tick {
                series.push(names.totals());
            }
            if self.end_ns.is_some_and(|end| shared.now() >= end) {
                shared.end(Ending::Time);
                return series;
            }
            let done: u64 = names.passes();
            // Who sleeps because the program says so is not stuck.
            if done != seen || names.someone_sleeps() {
                (seen, since) = (done, Instant::now());
            } else if since.elapsed().as_secs() >= stuck_after_s {
                shared.end(Ending::Stuck { seconds: stuck_after_s, at: names.places() });
                return series;
            }
        }
    }

    fn length_s<S: System>(&self, shared: &Shared<S>) -> f64 {
        shared.deadline.load(Ordering::Relaxed).saturating_sub(self.start_ns) as f64 / 1e9
    }
}

/// Waits for the threads; returns what they hand over and where those are that did not end.
fn join(handles: Vec<JoinHandle<Drawn>>, watches: &[Arc<Watch>]) -> (Vec<Option<Drawn>>, Vec<String>) {
    let give_up = Instant::now() + GRACE;
    let (mut drawn, mut left) = (Vec::new(), Vec::new());
    for (handle, watch) in handles.into_iter().zip(watches) {
        while !handle.is_finished() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        if handle.is_finished() {
            drawn.push(handle.join().ok());
        } else {
            left.push(whereabouts(watch));
            drawn.push(None);
        }
    }
    (drawn, left)
}

/// The event generator: sleeps ten periods, then adds what has come.
fn event_generator<S: System>(shared: &Arc<Shared<S>>) -> Result<(), String> {
    let per_s = shared.events.per_s;
    if per_s == 0 {
        return Ok(());
    }
    let of_thread = Arc::clone(shared);
    let body = move || {
        let mut last = Instant::now();
        while !of_thread.stopped() {
            of_thread.sleep(Duration::from_secs_f64(10.0 / per_s as f64));
            let now = Instant::now();
            of_thread.events.add(now - last);
            last = now;
        }
    };
    let started = std::thread::Builder::new().name("events".to_owned()).spawn(body);
    started.map(drop).map_err(|error| {
        shared.end(Ending::Interrupted);
        format!("The event generator cannot be started ({error}); ask for fewer threads.")
    })
}

/// Ends the run when someone asks for it.
fn signals<S: System>(shared: &Arc<Shared<S>>) {
    let shared = Arc::clone(shared);
    let mut wanted = SigSet::empty();
    wanted.add(Signal::SIGINT);
    wanted.add(Signal::SIGTERM);
    if !SigSet::thread_get_mask().is_ok_and(|blocked| blocked.contains(Signal::SIGTERM)) {
        return;
    }
    let body = move || {
        if wanted.wait().is_ok() {
            shared.end(Ending::Interrupted);
        }
    };
    // Without this thread a signal is not answered, and the run continues to its end.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(body);
}

fn fileset_report(files: &Files) -> FilesetReport {
    let at_end = files.count();
    FilesetReport {
        name: files.name.clone(),
        files: files.tree.files.len() as u64,
        directories: files.tree.directories.len() as u64,
        leaf_directories: files.tree.leaf_directories.len() as u64,
        bytes: files.tree.bytes(),
        written_bytes: 0,
        at_start: files.at_start,
        at_end,
        drift: i64::from(at_end) - i64::from(files.at_start),
    }
}

fn ended(ending: &Ending) -> Ended {
    let (early, why, flowop, errno) = match ending {
        Ending::Time => (false, "its time was over".to_owned(), None, None),
        Ending::Done => (false, "its threads were done".to_owned(), None, None),
        Ending::NoResource { flowop, why } => (true, format!("flowop {flowop}: {why}"), Some(flowop.clone()), None),
        Ending::Failed { flowop, thread, why, errno } => {
            (true, format!("flowop {flowop} of {thread} failed: {why}"), Some(flowop.clone()), *errno)
        }
        Ending::Stuck { seconds, at } => {
            (true, format!("nothing went on for {seconds} s; threads stand at: {}", at.join(", ")), None, None)
        }
        Ending::Interrupted => (true, "a signal asked for it".to_owned(), None, None),
    };
    Ended { early, why, flowop, errno }
}

/// User and system time of this process.
fn cpu_s() -> Option<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    Some((seconds(usage.user_time()), seconds(usage.system_time())))
}

fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
