"""A quota against root in a container, who makes subvolumes of his own and changes the project of what is his.

Tried twice: by root of a user namespace, whom the machine knows as an ordinary user (what Incus, LXD and rootless
Podman give), and by the machine's own root with the capabilities that Docker leaves a container.
"""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number
from strata.probes._quota import LIMIT_MIB, LIMITED, OVER, TRIED_MIB

_OUTER_ID = 100000  # where /etc/subuid begins to give away: nobody's on the machine itself
# Docker's own, where nothing else is said (moby, profiles and oci/caps/defaults.go).
_CAPABILITIES = (
    "chown", "dac_override", "fsetid", "fowner", "mknod", "net_raw", "setgid", "setuid", "setfcap", "setpcap",
    "net_bind_service", "sys_chroot", "kill", "audit_write",
)  # fmt: skip
_WAYS = {"nested": "through a subvolume of his own", "project": "after he took the project off a directory"}

# In the tenant's part. The ways past a limit are opened before anything is written: once it is full, it is too late.
_INNER = """\
mkdir project || exit 1
chattr -P -p 0 project 2>/dev/null || rmdir project
btrfs subvolume create nested >/dev/null 2>&1
fill() {
  n=0
  while [ "$n" -lt TRIED ] && dd if=/dev/urandom of="$1/$n" bs=1M count=1 iflag=fullblock && sync --file-system "$1"; do
    n=$((n + 1))
  done 2>/dev/null
  echo "$2=$((n * 1048576))"
}
fill . plain
for way in nested project; do if [ -d "$way" ]; then fill "$way" "$way"; fi; done"""

_SCRIPT = (
    SHELL
    + LIMITED
    + """\
dir=$1 inner='INNER'
# $1 what to call it, $2 whom the tenant's part belongs to, the rest: what makes root of a container
against() {
  kind=$1 owner=$2; shift 2
  limited >"$dir/limited"
  if grep -q '^method=none' "$dir/limited"; then cat "$dir/limited"; remove; exit 0; fi
  chown "$owner:$owner" "$dir/tenant" || exit 1
  (cd "$dir/tenant" && exec "$@" sh -c "$inner") >"$dir/found" 2>"$dir/refused" ||
    say "${kind}_said" "$(line <"$dir/refused")"
  sed "s/^/${kind}_/" "$dir/found"
  remove
}
against user OUTER setpriv --reuid OUTER --regid OUTER --clear-groups unshare --user --map-root-user
against docker 0 setpriv --bounding-set -all,CAPABILITIES"""
)
for _name, _value in {
    "INNER": _INNER, "TRIED": str(TRIED_MIB), "OUTER": str(_OUTER_ID),
    "CAPABILITIES": ",".join("+" + name for name in _CAPABILITIES),
}.items():  # fmt: skip
    _SCRIPT = _SCRIPT.replace(_name, _value)


def judge(found: Mapping[str, str]) -> Finding:
    if found.get("method") == "none":
        return Finding(False, f"no limit can be set: {found.get('said') or 'without a word'}")
    said, held = [], []
    figures = {}
    for kind, who in (("user", "root of a user namespace"), ("docker", "root with what Docker leaves him")):
        wrote = {way: number(found, f"{kind}_{way}") for way in ("plain", *_WAYS)}
        if wrote["plain"] is None:
            return Finding(None, f"{who} could not try it: {found.get(f'{kind}_said') or 'without a word'}")
        total = sum(value or 0 for value in wrote.values())
        ways = "".join(
            f", {value / MIB:.0f} of it {_WAYS[way]}" for way, value in wrote.items() if value and way != "plain"
        )
        said.append(f"{who} wrote {total / MIB:.0f} MiB{ways}")
        held.append(total <= OVER * LIMIT_MIB * MIB)
        figures[f"{kind}_quota_bytes"] = total
    return Finding(held[0], f"of {LIMIT_MIB} MiB that were allowed, {said[0]}; {said[1]}", figures)


PROBE = Probe(
    name="quota-in-container",
    about="Limits a tenant's part to 16 MiB; root of a container writes there, and looks for ways past the limit.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(
        Metric("user_quota_bytes", "bytes", "neither", "what root of a user namespace wrote where 16 MiB were allowed"),
        Metric("docker_quota_bytes", "bytes", "neither", "the same with Docker's capabilities, and no user namespace"),
    ),
    data_bytes=4 * TRIED_MIB * MIB,
    tools={**TOOLS, **dict.fromkeys(("setpriv", "unshare"), "util-linux"), "chattr": "e2fsprogs"},
)
