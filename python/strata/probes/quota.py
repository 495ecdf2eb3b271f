"""A quota: root writes more than a tenant may, and is refused at the limit."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MIB, SHELL, TOOLS, Finding, Probe, number

_LIMIT_MIB, _TRIED_MIB = 16, 48
_OVER = 1.25  # of the limit, that a file system may let through before it counts

_SCRIPT = (
    (
        SHELL
        + """\
dir=$1
set -- $(volume)
case $fs in
  btrfs)
    btrfs subvolume create "$dir/tenant" >/dev/null || exit 1
    btrfs qgroup limit LIMITm "$dir/tenant" 2>"$dir/said" || { say method none; say said "$(line <"$dir/said")"; }
    remove() { btrfs subvolume delete "$dir/tenant" >/dev/null; } ;;
  zfs)
    zfs create -o mountpoint="$dir/tenant" -o quota=LIMITM "$source/probe" || exit 1
    remove() { zfs destroy -R "$source/probe"; } ;;
  *)
    mkdir -- "$dir/tenant" || exit 1
    remove() { rm -rf -- "$dir/tenant"; }
    mounted=$(findmnt --noheadings --output TARGET --target "$dir")
    case ,$(findmnt --noheadings --output OPTIONS --target "$dir"), in
      *,prjquota,* | *,pquota,*)
        set_limit() {
          xfs_quota -x -D /dev/null -P /dev/null -c "project -s -p $dir/tenant 4242" "$mounted" >/dev/null &&
            xfs_quota -x -D /dev/null -P /dev/null -c 'limit -p bhard=LIMITm 4242' "$mounted"
        }
        set_limit 2>"$dir/said" || { say method none; say said "$(line <"$dir/said")"; } ;;
      *) case ${3:-} in
        # what a tenant can write is the size of the volume that is made for him
        thin | linear | striped)
          if [ "$3" = thin ]; then how="--type thin --thinpool $4 --virtualsize LIMITm"; else how="--size LIMITm"; fi
          remove() {
            if mountpoint --quiet "$dir/tenant"; then umount "$dir/tenant"; udevadm settle; fi
            rmdir -- "$dir/tenant"; lvremove -qq --force --config "$LVM" "$1/strata-probe"
          }
          if lvcreate -qq --yes --wipesignatures n --config "$LVM" $how --name strata-probe "$1" 2>"$dir/said"; then
            mkfs.ext4 -q "/dev/$1/strata-probe" && mount "/dev/$1/strata-probe" "$dir/tenant" || exit 1
            say method volume
          else
            say method none; say said "$(line <"$dir/said")"
            remove() { rm -rf -- "$dir/tenant"; }
          fi ;;
        *) say method none; say said "it is mounted without quotas of projects" ;;
      esac ;;
    esac ;;
esac
number=0
while [ "$number" -lt TRIED ]; do
  fill "$dir/tenant/$number" 1 2>"$dir/refused" || break
  used "$dir/tenant" >/dev/null
  number=$((number + 1))
done
say written "$((number * 1048576))"
say refused "$(line <"$dir/refused")"
remove "$@\""""
    )
    .replace("LIMIT", str(_LIMIT_MIB))
    .replace("TRIED", str(_TRIED_MIB))
)


def judge(found: Mapping[str, str]) -> Finding:
    written = number(found, "written")
    if found.get("method") == "none":
        return Finding(False, f"no limit can be set: {found.get('said') or 'without a word'}")
    if written is None:
        return Finding(None, "the probe does not say how much it wrote")
    of = " on a volume of his own" if found.get("method") == "volume" else ""
    why = f"root wrote{of} {written / MIB:.0f} MiB where {_LIMIT_MIB} MiB were allowed"
    if written > _OVER * _LIMIT_MIB * MIB:
        return Finding(False, why, {"quota_bytes": written})
    return Finding(True, f"{why}, then: {found.get('refused') or 'refused'}", {"quota_bytes": written})


PROBE = Probe(
    name="quota",
    about="Limits a tenant's part to 16 MiB and writes 48 MiB to it as root.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("quota_bytes", "bytes", "neither", "what could be written where 16 MiB were allowed"),),
    data_bytes=2 * _TRIED_MIB * MIB,
    tools=TOOLS,
)
