"""The metrics that every trial records of its machines, in addition to those of its workload. Pure.

`run/trials` fills them: machine_samples.py and caches.py, together.py those of tenants.
"""

from __future__ import annotations

from dataclasses import replace

from strata.model import Merge, Metric

# What is printed of memory alone says nothing of a trial: these stand beside its figures.
START_METRICS = (
    Metric("host.start_dirty_bytes", "bytes", "neither", "data waiting to be written when the clock started"),
    Metric("host.start_page_cache_bytes", "bytes", "neither", "page cache, tmpfs left out, when the clock started"),
    Metric("host.start_arc_bytes", "bytes", "neither", "data in the ARC of ZFS when the clock started"),
)
ARC_SERVED = Metric(
    "host.arc_served_pct",
    "%",
    "neither",
    "share of the reads of blocks of files that the ARC of ZFS answered without a disk",
)

FLUSH = Metric(
    "host.flush_s",
    "s",
    "lower",
    "time to empty page cache and disks' write caches before the clock of the trial started, all its machines together",
)

HOST_METRICS = (
    Metric("host.cpu_busy_pct", "%", "lower", "processor time in use, all processors, of the whole machine"),
    Metric("host.cpu_user_s", "s", "neither", "processor time in user mode, of the whole machine"),
    Metric("host.cpu_system_s", "s", "neither", "processor time in the kernel, interrupts included"),
    Metric("host.cpu_iowait_pct", "%", "lower", "idle processor time with I/O outstanding"),
    # Neither: a stack that makes more I/O of the same work divides by more.
    Metric("host.cpu_per_io_us", "us", "neither", "busy processor time per I/O that reached the disks"),
    Metric("host.cpu_per_gib_s", "s/GiB", "lower", "busy processor time per GiB the application moved"),
    Metric("host.dirty_max_bytes", "bytes", "neither", "most data waiting in memory to be written"),
    FLUSH,
    *START_METRICS,
    ARC_SERVED,
    Metric("psi.cpu_some_pct", "%", "lower", "share of the time in which something waited for a processor"),
    Metric("psi.io_some_pct", "%", "lower", "share of the time in which something waited for I/O"),
    Metric("psi.io_full_pct", "%", "lower", "share of the time in which everything waited for I/O"),
    Metric("psi.memory_some_pct", "%", "lower", "share of the time in which something waited for memory"),
    Metric("disk.write_amplification", "ratio", "lower", "bytes written to the disks per byte the application wrote"),
    Metric("disk.read_ratio", "ratio", "neither", "bytes read from the disks per byte the application read"),
)

# Of a trial inside a guest, where the figures of `host` are those of the machine that carries the guest.
GUEST_METRICS = (
    Metric("guest.cpu_busy_pct", "%", "lower", "processor time in use, all processors, of the guest", merge="mean"),
    Metric("guest.cpu_user_s", "s", "neither", "processor time in user mode, of the guest", merge="sum"),
    Metric(
        "guest.cpu_system_s", "s", "neither", "processor time in the guest's kernel, interrupts included", merge="sum"
    ),
    Metric(
        "guest.cpu_iowait_pct", "%", "lower", "idle processor time with I/O outstanding, of the guest", merge="mean"
    ),
    *(replace(metric, name=metric.name.replace("host.", "guest.", 1)) for metric in (*START_METRICS, ARC_SERVED)),
    Metric(
        "guest.qemu_cpu_s", "s", "neither", "processor time of the QEMU process, the guest's own included", merge="sum"
    ),
)

# Totals are better neither way: in a trial of a fixed time the stack that does more work has more of them.
_DEVICE_METRICS: tuple[tuple[str, str, str, Merge], ...] = (
    ("reads", "count", "read requests, sum of the devices of the layer", "sum"),
    ("writes", "count", "write requests, sum of the devices of the layer", "sum"),
    ("read_bytes", "bytes", "bytes read, sum of the devices of the layer", "sum"),
    ("write_bytes", "bytes", "bytes written, sum of the devices of the layer", "sum"),
    ("flushes", "count", "flush requests, sum of the devices of the layer", "sum"),
    ("busy_pct", "%", "share of the time with a request in flight, mean of the devices of the layer", "mean"),
    ("in_flight_mean", "count", "requests in flight, mean of the samples, sum of the devices of the layer", "sum"),
)

OVERLAP = Metric(
    "tenants.overlap_pct", "%", "higher", "share of the shortest tenant's load in which all were under way"
)
APART = Metric("tenants.apart_pct", "%", "lower", "share of the longest tenant's load in which not all were under way")


# Below this an application's traffic is too small to say where it was served from.
TELLING_BYTES = 1 << 20

OWN_QEMU = "qemu"
"""The name in the samples of the QEMU whose guest nothing else of ours is in."""


def device_metrics(layer: str) -> tuple[Metric, ...]:
    """What is recorded of the block devices of one kind of layer."""
    return tuple(
        Metric(f"{layer}.{name}", unit, "neither", f"{about} {layer}", merge)
        for name, unit, about, merge in _DEVICE_METRICS
    )


def merge_of(name: str) -> Merge:
    """How a figure of the tenants' guests and devices becomes one of all."""
    known: dict[str, Merge] = {metric.name: metric.merge for metric in GUEST_METRICS}
    devices: dict[str, Merge] = {counter: merge for counter, *_, merge in _DEVICE_METRICS}
    return known.get(name) or devices.get(name.rpartition(".")[2]) or "none"
