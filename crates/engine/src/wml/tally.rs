//! Counters of all threads, put together by flowop: while a run goes on, and in its report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use strata_wml::{Class, Type};

use super::report::{FlowopReport, Latency, Series, Summary};
use super::worker::{Drawn, Watch};

/// The counters of all threads, summed by the name of the flowop.
pub type Totals = Vec<[u64; 6]>;

/// The flowops of all threads, put together by name, in the order in which they are written.
pub struct Names {
    watches: Vec<Arc<Watch>>,
    names: Vec<(String, Type)>,
    /// By thread, then by the number of its flowop: the place in `names`.
    places: Vec<Vec<usize>>,
}

impl Names {
    pub fn new(watches: &[Arc<Watch>]) -> Self {
        let mut names: Vec<(String, Type)> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let places = watches
            .iter()
            .map(|watch| {
                let place = |(name, of): &(String, Type)| {
                    *known.entry(name.clone()).or_insert_with(|| {
                        names.push((name.clone(), *of));
                        names.len() - 1
                    })
                };
                watch.script.flowops.iter().map(place).collect()
            })
            .collect();
        Self { watches: watches.to_vec(), names, places }
    }

    pub fn totals(&self) -> Totals {
        let mut totals = vec![[0; 6]; self.names.len()];
        for (watch, places) in self.watches.iter().zip(&self.places) {
            for (counters, &place) in watch.counters.iter().zip(places) {
                let each = [
                    &counters.count,
                    &counters.bytes,
                    &counters.latency_ns,
                    &counters.skipped,
                    &counters.errors,
                    &counters.cpu_ns,
                ];
                for (total, counter) in totals[place].iter_mut().zip(each) {
                    *total += counter.load(Ordering::Relaxed);
                }
            }
        }
        totals
    }

    /// A number that changes whenever something went on.
    pub fn passes(&self) -> u64 {
        self.totals().iter().map(|[count, _, _, skipped, errors, _]| count + skipped + errors).sum()
    }

    /// Whether a thread is in a `delay`.
    pub fn someone_sleeps(&self) -> bool {
        self.watches.iter().any(|watch| {
            let at = watch.current.load(Ordering::Relaxed) as usize;
            watch.script.flowops.get(at).is_some_and(|(_, of)| *of == Type::Delay)
        })
    }

    /// Where the threads are, as many as are worth reading.
    pub fn places(&self) -> Vec<String> {
        self.watches.iter().take(8).map(|watch| whereabouts(watch)).collect()
    }

    pub fn reports(
        &self,
        totals: &Totals,
        drawn_by_threads: &[Option<Drawn>],
        series: &[Totals],
        window_s: f64,
        with_cpu: bool,
    ) -> (Vec<FlowopReport>, Option<Histogram<u64>>) {
        let mut histograms: Vec<Option<Histogram<u64>>> = self.names.iter().map(|_| Histogram::new(2).ok()).collect();
        let mut drawn = vec![(0u64, 0.0, 0.0); self.names.len()];
        for (watch, places) in self.watches.iter().zip(&self.places) {
            for (histogram, &place) in watch.script.take_histograms().iter().zip(places) {
                if let (Some(sum), Some(histogram)) = (&mut histograms[place], histogram) {
                    for bucket in histogram.iter_recorded() {
                        let _ = sum.record_n(bucket.value_iterated_to(), bucket.count_at_value());
                    }
                }
            }
        }
        for (numbers, places) in drawn_by_threads.iter().zip(&self.places) {
            for (numbers, &place) in numbers.iter().flatten().zip(places) {
                let sum = &mut drawn[place];
                *sum = (sum.0 + numbers.0, sum.1 + numbers.1, sum.2 + numbers.2);
            }
        }
        let report = |place: usize| {
            let (name, of) = &self.names[place];
            let [count, bytes, latency_ns, skipped, errors, cpu_ns] = totals[place];
            let per_s = |number: u64| if window_s > 0.0 { number as f64 / window_s } else { 0.0 };
            let each = |sum: f64| (count > 0).then(|| sum / count as f64);
            let (numbers, sum, squares) = drawn[place];
            let mean = (numbers > 0).then(|| sum / numbers as f64);
            FlowopReport {
                name: name.clone(),
                r#type: of.name(),
                class: match of.class() {
                    Class::Io => "io",
                    Class::Aio => "aio",
                    Class::Sync => "sync",
                    Class::Other => "other",
                },
                count,
                per_s: per_s(count),
                bytes,
                bytes_per_s: per_s(bytes),
                errors,
                skipped,
                latency_ms: histograms[place]
                    .as_ref()
                    .map(|histogram| Latency::new(histogram, each(latency_ns as f64)))
                    .unwrap_or_default(),
                cpu_us_per_op: each(cpu_ns as f64 / 1e3).filter(|_| with_cpu),
                value_mean: mean,
                value_deviation: mean.map(|mean| (squares / numbers as f64 - mean * mean).max(0.0).sqrt()),
                series: one_series(series, place),
            }
        };
        let reports = (0..self.names.len()).map(report).collect();
        let mut all = Histogram::new(2).ok();
        for (histogram, (_, of)) in histograms.iter().zip(&self.names) {
            if let (Some(all), Some(histogram), Class::Io | Class::Aio) = (&mut all, histogram, of.class()) {
                // It grows as it needs to.
                let _ = all.add(histogram);
            }
        }
        (reports, all)
    }
}

fn one_series(totals: &[Totals], place: usize) -> Series {
    let mut series = Series::default();
    for pair in totals.windows(2) {
        let [count, bytes, latency, ..] =
            std::array::from_fn::<u64, 6, _>(|at| pair[1][place][at] - pair[0][place][at]);
        series.count.push(count);
        series.bytes.push(bytes);
        series.mean_ms.push((count > 0).then(|| latency as f64 / count as f64 / 1e6));
    }
    series
}

pub fn whereabouts(watch: &Watch) -> String {
    let at = watch.current.load(Ordering::Relaxed) as usize;
    let flowop = watch.script.flowops.get(at).map_or("its start", |(name, _)| name.as_str());
    format!("{}/{} in {flowop}", watch.process, watch.thread)
}

pub fn summary(flowops: &[FlowopReport], histogram: Option<Histogram<u64>>, window_s: f64) -> Summary {
    let counted = |flowop: &&FlowopReport| flowop.class == "io" || flowop.class == "aio";
    let sum = |number: fn(&FlowopReport) -> u64| flowops.iter().filter(counted).map(number).sum::<u64>();
    let is = |flowop: &FlowopReport, fits: fn(Type) -> bool| {
        Type::ALL.iter().any(|known| known.name() == flowop.r#type && fits(*known))
    };
    let of = |fits| flowops.iter().filter(|flowop| is(flowop, fits)).map(|flowop| flowop.count).sum();
    let bytes_of = |fits| flowops.iter().filter(|flowop| is(flowop, fits)).map(|flowop| flowop.bytes).sum();
    let per_s = |number: u64| if window_s > 0.0 { number as f64 / window_s } else { 0.0 };
    let count = sum(|flowop| flowop.count);
    let latency_ms: f64 = flowops
        .iter()
        .filter(counted)
        .filter_map(|flowop| flowop.latency_ms.mean.map(|mean| mean * flowop.count as f64))
        .sum();
    let seconds = flowops.iter().map(|flowop| flowop.series.count.len()).max().unwrap_or(0);
    Summary {
        count,
        per_s: per_s(count),
        reads_per_s: per_s(of(Type::reads)),
        writes_per_s: per_s(of(Type::writes)),
        bytes_per_s: per_s(sum(|flowop| flowop.bytes)),
        read_bytes: bytes_of(Type::reads),
        written_bytes: bytes_of(Type::writes),
        mean_ms: (count > 0).then(|| latency_ms / count as f64),
        latency_ms: histogram
            .map(|all| Latency::new(&all, (count > 0).then(|| latency_ms * 1e6 / count as f64)))
            .unwrap_or_default(),
        errors: flowops.iter().map(|flowop| flowop.errors).sum(),
        skipped_deletes: flowops.iter().map(|flowop| flowop.skipped).sum(),
        count_series: (0..seconds)
            .map(|second| flowops.iter().filter(counted).filter_map(|flowop| flowop.series.count.get(second)).sum())
            .collect(),
        bytes_series: (0..seconds)
            .map(|second| flowops.iter().filter(counted).filter_map(|flowop| flowop.series.bytes.get(second)).sum())
            .collect(),
    }
}
