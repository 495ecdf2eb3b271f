"""podman(user=...) against that user: links that the user puts where root is about to work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from strata.layers import _rootless, drivers
from strata.model import Call, Kind, Place, Provides, Step

pytestmark = [pytest.mark.host, pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to a user")]

USER, UID = "nobody", 65534
NAME = f"strata-links-{os.getpid()}"

# Stands in for a program that makes or gives away several files: does so one by one. After each the user puts a link
# to $VICTIM at $LINK, if permissions allow it.
_ONE_BY_ONE = r"""#!/bin/sh
PATH=${PATH#*:}
words=
while [ $# -gt 0 ]; do
  case $1 in
    --owner|--mode|-m) words="$words $1 $2"; shift 2 ;;
    --) shift; break ;;
    -*) words="$words $1"; shift ;;
    *) break ;;
  esac
done
case ${0##*/}:$words in
  chown:*) words="$words $1"; shift ;;
esac
for each; do
  ${0##*/} $words -- "$each" || exit 1
  become="setpriv --reuid 65534 --clear-groups --"
  [ "$(id -u)" = 0 ] || become=
  $become sh -c 'rmdir "$LINK"; ln -s "$VICTIM" "$LINK"' 2>/dev/null
done
exit 0
"""


@pytest.fixture(autouse=True)
def engine_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in every command of Strata."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.fixture
def folder() -> Iterator[Path]:
    with ExitStack() as stack:
        made = Path(stack.enter_context(TemporaryDirectory(prefix="strata-links-", dir="/tmp")))
        made.chmod(0o755)  # pytest's own are closed to others
        yield made


def steps(folder: Path) -> tuple[list[Step], Path]:
    driver, place = drivers()["podman"], Place(NAME, str(folder / "place"), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90")
    values = {param.name: param.default for param in driver.info.params} | {"user": USER}
    below = [Provides(Kind.DIRECTORY, str(folder / "stack"), 1 << 30)]
    return driver.plan_create(Call("podman", "podman", values), below, place), folder / "stack/podman"


def configure(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the step that writes the configuration, without the link in /run."""
    planned, storage = steps(folder)
    step = next(step for step in planned if step.why == "write the configuration of this podman")
    for path in (folder / "place", storage):
        path.mkdir(parents=True)
    argv = [str(folder / "place") if word == f"/run/{NAME}" else word for word in step.do.argv]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)


def test_directories_are_made_for_the_user(folder: Path) -> None:
    done = configure(folder, dict(os.environ))
    assert done.returncode == 0, done.stderr
    own, storage = folder / "place/own", folder / "stack/podman"
    owned = {path: path.stat().st_uid for path in (own, own / "home", own / "run", storage, storage / "copies")}
    assert owned == dict.fromkeys(owned, UID)
    assert {path.stat().st_mode & 0o777 for path in (own, own / "home", own / "run")} == {0o700}
    assert (folder / "place").stat().st_uid == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("place/own/home", "directory"), ("place/own/run", "directory"), ("stack/podman/copies", "file")]
)
def test_a_link_that_the_user_plants_between_two_commands_gives_nothing_away(
    folder: Path, name: str, kind: str
) -> None:
    precious, link, stubs = folder / "precious", folder / name, folder / "bin"
    if kind == "directory":
        precious.mkdir(mode=0o711)
    else:
        precious.touch(mode=0o600)
    before = precious.stat()
    stubs.mkdir()
    for program in ("install", "chown", "mkdir"):
        (stubs / program).write_text(_ONE_BY_ONE)
        (stubs / program).chmod(0o755)
    path = f"{stubs}:{os.environ['PATH']}"
    configure(folder, {**os.environ, "PATH": path, "LINK": str(link), "VICTIM": str(precious)})
    assert link.is_symlink(), "no link was planted, so nothing was attacked"
    after = precious.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


# As fusermount does for that user. $1 where.
_USER_MOUNTS = r"""
user_mounts() {
  mount --internal-only --types fuse --options fd=9,rootmode=40000,user_id=65534,group_id=65534 strata "$1" 9<>/dev/fuse
}
"""

# $1 folder, $2 and $3 the place and the directory on the stack, then the undo. In a mount namespace of its own, with a
# /run of its own.
_LEFT_BY_THE_USER = (
    _USER_MOUNTS
    + r"""
folder=$1 place=$2 storage=$3; shift 3
end='
'
mount -t tmpfs none /run && mkdir -p /run/containerd/s /run/runc/other "$folder/precious" &&
  mount -t tmpfs none "$folder/precious" && echo kept >"$folder/precious/file" || exit 90
echo nobody >"$place/user"
task="$place/own/io.containerd.runtime.v2.task/x"
mkdir -p "$task" "$storage/overlay-containers/other" "$storage/a$end$folder/precious" "$storage/b 1%s\\" || exit 91
echo "unix:///run/containerd/s/../../..$folder/precious/file" >"$task/address"
user_mounts "$storage/a$end$folder/precious" || exit 92
user_mounts "$storage/b 1%s\\" || exit 93
"$@" || exit 94
cat "$folder/precious/file" && ls /run/runc && ! grep -F "$storage" /proc/self/mountinfo && [ ! -e "$storage" ]
"""
)

# In place of those of a machine with btrfs: every directory named `precious` is a subvolume.
_ON_BTRFS = {
    "stat": "echo btrfs",
    "find": '[ "$3:$4" = "-inum:256" ] || exec /usr/bin/find "$@"\nroot=$1; shift 4\n'
    'exec /usr/bin/find "$root" -depth -name precious "$@"',
    "btrfs": 'if [ "$2" = subvolume ]; then for last; do :; done; rm -r -- "$last"; fi',
}


APART = ("unshare", "--mount", "--propagation", "private", "sh", "-c")


def needs_fuse() -> None:
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse here, so no user can mount anything")


def stub(folder: Path, program: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)


def undo(folder: Path) -> tuple[tuple[str, ...], Path]:
    planned, storage = steps(folder)
    for path in (folder / "place", storage):
        path.mkdir(parents=True)
    step = next(step for step in planned if step.why == "make a directory for podman")
    assert step.undo is not None
    return tuple(step.undo.argv), storage


def test_the_undo_ends_nothing_that_the_user_only_names(folder: Path) -> None:
    argv, storage = undo(folder)
    needs_fuse()
    done = subprocess.run(
        (*APART, _LEFT_BY_THE_USER, "sh", folder, folder / "place", storage, *argv),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "kept\nother\n"), done.stderr


def test_the_undo_deletes_no_subvolume_whose_path_the_user_hides_in_a_name(folder: Path) -> None:
    argv, storage = undo(folder)
    (folder / "precious").mkdir()
    hidden = Path(f"{storage}/a\n{folder}/precious")
    hidden.mkdir(parents=True)
    (storage / "a").mkdir()  # the first line of that path; otherwise the undo stops there
    stubs = folder / "bin"
    stubs.mkdir()
    for program, script in _ON_BTRFS.items():
        (stubs / program).write_text(f"#!/bin/sh\n{script}\n")
        (stubs / program).chmod(0o755)
    environment = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (folder / "precious").is_dir() and not storage.exists()


# What the user does when root is about to unmount or to delete: once, $FROM becomes a link to $TO. By a process that
# was in the directory before root closed it to others.
_SWAP = r"""
PATH=${PATH#*:}
if [ ! -L "$FROM" ]; then
  (cd -- "${FROM%/*}" && setpriv --reuid 65534 --clear-groups -- sh -c 'mv -- "$1" "$1.old" && ln -s -- "$TO" "$1"' \
    sh "${FROM##*/}") 2>/dev/null && : >"$TO.swapped"
fi
exec ${0##*/} "$@"
"""

# $1 folder, $2 and $3 the place and the directory on the stack, then the undo. A mount of the user's, and one of root's
# at $TO.
_MOUNTED_BY_THE_USER = (
    _USER_MOUNTS
    + r"""
folder=$1 place=$2 storage=$3; shift 3
echo nobody >"$place/user"
mkdir -p "$storage/a/point" "$folder/others/point" && mount -t tmpfs none "$folder/others/point" &&
  user_mounts "$storage/a/point" && echo kept >"$folder/others/point/file" && chown nobody "$storage" "$storage/a" ||
  exit 90
PATH=$folder/bin:$PATH FROM=$storage/a TO=$folder/others "$@" 2>/dev/null
[ -e "$folder/others.swapped" ] || exit 91
cat "$folder/others/point/file"
"""
)


def test_the_undo_unmounts_nothing_that_the_user_puts_a_link_to(folder: Path) -> None:
    needs_fuse()
    argv, storage = undo(folder)
    for program in ("umount", "env"):
        stub(folder / "bin", program, _SWAP)
    words = (*APART, _MOUNTED_BY_THE_USER, "sh", folder, folder / "place", storage, *argv)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr


# $1 folder, $2 and $3 the place and the directory on the stack, $4 what becomes a link, then the undo. Subvolumes of
# the user's and of a subordinate id, some of them read-only, and a read-only one of root's at $TO or in it.
_SUBVOLUMES = r"""
folder=$1 place=$2 storage=$3 swapped=$4; shift 4
truncate -s 128M "$folder/image" && mkfs.btrfs -q "$folder/image" && rmdir "$storage" &&
  mount -o loop "$folder/image" "${storage%/*}" && mkdir -p "$storage" && chown nobody "$storage" || exit 90
echo nobody >"$place/user"
others=${storage%/*}/others
mkdir "$others" && btrfs -q subvolume create "$others/volume" && echo kept >"$others/volume/file" &&
  btrfs property set -ts "$others/volume" ro true || exit 91
setpriv --reuid 65534 --clear-groups -- sh -c '
  mkdir "$1/a" && btrfs -q subvolume create "$1/a/volume" && btrfs -q subvolume create "$1/outer" &&
    btrfs -q subvolume create "$1/outer/inner" && : >"$1/outer/inner/file" &&
    btrfs property set -ts "$1/outer/inner" ro true' sh "$storage" >/dev/null || exit 92
mkdir -m 0700 "$storage/overlay" && chown 100000 "$storage/overlay" &&
  setpriv --reuid 100000 --clear-groups -- sh -c '
    btrfs -q subvolume create "$1/outer" && : >"$1/outer/file" &&
      btrfs -q subvolume create "$1/outer/inner" && : >"$1/outer/inner/file" &&
      btrfs property set -ts "$1/outer/inner" ro true && btrfs property set -ts "$1/outer" ro true
  ' sh "$storage/overlay" >/dev/null || exit 93
TO=$others${swapped#a}
PATH=$folder/bin:$PATH FROM=$storage/$swapped TO=$TO "$@" || exit 94
[ -e "$TO.swapped" ] || exit 95
cat "$others/volume/file" && [ ! -e "$storage" ] && btrfs property get -ts "$others/volume" ro
"""


@pytest.mark.parametrize(("swapped", "programs"), [("a", ("chown",)), ("a/volume", ("btrfs", "sh"))])
def test_the_undo_deletes_every_subvolume_but_none_that_the_user_puts_a_link_to(
    folder: Path, swapped: str, programs: tuple[str, ...]
) -> None:
    if shutil.which("mkfs.btrfs") is None or "\tbtrfs\n" not in Path("/proc/filesystems").read_text():
        pytest.skip("this machine has no btrfs")
    (shell, *words), storage = undo(folder)
    assert shell == "sh"
    for program in programs:
        stub(folder / "bin", program, _SWAP)
    start = (*APART, _SUBVOLUMES, "sh", folder, folder / "place", storage, swapped)
    done = subprocess.run((*start, "/bin/sh", *words), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["kept", "ro=true"]), done.stdout + done.stderr


@pytest.fixture
def client(folder: Path) -> Iterator[Path]:
    """That of a place for which the configuration is written, with a stub in place of Podman that says what is in
    `said`, and puts its environment into `seen`."""
    assert configure(folder, dict(os.environ)).returncode == 0
    planned, _ = steps(folder)
    step = next(step for step in planned if step.why == "write the client of this podman")
    made = folder / "place/client"
    made.write_text("#!/bin/sh\n" + step.do.argv[-1].split("\n", 1)[1])
    made.chmod(0o755)
    (folder / "seen").touch()
    (folder / "seen").chmod(0o666)
    stub(folder / "bin", "podman", f"env >{folder}/seen; cat {folder}/said")
    yield made
    for group in Path("/sys/fs/cgroup").glob(f"**/{NAME}"):
        group.rmdir()


def ask(client: Path, *words: object) -> subprocess.CompletedProcess[str]:
    stubs = client.parent.parent / "bin"
    environment = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "SECRET": "of root"}
    return subprocess.run((client, *map(str, words)), env=environment, capture_output=True, text=True, timeout=60)


def test_only_a_directory_itself_becomes_the_users_and_nothing_that_is_in_it_later(folder: Path, client: Path) -> None:
    (folder / "said").touch()
    given, precious, link = folder / "given", folder / "precious", folder / "link"
    given.mkdir()
    precious.touch(mode=0o600)
    link.symlink_to(folder / "place")
    assert ask(client, "create", "base", "c1", f"{given}:/data", "--", "/stay").returncode == 0
    assert given.stat().st_uid == UID
    os.link(precious, given / "planted")  # as the user can where nothing protects hard links
    for words in (("exec", "c1", "true"), ("create", "base", "c2", f"{link}:/data", "--", "/stay")):
        ask(client, *words)
    assert (precious.stat().st_uid, (folder / "place").stat().st_uid, link.lstat().st_uid) == (0, 0, 0)


def test_no_variable_of_roots_is_shown_to_the_user(folder: Path, client: Path) -> None:
    (folder / "said").touch()
    assert ask(client, "count").returncode == 0
    seen = (folder / "seen").read_text()
    assert "CONTAINERS_CONF=" in seen and "SECRET" not in seen


# In a session keyring of its own; $1 is what the words of the user are made by, $2 the user.
_WITH_A_KEY = """\
import ctypes, os, subprocess, sys
libc, (add, keyctl) = ctypes.CDLL(None, use_errno=True), {"aarch64": (217, 219)}.get(os.uname().machine, (248, 250))
if libc.syscall(keyctl, 1, b"strata-test") < 0:
    sys.exit(f"no keys: {os.strerror(ctypes.get_errno())}")
key = libc.syscall(add, b"user", b"strata-test", b"root-secret", 11, -3)
read = "import ctypes, sys; found = ctypes.create_string_buffer(99); " \
    "ctypes.CDLL(None).syscall(int(sys.argv[1]), 11, int(sys.argv[2]), found, 99); print('read', found.value)"
for words in ("", "$(as_user_words $0) "):
    script = sys.argv[1] + words + 'python3 -c "$1" $2 $3'
    subprocess.run(("sh", "-c", script, sys.argv[2], read, str(keyctl), str(key)), check=True)
"""


def test_no_key_of_roots_is_the_users() -> None:
    argv = (sys.executable, "-c", _WITH_A_KEY, _rootless._AS_USER, USER)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if done.stderr.startswith("no keys"):
        pytest.skip(f"this kernel keeps no keys: {done.stderr.strip()}")
    assert done.stdout.splitlines() == ["read b'root-secret'", "read b''"], done.stderr


@pytest.mark.parametrize("said", [str(os.getpid()), "1", "../../tmp", "1/../1", ""])
def test_a_process_that_was_not_started_for_the_visit_is_not_believed(folder: Path, client: Path, said: str) -> None:
    (folder / "said").write_text(f"{said}\n")
    done = ask(client, "pid", "box")
    assert done.returncode != 0 and done.stdout == "" and "do not trust that user" in done.stderr


# In a process namespace of its own, whose end would be what is attacked. $1 the folder, then the sweep.
_SWEPT = r"""
folder=$1; shift
sleep 1001 & victim=$!
sleep 1002 & printf '#!/bin/sh\necho %s\n' $! >"$folder/client" && chmod +x "$folder/client"
"$@" 2>/dev/null; echo "$?"
kill -0 "$victim" && echo lives
"""


def test_no_process_outside_of_containers_is_ended_whatever_the_engine_says_is_its_first(folder: Path) -> None:
    driver, place = drivers()["container"], Place(NAME, str(folder), "0b7e5d1c-54a8-4d6f-9a51-3f2c6d7e8f90")
    values = {param.name: param.default for param in driver.info.params}
    below = [Provides(Kind.ENGINE, str(folder / "client"), 1 << 30)]
    sweep = driver.provides(Call("container", "container", values), below, place).sweep
    assert sweep is not None
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _SWEPT, "sh")
    done = subprocess.run((*apart, folder, *sweep.argv), capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\nlives\n", done.stderr
