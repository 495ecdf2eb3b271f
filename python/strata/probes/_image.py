"""What the scripts share that try a disk image: another of the same format beside it, written by QEMU's own tools."""

from __future__ import annotations

# Of the image $1 sets `image`, a path beside it for another, and `format`. Patterns are numbers of a byte.
IMAGE = """\
image=$1.probe
[ ! -f "$1" ] || format=$(qemu-img info --force-share "$1" | sed -n 's/^file format: //p' | head -n 1)
make_image() { qemu-img create -q -f "$format" -- "$image" "${1}M"; }
# $1 pattern, $2 MiB from the start.
put_image() { qemu-io -f "$format" -c "write -P $1 0 ${2}M" -c flush -- "$image" >/dev/null; }
# Whether the first MiB of file $1 of format $2 is pattern $3.
has_pattern() { ! qemu-io -r -f "$2" -c "read -P $3 0 1M" -- "$1" 2>&1 | grep -qi -e failed -e error; }
# The same of snapshot $1 of the image, pattern $2.
snapshot_has() {
  qemu-img convert -l "snapshot.name=$1" -f "$format" -O raw -- "$image" "$image.$1" || return 1
  has_pattern "$image.$1" raw "$2"; found=$?
  rm -f -- "$image.$1"
  return "$found"
}
image_bytes() { sync -- "$image"; stat --format '%b' -- "$image" | awk '{ printf "%.0f", $1 * 512 }'; }
"""
"""After `SHELL`."""

TOOLS = {"qemu-img": "qemu-utils", "qemu-io": "qemu-utils"}
