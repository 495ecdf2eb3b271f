"""strata disk"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from strata.cli import output, page_file
from strata.errors import BadInput, CommandFailed, Refused
from strata.hosts.local import LocalHost
from strata.lab import models, probe
from strata.lab.models import DiskModel
from strata.lab.probe import Device, Seen
from strata.model import Command, WriteCache
from strata.run.signals import Interrupts
from strata.units import format_size, human_size, human_time, parse_size

_MARKER = "disk-probe"
_LEAST = 64 << 20
_CLAIMED = 2 << 30  # the size of the device that a model's claims are of: a larger one needs memory, and says the same

# $1 a path. A partition has no queue of its own, but its disk's; a file shows what carries its file system, if that is
# one device.
_LOOK = """\
path=$(readlink -e -- "$1") || exit 1
node=$path
if [ ! -b "$path" ]; then node=$(findmnt -n -o SOURCE --target "$path"); fi
node=$(readlink -e -- "${node%%\\[*}")
name=$(lsblk -dno PKNAME -- "$node" 2>/dev/null || :)
name=${name:-${node##*/}}
if [ -b "$path" ]; then echo "size=$(blockdev --getsize64 "$path")" || exit 1; fi
queue=/sys/class/block/$name/queue
for key in rotational write_cache nr_requests logical_block_size physical_block_size; do
    [ ! -r "$queue/$key" ] || echo "$key=$(cat "$queue/$key")"
done
deep=/sys/class/block/$name/device/queue_depth
[ ! -r "$deep" ] || echo "queue_depth=$(cat "$deep")\""""


def show_models(as_json: bool) -> None:
    host = LocalHost(_MARKER)
    entries = []
    for name in models.names():
        model = models.find(name)
        if model.kind is not None:
            argv = (host.engine, "disk", "models", "--model=-", *(("--json",) if as_json else ()))
            said = host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(model.document))).stdout
            entries.append((model, said))
    if as_json:
        output.json({"version": 1, "models": [json.loads(said)[0] for _, said in entries]})
        return
    for model, said in entries:
        _, _, claims = said.partition("\n")
        output.out(f"{model.name}: {model.about}")
        output.out(f"  on the virtual clock {models.served_by(model)}; write cache: {model.write_cache}; it claims")
        output.out("".join(f"  {line}\n" for line in claims.splitlines()), end="")
        output.out("".join(f"  source: {source}\n" for source in model.sources))


def run_probe(device: str | None, scratch: str | None, size: str, out: str, seconds: float) -> None:
    """Raises BadInput, Refused (not readable, a file that is there), Interrupted; then a new file is removed."""
    if device is not None and Path(device).is_file():
        raise Refused(
            f"{device} is a file, and a probe reads a block device: name the device, or measure writes too on a new "
            "file with --scratch."
        )
    if (device is None) == (scratch is None):
        raise BadInput("name the device to read, or --scratch FILE, a new file that may be written; one of them.")
    if os.path.lexists(out):
        raise Refused(f"{out} is there already; remove it or name another file with -o.")
    if not os.access(Path(out).parent, os.W_OK | os.X_OK):
        raise Refused(f"{out} cannot be written: {Path(out).parent} is no directory of yours; name another with -o.")
    interrupts = Interrupts()
    host = LocalHost(_MARKER, interrupts)
    with interrupts.listening():
        if device is not None:
            found, seen = _measured(host, _look(host, device), device, seconds)
        else:
            found, seen = _on_a_new_file(host, Path(str(scratch)), size, seconds)
        name = Path(found.path).name
        machine = f"strata disk probe of {name} on {os.uname().nodename}, {time.strftime('%Y-%m-%d', time.gmtime())}"
        text = probe.as_file(name, found, probe.fit(found, seen), [machine])
        model = models.find(out, text)
        # flash is flash on a disk of any size; an arm goes over the disk that was measured
        claims = _claims(host, model, min(found.size_bytes, _CLAIMED) if model.kind == "hdd" else _CLAIMED)
    page_file.create(Path(out), text)
    output.out(f"{'':24} {'measured':>10} {'model alone':>12}")
    for each in probe.compared(seen, claims):
        output.out(f"{each.what:24} {each.measured:10.1f} {each.model:12.1f} {each.unit}")
    output.out(f"{out}: {models.served_by(model)}.")
    output.out("\n".join(models.caveats("that uses it", model, virtual=False)))
    output.out(f"Use it with --disk ROLE={out}.")


def _on_a_new_file(host: LocalHost, path: Path, size: str, seconds: float) -> tuple[Device, dict[str, Seen]]:
    try:
        size_bytes = parse_size(size)
        if size_bytes < _LEAST:
            raise ValueError(f"a probe wants a file of {format_size(_LEAST)} or more, and better one of gigabytes.")
        with path.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
    except FileExistsError as error:
        raise Refused(f"{path} is there already, and a probe writes all over its file; name a new one.") from error
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise Refused(f"{path} of {size} cannot be made ({error.strerror}); name another place or --size.") from error
    except ValueError as error:
        raise BadInput(f"--size {size}: {error}") from error
    try:
        found = replace(_look(host, str(path)), scratch=True, size_bytes=size_bytes)
        _say(f"filling {path}, {format_size(size_bytes)}")
        host.run(probe.fill(found, seconds))
        return _measured(host, found, str(path), seconds)
    finally:
        path.unlink()


def _look(host: LocalHost, path: str) -> Device:
    try:
        said = host.run(Command(("sh", "-c", _LOOK, "sh", path))).stdout
    except CommandFailed as error:
        why = error.stderr.strip() or "there is no such file"
        raise Refused(f"{path} cannot be looked at ({why}); name a block device.") from error
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    if "size" not in found and Path(path).is_file():
        found["size"] = str(Path(path).stat().st_size)
    if not os.access(path, os.R_OK) or not int(found.get("size", 0)):
        raise Refused(f"{path} cannot be read, or is empty; a probe needs the permission to read it, no other.")
    cache: WriteCache = "volatile" if found.get("write_cache", "write back") == "write back" else "none"
    return Device(
        path=path,
        size_bytes=int(found["size"]),
        rotational=found.get("rotational") == "1",
        write_cache=cache,
        queue_depth=min(int(found.get("queue_depth") or found.get("nr_requests") or 32), probe.DEPTHS[-1]),
        logical_block_bytes=int(found.get("logical_block_size", 512)),
        physical_block_bytes=4096 if int(found.get("physical_block_size", 4096)) >= 4096 else 512,
    )


def _measured(host: LocalHost, device: Device, path: str, seconds: float) -> tuple[Device, dict[str, Seen]]:
    seen: dict[str, Seen] = {}
    planned = probe.loads(device)
    kind = "a disk that turns" if device.rotational else "a disk that does not turn"
    _say(f"{path}: {human_size(device.size_bytes)}, {kind}; some {human_time(len(planned) * seconds * 1.3)}")
    for load in planned:
        try:
            seen[load.name] = probe.read(host.run(probe.command(device, load, seconds)).stdout, load)
        except CommandFailed as error:
            said = (error.stderr or error.stdout).strip().splitlines()
            raise Refused(
                f"fio cannot read {path}: {said[-1] if said else error}; see that you may read it."
            ) from error
        except ValueError as error:
            raise Refused(f"{path}: {error}; try a longer --seconds.") from error
        found = seen[load.name]
        _say(f"{load.name:12} {found.per_s:10.0f}/s {found.bytes_per_s / 1e6:9.1f} MB/s {found.mean_us:10.0f} us")
    return device, seen


def _claims(host: LocalHost, model: DiskModel, size_bytes: int) -> dict[str, Any]:
    """What a model says that it does, by itself, on a device of this size."""
    argv = (host.engine, "disk", "models", "--model=-", "--json", f"--size={size_bytes}")
    said = host.run(Command(argv, timeout_s=120.0, stdin=json.dumps(model.document))).stdout
    (entry,) = json.loads(said)
    return dict(entry["claims"])


def _say(line: str) -> None:
    output.err(line)
