//! The names that the language knows.

pub const PROCESS: &[&str] = &["name", "instances", "nice"];
pub const THREAD: &[&str] = &["name", "instances", "memsize", "useism", "ioprio"];
pub const FILESET: &[&str] = &[
    "name",
    "path",
    "entries",
    "size",
    "filesize",
    "dirwidth",
    "dirgamma",
    "dirdepthrv",
    "leafdirs",
    "prealloc",
    "paralloc",
    "reuse",
    "trusttree",
    "readonly",
    "writeonly",
];
/// Attributes that only 1.4.9 has.
pub const FILESET_OLD: &[&str] = &["cached", "filesizegamma", "namelength"];
pub const FLOWOP: &[&str] = &[
    "name",
    "filename",
    "filesetname",
    "fd",
    "srcfd",
    "opennext",
    "iosize",
    "random",
    "workingset",
    "iters",
    "directio",
    "dsync",
    "noreadahead",
    "indexed",
    "value",
    "target",
    "blocking",
    "highwater",
];
/// Attributes that only 1.4.9 has.
pub const FLOWOP_OLD: &[&str] = &["possetname", "procname"];
pub const COMPOSITE: &[&str] = &["name", "iters"];
pub const RANDVAR: &[&str] = &["type", "min", "mean", "gamma", "round", "seed", "randsrc", "randtable"];
pub const CVAR: &[&str] = &["type", "parameters", "min", "max", "round"];
pub const CVAR_TYPES: &[&str] = &[
    "cvar-erlang",
    "cvar-exponential",
    "cvar-gamma",
    "cvar-lognormal",
    "cvar-normal",
    "cvar-triangular",
    "cvar-uniform",
    "cvar-weibull",
];

/// The words that begin a command.
pub const COMMANDS: &[&str] = &[
    "set",
    "define",
    "create",
    "run",
    "psrun",
    "eventgen",
    "echo",
    "system",
    "sleep",
    "quit",
    "version",
    "list",
    "debug",
    "enable",
    "domultisync",
];
/// Those that only 1.4.9 has.
pub const COMMANDS_OLD: &[&str] = &[
    "usage", "load", "vars", "help", "log", "exit", "stats", "shutdown", "foreach", "clear", "fscheck", "fsflush",
    "warmup",
];

/// Words that filebench takes for keywords wherever they stand, so that it refuses them as values.
pub fn is_keyword(word: &str) -> bool {
    let others =
        ["true", "false", "file", "fileset", "process", "thread", "flowop", "randvar", "cvar", "mode", "rate", "files"];
    COMMANDS.contains(&word)
        || others.contains(&word)
        || [PROCESS, THREAD, FILESET, FLOWOP, RANDVAR, CVAR].iter().any(|names| names.contains(&word))
}
