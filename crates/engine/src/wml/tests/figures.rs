//! Figures of known counters: what goes in is known, so what comes out is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use strata_wml::Options;

use super::super::check_text;
use super::super::report::Latency;
use super::super::tally::{Names, summary};
use super::super::worker::{Plan, Script, Semblocks, Watch};
use super::{around, temporary};

/// Two threads of a read, a write and a testrandvar.
fn watches() -> Vec<Arc<Watch>> {
    let directory = temporary();
    let flowops = "flowop read name=r,filesetname=set,iosize=1k\nflowop write name=w,filesetname=set,iosize=1k\n\
                   flowop testrandvar name=v,value=5\nflowop hog name=h,value=1";
    let text = around(directory.path(), "", flowops);
    let program = check_text("test", &text, &Options::default()).expect("is right").program;
    let script = Arc::new(Script::new(&program.processes[0].threads[0].flowops));
    let plan = |number| {
        let names = ("p".to_owned(), "t".to_owned());
        Plan::new(names, 0, 0, 0, &script, number, &mut Semblocks::new()).watch
    };
    vec![plan(0), plan(1)]
}

fn is(given: Option<f64>, wanted: f64) -> bool {
    // As exactly as the histograms distinguish latencies.
    given.is_some_and(|given| (given / wanted - 1.0).abs() < 0.01)
}

#[test]
fn percentiles_are_those_of_the_latencies_that_were_told() {
    let watches = watches();
    // 1 to 1000 us.
    watches[0].script.tell((1..=1000).map(|us| (0, us * 1000)));
    let histogram = watches[0].script.take_histograms()[0].take().expect("was told");
    let latency = Latency::new(&histogram, Some(500_500.0));
    for (given, wanted) in [
        (latency.min, 0.001),
        (latency.p50, 0.5),
        (latency.p95, 0.95),
        (latency.p99, 0.99),
        (latency.p99_9, 0.999),
        (latency.max, 1.0),
        (latency.mean, 0.5005),
    ] {
        assert!(is(given, wanted), "{given:?} for {wanted} ms");
    }
}

#[test]
fn counters_of_threads_become_rates_means_and_deviations() {
    let watches = watches();
    for (watch, [count, bytes, latency_ns, cpu_ns]) in
        watches.iter().zip([[3, 3000, 6_000_000, 9000], [1, 1000, 6_000_000, 3000]])
    {
        let counters = &watch.counters[0];
        counters.count.store(count, Ordering::Relaxed);
        counters.bytes.store(bytes, Ordering::Relaxed);
        counters.latency_ns.store(latency_ns, Ordering::Relaxed);
        counters.cpu_ns.store(cpu_ns, Ordering::Relaxed);
        watch.script.tell(std::iter::repeat_n((0, latency_ns / count), count as usize));
    }
    watches[0].counters[1].count.store(6, Ordering::Relaxed);
    watches[0].counters[1].bytes.store(600, Ordering::Relaxed);
    watches[0].counters[1].latency_ns.store(8_000_000, Ordering::Relaxed);
    watches[0].script.tell(std::iter::repeat_n((1, 8_000_000 / 6), 6));
    watches[1].counters[3].count.store(50, Ordering::Relaxed);
    // Numbers 3 and 7 of one thread, 5 of the other.
    let drawn = |count, sum, squares| Some(vec![(0, 0.0, 0.0), (0, 0.0, 0.0), (count, sum, squares), (0, 0.0, 0.0)]);
    let names = Names::new(&watches);
    let totals = names.totals();
    let (reports, all) = names.reports(&totals, &[drawn(2, 10.0, 58.0), drawn(1, 5.0, 25.0)], &[], 2.0, true);
    let [read, write, value, hog] = reports.as_slice() else { panic!("four flowops") };
    assert_eq!((read.count, read.bytes, hog.count), (4, 4000, 50));
    assert!(is(Some(read.per_s), 2.0) && is(Some(read.bytes_per_s), 2000.0));
    // 12 ms of four operations: 3 ms each, though most took 2.
    assert!(is(read.latency_ms.mean, 3.0) && is(read.latency_ms.p50, 2.0) && is(read.latency_ms.max, 6.0));
    assert!(is(read.cpu_us_per_op, 3.0));
    assert!(is(value.value_mean, 5.0) && is(value.value_deviation, (8.0f64 / 3.0).sqrt()));
    let summary = summary(&reports, all, 2.0);
    // Without the hog, which moves nothing.
    assert_eq!((summary.count, summary.read_bytes, summary.written_bytes), (10, 4000, 600));
    assert!(is(Some(summary.reads_per_s), 2.0) && is(Some(summary.writes_per_s), 3.0));
    // 20 ms of ten.
    assert!(is(summary.mean_ms, 2.0) && is(write.latency_ms.mean, 8.0 / 6.0));
}
