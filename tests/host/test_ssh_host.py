"""A machine behind ssh: this one, by a server of our own on the loopback address."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata.errors import HostLost
from strata.hosts import messages, ssh
from strata.hosts.local import LocalHost, engine_path
from strata.hosts.served import ServedHost
from strata.hosts.ssh import Identity, Server
from strata.hosts.stdio import StdioChannel
from strata.model import Command

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SSH = shutil.which("ssh")
ENGINE = Path(engine_path())
MARKER = f"test-ssh-{os.getpid()}"

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(SSHD is None, reason="no sshd here; install openssh-server"),
    pytest.mark.skipif(SSH is None, reason="no ssh here; install openssh-client"),
]

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


def make_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "strata-test", "-f", path], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


class Sshd:
    """Serves until `end`; `options` are further lines of its configuration."""

    def __init__(self, directory: Path, *options: str) -> None:
        directory.mkdir()
        self.directory = directory
        self.host_key = make_key(directory / "host")
        (directory / "authorized").write_text(make_key(directory / "user") + "\n")
        self.known_hosts = directory / "known"
        self.known_hosts.write_text(f"{ssh.HOST_ALIAS} {self.host_key}\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {directory / 'host'}",
            f"AuthorizedKeysFile {directory / 'authorized'}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            *options,
        ]
        (directory / "config").write_text("\n".join(lines) + "\n")
        self.log = (directory / "log").open("wb")
        assert SSHD is not None
        self._process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", directory / "config"], stdout=self.log, stderr=self.log, start_new_session=True
        )
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (directory / "log").read_text()
            time.sleep(0.02)
        raise AssertionError("sshd does not listen")

    @property
    def server(self) -> Server:
        identity = Identity(self.directory / "user", self.known_hosts)
        return Server(f"{getpass.getuser()}@127.0.0.1", self.port, identity)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        self.log.close()


Start = Callable[..., Sshd]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    # As root it wants this directory, empty, which a package makes only when its service starts.
    empty = Path("/run/sshd")
    made = os.geteuid() == 0 and not empty.exists()
    if made:
        empty.mkdir(mode=0o755)
    started: list[Sshd] = []

    def start_one(*options: str) -> Sshd:
        started.append(Sshd(tmp_path_factory.mktemp("sshd") / "own", *options))
        return started[-1]

    yield start_one
    for sshd in started:
        sshd.end()
    if made:
        empty.rmdir()


@pytest.fixture(scope="module")
def sshd(start: Start) -> Sshd:
    return start()


Connect = Callable[..., StdioChannel]


@pytest.fixture
def connect(sshd: Sshd, tmp_path: Path) -> Iterator[Connect]:
    channels: list[StdioChannel] = []

    def connect_one(server: Server | None = None, engine: Path = ENGINE, directory: Path | None = None) -> StdioChannel:
        where = str(directory or tmp_path / "cache")
        channels.append(ssh.connect(server or sshd.server, engine, where, MARKER + "-client"))
        return channels[-1]

    yield connect_one
    for channel in channels:
        channel.close()
    assert LocalHost(MARKER).end_strays(MARKER + "-client") == []


def hello(channel: StdioChannel) -> messages.Hello:
    return messages.read_hello(channel.call(messages.hello(), 10, None))


def test_commands_and_files(connect: Connect, tmp_path: Path) -> None:
    channel = connect()
    host = ServedHost(channel, MARKER, hello(channel).engine)
    done = host.run(Command(("sh", "-c", "cat; echo $STRATA_RUN; echo err >&2; exit 3"), stdin="in\n"), check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (3, f"in\n{MARKER}\n", "err\n")
    host.write(str(tmp_path / "x"), "text")
    assert host.read(str(tmp_path / "x")) == "text"
    assert host.read(str(tmp_path / "none")) is None
    size = 50 << 20
    assert host.run(Command(("wc", "-c"), stdin="x" * size)).stdout.strip() == str(size)
    assert len(host.run(Command(("head", "-c", str(size), "/dev/zero"))).stdout) == size
    assert host.run(Command(("strata-engine", "--version"))).stdout.startswith("strata-engine ")


def test_strays_there_are_ended_and_the_way_there_is_not(connect: Connect) -> None:
    host = ServedHost(connect(), MARKER, "")
    pid = host.run(Command(("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"))).stdout.strip()
    assert host.end_strays(MARKER) == [f"sleep (process {pid})"]
    assert host.end_strays(MARKER) == []


def test_the_engine_is_sent_once_and_again_when_it_is_damaged(connect: Connect, tmp_path: Path) -> None:
    engine = Path(hello(connect()).engine)
    assert engine.parent.parent == tmp_path / "cache" and engine.read_bytes() == ENGINE.read_bytes()
    first = engine.stat().st_ino
    assert Path(hello(connect()).engine).stat().st_ino == first
    engine.unlink()
    engine.write_bytes(ENGINE.read_bytes()[:-1])
    assert Path(hello(connect()).engine).read_bytes() == ENGINE.read_bytes()
    assert [path.name for path in engine.parent.iterdir()] == ["strata-engine"]


def test_another_engine_has_another_place(connect: Connect, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(ENGINE.read_bytes() + b"\0")
    assert hello(connect()).engine != hello(connect(engine=other)).engine


def test_a_place_below_the_home_directory(connect: Connect) -> None:
    name = f".strata-test-{os.getpid()}"
    try:
        channel = connect(directory=Path(f"~/{name}"))
        assert Path(hello(channel).engine).is_relative_to(Path.home() / name)
    finally:
        shutil.rmtree(Path.home() / name)


def test_a_place_with_an_odd_name(connect: Connect, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "odd" $HOME'
    assert Path(hello(connect(directory=odd)).engine).is_relative_to(odd)


def test_a_key_that_is_refused(connect: Connect, sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    server = Server(sshd.server.destination, sshd.port, Identity(tmp_path / "stranger", sshd.known_hosts))
    with pytest.raises(HostLost, match=r"refuses our key \(.*Permission denied.*; Strata started that"):
        connect(server)


def test_a_host_key_that_changed_or_is_unknown(connect: Connect, sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known"
    server = Server(sshd.server.destination, sshd.port, Identity(sshd.directory / "user", known))
    known.write_text(f"{ssh.HOST_ALIAS} {make_key(tmp_path / 'other')}\n")
    with pytest.raises(HostLost, match="shows another host key"):
        connect(server)
    known.write_text("")
    with pytest.raises(HostLost, match="is not known here"):
        connect(server)


# What a user may have written, each of which makes ssh accept a key by itself.
LENIENT = ["StrictHostKeyChecking no", "StrictHostKeyChecking accept-new", "StrictHostKeyChecking off"]


@pytest.fixture
def as_the_user_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sshd: Sshd) -> Callable[..., Path]:
    """Give ssh a configuration of our own in place of the user's; returns its known_hosts, which holds `lines`."""

    def configure(lines: str, *more: str) -> Path:
        known, config = tmp_path / "user_known_hosts", tmp_path / "config"
        known.write_text(lines)
        own = [f"UserKnownHostsFile {known}", "GlobalKnownHostsFile none", f"IdentityFile {sshd.directory / 'user'}"]
        config.write_text("\n".join(["Host *", *own, "IdentityAgent none", *more]) + "\n")
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {SSH} -F {config} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return known

    return configure


@pytest.mark.parametrize("lenient", [*LENIENT, "UpdateHostKeys yes"])
def test_no_host_key_is_accepted_though_the_user_s_configuration_would(
    connect: Connect, sshd: Sshd, tmp_path: Path, as_the_user_has_it: Callable[..., Path], lenient: str
) -> None:
    server = Server(f"{getpass.getuser()}@127.0.0.1", sshd.port)
    known = as_the_user_has_it("", lenient)
    with pytest.raises(HostLost, match=r"is not known here.*log in once by hand"):
        connect(server)
    assert known.read_text() == "", "a key was written down that nobody had compared"
    changed = f"[127.0.0.1]:{sshd.port} {make_key(tmp_path / 'other')}\n"
    known.write_text(changed)
    with pytest.raises(HostLost, match="shows another host key"):
        connect(server)
    assert known.read_text() == changed


def test_a_host_key_that_the_user_knows_is_enough(
    connect: Connect, sshd: Sshd, as_the_user_has_it: Callable[..., Path]
) -> None:
    line = f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n"
    known = as_the_user_has_it(line)
    assert hello(connect(Server(f"{getpass.getuser()}@127.0.0.1", sshd.port))).pid
    assert known.read_text() == line


def test_a_host_key_that_is_revoked_or_of_another_name(
    connect: Connect, sshd: Sshd, as_the_user_has_it: Callable[..., Path]
) -> None:
    server = Server(f"{getpass.getuser()}@127.0.0.1", sshd.port)
    line = f"[127.0.0.1]:{sshd.port} {sshd.host_key}\n"
    as_the_user_has_it(f"@revoked * {sshd.host_key}\n{line}", "StrictHostKeyChecking no")
    with pytest.raises(HostLost, match="is marked as revoked"):
        connect(server)
    as_the_user_has_it(f"[127.0.0.2]:{sshd.port} {sshd.host_key}\n", "StrictHostKeyChecking no")
    with pytest.raises(HostLost, match="is not known here"):
        connect(server)


def test_a_machine_that_is_not_there(connect: Connect, sshd: Sshd) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        server = Server(sshd.server.destination, taken.getsockname()[1], sshd.server.identity)
        with pytest.raises(HostLost, match=r"cannot be reached \(.*Connection refused.*; Strata started that"):
            connect(server)


@NEEDS_ROOT
@pytest.mark.parametrize(
    ("options", "what"),
    [("size=1m", "has no room for strata-engine"), ("noexec", "may not be executed"), ("ro", "cannot be copied")],
)
def test_a_place_that_does_not_do(connect: Connect, tmp_path: Path, options: str, what: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "strata-test", place], check=True)
    try:
        with pytest.raises(HostLost, match=what):
            connect(directory=place)
        left = [path for path in place.rglob("*") if path.is_file()]
        assert left == [] or options == "noexec"
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_machine_of_another_kind(connect: Connect, start: Start, tmp_path: Path) -> None:
    (tmp_path / "uname").write_text('#!/bin/sh\n[ "$1" = -s ] && echo Darwin || echo arm64\n')
    (tmp_path / "uname").chmod(0o755)
    other = start(f'ForceCommand PATH={tmp_path}:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"')
    with pytest.raises(HostLost, match=r"is not Linux on x86-64.*Darwin arm64"):
        connect(other.server)


def test_a_login_that_talks(connect: Connect, start: Start) -> None:
    talking = start('ForceCommand echo Welcome; echo motd >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    assert hello(connect(talking.server)).pid


def test_a_connection_that_breaks(connect: Connect, tmp_path: Path) -> None:
    channel = connect()
    runner = hello(channel).pid
    pid = tmp_path / "pid"
    session = int(Path(f"/proc/{runner}/stat").read_text().rpartition(")")[2].split()[1])
    script = f"echo $$ >{pid}; kill -9 {session}; sleep 1000; true"
    with pytest.raises(HostLost, match=r"is lost \(.*; Strata started that"):
        ServedHost(channel, MARKER, "").run(Command(("sh", "-c", script)))
    command = int(pid.read_text())
    for _ in range(500):  # the runner ends what runs, and itself
        if not any(Path(f"/proc/{number}").exists() for number in (runner, command)):
            break
        time.sleep(0.02)
    else:
        os.kill(command, signal.SIGKILL)
        raise AssertionError("the command outlived its controller")


def test_a_users_configuration_forwards_nothing_and_accepts_no_key_unseen(tmp_path: Path) -> None:
    configuration = tmp_path / "config"
    hostile = ("ForwardAgent yes", "ForwardX11 yes", "ForwardX11Trusted yes", "LocalForward 8080 nas:80", "Tunnel yes",
               "DynamicForward 1080", "RemoteForward 8081 nas:80", "RemoteCommand id", "PermitLocalCommand yes",
               "LocalCommand id", "ControlMaster yes", "StrictHostKeyChecking no", "UpdateHostKeys yes",
               "VerifyHostKeyDNS yes", "NoHostAuthenticationForLocalhost yes", "KnownHostsCommand /bin/echo %H",
               "ProxyCommand nc %h %p")  # fmt: skip
    configuration.write_text("\n".join(("Host *", *hostile)) + "\n")
    argv = [*ssh.options(Server("nas")), "-F", str(configuration), "-G", "--", "nas"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    values = dict(line.split(" ", 1) for line in said if " " in line)
    refused = {
        **dict.fromkeys(("forwardagent", "forwardx11", "permitlocalcommand"), "no"),
        **dict.fromkeys(("tunnel", "verifyhostkeydns", "updatehostkeys", "controlmaster"), "false"),
        "nohostauthenticationforlocalhost": "no",
        "stricthostkeychecking": "true",
        "clearallforwardings": "yes",
    }
    assert {name: values[name] for name in refused} == refused
    # What is none is not shown. The way to the machine stays the user's.
    assert not values.keys() & {"localforward", "remoteforward", "dynamicforward", "remotecommand"}
    assert values.get("knownhostscommand", "none") == "none"
    assert values["proxycommand"] == "nc %h %p"
