//! The Workload Model Language (WML) of filebench, in both dialects: 1.4.9 and 1.5.
//!
//! Everything here is pure: text goes in, and a tree, a checked program, a layout of files or a list of findings comes
//! out. No file, clock or thread is touched, and the same input gives the same output on every computer.
//!
//! The way through: [`parse`] makes a [`Script`] of a text, [`print`](print()) writes it back, [`resolve`] makes a
//! [`Program`] of it, and [`lay_out`] says which files a program wants. [`Population`] has the rules by which a flowop
//! picks a file.

pub mod ast;
mod catalogue;
mod dialect;
mod distribution;
mod finding;
mod layout;
mod lexer;
mod parser;
mod population;
mod print;
mod program;
mod random;
mod resolve;
mod variables;

pub use ast::Script;
pub use dialect::Dialect;
pub use distribution::{Distribution, Number, Shape, Stream};
pub use finding::{Finding, Severity, Span, render};
pub use layout::{Directory, File, LayoutError, NO_PARENT, Streams, Tree, lay_out, write_name};
pub use parser::parse;
pub use population::{Pick, Population};
pub use print::print;
pub use program::{Action, Class, EndMode, Fileset, Flowop, Process, Program, Thread, Type};
pub use random::{Rand, Rand48, Uniform, gamma};
pub use resolve::{Options, Resolved, resolve};
