//! Any bytes: reading, saying what is wrong, checking and laying out neither panic nor hang, and printing is undone by
//! reading.

#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_wml::{Options, Streams, lay_out, parse, print, render, resolve};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (script, findings) = parse(&text);
    let _ = render("fuzzed", &text, &findings);
    if findings.is_empty() {
        assert_eq!(parse(&print(&script)).0, script);
    }
    let options = Options { seconds: Some(1), ..Options::default() };
    let resolved = resolve(&script, findings, &options);
    for fileset in resolved.program.iter().flat_map(|program| &program.filesets) {
        if fileset.entries.saturating_add(fileset.leafdirs) < 10_000 {
            let _ = lay_out(fileset, &mut Streams::new(None));
        }
    }
});
