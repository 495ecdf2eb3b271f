//! Texts made of the language's own parts, broken in every way: reading, checking and laying out neither panic nor hang.
//!
//! `STRATA_FUZZ_INPUTS=1000000 cargo test --release -p strata-wml --test fuzz` tries a million of them. A fuzzer that is led
//! by coverage needs a nightly compiler; this one needs only the stable one, so that it runs with every other test.

use std::time::{Duration, Instant};

use strata_wml::{Options, Streams, lay_out, parse, print, render, resolve};

/// No text of this size may take longer; on a busy machine it is still far from what any takes.
const LONGEST: Duration = Duration::from_secs(20);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "=",
    ",",
    "$",
    "\"",
    "#",
    "\n",
    " ",
    "-",
    "/",
    ".",
    "*",
    "+",
    "\\",
    "ö",
    "\0",
    "k",
    "9999999999999999999",
    "0",
    "1",
    "16k",
    "8g",
    "$(",
    "${",
    "$ab",
    "true",
    "false",
    "define",
    "process",
    "thread",
    "flowop",
    "fileset",
    "file",
    "run",
    "psrun",
    "set",
    "mode",
    "randvar(",
    "cvar(",
    "randtable={{",
    "}}",
    "name=",
    "iters=",
    "size=",
    "entries=",
    "dirwidth=",
    "type=cvar-gamma",
    "usage",
    "foreach $aa in",
    "eventgen",
    "echo \"",
    "create files",
    "iosize=",
    "fd=",
    "memsize=",
    "instances=",
];

#[test]
fn broken_texts_are_read_without_a_panic_or_a_hang() {
    let inputs = std::env::var("STRATA_FUZZ_INPUTS").ok().and_then(|number| number.parse().ok()).unwrap_or(5_000);
    let forms: Vec<&str> = include_str!("fixtures/forms.txt").split("----\n").collect();
    let mut random = Random(1);
    for number in 0..inputs {
        let mut text: Vec<u8> = forms[random.below(forms.len())].bytes().collect();
        for _ in 0..=random.below(8) {
            let (at, other) = (random.below(text.len() + 1), random.below(text.len() + 1));
            let piece = PIECES[random.below(PIECES.len())].bytes();
            match random.below(5) {
                0 => drop(text.splice(at..at, piece)),
                1 => drop(text.drain(at.min(other)..at.max(other).min(at.min(other) + 40))),
                2 => text.truncate(at.max(1)),
                3 if at < text.len() => text[at] = random.below(256) as u8,
                _ => {
                    let copied: Vec<u8> = text[at.min(other)..at.max(other).min(at.min(other) + 200)].to_vec();
                    drop(text.splice(at..at, copied));
                }
            }
        }
        let text = String::from_utf8_lossy(&text);
        let began = Instant::now();
        let (script, findings) = parse(&text);
        let _ = render("fuzzed", &text, &findings);
        if findings.is_empty() {
            assert_eq!(parse(&print(&script)).0, script, "input {number}: {text}");
        }
        let options = Options { seconds: Some(1), ..Options::default() };
        let resolved = resolve(&script, findings, &options);
        for fileset in resolved.program.iter().flat_map(|program| &program.filesets) {
            if fileset.entries + fileset.leafdirs < 10_000 {
                let _ = lay_out(fileset, &mut Streams::new(None));
            }
        }
        assert!(began.elapsed() < LONGEST, "input {number} took {:?}: {text}", began.elapsed());
    }
}
