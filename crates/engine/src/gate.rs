//! The gate of a load that begins at the same instant as others: it says that it is ready, and waits to be told when.
//!
//! python/strata/gate.py has the rules; a shell passes the same gate by its functions.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const VARIABLE: &str = "STRATA_GATE";
const PAUSE: Duration = Duration::from_millis(10);

pub struct Gate(PathBuf);

impl Gate {
    /// The one that this program was given; `None` for a load that begins when it likes.
    pub fn given() -> Option<Self> {
        std::env::var_os(VARIABLE).map(|directory| Self(PathBuf::from(directory)))
    }

    /// Returns at the instant that all are told.
    ///
    /// # Errors
    /// A sentence, when there is no such directory, or the others gave up.
    pub fn pass(&self) -> Result<(), String> {
        let write = fs::write(self.0.join("ready"), "");
        write.map_err(|error| format!("{VARIABLE} names no directory to write to ({error}); unset it."))?;
        let told = self.0.join("go");
        while !told.exists() {
            sleep(PAUSE);
        }
        let told =
            fs::read_to_string(told).map_err(|error| format!("the gate does not say when to begin: {error}."))?;
        let at_ms: u64 = told.trim().parse().map_err(|_| "another load failed before this one began.".to_owned())?;
        sleep(Duration::from_millis(at_ms.saturating_sub(now_ms())));
        self.note("began")
    }

    /// Notes when the load had ended.
    ///
    /// # Errors
    /// What the system says.
    pub fn passed(&self) -> Result<(), String> {
        self.note("ended")
    }

    fn note(&self, what: &str) -> Result<(), String> {
        let write = fs::write(self.0.join(what), now_ms().to_string());
        write.map_err(|error| format!("that the load {what} cannot be noted: {error}."))
    }
}

/// Unix time.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(name: &str) -> Gate {
        let directory = std::env::temp_dir().join(format!("strata-gate-{}-{name}", std::process::id()));
        fs::create_dir(&directory).expect("a directory");
        Gate(directory)
    }

    #[test]
    fn it_is_passed_at_the_instant_told_and_its_end_is_noted() {
        let gate = gate("told");
        let at_ms = now_ms() + 150;
        fs::write(gate.0.join("go"), format!("{at_ms}\n")).expect("it is told");
        gate.pass().expect("it is passed");
        let began: u64 = fs::read_to_string(gate.0.join("began")).expect("the note").parse().expect("a number");
        assert!(began >= at_ms);
        assert!(gate.0.join("ready").exists());
        gate.passed().expect("it is noted");
        let ended: u64 = fs::read_to_string(gate.0.join("ended")).expect("the note").parse().expect("a number");
        assert!(ended >= began);
        fs::remove_dir_all(gate.0).expect("it is removed");
    }

    #[test]
    fn who_gives_up_ends_the_wait_with_a_reason() {
        let gate = gate("never");
        fs::write(gate.0.join("go"), "never\n").expect("it is told");
        assert!(gate.pass().expect_err("others gave up").contains("another load failed"));
        fs::remove_dir_all(gate.0).expect("it is removed");
    }

    #[test]
    fn a_gate_that_is_not_there_is_refused() {
        assert!(Gate(PathBuf::from("/no/such/gate")).pass().expect_err("nothing there").contains("names no directory"));
    }
}
