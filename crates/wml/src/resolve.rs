//! Makes a program of a tree: carries out its commands in order, as filebench does while it reads them.
//!
//! Names, file descriptors and their like count as they are when they are defined; every other value counts as it is when it
//! is used, that is when the files are created or the run starts.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::ast::{At, Attribute, AttributeValue, Command, FlowopNode, Mode, Script, ThreadNode, Value};
use crate::catalogue;
use crate::dialect::{Dialect, marks};
use crate::finding::{Finding, Severity, Span, known};
use crate::lexer::{Token, lex};
use crate::parser::parse;
use crate::print::print;
use crate::program::{Action, EndMode, Fileset, Program, Type};
use crate::variables::{Meaning, Scope, Variables, one, unknown};

mod given;
mod program;

use given::Given;

/// How long a run without a time lasts.
const DEFAULT_SECONDS: u64 = 60;
/// Slots of a thread.
const SLOTS: u64 = 128;
/// The deepest that composite flowops stand in each other.
const DEEPEST: usize = 8;
/// Flowops of all threads together, those inside composite ones counted each time: composites in each other multiply.
const MOST_STEPS: u32 = 65_536;
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
    /// What `$(NAME)` is in a text of 1.4.9: names and values of the environment.
    pub environment: Vec<(String, String)>,
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
        room: Cell::new(MOST_STEPS),
    };
    resolver.keep(script, options);
    if dialect == Dialect::V1_4_9 {
        resolver.take_environment(&options.environment);
    }
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
    fd: Slot,
    srcfd: Option<Slot>,
}

/// Which slot a flowop uses.
#[derive(Clone)]
enum Slot {
    /// Read where the flowop is defined.
    Number(u64),
    /// A variable that only the composite flowop around it has: read where that is used.
    Local(At<Value>),
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
    /// How many flowops composite ones may still be taken apart into.
    room: Cell<u32>,
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
        // What the file uses and never sets is to be given, as in an interactive session.
        let tokens = lex(&print(script)).0;
        let used = tokens.iter().filter_map(|placed| match &placed.token {
            Token::Variable(name) => Some(name.split('.').next().unwrap_or_default()),
            _ => None,
        });
        let mut names: Vec<&str> = script
            .commands
            .iter()
            .filter_map(|command| match &command.value {
                Command::DefineRandvar(attributes) => randvar_name(attributes),
                _ => None,
            })
            .chain(used)
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

    fn take_environment(&mut self, environment: &[(String, String)]) {
        for (name, text) in environment {
            let name = format!("({name})");
            let value = read_value(text).filter(|_| !self.kept.contains(&name));
            if let Some(meaning) = value.and_then(|to| self.variables.evaluate(&to, &mut Vec::new())) {
                self.variables.put_from_environment(&name, meaning);
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
                let flowops = self.pending_flowops(flowops, true);
                self.composites.insert(name, Composite { attributes, flowops });
            }
            Command::Create(what) => self.create(what, span),
            Command::Run(seconds) => {
                let seconds = self.seconds(seconds.as_ref());
                self.run = Some(seconds);
            }
            Command::Psrun { seconds, .. } => {
                self.warn(span, "Nothing is printed while it runs; for the figures of each second use --json.");
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
        let Some(name) = randvar_name(attributes) else {
            self.error(span, "define randvar needs a variable, as name=$size; give it.");
            return;
        };
        if !self.kept.iter().any(|kept| kept == name) {
            let parameters = self.variables.random(attributes, span, &mut self.findings);
            self.variables.put(name, Meaning::Random(parameters));
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
            let flowops = self.pending_flowops(&thread.value.flowops, false);
            pending.push(PendingThread { name, attributes: &thread.value.attributes, flowops });
        }
        self.processes.push(PendingProcess { name, attributes, threads: pending });
    }

    fn pending_flowops(&mut self, flowops: &'a [At<FlowopNode>], in_composite: bool) -> Vec<PendingFlowop<'a>> {
        flowops
            .iter()
            .map(|node| {
                let attributes = &node.value.attributes;
                let name = self.name(attributes, "A flowop", node.span);
                let mut slot = |wanted: &str| {
                    let attribute = attributes.iter().rev().find(|attribute| attribute.name.value == wanted)?;
                    let value = one(attribute);
                    match &value.value {
                        Value::Variable(name) if in_composite && self.variables.get(name).is_none() => {
                            Some(Slot::Local(value))
                        }
                        _ => slot_number(self.variables.scope(), &value, &mut self.findings).map(Slot::Number),
                    }
                };
                let (fd, srcfd) = (slot("fd").unwrap_or(Slot::Number(0)), slot("srcfd"));
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

    pub(super) fn seconds(&mut self, given: Option<&At<Value>>) -> Option<u64> {
        let seconds = given.and_then(|value| self.variables.scope().whole(value, &mut self.findings)).unwrap_or(0);
        match (seconds, self.mode) {
            (0, EndMode::Timeout) => Some(DEFAULT_SECONDS),
            (0, _) => None,
            (seconds, _) => Some(seconds),
        }
    }
}

/// The number of a slot.
fn slot_number(scope: Scope<'_>, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<u64> {
    let number = scope.whole(value, findings)?;
    if number >= SLOTS {
        let message = format!("A thread has slots 0 to {}; give one of them.", SLOTS - 1);
        findings.push(Finding::error(value.span, message));
    }
    Some(number.min(SLOTS - 1))
}

/// The variable that `define randvar` makes.
fn randvar_name(attributes: &[Attribute]) -> Option<&str> {
    let name = attributes.iter().rev().find(|attribute| attribute.name.value == "name")?;
    match &name.value {
        Some(At { value: AttributeValue::One(Value::Variable(name)), .. }) => Some(name),
        _ => None,
    }
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
