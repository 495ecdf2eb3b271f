//! Makes a program of a tree: carries out its commands in order, as filebench does while it reads them.
//!
//! Names, file descriptors and their like count as they are when they are defined; every other value counts as it is when it
//! is used, that is when the files are created or the run starts.

use std::collections::BTreeMap;

use crate::ast::{At, Attribute, Command, FlowopNode, Mode, Script, ThreadNode, Value};
use crate::catalogue;
use crate::dialect::{Dialect, marks};
use crate::distribution::{Distribution, Number, Shape, Stream};
use crate::finding::{Finding, Severity, Span, known};
use crate::parser::parse;
use crate::program::{Action, EndMode, Fileset, Flowop, Process, Program, Thread, Type};
use crate::variables::{Meaning, Scope, Variables, one, unknown};

/// How long a run without a time lasts.
const DEFAULT_SECONDS: u64 = 60;
/// Slots of a thread.
const SLOTS: u64 = 128;
/// The deepest that composite flowops stand in each other.
const DEEPEST: usize = 8;
/// Threads at most: each takes memory before the run begins.
const MOST_THREADS: u64 = 65_536;

/// What a user asks for beside the text.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The dialect, when it is not to be told from the text.
    pub dialect: Option<Dialect>,
    /// Variables with the values that they keep, as text in the language.
    pub set: Vec<(String, String)>,
    /// What `$dir` is, when the text sets it and `set` does not.
    pub directory: Option<String>,
    /// How long the run lasts, whatever the text says.
    pub seconds: Option<u64>,
}

/// A program, unless there are errors among the findings.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// None when something is wrong.
    pub program: Option<Program>,
    /// Everything that was found, in the order of the text.
    pub findings: Vec<Finding>,
    /// The variables of the text that `Options` kept from it.
    pub overridden: Vec<String>,
}

/// Makes a program of a tree; `findings` are those of reading it.
#[must_use]
pub fn resolve(script: &Script, mut findings: Vec<Finding>, options: &Options) -> Resolved {
    let dialect = choose_dialect(script, options, &mut findings);
    let mut resolver = Resolver {
        dialect,
        variables: Variables::default(),
        kept: Vec::new(),
        overridden: Vec::new(),
        findings,
        filesets: Vec::new(),
        processes: Vec::new(),
        composites: BTreeMap::new(),
        before: Vec::new(),
        mode: EndMode::Timeout,
        events: None,
        run: None,
        started: false,
        created: None,
    };
    resolver.keep(script, options);
    for command in &script.commands {
        if resolver.run.is_some() {
            // These have no effect anyway, and end most programs of 1.4.9.
            if matches!(command.value, Command::Old { .. } | Command::Quit | Command::Usage(_) | Command::Echo(_)) {
                continue;
            }
            let message = "Nothing after the run is carried out; take it out, or move it up.";
            resolver.findings.push(Finding::warning(command.span, message));
            break;
        }
        resolver.command(command);
    }
    let program = resolver.finish(options);
    let mut findings = resolver.findings;
    findings.sort_by_key(|finding| finding.span);
    findings.dedup();
    let wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
    Resolved { program: program.filter(|_| !wrong), findings, overridden: resolver.overridden }
}

fn choose_dialect(script: &Script, options: &Options, findings: &mut Vec<Finding>) -> Dialect {
    let marks = marks(script);
    let dialect = options.dialect.unwrap_or(if marks.old.is_empty() { Dialect::V1_5 } else { Dialect::V1_4_9 });
    if dialect == Dialect::V1_5 {
        for (what, span) in &marks.old {
            let message = format!("{what} is not in dialect 1.5; take it out, or read the file with --dialect 1.4.9.");
            findings.push(Finding::error(*span, message));
        }
    } else if let (None, Some((old, _)), Some((new, span))) = (options.dialect, marks.old.first(), marks.new.first()) {
        let message = format!(
            "{new} is of dialect 1.5, but {old} is of 1.4.9, and a plain size means a constant in one and the mean of a \
             gamma distribution in the other; say which with --dialect 1.4.9 (which reads both), or take out {old}."
        );
        findings.push(Finding::error(*span, message));
    }
    dialect
}

/// A fileset whose values are not looked at yet.
struct PendingFileset<'a> {
    single: bool,
    span: Span,
    name: String,
    attributes: &'a [Attribute],
}

struct PendingProcess<'a> {
    name: String,
    attributes: &'a [Attribute],
    threads: Vec<PendingThread<'a>>,
}

struct PendingThread<'a> {
    name: String,
    attributes: &'a [Attribute],
    flowops: Vec<PendingFlowop<'a>>,
}

#[derive(Clone)]
struct PendingFlowop<'a> {
    node: &'a At<FlowopNode>,
    name: String,
    fd: u64,
    srcfd: Option<u64>,
}

struct Composite<'a> {
    attributes: &'a [Attribute],
    flowops: Vec<PendingFlowop<'a>>,
}

struct Resolver<'a> {
    dialect: Dialect,
    variables: Variables,
    /// Variables that the text cannot set.
    kept: Vec<String>,
    overridden: Vec<String>,
    findings: Vec<Finding>,
    filesets: Vec<PendingFileset<'a>>,
    processes: Vec<PendingProcess<'a>>,
    composites: BTreeMap<String, Composite<'a>>,
    before: Vec<Action>,
    mode: EndMode,
    events: Option<&'a [Attribute]>,
    /// Seconds, when a run was asked for; None inside: until it is done.
    run: Option<Option<u64>>,
    /// 1.4.9: `create processes` has started them.
    started: bool,
    /// The filesets as they are created by `create files`.
    created: Option<Vec<Fileset>>,
}

impl<'a> Resolver<'a> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.findings.push(Finding::error(span, message));
    }

    fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.findings.push(Finding::warning(span, message));
    }

    /// Takes over what the user gave for variables.
    fn keep(&mut self, script: &Script, options: &Options) {
        let mut names: Vec<&str> = script
            .commands
            .iter()
            .filter_map(|command| match &command.value {
                Command::Set { variable, .. } => Some(variable.value.split('.').next().unwrap_or_default()),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        let mut given: Vec<(String, String)> = options.set.clone();
        let has = |given: &[(String, String)], name: &str| given.iter().any(|(known, _)| known == name);
        if let Some(directory) = options.directory.as_ref().filter(|_| names.contains(&"dir") && !has(&given, "dir")) {
            given.push(("dir".to_owned(), format!("\"{directory}\"")));
        }
        for (name, text) in given {
            if !names.contains(&name.as_str()) && !name.starts_with(['(', '{']) {
                let message = format!("--set {name}: the file sets no such variable; {}.", known(&name, &names));
                self.error(Span::default(), message);
                continue;
            }
            let meaning = read_value(&text).and_then(|to| {
                let mut findings = Vec::new();
                self.variables.evaluate(&to, &mut findings).filter(|_| findings.is_empty())
            });
            match meaning {
                Some(meaning) => {
                    self.variables.put(&name, meaning);
                    self.kept.push(name.clone());
                    self.overridden.push(name);
                }
                None => {
                    let message = format!(
                        "--set {name}={text}: this is no value; give a number as 16k, true, false, a text or cvar(...)."
                    );
                    self.error(Span::default(), message);
                }
            }
        }
    }

    fn command(&mut self, command: &'a At<Command>) {
        let span = command.span;
        match &command.value {
            Command::Set { variable, to } => self.set(variable, to),
            Command::SetMode(mode) => match mode {
                Mode::Timeout => self.mode = EndMode::Timeout,
                Mode::FirstDone => self.mode = EndMode::FirstDone,
                Mode::AllDone => self.mode = EndMode::AllDone,
                Mode::NoUsageStatistics => {}
            },
            Command::DefineFileset { single, attributes } => self.define_fileset(*single, attributes, span),
            Command::DefineRandvar(attributes) => self.define_randvar(attributes, span),
            Command::DefinePosset(_) => {
                self.error(span, "Sets of positions (posset) cannot run here; use random offsets instead.");
            }
            Command::DefineProcess { attributes, threads } => self.define_process(attributes, threads, span),
            Command::DefineFlowop { attributes, flowops } => {
                let name = self.name(attributes, "A composite flowop", span);
                if Type::ALL.iter().any(|known| known.name() == name) {
                    self.error(span, format!("{name} is a type of the language; give the composite another name."));
                }
                let flowops = self.pending_flowops(flowops);
                self.composites.insert(name, Composite { attributes, flowops });
            }
            Command::Create(what) => self.create(what, span),
            Command::Run(seconds) => {
                let seconds = self.seconds(seconds.as_ref());
                self.run = Some(seconds);
            }
            Command::Psrun { seconds, .. } => {
                let seconds = self.seconds(seconds.as_ref());
                self.run = Some(seconds);
            }
            Command::Eventgen(attributes) => {
                for attribute in attributes.iter().filter(|attribute| attribute.name.value != "rate") {
                    self.findings.push(unknown(attribute, "The event generator", &["rate"]));
                }
                self.events = Some(attributes);
            }
            Command::Echo(said) => {
                let text = self.variables.scope().substitute(said, &mut self.findings);
                self.before.push(Action::Echo(text));
            }
            Command::System(said) => {
                let text = self.variables.scope().substitute(said, &mut self.findings);
                self.before.push(Action::System(text));
            }
            Command::Sleep(seconds) => {
                let seconds = self.variables.scope().whole(seconds, &mut self.findings).unwrap_or(0);
                if self.started {
                    // 1.4.9 without `run`: the time between starting and stopping the processes.
                    self.run = Some(Some(seconds));
                } else {
                    self.before.push(Action::Sleep(seconds));
                }
            }
            Command::Quit => self.error(span, "The file ends here, before any run; take quit out."),
            Command::Version | Command::List(_) | Command::Debug(_) | Command::EnableHistogram => {}
            Command::EnableMulti(_) | Command::MultiSync(_) => {
                self.error(
                    span,
                    "Several clients at a time cannot run here; take this out, or use tenants of a campaign.",
                );
            }
            Command::Usage(_) => {}
            Command::Load(_) => self.error(span, "load reads another file; give that file itself."),
            Command::Foreach { variable, .. } => {
                let name = &variable.value;
                let message = format!("foreach makes several runs; take it out and make each with --set {name}=VALUE.");
                self.error(span, message);
            }
            Command::Old { word, .. } => {
                if word == "exit" {
                    self.error(span, "The file ends here, before any run; take exit out.");
                }
            }
        }
    }

    fn set(&mut self, variable: &At<String>, to: &At<crate::ast::Assigned>) {
        let (name, field) = match variable.value.split_once('.') {
            Some((name, field)) => (name, Some(field)),
            None => (variable.value.as_str(), None),
        };
        if self.kept.iter().any(|kept| kept == name) {
            return;
        }
        let mut findings = std::mem::take(&mut self.findings);
        match (field, &to.value) {
            (Some(field), crate::ast::Assigned::Value(value)) => {
                let name = At { value: name.to_owned(), span: variable.span };
                let value = At { value: value.clone(), span: to.span };
                self.variables.set_field(&name, field, &value, &mut findings);
            }
            (Some(_), _) => findings.push(Finding::error(to.span, "A field takes one value; give one.")),
            (None, _) => match self.variables.evaluate(to, &mut findings) {
                Some(meaning) => self.variables.put(name, meaning),
                // Reported once is enough: uses of it are not wrong as well.
                None => self.variables.put(name, Meaning::Number(1.0)),
            },
        }
        self.findings = findings;
    }

    fn define_randvar(&mut self, attributes: &[Attribute], span: Span) {
        let name = attributes.iter().rev().find(|attribute| attribute.name.value == "name").map(one);
        let Some(At { value: Value::Variable(name), .. }) = name else {
            self.error(span, "define randvar needs a variable, as name=$size; give it.");
            return;
        };
        if !self.kept.contains(&name) {
            let parameters = self.variables.random(attributes, span, &mut self.findings);
            self.variables.put(&name, Meaning::Random(parameters));
        }
    }

    /// The name of a thing, which is read where it is defined.
    fn name(&mut self, attributes: &[Attribute], what: &str, span: Span) -> String {
        match attributes.iter().rev().find(|attribute| attribute.name.value == "name") {
            Some(attribute) => {
                let value = one(attribute);
                if let Value::Text(text) = &value.value {
                    if catalogue::is_keyword(text) {
                        let message = format!("filebench takes {text} for a keyword; put it in double quotes.");
                        self.warn(value.span, message);
                    }
                }
                self.variables.scope().text(&value, &mut self.findings).unwrap_or_default()
            }
            None => {
                self.error(span, format!("{what} needs a name; give it as name=..."));
                String::new()
            }
        }
    }

    fn define_fileset(&mut self, single: bool, attributes: &'a [Attribute], span: Span) {
        let what = if single { "A file" } else { "A fileset" };
        let name = self.name(attributes, what, span);
        for attribute in attributes {
            let known_name = attribute.name.value.as_str();
            if !catalogue::FILESET.contains(&known_name) && !catalogue::FILESET_OLD.contains(&known_name) {
                self.findings.push(unknown(attribute, what, catalogue::FILESET));
            }
        }
        if !name.is_empty() && self.filesets.iter().any(|other| other.name == name) {
            self.error(span, format!("There is a fileset {name} already; give this one another name."));
        }
        self.filesets.push(PendingFileset { single, span, name, attributes });
    }

    fn define_process(&mut self, attributes: &'a [Attribute], threads: &'a [At<ThreadNode>], span: Span) {
        let name = self.name(attributes, "A process", span);
        for attribute in attributes.iter().filter(|given| !catalogue::PROCESS.contains(&given.name.value.as_str())) {
            self.findings.push(unknown(attribute, "A process", catalogue::PROCESS));
        }
        if threads.is_empty() {
            self.error(span, "This process has no thread; give it one.");
        }
        let mut pending = Vec::new();
        for thread in threads {
            let name = self.name(&thread.value.attributes, "A thread", thread.span);
            for attribute in &thread.value.attributes {
                if !catalogue::THREAD.contains(&attribute.name.value.as_str()) {
                    self.findings.push(unknown(attribute, "A thread", catalogue::THREAD));
                }
            }
            if thread.value.flowops.is_empty() {
                self.error(thread.span, "This thread has no flowop; give it one.");
            }
            let flowops = self.pending_flowops(&thread.value.flowops);
            pending.push(PendingThread { name, attributes: &thread.value.attributes, flowops });
        }
        self.processes.push(PendingProcess { name, attributes, threads: pending });
    }

    fn pending_flowops(&mut self, flowops: &'a [At<FlowopNode>]) -> Vec<PendingFlowop<'a>> {
        flowops
            .iter()
            .map(|node| {
                let attributes = &node.value.attributes;
                let name = self.name(attributes, "A flowop", node.span);
                let mut slot = |wanted: &str| {
                    let attribute = attributes.iter().rev().find(|attribute| attribute.name.value == wanted)?;
                    let value = one(attribute);
                    let number = self.variables.scope().whole(&value, &mut self.findings)?;
                    if number >= SLOTS {
                        self.error(value.span, format!("A thread has slots 0 to {}; give one of them.", SLOTS - 1));
                    }
                    Some(number.min(SLOTS - 1))
                };
                let (fd, srcfd) = (slot("fd").unwrap_or(0), slot("srcfd"));
                PendingFlowop { node, name, fd, srcfd }
            })
            .collect()
    }

    fn create(&mut self, what: &At<String>, span: Span) {
        if what.value == "processes" {
            self.started = true;
            return;
        }
        if self.created.is_some() {
            self.warn(span, "The files are created only once; take this out.");
            return;
        }
        self.created = Some(self.resolved_filesets());
        self.before.push(Action::CreateFiles);
    }

    fn seconds(&mut self, given: Option<&At<Value>>) -> Option<u64> {
        let seconds = given.and_then(|value| self.variables.scope().whole(value, &mut self.findings)).unwrap_or(0);
        match (seconds, self.mode) {
            (0, EndMode::Timeout) => Some(DEFAULT_SECONDS),
            (0, _) => None,
            (seconds, _) => Some(seconds),
        }
    }

    fn finish(&mut self, options: &Options) -> Option<Program> {
        let run = self.run.take();
        let filesets = match self.created.take() {
            Some(filesets) => filesets,
            None => self.resolved_filesets(),
        };
        let processes = self.resolved_processes(&filesets);
        let events_per_s = self.resolved_events();
        if processes.is_empty() {
            self.error(Span::default(), "The file defines no process, so there is nothing to run; define one.");
        }
        let threads: u64 = processes
            .iter()
            .flat_map(|process| process.threads.iter().map(|thread| process.instances.saturating_mul(thread.instances)))
            .fold(0, u64::saturating_add);
        if threads > MOST_THREADS {
            let message = format!("The file has {threads} threads, more than {MOST_THREADS}; give it fewer instances.");
            self.error(Span::default(), message);
        }
        let seconds = match (options.seconds, run) {
            (Some(seconds), _) => Some(seconds),
            (None, Some(seconds)) => seconds,
            (None, None) => {
                self.error(Span::default(), "The file has no run command; add one, or say how long with --seconds.");
                return None;
            }
        };
        Some(Program {
            dialect: self.dialect,
            filesets,
            processes,
            before: std::mem::take(&mut self.before),
            mode: self.mode,
            seconds,
            events_per_s,
        })
    }

    fn resolved_events(&mut self) -> u64 {
        let Some(attributes) = self.events else { return 0 };
        let rate = attributes.iter().rev().find(|attribute| attribute.name.value == "rate").map(one);
        rate.and_then(|rate| self.variables.scope().whole(&rate, &mut self.findings)).unwrap_or(0)
    }

    fn resolved_filesets(&mut self) -> Vec<Fileset> {
        let mut findings = std::mem::take(&mut self.findings);
        let filesets = self.filesets.iter().map(|pending| self.resolved_fileset(pending, &mut findings)).collect();
        self.findings = findings;
        filesets
    }

    fn resolved_fileset(&self, pending: &PendingFileset<'_>, findings: &mut Vec<Finding>) -> Fileset {
        let what = if pending.single { "file" } else { "fileset" };
        let given = Given { attributes: pending.attributes, scope: self.variables.scope() };
        let path = given.text("path", findings).unwrap_or_else(|| {
            if given.find("path").is_none() {
                let message = format!("This {what} needs the directory it is in; give it as path=...");
                findings.push(Finding::error(pending.span, message));
            }
            String::new()
        });
        let size_name = if given.last_of("size", "filesize") { "size" } else { "filesize" };
        let size = given.number(size_name, findings);
        let mean = match (&size, self.dialect) {
            (None, _) => Number::Whole(1024),
            (Some(Number::Whole(mean)), Dialect::V1_4_9) if !pending.single => {
                match given.whole("filesizegamma", findings).unwrap_or(1500) {
                    0 => Number::Whole(*mean),
                    shape => Number::Random(std::sync::Arc::new(Distribution {
                        id: usize::MAX - 1,
                        shape: Shape::Gamma { min: 0.0, mean: *mean as f64, shape: shape as f64 / 1000.0 },
                        round: 0.0,
                        least: None,
                        most: None,
                        stream: Stream::Layout,
                    })),
                }
            }
            (Some(size), _) => size.clone(),
        };
        if !pending.single && given.find("dirwidth").is_none() {
            let message =
                "This fileset has no dirwidth, so that each file gets its own directory; give it, as dirwidth=20.";
            findings.push(Finding::warning(pending.span, message));
        }
        if given.find("namelength").is_some() {
            let message = "The names of files always have eight digits; take namelength out.";
            findings.push(Finding::warning(pending.span, message));
        }
        let single = pending.single;
        let (trusttree, readonly, writeonly) = (
            given.boolean("trusttree", findings),
            given.boolean("readonly", findings),
            given.boolean("writeonly", findings),
        );
        Fileset {
            name: pending.name.clone(),
            path,
            single,
            entries: if single { 1 } else { given.whole("entries", findings).unwrap_or(0) },
            size: mean,
            dirwidth: given.number("dirwidth", findings).unwrap_or(Number::Whole(if single { 10 } else { 0 })),
            dirgamma: given.whole("dirgamma", findings).unwrap_or(if single { 0 } else { 1500 }),
            dirdepth: given.number("dirdepthrv", findings),
            leafdirs: given.whole("leafdirs", findings).unwrap_or(0),
            prealloc: given.percent("prealloc", findings),
            paralloc: given.boolean("paralloc", findings),
            reuse: given.boolean("reuse", findings) || trusttree,
            trusttree,
            readonly,
            writeonly,
        }
    }

    fn resolved_processes(&mut self, filesets: &[Fileset]) -> Vec<Process> {
        let pending = std::mem::take(&mut self.processes);
        let mut findings = std::mem::take(&mut self.findings);
        let mut processes = Vec::new();
        for process in &pending {
            let given = Given { attributes: process.attributes, scope: self.variables.scope() };
            let mut threads = Vec::new();
            for thread in &process.threads {
                let given = Given { attributes: thread.attributes, scope: self.variables.scope() };
                let memsize = given.whole("memsize", &mut findings).unwrap_or(0);
                let flowops: Vec<Flowop> = thread
                    .flowops
                    .iter()
                    .map(|flowop| self.resolved_flowop(flowop, "", None, filesets, memsize, 0, &mut findings))
                    .collect();
                if let Some(attribute) = given.find("ioprio") {
                    let message =
                        "Priorities of input and output are not set; take ioprio out, or mind the difference.";
                    findings.push(Finding::warning(attribute.name.span, message));
                }
                threads.push(Thread {
                    name: thread.name.clone(),
                    instances: given.whole("instances", &mut findings).unwrap_or(1),
                    memsize,
                    flowops,
                });
            }
            processes.push(Process {
                name: process.name.clone(),
                instances: given.whole("instances", &mut findings).unwrap_or(1),
                nice: given.whole("nice", &mut findings).unwrap_or(0),
                threads,
            });
        }
        self.check_targets(&pending, &processes, &mut findings);
        self.findings = findings;
        processes
    }

    #[allow(clippy::too_many_arguments)]
    fn resolved_flowop(
        &self,
        pending: &PendingFlowop<'_>,
        prefix: &str,
        locals: Option<&BTreeMap<String, Meaning>>,
        filesets: &[Fileset],
        memsize: u64,
        depth: usize,
        findings: &mut Vec<Finding>,
    ) -> Flowop {
        let node = &pending.node.value;
        let scope = Scope { globals: &self.variables, locals };
        let given = Given { attributes: &node.attributes, scope };
        let name = format!("{prefix}{}", pending.name);
        let known_type = Type::ALL.iter().copied().find(|known| known.name() == node.kind.value);
        let composite = self.composites.get(&node.kind.value);
        let mut inner = Vec::new();
        let mut iters = given.number("iters", findings);
        if known_type.is_none() {
            match composite {
                Some(_) if depth >= DEEPEST => {
                    findings.push(Finding::error(
                        node.kind.span,
                        "Composite flowops stand too deep in each other; write them flatter.",
                    ));
                }
                Some(composite) => {
                    let own = self.locals(composite, node, scope, findings);
                    let prefix = format!("{name}.");
                    let of_composite = Given { attributes: composite.attributes, scope };
                    iters = iters.or_else(|| of_composite.number("iters", findings));
                    inner = composite
                        .flowops
                        .iter()
                        .map(|step| {
                            self.resolved_flowop(step, &prefix, Some(&own), filesets, memsize, depth + 1, findings)
                        })
                        .collect();
                }
                None => {
                    let mut names: Vec<&str> = Type::ALL.iter().map(|known| known.name()).collect();
                    names.extend(self.composites.keys().map(String::as_str));
                    let message =
                        format!("{} is no type of a flowop: {}.", node.kind.value, known(&node.kind.value, &names));
                    findings.push(Finding::error(node.kind.span, message));
                }
            }
        }
        let of = known_type.unwrap_or(Type::Composite);
        for attribute in &node.attributes {
            let word = attribute.name.value.as_str();
            // Of a type that is not known nothing is known.
            let is_composite = composite.is_some() && known_type.is_none();
            let allowed = if is_composite { catalogue::COMPOSITE } else { catalogue::FLOWOP };
            if word == "possetname" {
                findings.push(Finding::error(
                    attribute.name.span,
                    "Sets of positions cannot run here; use random offsets.",
                ));
            } else if !(allowed.contains(&word)
                || word == "procname"
                || (of == Type::Composite && word.starts_with('$')))
            {
                findings.push(unknown(attribute, "A flowop", allowed));
            }
        }
        let fileset = self.fileset_of(&given, of, pending.node.span, filesets, findings);
        let iosize = given.number("iosize", findings).unwrap_or(Number::Whole(0));
        if of.needs_iosize() && iosize.is_zero() {
            let message = format!("{} needs to know how many bytes; give iosize.", of.name());
            findings.push(Finding::error(pending.node.span, message));
        }
        if let (Number::Whole(bytes), true) = (&iosize, memsize > 0) {
            if *bytes > memsize {
                let message =
                    format!("iosize {bytes} is more than the thread's memsize {memsize}; give the thread more.");
                findings.push(Finding::error(pending.node.span, message));
            }
        }
        let random = given.boolean("random", findings);
        if of == Type::AioWrite && !random {
            findings.push(Finding::error(pending.node.span, "aiowrite writes at random offsets only; add random."));
        }
        let target = given.text("target", findings);
        if of.needs_target() && target.is_none() {
            let message = format!("{} needs to know which flowop; give target=NAME.", of.name());
            findings.push(Finding::error(pending.node.span, message));
        }
        Flowop {
            name,
            of,
            fileset,
            fd: pending.fd as usize,
            srcfd: pending.srcfd.map(|slot| slot as usize),
            opennext: given.boolean("opennext", findings),
            iosize,
            random,
            workingset: given.number("workingset", findings).unwrap_or(Number::Whole(0)),
            iters: iters.unwrap_or(Number::Whole(1)),
            directio: given.boolean("directio", findings),
            dsync: given.boolean("dsync", findings),
            noreadahead: given.boolean("noreadahead", findings),
            indexed: given.number("indexed", findings),
            value: given.number("value", findings).unwrap_or(Number::Whole(0)),
            target,
            blocking: given.boolean("blocking", findings),
            highwater: given.whole("highwater", findings).unwrap_or(1),
            inner,
        }
    }

    /// The local variables of a composite flowop where it is used.
    fn locals(
        &self,
        composite: &Composite<'_>,
        node: &FlowopNode,
        outside: Scope<'_>,
        findings: &mut Vec<Finding>,
    ) -> BTreeMap<String, Meaning> {
        let mut locals: BTreeMap<String, Meaning> = outside.locals.cloned().unwrap_or_default();
        for attribute in composite.attributes.iter().chain(&node.attributes) {
            if let Some(name) = attribute.name.value.strip_prefix('$') {
                // Without a value it is only announced.
                if attribute.value.is_some() {
                    if let Some(meaning) = outside.meaning(&one(attribute), findings) {
                        locals.insert(name.to_owned(), meaning);
                    }
                }
            }
        }
        locals
    }

    fn fileset_of(
        &self,
        given: &Given<'_>,
        of: Type,
        span: Span,
        filesets: &[Fileset],
        findings: &mut Vec<Finding>,
    ) -> Option<usize> {
        let word = if given.last_of("filesetname", "filename") { "filesetname" } else { "filename" };
        let Some(attribute) = given.find(word) else {
            if of.needs_fileset() {
                let message = format!("{} needs to know the files; give filesetname=NAME.", of.name());
                findings.push(Finding::error(span, message));
            }
            return None;
        };
        let name = given.text(word, findings)?;
        let found = filesets.iter().position(|fileset| fileset.name == name);
        if found.is_none() {
            let names: Vec<&str> = filesets.iter().map(|fileset| fileset.name.as_str()).collect();
            let place = attribute.value.as_ref().map_or(attribute.name.span, |value| value.span);
            findings.push(Finding::error(place, format!("There is no fileset {name}: {}.", known(&name, &names))));
        }
        if let (Some(index), Type::MakeDir | Type::RemoveDir) = (found, of) {
            if filesets[index].leafdirs == 0 {
                let message = format!("{} needs empty directories; give fileset {name} leafdirs.", of.name());
                findings.push(Finding::error(span, message));
            }
        }
        found
    }

    /// Every target must be there: in any process for those that wake others, else in the same thread.
    fn check_targets(&self, pending: &[PendingProcess<'_>], processes: &[Process], findings: &mut Vec<Finding>) {
        let mut everywhere = Vec::new();
        for flowop in processes.iter().flat_map(|process| &process.threads).flat_map(|thread| &thread.flowops) {
            put_names(flowop, &mut everywhere);
        }
        for (one, process) in pending.iter().zip(processes) {
            for (one, thread) in one.threads.iter().zip(&process.threads) {
                let mut here = Vec::new();
                thread.flowops.iter().for_each(|flowop| put_names(flowop, &mut here));
                for (one, flowop) in one.flowops.iter().zip(&thread.flowops) {
                    check_target(flowop, one.node.span, &here, &everywhere, findings);
                }
            }
        }
    }
}

fn check_target(flowop: &Flowop, span: Span, here: &[&str], everywhere: &[&str], findings: &mut Vec<Finding>) {
    if let Some(target) = &flowop.target {
        let names = if flowop.of.needs_target() { everywhere } else { here };
        if !names.contains(&target.as_str()) {
            let place = if flowop.of.needs_target() { "" } else { " in this thread" };
            let message = format!("There is no flowop {target}{place}: {}.", known(target, names));
            findings.push(Finding::error(span, message));
        }
    }
    flowop.inner.iter().for_each(|step| check_target(step, span, here, everywhere, findings));
}

fn put_names<'a>(flowop: &'a Flowop, names: &mut Vec<&'a str>) {
    names.push(&flowop.name);
    flowop.inner.iter().for_each(|step| put_names(step, names));
}

/// A value given on the command line: in the language, or a text of any letters.
fn read_value(text: &str) -> Option<At<crate::ast::Assigned>> {
    let (script, findings) = parse(&format!("set $xx={text}"));
    match script.commands.as_slice() {
        [At { value: Command::Set { to, .. }, .. }] if findings.is_empty() => Some(to.clone()),
        _ if text.is_empty() || text.contains(['"', '\n', '(']) => None,
        _ => Some(At { value: crate::ast::Assigned::Value(Value::Text(text.to_owned())), span: Span::default() }),
    }
}

/// The attributes of one thing; of two with the same name the last counts.
struct Given<'a> {
    attributes: &'a [Attribute],
    scope: Scope<'a>,
}

impl Given<'_> {
    fn find(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().rev().find(|attribute| attribute.name.value == name)
    }

    /// Whether `one` stands after `other`, or alone.
    fn last_of(&self, one: &str, other: &str) -> bool {
        let last = self.attributes.iter().rev().find(|given| given.name.value == one || given.name.value == other);
        last.is_some_and(|given| given.name.value == one)
    }

    fn number(&self, name: &str, findings: &mut Vec<Finding>) -> Option<Number> {
        self.find(name).and_then(|attribute| self.scope.number(&one(attribute), findings))
    }

    fn whole(&self, name: &str, findings: &mut Vec<Finding>) -> Option<u64> {
        self.find(name).and_then(|attribute| self.scope.whole(&one(attribute), findings))
    }

    fn boolean(&self, name: &str, findings: &mut Vec<Finding>) -> bool {
        self.find(name).and_then(|attribute| self.scope.boolean(&one(attribute), findings)).unwrap_or(false)
    }

    fn text(&self, name: &str, findings: &mut Vec<Finding>) -> Option<String> {
        self.find(name).and_then(|attribute| self.scope.text(&one(attribute), findings))
    }

    /// A percentage; true is 100, false is 0.
    fn percent(&self, name: &str, findings: &mut Vec<Finding>) -> u64 {
        let Some(attribute) = self.find(name) else { return 0 };
        let value = one(attribute);
        match self.scope.meaning(&value, &mut Vec::new()) {
            Some(Meaning::Boolean(truth)) => u64::from(truth) * 100,
            _ => {
                let percent = self.scope.whole(&value, findings).unwrap_or(0);
                if percent > 100 {
                    findings.push(Finding::error(value.span, "This is a percentage; give 0 to 100."));
                }
                percent
            }
        }
    }
}
