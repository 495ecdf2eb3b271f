"""Whoever is root in a lab machine reaches no network, no service and no file of the machine that it runs on."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from strata.errors import Refused
from strata.hosts.local import engine_path
from strata.hosts.served import ServedHost
from strata.lab import cache as caches
from strata.lab import emulator, image, machine
from strata.lab.machine import SavedState
from strata.lab.qemu import Clock, MachineSpec
from strata.lab.spec import LabSpec
from strata.model import Command, Disk

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

MARKER = f"test-isolation-{os.getpid()}"

# Of QEMU's user network: the machine that it runs on, and its name server, which would ask that machine's.
GATEWAYS = ("10.0.2.2", "10.0.2.3", "fec0::2", "fec0::3")

# $1 addresses, $2 TCP port, $3 UDP port. Prints one line for every connection that came to be and every answer.
REACH = r"""
exec 2>/dev/null
ip route replace default via 10.0.2.2
modprobe ipv6; ip -6 addr add fec0::99/64 dev eth0 nodad; ip -6 route replace default via fec0::2
cat >/tmp/reach.pl <<'END'
use Socket qw(:all);
my ($tcp, $udp, @addresses) = @ARGV;
for my $address (@addresses) {
  next if fork();
  my ($family, $pack) = $address =~ /:/ ? (AF_INET6, \&pack_sockaddr_in6) : (AF_INET, \&pack_sockaddr_in);
  my $to = inet_pton($family, $address);
  for my $port ($tcp, 53) {
    socket(my $s, $family, SOCK_STREAM, 0) or next;
    eval {
      local $SIG{ALRM} = sub { die };
      alarm 1;
      print "connected $address $port\n" if connect($s, $pack->($port, $to));
    };
    alarm 0;
  }
  for my $port ($udp, 53, 69) {
    socket(my $s, $family, SOCK_DGRAM, 0) or next;
    # a question for a name, and for a file: what they say is told by an answer
    my $ask = $port == 53 ? pack("H*", "abcd01000001000000000000076578616d706c65036f72670000010001")
            : $port == 69 ? "\0\1/etc/passwd\0octet\0" : "from the guest";
    send($s, $ask, 0, $pack->($port, $to));
    my $ready = ""; vec($ready, fileno($s), 1) = 1;
    # QEMU's own server of files, which has none, says so: an error, in the protocol of TFTP.
    print "answered $address $port\n"
      if select($ready, undef, undef, 1) && defined recv($s, $got, 512, 0) && $got !~ /^\x00\x05/;
  }
  exit;
}
while (wait() > 0) { }
END
perl /tmp/reach.pl "$@"
"""

# Each line that it prints is a way to this machine's files, or to write to the system's own images.
FILES = r"""
exec 2>/dev/null
for type in 9p virtiofs; do
  modprobe "$type"; modprobe 9pnet_virtio
  for tag in root host share strata; do mount -t "$type" "$tag" /mnt && echo "mounted $type $tag"; done
done
for device in /dev/strata-root /dev/strata-modules; do
  [ -b "$device" ] || echo "$device is not there"
  if dd if=/dev/zero of="$device" bs=4096 count=1 oflag=direct conv=notrunc; then echo "wrote $device"; fi
done
ls /sys/bus/virtio/drivers/virtio_console /sys/class/virtio-ports/* | grep -v '^$' | grep port
ls /sys/firmware/qemu_fw_cfg/by_name/opt/* 2>/dev/null
true
"""


@pytest.fixture(scope="module")
def found() -> image.Image:
    try:
        return image.find(LabSpec(), caches.default())
    except Refused as error:
        pytest.skip(str(error))


def saved(found: image.Image, clock: Clock) -> SavedState:
    """As a campaign without settings of its own has it, so that it is saved already where one ran."""
    accel = emulator.accelerator(clock, found, MARKER)
    cpus, memory = (1, 4 << 30) if clock == "virtual" else (2, 2 << 30)
    return machine.saved(MachineSpec(found, Path(engine_path()), clock, cpus, memory, accel), MARKER, print)


@contextmanager
def listening() -> Iterator[tuple[int, int, list[str]]]:
    """A TCP and a UDP port of this machine, of every address that it has; what came to them."""
    came: list[str] = []
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
        udp = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp.bind(("::", 0))

        def accept() -> None:
            while True:
                connection, where = tcp.accept()
                came.append(f"TCP from {where[0]}")
                connection.close()

        def receive() -> None:
            while True:
                said, where = udp.recvfrom(512)
                came.append(f"UDP from {where[0]}: {said!r}")
                udp.sendto(b"an answer", where)

        for job in (accept, receive):
            threading.Thread(target=job, daemon=True).start()
        yield tcp.getsockname()[1], udp.getsockname()[1], came


def own_addresses() -> list[str]:
    """An address of this machine's beside the loopback, where it has one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def test_root_in_a_machine_by_the_real_clock_reaches_nothing(found: image.Image, tmp_path: Path) -> None:
    running = machine.resume(saved(found, "real"), MARKER, tmp_path)
    try:
        host = ServedHost(running.channel, MARKER, running.engine)
        for command in running.add_disk(Disk("disk", 64 << 20), "disk0", None).prepare:
            host.run(command)
        with listening() as (tcp, udp, came):
            socket.create_connection(("127.0.0.1", tcp), 5).close()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as self_test:
                self_test.settimeout(5)
                self_test.sendto(b"x", ("127.0.0.1", udp))
                assert self_test.recv(20) == b"an answer"
            while len(came) < 2:  # the test hears what comes
                time.sleep(0.01)
            came.clear()
            words = (str(tcp), str(udp), *GATEWAYS, *own_addresses())
            said = host.run(Command(("sh", "-c", REACH, "sh", *words), timeout_s=120.0)).stdout
            assert (said, came) == ("", [])
        assert host.run(Command(("sh", "-c", FILES), timeout_s=120.0)).stdout == ""
        links = host.run(Command(("ls", "/sys/class/net"))).stdout.split()
        assert links == ["eth0", "lo"]
        disks = host.run(Command(("sh", "-c", "ls /sys/class/block | grep -v loop | grep -v nullb"))).stdout.split()
        assert disks == ["pmem0", "pmem1", "vda"]
    finally:
        running.close()
    image.check(found)


def test_a_machine_by_the_virtual_clock_has_no_network_at_all(found: image.Image, tmp_path: Path) -> None:
    running = machine.resume(saved(found, "virtual"), MARKER, tmp_path)
    try:
        host = ServedHost(running.channel, MARKER, running.engine)
        assert host.run(Command(("ls", "/sys/class/net"))).stdout.split() == ["lo"]
        assert host.run(Command(("sh", "-c", FILES))).stdout == ""
    finally:
        running.close()
    image.check(found)
