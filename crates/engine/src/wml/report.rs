//! What a run came to, as data and as a table.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The result of a run. A missing figure is null, never 0.
#[derive(Debug, Serialize)]
pub struct Report {
    pub version: u32,
    pub file: String,
    pub directory: String,
    pub dialect: &'static str,
    /// Seconds that were asked for; null: until done.
    pub seconds: Option<u64>,
    pub mode: &'static str,
    pub seed: Option<u32>,
    /// Null: the layout of filebench.
    pub layout_seed: Option<u32>,
    pub set: BTreeMap<String, String>,
    pub data: String,
    /// The quirks of filebench that were switched off.
    pub fixes: Vec<&'static str>,
    /// Where every run differs from filebench.
    pub differences: &'static [&'static str],
    pub threads: u64,
    pub filesets: Vec<FilesetReport>,
    /// Laying out and creating the files, and starting the threads; not in the window.
    pub setup_s: f64,
    pub start_s: f64,
    /// The time in which operations counted.
    pub window_s: f64,
    pub ended: Ended,
    pub summary: Summary,
    pub flowops: Vec<FlowopReport>,
    pub cpu: Cpu,
    pub peak_memory_bytes: Option<u64>,
    pub warnings: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Serialize)]
pub struct Ended {
    /// Not as the program asked: the figures are of a part of a run.
    pub early: bool,
    pub why: String,
    pub flowop: Option<String>,
    pub errno: Option<i32>,
}

/// What was created beforehand, where nothing was run.
#[derive(Debug, Serialize)]
pub struct Created {
    pub filesets: Vec<FilesetReport>,
    pub setup_s: f64,
}

#[derive(Debug, Serialize)]
pub struct FilesetReport {
    pub name: String,
    pub files: u64,
    pub directories: u64,
    pub leaf_directories: u64,
    /// Of all files that can exist.
    pub bytes: u64,
    /// Written beforehand.
    pub written_bytes: u64,
    pub at_start: u32,
    pub at_end: u32,
    /// How many more files there are at the end.
    pub drift: i64,
}

/// All flowops of input and output together, each operation with weight 1, as filebench sums them.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub count: u64,
    pub per_s: f64,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub bytes_per_s: f64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub mean_ms: Option<f64>,
    pub latency_ms: Latency,
    pub errors: u64,
    pub skipped_deletes: u64,
    /// Per second of the window.
    pub count_series: Vec<u64>,
    pub bytes_series: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub struct FlowopReport {
    pub name: String,
    pub r#type: &'static str,
    /// io, aio, sync or other; only the first two are in the summary.
    pub class: &'static str,
    pub count: u64,
    pub per_s: f64,
    pub bytes: u64,
    pub bytes_per_s: f64,
    pub errors: u64,
    pub skipped: u64,
    pub latency_ms: Latency,
    pub cpu_us_per_op: Option<f64>,
    pub value_mean: Option<f64>,
    pub value_deviation: Option<f64>,
    /// Per second of the window.
    pub series: Series,
}

#[derive(Debug, Default, Serialize)]
pub struct Series {
    pub count: Vec<u64>,
    pub bytes: Vec<u64>,
    pub mean_ms: Vec<Option<f64>>,
}

/// Percentiles are right to 1 %.
#[derive(Debug, Default, Serialize)]
pub struct Latency {
    pub mean: Option<f64>,
    pub min: Option<f64>,
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    pub max: Option<f64>,
}

/// Of this process within the window.
#[derive(Debug, Default, Serialize)]
pub struct Cpu {
    pub user_s: Option<f64>,
    pub system_s: Option<f64>,
    /// Of both, for each operation of the summary.
    pub us_per_op: Option<f64>,
}

impl Latency {
    pub fn new(histogram: &Histogram<u64>, mean_ns: Option<f64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let ms = |ns: u64| Some(ns as f64 / 1e6);
        let at = |quantile: f64| ms(histogram.value_at_quantile(quantile));
        Self {
            mean: mean_ns.map(|ns| ns / 1e6),
            min: ms(histogram.min()),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: ms(histogram.max()),
        }
    }
}

/// The table that a person reads.
pub fn table(report: &Report) -> String {
    let quirks = match report.fixes.as_slice() {
        [] => "every quirk of filebench kept".to_owned(),
        fixes => format!("without filebench's {}", fixes.join(", ")),
    };
    let mut lines = vec![format!("{}: dialect {}, data {}, {quirks}", report.file, report.dialect, report.data)];
    for set in &report.filesets {
        lines.push(format!(
            "fileset {}: {} files in {} directories, {:.3} MiB; {} at the start, {} at the end (drift {:+})",
            set.name,
            set.files,
            set.directories,
            set.bytes as f64 / 1_048_576.0,
            set.at_start,
            set.at_end,
            set.drift
        ));
    }
    lines.push(format!(
        "{:<24} {:>10} {:>11} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "flowop", "count", "per s", "MiB/s", "mean ms", "p50", "p95", "p99", "p99.9", "max"
    ));
    let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    for flowop in &report.flowops {
        let latency = &flowop.latency_ms;
        lines.push(format!(
            "{:<24} {:>10} {:>11.1} {:>10.2} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            flowop.name,
            flowop.count,
            flowop.per_s,
            flowop.bytes_per_s / 1_048_576.0,
            ms(latency.mean),
            ms(latency.p50),
            ms(latency.p95),
            ms(latency.p99),
            ms(latency.p99_9),
            ms(latency.max)
        ));
    }
    let summary = &report.summary;
    lines.push(format!(
        "IO: {} operations in {:.3} s, {:.1} per s ({:.1} reads, {:.1} writes), {:.2} MiB/s, {} ms per operation, {} us CPU per \
         operation",
        summary.count,
        report.window_s,
        summary.per_s,
        summary.reads_per_s,
        summary.writes_per_s,
        summary.bytes_per_s / 1_048_576.0,
        ms(summary.mean_ms),
        ms(report.cpu.us_per_op)
    ));
    for flowop in report.flowops.iter().filter(|flowop| flowop.errors > 0) {
        lines.push(format!("{} errors of {}", flowop.errors, flowop.name));
    }
    if summary.skipped_deletes > 0 {
        lines.push(format!("{} deletes skipped a file that was open elsewhere", summary.skipped_deletes));
    }
    lines.push(format!("{}: {}", if report.ended.early { "ENDED EARLY" } else { "ended" }, report.ended.why));
    lines.join("\n")
}
