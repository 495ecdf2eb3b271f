//! What was defined, with the values that hold when it is used: filesets, processes, threads, flowops.

use std::collections::{BTreeMap, HashSet};

use super::{
    Composite, DEEPEST, Given, MOST_STEPS, MOST_THREADS, Options, PendingFileset, PendingFlowop, PendingProcess,
    Resolver, Slot, slot_number,
};
use crate::ast::FlowopNode;
use crate::catalogue;
use crate::dialect::Dialect;
use crate::distribution::{Distribution, Number, Shape, Stream};
use crate::finding::{Finding, Span, known};
use crate::program::{Fileset, Flowop, Process, Program, Thread, Type};
use crate::variables::{Meaning, Scope, one, unknown};

impl Resolver<'_> {
    pub(super) fn finish(&mut self, options: &Options) -> Option<Program> {
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
        if threads == 0 && !processes.is_empty() {
            self.error(Span::default(), "The file has no thread to run: give its processes and threads instances.");
        }
        if threads > MOST_THREADS {
            let message = format!("The file has {threads} threads, more than {MOST_THREADS}; give it fewer instances.");
            self.error(Span::default(), message);
        }
        let seconds = match (options.seconds, run) {
            (Some(seconds), _) => Some(seconds),
            (None, Some(seconds)) => seconds,
            (None, None) => self.seconds_without_run(),
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

    /// Most of filebench's own files have no run command: there the user types it.
    fn seconds_without_run(&mut self) -> Option<u64> {
        let seconds = self.seconds(None);
        let end = seconds.map_or("until its threads are done".to_owned(), |seconds| format!("for {seconds} s"));
        self.warn(
            Span::default(),
            format!("The file has no run command, so it runs {end}; add one, or use --seconds."),
        );
        seconds
    }

    pub(super) fn resolved_events(&mut self) -> u64 {
        let Some(attributes) = self.events else { return 0 };
        let rate = attributes.iter().rev().find(|attribute| attribute.name.value == "rate").map(one);
        rate.and_then(|rate| self.variables.scope().whole(&rate, &mut self.findings)).unwrap_or(0)
    }

    pub(super) fn resolved_filesets(&mut self) -> Vec<Fileset> {
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

    pub(super) fn resolved_processes(&mut self, filesets: &[Fileset]) -> Vec<Process> {
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
                Some(_) if self.room.get() == 0 => {
                    let message = format!(
                        "Composite flowops come to more than {MOST_STEPS} flowops; use fewer of them in each other."
                    );
                    findings.push(Finding::error(node.kind.span, message));
                }
                Some(composite) => {
                    let more = u32::try_from(composite.flowops.len()).unwrap_or(u32::MAX);
                    self.room.set(self.room.get().saturating_sub(more));
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
                    // A target is first looked for beside the flowop that names it.
                    let names: Vec<String> = inner.iter().map(|step: &Flowop| step.name.clone()).collect();
                    for target in inner.iter_mut().filter_map(|step| step.target.as_mut()) {
                        let here = format!("{prefix}{target}");
                        if names.contains(&here) {
                            *target = here;
                        }
                    }
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
        let slot = |slot: Option<&Slot>, findings: &mut Vec<Finding>| match slot? {
            Slot::Number(number) => Some(*number as usize),
            Slot::Local(value) => slot_number(scope, value, findings).map(|number| number as usize),
        };
        let target = given.text("target", findings);
        if of.needs_target() && target.is_none() {
            let message = format!("{} needs to know which flowop; give target=NAME.", of.name());
            findings.push(Finding::error(pending.node.span, message));
        }
        Flowop {
            name,
            of,
            fileset,
            fd: slot(Some(&pending.fd), findings).unwrap_or(0),
            srcfd: slot(pending.srcfd.as_ref(), findings),
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
        let everywhere = Names::new(everywhere);
        for (one, process) in pending.iter().zip(processes) {
            for (one, thread) in one.threads.iter().zip(&process.threads) {
                let mut here = Vec::new();
                thread.flowops.iter().for_each(|flowop| put_names(flowop, &mut here));
                let mut targets = Targets { here: Names::new(here), everywhere: &everywhere, missing: HashSet::new() };
                for (one, flowop) in one.flowops.iter().zip(&thread.flowops) {
                    targets.check(flowop, one.node.span, findings);
                }
            }
        }
    }
}

/// Names of flowops as they stand, and to be looked up: composites make tens of thousands.
struct Names<'a> {
    listed: Vec<&'a str>,
    set: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn new(listed: Vec<&'a str>) -> Self {
        Self { set: listed.iter().copied().collect(), listed }
    }
}

/// Where the targets of a thread's flowops may be.
struct Targets<'a> {
    here: Names<'a>,
    everywhere: &'a Names<'a>,
    /// What was not found, and where it is asked for: a composite asks in each of its steps.
    missing: HashSet<(usize, &'a str)>,
}

impl<'a> Targets<'a> {
    fn check(&mut self, flowop: &'a Flowop, span: Span, findings: &mut Vec<Finding>) {
        if let Some(target) = &flowop.target {
            let anywhere = flowop.of.needs_target();
            let names = if anywhere { self.everywhere } else { &self.here };
            if !names.set.contains(target.as_str()) && self.missing.insert((span.start, target)) {
                let place = if anywhere { "" } else { " in this thread" };
                let message = format!("There is no flowop {target}{place}: {}.", known(target, &names.listed));
                findings.push(Finding::error(span, message));
            }
        }
        flowop.inner.iter().for_each(|step| self.check(step, span, findings));
    }
}

fn put_names<'a>(flowop: &'a Flowop, names: &mut Vec<&'a str>) {
    names.push(&flowop.name);
    flowop.inner.iter().for_each(|step| put_names(step, names));
}
