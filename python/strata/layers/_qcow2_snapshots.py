"""Snapshots within a qcow2 image that a program of QEMU's serves, taken by its monitor.

Source: QEMU QMP Reference Manual, blockdev-snapshot-internal-sync and blockdev-snapshot-delete-internal-sync.
"""

from __future__ import annotations

from strata.layers._steps import sh
from strata.model import Command, Place, Snapshots, Step

# Arguments: socket, command, names of snapshots of the block node "image". No machine has a program that speaks QMP.
_QMP = """\
use strict; use IO::Socket::UNIX;
my ($path, $command, @names) = @ARGV;
my $qmp = IO::Socket::UNIX->new(Peer => $path) or die "$path: $!\\n";
$qmp->autoflush(1);
<$qmp>;
my @asked = map { qq({"execute":"$command","arguments":{"device":"image","name":"$_"}}) } @names;
for my $line ('{"execute":"qmp_capabilities"}', @asked) {
  print $qmp "$line\\n";
  my $answer;
  do { $answer = <$qmp> // die "the monitor ended\\n" } while $answer =~ /"event"/;
  die $answer if $answer =~ /"error"/;
}"""

# $1 directory of the socket, whose path must be short, $2 the program, the rest: its arguments.
_ASK = 'cd -- "$1" && program=$2 && shift 2 && exec perl -e "$program" "$@"'

# $1 image; prints the names of the snapshots that are held.
_NAMES = """\
names() { qemu-img snapshot -l --force-share -- "$1" | awk '$2 ~ /^held[0-9]+$/ { print $2 }'; }
"""

# $1 directory, $2 the program, $3 socket, $4 image. QEMU writes to the clusters of a snapshot that was removed again,
# and the image does not grow by that.
_DROP = (
    _NAMES
    + """\
found=$(names "$4") || exit 1
[ -n "$found" ] || exit 0
cd -- "$1" && : > reused && exec perl -e "$2" "$3" blockdev-snapshot-delete-internal-sync $found"""
)

# $1 directory, $2 image. It grows by a cluster for each that is written to while a snapshot has the old one.
_LOOK = (
    _NAMES
    + """\
found=$(names "$2") && length=$(stat --format=%s -- "$2") || exit 1
printf '%s\\n' "held=$(printf '%s' "$found" | grep -c .)" "shared=$length"
[ -e "$1/reused" ] || echo "room=$length\""""
)


def holding(place: Place, socket: str, image: str) -> Snapshots:
    return Snapshots(
        take=lambda count: _steps(place, socket, [f"held{number + 1}" for number in range(count)]),
        drop=sh(_DROP, place.dir, _QMP, socket, image),
        look=sh(_LOOK, place.dir, image),
    )


def numbered(place: Place, socket: str, count: int) -> list[Step]:
    """They stay."""
    return _steps(place, socket, [f"held-{count}-{number + 1}" for number in range(count)])


def _steps(place: Place, socket: str, names: list[str]) -> list[Step]:
    """They go with the image."""
    return [
        Step(_take(place, socket, name), None, f"take snapshot {number} of {len(names)} in the image")
        for number, name in enumerate(names, 1)
    ]


def _take(place: Place, socket: str, name: str) -> Command:
    return sh(_ASK, place.dir, _QMP, socket, "blockdev-snapshot-internal-sync", name)
