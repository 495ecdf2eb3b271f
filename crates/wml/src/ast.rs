//! The tree of a text, as plain data. Comparing two trees leaves out where things stand.

use crate::finding::Span;

/// Something and where it stands.
#[derive(Debug, Clone, Default)]
pub struct At<T> {
    /// The thing.
    pub value: T,
    /// Where it stands.
    pub span: Span,
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A whole text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Script {
    /// In the order in which they are carried out.
    pub commands: Vec<At<Command>>,
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number that is not negative.
    Integer(u64),
    /// `true` or `false`.
    Boolean(bool),
    /// A bare or quoted string as written, with its `\n` and `\$`.
    Text(String),
    /// `$name`.
    Variable(String),
}

/// `name=value`, `name` alone, or in composite flowops `$name=value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// As written; a local variable has its `$`.
    pub name: At<String>,
    /// None for a bare name, which means true.
    pub value: Option<At<AttributeValue>>,
}

/// What an attribute is given.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// One value.
    One(Value),
    /// `{{percent, low, high}, ...}`
    Table(Vec<[At<Value>; 3]>),
}

/// What a variable is set to.
#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    /// A value; in 1.4.9 also another variable.
    Value(Value),
    /// `randvar(...)`
    Randvar(Vec<Attribute>),
    /// `cvar(...)`
    Cvar(Vec<Attribute>),
    /// 1.4.9: `left op right`
    Arithmetic(At<Value>, Operator, At<Value>),
}

/// 1.4.9: arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `set mode quit timeout`
    Timeout,
    /// `set mode quit firstdone`
    FirstDone,
    /// `set mode quit alldone`
    AllDone,
    /// `set mode nousestats`
    NoUsageStatistics,
}

/// A thread of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadNode {
    /// Of the thread.
    pub attributes: Vec<Attribute>,
    /// In order.
    pub flowops: Vec<At<FlowopNode>>,
}

/// One flowop of a thread or of a composite flowop.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowopNode {
    /// A type of the language or the name of a composite flowop.
    pub kind: At<String>,
    /// Of the flowop.
    pub attributes: Vec<Attribute>,
}

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `set $name=...`
    Set {
        /// With its field, if any.
        variable: At<String>,
        /// What it is set to.
        to: At<Assigned>,
    },
    /// `set mode ...`
    SetMode(Mode),
    /// `define file ...` or `define fileset ...`
    DefineFileset {
        /// Whether it is a file.
        single: bool,
        /// Of it.
        attributes: Vec<Attribute>,
    },
    /// 1.4.9: `define randvar ...`
    DefineRandvar(Vec<Attribute>),
    /// 1.4.9: `define posset ...`
    DefinePosset(Vec<Attribute>),
    /// `define process ... { thread ... }`
    DefineProcess {
        /// Of the process.
        attributes: Vec<Attribute>,
        /// In order.
        threads: Vec<At<ThreadNode>>,
    },
    /// `define flowop ... { flowop ... }`
    DefineFlowop {
        /// Of it; local variables have their `$`.
        attributes: Vec<Attribute>,
        /// In order.
        flowops: Vec<At<FlowopNode>>,
    },
    /// `create files`, and in 1.4.9 `create filesets` and `create processes`
    Create(At<String>),
    /// `run [seconds]`
    Run(Option<At<Value>>),
    /// `psrun [[-]period [seconds]]`
    Psrun {
        /// Whether the counters start again after each print.
        reset: bool,
        /// Seconds.
        period: Option<At<Value>>,
        /// Seconds.
        seconds: Option<At<Value>>,
    },
    /// `eventgen rate=n`
    Eventgen(Vec<Attribute>),
    /// `echo "..."`
    Echo(At<String>),
    /// `system "..."`
    System(At<String>),
    /// `sleep n`
    Sleep(At<Value>),
    /// `quit`
    Quit,
    /// `version`
    Version,
    /// `list fileset` or `list flowop`
    List(At<String>),
    /// `debug n`
    Debug(At<Value>),
    /// `enable lathist`
    EnableHistogram,
    /// `enable multi ...`
    EnableMulti(Vec<Attribute>),
    /// `domultisync value=n`
    MultiSync(Vec<Attribute>),
    /// 1.4.9: `usage "..."`
    Usage(At<String>),
    /// 1.4.9: `load NAME`
    Load(At<String>),
    /// 1.4.9: `foreach $name in a, b { ... }`
    Foreach {
        /// Its name.
        variable: At<String>,
        /// What it is set to, one after the other.
        values: Vec<At<Value>>,
        /// What is done with each.
        commands: Vec<At<Command>>,
    },
    /// 1.4.9: `vars`, `help`, `log`, `exit`, `stats snap`, `shutdown processes` ... with the words or string after it.
    Old {
        /// The command.
        word: String,
        /// What follows it.
        arguments: Vec<At<Value>>,
    },
}
