"""The local base image of container workloads: busybox and files of random content, made on the measured machine.

Nothing is pulled from anywhere. The same arguments and seed give the same files.
"""

from __future__ import annotations

from strata.model import Call, Command, Param, ParamType

IMAGE = "base"
TOOLS = {"sh": "dash", "tar": "tar", "busybox": "busybox-static"}

_MIB = 1 << 20

FILES = Param("files", ParamType.INT, "how many files the image has", default=500, minimum=1, maximum=1_000_000)
SIZE = Param("size", ParamType.SIZE, "how large they are together", default=32 * _MIB, minimum=_MIB)

# $1 client, $2 scratch, $3 files, $4 bytes, $5 seed, $6 bytes of one large file, $7 yes: programs of this machine run
# in it once its /usr is mounted there. From an empty engine: what an earlier trial left is removed. Some engines unpack
# an image for the first container that is made of it, so one is made here. Asking for the room forces all of it to
# the disk.
_MAKE = """\
client=$1 root=$2/root tar=$2/root.tar
"$client" reset >/dev/null || exit 1
mkdir -- "$root" || exit 1
for name in bin data dev etc proc sys tmp; do mkdir -- "$root/$name" || exit 1; done
cp -- "$(command -v busybox)" "$root/bin/busybox" || exit 1
for name in sh cat cp dd dpkg echo find head ls mkdir rm sleep sync tar touch tr true wc; do
  ln -s busybox "$root/bin/$name" || exit 1
done
printf '%s\n' '#!/bin/sh' 'trap exit TERM' 'sleep 2147483 & wait' >"$root/stay" && chmod +x "$root/stay" || exit 1
strata-engine age --dir "$root/data" --files "$3" --bytes "$4" --seed "$5" --rounds 1 >/dev/null || exit 1
if [ "$7" = yes ]; then
  mkdir -- "$root/usr" || exit 1
  for link in lib lib32 lib64; do
    if [ -L "/$link" ]; then ln -s "usr/$link" "$root/$link"; elif [ -d "/$link" ]; then cp -a "/$link" "$root/$link"
    fi || exit 1
  done
fi
if [ "$6" -gt 0 ]; then
  head -c "$6" /dev/urandom >"$root/large" || exit 1
fi
tar --create --file "$tar" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --directory "$root" . &&
  "$client" load "$tar" base >/dev/null &&
  "$client" create base unpacked -- /stay >/dev/null && "$client" remove unpacked >/dev/null || exit 1
rm -rf -- "$root" "$tar" && "$client" room >/dev/null"""

# Ends at once when asked to, as a service should: busybox's sleep alone would have to be killed as process 1.
STAY = ("/stay",)


PROGRAMS = "/usr:/usr:ro"
"""The volume for programs of this machine, in an image made with `programs`."""


def make(client: str, scratch: str, spec: Call, seed: int, large_bytes: int = 0, *, programs: bool = False) -> Command:
    """Empties the engine and loads the image into it. `programs`: it can run those of this machine."""
    size = int(spec["size"] or 0)
    words = (str(spec["files"]), str(size), str(seed % (1 << 63)), str(large_bytes), "yes" if programs else "no")
    return Command(("sh", "-c", _MAKE, "sh", client, scratch, *words), timeout_s=600.0 + (size + large_bytes) / _MIB)


def reasons(spec: Call) -> list[str]:
    """What is wrong with the size of the files; [] = nothing."""
    if int(spec["size"] or 0) < 2 * 4096 * int(spec["files"] or 0):
        return [f"{spec.text}: {spec['files']} files need at least 8K each; give fewer files or a larger size"]
    return []
