"""A tenant whose part is limited: what the probes of quotas share."""

from __future__ import annotations

from collections.abc import Mapping

from strata.probes._probe import MIB, Finding, full

LIMIT_MIB, TRIED_MIB = 16, 48
OVER = 1.25  # of the limit, that a file system may let through before it counts
_NEAR = 0.5  # of the limit: refused before that it was not the limit that refused, but for what a file system keeps


def refusal(said: str, outside: str | None, written: float, why: str, figures: Mapping[str, float]) -> Finding:
    """Of a tenant who wrote no more than he may: yes only where it was the limit that refused, and nothing else.

    `outside`: whether there was room beside his part ("yes", "no").
    """
    if not full(said):
        return Finding(None, f"{why}, and something else stopped it: {said or 'no message'}", figures)
    if written < _NEAR * LIMIT_MIB * MIB:
        return Finding(None, f"{why}, so it was not the limit that refused more: {said}", figures)
    if outside != "yes":
        return Finding(None, f"{why}, and there was no room outside his part either: {said}", figures)
    return Finding(True, f"{why}, then: {said}", figures)


LIMITED = """\
# Makes $dir/tenant with its limit; says method=none and why where nothing limits it.
limited() {
set -- $(volume)
group=${1:-} volume_kind=${3:-} pool=${4:-}
case $fs in
  btrfs)
    btrfs subvolume create "$dir/tenant" >/dev/null || exit 1
    btrfs qgroup limit LIMITm "$dir/tenant" 2>"$dir/said" || { say method none; say said "$(line <"$dir/said")"; } ;;
  zfs) zfs create -o mountpoint="$dir/tenant" -o quota=LIMITM "$source/probe" || exit 1 ;;
  *)
    mkdir -- "$dir/tenant" || exit 1
    mounted=$(findmnt --noheadings --output TARGET --target "$dir")
    case ,$(findmnt --noheadings --output OPTIONS --target "$dir"), in
      *,prjquota,* | *,pquota,*)
        quota_of() { xfs_quota -x -D /dev/null -P /dev/null $([ "$fs" = xfs ] || echo -f) -c "$1" "$mounted"; }
        set_limit() {
          quota_of "project -s -p $dir/tenant 4242" >/dev/null && quota_of 'limit -p bhard=LIMITm 4242'
        }
        set_limit 2>"$dir/said" || { say method none; say said "$(line <"$dir/said")"; } ;;
      *) case $volume_kind in
        # what a tenant can write is the size of the volume that is made for him
        thin | linear | striped)
          how="--size LIMITm"
          if [ "$volume_kind" = thin ]; then how="--type thin --thinpool $pool --virtualsize LIMITm"; fi
          if lvcreate -qq --yes --wipesignatures n --config "$LVM" $how --name strata-probe "$group" 2>"$dir/said"; then
            mkfs.ext4 -q "/dev/$group/strata-probe" && mount "/dev/$group/strata-probe" "$dir/tenant" || exit 1
            say method volume
          else
            say method none; say said "$(line <"$dir/said")"
          fi ;;
        *) say method none; say said "it is mounted without quotas of projects" ;;
      esac ;;
    esac ;;
esac
}
""".replace("LIMIT", str(LIMIT_MIB))
"""Needs SHELL, and `dir`."""
