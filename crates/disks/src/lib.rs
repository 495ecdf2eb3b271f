//! Models of disks: when each request completes, and what survives a power cut.
//!
//! Everything here is a state machine that is told the time: no clock, no thread, no input or output. The same requests at
//! the same moments with the same seed give the same answers on every computer (only operations that IEEE 754 fixes to the
//! last bit are used on floating-point numbers).

mod agenda;
mod bounds;
mod builtin;
mod claims;
mod crash;
mod device;
pub mod fixed;
pub mod hdd;
mod load;
mod parameters;
mod random;
mod request;
pub mod ssd;

pub use bounds::{Bound, bounds};
pub use builtin::builtin;
pub use claims::{Claims, claims};
pub use crash::{Bytes, Change, Choice, CrashState, Survivor};
pub use device::Device;
pub use load::{Figures, Kind, Load, run};
pub use parameters::{Errors, Faults, Fixed, Hdd, Model, On, Service, Ssd, Stalls, Stroke, WriteCache};
pub use random::Random;
pub use request::{Event, Nanos, Op, Request, Serve, What};
