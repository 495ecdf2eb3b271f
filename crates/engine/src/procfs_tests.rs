use super::*;
use proptest::prelude::*;

// Captured from Linux 6.18, 4.19 and 3.10.
const STAT_17: &str = "    1021        5    77234      310     2048       64   131072      917        3     1200     1500       12        0     4096        7       33      201\n";
const STAT_15: &str = "   13527     1304   840282    10313    18405    17225  1057024    29741        0    20476    40055        4        0    16384        1\n";
const STAT_11: &str =
    "   13527     1304   840282    10313    18405    17225  1057024    29741        0    20476    40055\n";
const PROC_STAT: &str = "\
cpu  1024 7 512 99012 33 0 11 5 0 0
cpu0 512 3 256 49506 16 0 5 2 0 0
cpu1 512 4 256 49506 17 0 6 3 0 0
intr 1234 0 9
ctxt 55555
cpufreq 1
btime 1700000000
";
const MEMINFO: &str = "\
MemTotal:       24690564 kB
MemFree:        23017416 kB
MemAvailable:   24211380 kB
Buffers:           66080 kB
Cached:          1331528 kB
SwapCached:            0 kB
Dirty:               128 kB
Writeback:             0 kB
WritebackTmp:          4 kB
HugePages_Total:       0
";
const PRESSURE: &str = "\
some avg10=0.12 avg60=0.03 avg300=0.00 total=4831
full avg10=0.00 avg60=0.00 avg300=0.00 total=977
";

#[test]
fn the_columns_of_a_device_are_told_apart() {
    let counters = parse_block_stat(STAT_17).expect("17 columns");
    assert_eq!(
        counters,
        DeviceCounters {
            reads: 1021,
            read_bytes: 77234 * 512,
            read_ms: 310,
            writes: 2048,
            write_bytes: 131072 * 512,
            write_ms: 917,
            discards: Some(12),
            discard_bytes: Some(4096 * 512),
            flushes: Some(33),
            in_flight: 3,
            busy_ms: 1200,
        }
    );
}

#[test]
fn what_an_old_kernel_does_not_count_is_missing() {
    let with_discards = parse_block_stat(STAT_15).expect("15 columns");
    assert_eq!(
        (with_discards.discards, with_discards.discard_bytes, with_discards.flushes),
        (Some(4), Some(16384 * 512), None)
    );
    let oldest = parse_block_stat(STAT_11).expect("11 columns");
    assert_eq!((oldest.reads, oldest.busy_ms), (13527, 20476));
    assert_eq!((oldest.discards, oldest.discard_bytes, oldest.flushes), (None, None, None));
}

#[test]
fn a_device_line_cut_short_is_missing() {
    for wrong in ["", "\n", "1 2 3 4", "1 2 3 4 5 6 7 8 9 10", "a b c d e f g h i j k", "-1 2 3 4 5 6 7 8 9 10 11"] {
        assert_eq!(parse_block_stat(wrong), None, "{wrong}");
    }
}

#[test]
fn cpu_time_is_in_seconds() {
    let times = parse_cpu_times(PROC_STAT, 100.0).expect("a cpu line");
    assert_eq!((times.user, times.nice, times.system, times.idle), (10.24, 0.07, 5.12, 990.12));
    assert_eq!((times.iowait, times.irq, times.softirq, times.steal), (Some(0.33), Some(0.0), Some(0.11), Some(0.05)));
}

#[test]
fn cpu_modes_that_are_not_there_are_missing() {
    let times = parse_cpu_times("cpu  1 2 3 4\n", 100.0).expect("a cpu line");
    assert_eq!((times.iowait, times.irq, times.softirq, times.steal), (None, None, None, None));
    assert_eq!(parse_cpu_times("cpu  1 2 3\n", 100.0), None);
    assert_eq!(parse_cpu_times("cpu0 1 2 3 4\n", 100.0), None);
    assert_eq!(parse_cpu_times("cpu  1 2 x 4\n", 100.0), None);
}

#[test]
fn cpus_are_the_numbered_lines() {
    assert_eq!(count_cpus(PROC_STAT), Some(2));
    assert_eq!(count_cpus("cpu  1 2 3 4\n"), None);
}

#[test]
fn memory_is_in_bytes() {
    assert_eq!(
        parse_meminfo(MEMINFO),
        Some(Memory {
            free_bytes: Some(23017416 * 1024),
            available_bytes: Some(24211380 * 1024),
            cached_bytes: Some(1331528 * 1024),
            dirty_bytes: Some(128 * 1024),
            writeback_bytes: Some(0),
        })
    );
}

#[test]
fn memory_that_is_not_told_is_missing() {
    // MemAvailable came with Linux 3.14; the last line lost its end.
    let memory = parse_meminfo("MemFree: 10 kB\nDirty: 3 kB\nCached:   1331\nWriteback: 1x kB").expect("figures");
    assert_eq!((memory.free_bytes, memory.dirty_bytes), (Some(10240), Some(3072)));
    assert_eq!((memory.available_bytes, memory.cached_bytes, memory.writeback_bytes), (None, None, None));
    assert_eq!(parse_meminfo(""), None);
}

#[test]
fn pressure_is_the_total() {
    assert_eq!(parse_pressure(PRESSURE), Pressure { some_us: Some(4831), full_us: Some(977) });
    // The CPU had no "full" line before Linux 5.13.
    let some_only = PRESSURE.lines().next().expect("a line");
    assert_eq!(parse_pressure(some_only), Pressure { some_us: Some(4831), full_us: None });
    assert_eq!(parse_pressure("some avg10=0.12 avg60"), Pressure::default());
}

#[test]
fn a_process_may_be_named_like_a_stat_line() {
    let stat = parse_process_stat("77 (a) S 1 (b)) R 4242 77 77 0 -1 4194560").expect("a process");
    assert_eq!(stat, ProcessStat { state: 'R', parent: 4242 });
    assert_eq!(parse_process_stat("77 (cut"), None);
    assert_eq!(parse_process_stat("77 (cut) R"), None);
}

#[test]
fn the_processor_time_of_a_process_is_user_and_system() {
    // The name may hold what ends it; then state, parent, and eleven columns on, 250 and 50 ticks.
    let text = "77 (a) S 1 (b)) R 1 77 77 0 -1 4194560 5 6 7 8 250 50 9 9 20 0 1 0";
    assert_eq!(parse_process_ticks(text), Some(300));
    assert_eq!(parse_process_ticks("77 (a) R 1 77 77 0 -1 4194560 5 6 7 8 250"), None);
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "(?s).{0,400}") {
        let _ = (parse_block_stat(&text), parse_cpu_times(&text, 100.0), count_cpus(&text));
        let _ = (parse_meminfo(&text), parse_pressure(&text), parse_process_stat(&text), parse_process_ticks(&text));
    }

    #[test]
    fn no_number_makes_a_reader_panic(numbers in prop::collection::vec(any::<u64>(), 0..20)) {
        let row = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(parse_block_stat(&row).is_some(), numbers.len() >= 11);
        prop_assert_eq!(parse_cpu_times(&format!("cpu  {row}"), 100.0).is_some(), numbers.len() >= 4);
        let _ = parse_meminfo(&format!("MemFree: {row} kB"));
    }

    #[test]
    fn text_cut_anywhere_never_gives_a_wrong_figure(cut in 0..MEMINFO.len()) {
        let whole = parse_meminfo(MEMINFO).expect("figures");
        if let Some(memory) = parse_meminfo(&MEMINFO[..cut]) {
            prop_assert!(memory.free_bytes.is_none() || memory.free_bytes == whole.free_bytes);
            prop_assert!(memory.cached_bytes.is_none() || memory.cached_bytes == whole.cached_bytes);
            prop_assert!(memory.dirty_bytes.is_none() || memory.dirty_bytes == whole.dirty_bytes);
        }
    }
}
