//! The two dialects, and how to tell which one a text is in.

use crate::ast::{Assigned, Attribute, Command, Script, Value};
use crate::catalogue;
use crate::finding::Span;

/// A version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// 1.4.9.1: a fileset's plain size is the mean of a gamma distribution.
    V1_4_9,
    /// 1.5: a fileset's plain size is a constant.
    V1_5,
}

impl Dialect {
    /// As it is written on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_4_9 => "1.4.9",
            Self::V1_5 => "1.5",
        }
    }
}

/// What only one of the dialects has.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Of 1.4.9: what it is, and where.
    pub old: Vec<(String, Span)>,
    /// Of 1.5.
    pub new: Vec<(String, Span)>,
}

/// Looks for what only one of the dialects has.
pub(crate) fn marks(script: &Script) -> Marks {
    let mut marks = Marks::default();
    for command in &script.commands {
        let span = command.span;
        match &command.value {
            Command::Usage(_) => marks.old("usage", span),
            Command::Load(_) => marks.old("load", span),
            Command::Foreach { .. } => marks.old("foreach", span),
            Command::Old { word, .. } => marks.old(word, span),
            Command::DefineRandvar(_) => marks.old("define randvar", span),
            Command::DefinePosset(_) => marks.old("define posset", span),
            Command::Create(what) if what.value != "files" => {
                marks.old(&format!("create {}", what.value), what.span);
            }
            Command::Set { variable, to } => marks.set(variable.value.contains('.'), to),
            Command::DefineFileset { attributes, .. } => marks.attributes(attributes, catalogue::FILESET_OLD),
            Command::DefineProcess { attributes, threads } => {
                marks.attributes(attributes, &[]);
                for thread in threads {
                    marks.attributes(&thread.value.attributes, &[]);
                    for flowop in &thread.value.flowops {
                        marks.attributes(&flowop.value.attributes, catalogue::FLOWOP_OLD);
                    }
                }
            }
            Command::DefineFlowop { flowops, .. } => {
                for flowop in flowops {
                    marks.attributes(&flowop.value.attributes, catalogue::FLOWOP_OLD);
                }
            }
            _ => {}
        }
    }
    marks
}

impl Marks {
    fn old(&mut self, what: &str, span: Span) {
        self.old.push((what.to_owned(), span));
    }

    fn set(&mut self, of_field: bool, to: &crate::ast::At<Assigned>) {
        match &to.value {
            Assigned::Randvar(_) => self.new.push(("set $...=randvar(...)".to_owned(), to.span)),
            Assigned::Cvar(_) => self.new.push(("cvar(...)".to_owned(), to.span)),
            Assigned::Arithmetic(..) => self.old("arithmetic", to.span),
            Assigned::Value(Value::Variable(_)) => self.old("setting a variable to another", to.span),
            Assigned::Value(_) if of_field => self.old("a field of a random variable", to.span),
            Assigned::Value(_) => {}
        }
    }

    fn attributes(&mut self, attributes: &[Attribute], old: &[&str]) {
        for attribute in attributes {
            if old.contains(&attribute.name.value.as_str()) {
                self.old(&attribute.name.value, attribute.name.span);
            }
        }
    }
}
