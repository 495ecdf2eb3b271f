"""`guest/debian-installer`: the installer of Debian, answered by a preseed, installs one onto an image or a volume.

The installer runs in a machine of its own, as virt-install and Proxmox would start it: partitions, a file system, the
base system, a kernel, GRUB. Then that machine is booted from its new disk. What the installer fetches comes from the
Debian mirror of this machine's apt, through a server that answers one request at a time and keeps every file, so that
the network is waited for once; the guest reaches nothing else. Source: the installation guide of Debian, appendix B.
"""

from __future__ import annotations

import shlex

from strata.errors import WorkloadFailed
from strata.model import (
    Call,
    Command,
    Facts,
    Kind,
    Measured,
    Metric,
    Param,
    ParamType,
    Target,
    TrialOutput,
    TrialPlan,
    Work,
    Workload,
    WorkloadInfo,
)
from strata.processors import ACCELERATOR, CPU
from strata.units import format_size, human_size, human_time
from strata.workloads._common import declared, last_lines

_MIB = 1 << 20

# Where the guest finds the server: an address of QEMU's own network, connected to the server's standard input.
_ADDRESS = "10.0.2.100"

# The release that the installer installs, by its number.
_SUITES = {"12": "bookworm", "13": "trixie"}

# Without `firmware-lookup string never` it would add non-free-firmware by itself, for the microcode of whoever made the
# processor.
_ANSWERS = """\
d-i debian-installer/locale string en_US.UTF-8
d-i keyboard-configuration/xkb-keymap select us
d-i netcfg/choose_interface select auto
d-i netcfg/get_hostname string strata
d-i netcfg/get_domain string
d-i hw-detect/load_firmware boolean false
d-i hw-detect/firmware-lookup string never
d-i mirror/country string manual
d-i mirror/protocol string http
d-i mirror/http/hostname string ADDRESS
d-i mirror/http/directory string /debian
d-i mirror/http/proxy string
d-i mirror/suite string SUITE
d-i mirror/udeb/suite string SUITE
d-i passwd/make-user boolean false
d-i passwd/root-password password strata
d-i passwd/root-password-again password strata
d-i clock-setup/utc boolean true
d-i clock-setup/ntp boolean false
d-i time/zone string Etc/UTC
d-i partman-auto/disk string /dev/vda
d-i partman-auto/method string regular
d-i partman-auto/choose_recipe select atomic
d-i partman/default_filesystem string ext4
d-i partman-partitioning/confirm_write_new_label boolean true
d-i partman/choose_partition select finish
d-i partman/confirm boolean true
d-i partman/confirm_nooverwrite boolean true
d-i base-installer/install-recommends boolean false
d-i base-installer/kernel/image string linux-image-amd64
d-i apt-setup/services-select multiselect
d-i apt-setup/non-free-firmware boolean false
d-i apt-setup/enable-source-repositories boolean false
tasksel tasksel/first multiselect
d-i pkgsel/upgrade select none
d-i pkgsel/update-policy select none
popularity-contest popularity-contest/participate boolean false
d-i grub-installer/only_debian boolean true
d-i grub-installer/bootdev string /dev/vda
d-i finish-install/reboot_in_progress note
d-i debian-installer/exit/poweroff boolean true
d-i preseed/late_command string wget -q -O /dev/null http://ADDRESS/installed
"""

# $1 directory of the trial. Answers one request by its standard input and output. A file of the trial that was asked
# for leaves a file asked-NAME. HTTP 1.0, so that apt does not send the next request before the answer. The mirror is
# reached by apt's own program, which knows the machine's proxies.
_SERVER = """\
cr=$(printf '\\r')
answer() { printf 'HTTP/1.0 %s\\r\\nContent-Length: %s\\r\\nConnection: close\\r\\n\\r\\n' "$1" "$2"; }
read -r method path _ || exit 0
while read -r header && [ -n "${header%"$cr"}" ]; do :; done
case $path in
  *..* | *[!A-Za-z0-9._+~%:/-]*) answer '400 Bad Request' 0; exit ;;
  /debian/*)
    file=$(cat "$1/kept")$path
    if [ ! -f "$file" ]; then
      began=$(date +%s.%N) part=$file.$$
      mkdir -p -- "${file%/*}"
      if /usr/lib/apt/apt-helper -o APT::Sandbox::User=root \\
        download-file "$(cat "$1/mirror")${path#/debian}" "$part" >/dev/null 2>&1
      # As of now, not of when the mirror got it: an index is asked for again after a day.
      then touch -- "$part" && mv -- "$part" "$file"; else echo "$path" >>"$1/missing"; fi
      rm -f -- "$part"
      echo "$began $(date +%s.%N)" >>"$1/fetched"
    fi ;;
  *) file=$1$path; : >"$1/asked-${path##*/}" ;;
esac
if [ ! -f "$file" ]; then answer '404 Not Found' 0; exit; fi
answer '200 OK' "$(stat --format %s -- "$file")"
[ "$method" = HEAD ] || cat -- "$file"
"""

# $1 the release's number, $2 the folder of its installer. Finds `mirror`, or ends with the reason.
_LOOK = """\
if [ ! -f "$2/initrd.gz" ]; then
  echo "the installer of Debian $1 is not here; install debian-installer-$1-netboot-amd64, or say debian=12 or" \\
    "debian=13, whichever of them this machine's Debian has" >&2
  exit 1
fi
mirror=$(apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(LABEL)' |
  sed -n 's#^\\(https\\{0,1\\}://[^|]*[^|/]\\)/*|Debian|Debian$#\\1#p' | head -n 1)
if [ -z "$mirror" ]; then
  echo "apt knows no mirror of Debian that is reached by http; add one to its sources and type apt-get update" >&2
  exit 1
fi
"""

# $3 the release's name, $4 directory of the trial. The index of a release is asked for again after a day: packages that
# it names may be gone from the mirror by then. KVM can be there and make machines that it cannot run, as in a machine
# that is itself one: where it works, a kernel without a root panics at once, and QEMU ends.
_PREPARE = (
    _LOOK
    + """\
kept=${XDG_CACHE_HOME:-$HOME/.cache}/strata/installer
if mkdir -p -- "$kept" && [ -z "$(find "$kept/" -maxdepth 0 -user "$(id -u)" ! -perm /002)" ]; then
  echo "$kept is not this user's alone, and packages are kept there; name another directory with XDG_CACHE_HOME" >&2
  exit 1
fi
dists=$kept/debian/dists/$3
[ -z "$(find "$dists" -maxdepth 1 -type f -mtime +0 2>/dev/null)" ] || rm -rf -- "$dists"
echo "$mirror" >"$4/mirror" && echo "$kept" >"$4/kept" && mkdir -p -- "$kept/debian" && : >"$4/fetched" &&
  : >"$4/installed" && : >"$4/on-kvm" && : >"$4/on-installer" && : >"$4/on-booted" || exit 1
accel=TCG
if [ -w /dev/kvm ]; then
  timeout 30 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -machine q35 -accel kvm -cpu max \\
    -m 512M -kernel "$2/linux" -append 'console=ttyS0 panic=-1' -chardev stdio,id=out -serial chardev:out \\
    </dev/null >"$4/on-kvm" 2>&1
  ! grep -aqF 'Kernel panic' "$4/on-kvm" || accel=kvm
fi
echo "$accel" >"$4/accel"
""".replace("TCG", ACCELERATOR["tcg"])
)

# Before the boot memory forgets what was installed, as before a trial: through the page cache it would be served from
# there, past it from the disk.
# $1 directory of the trial, $2 the same and $3 the target with commas doubled, as QEMU reads them, $4 how it caches,
# $5 the folder of the installer, the rest: QEMU. It ends by itself when all is well; an installer that shows what it
# failed at or asks, or a kernel that panics, waits for ever, so the console is watched.
_INSTALL = (
    """\
dir=$1 console=$2 target=$3 cache=$4 images=$5; shift 5
file=$(printf %s "$target" | sed 's/,,/,/g')
if [ -b "$file" ]; then protocol=host_device format=raw
else
  protocol=file
  format=$(qemu-img info --force-share -- "$file" | sed -n 's/^file format: //p' | head -n 1)
fi
accel=$(cat "$dir/accel") || exit 1
case $accel in kvm) cpu=KVM_CPU ;; *) cpu=TCG_CPU ;; esac
set -- "$@" -accel "$accel" -cpu "$cpu" -blockdev "driver=$protocol,node-name=file,filename=$target,$cache" \\
  -blockdev "driver=$format,node-name=disk,file=file,$cache" -device virtio-blk-pci,drive=disk
qemu=
trap 'if [ -n "$qemu" ]; then kill -KILL "$qemu" && wait "$qemu"; fi 2>/dev/null' EXIT
up() { cut -d ' ' -f 1 /proc/uptime; }
since() { awk "BEGIN { printf \\"%.2f\\", $(up) - $1 }"; }
stuck="failing step is:|Prompt: '\\?' for help|Press enter to continue|Kernel panic"
# $1 its console's name, $2 a word on the console that tells that it is done. True when that came, or it ended.
watch() {
  while grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$qemu/status"; do
    if grep -aqF -e "$2" "$dir/on-$1"; then return; fi
    if grep -aqE "$stuck" "$dir/on-$1"; then return 1; fi
    sleep 0.2
  done
}
# $1 what went wrong, $2 its console's name.
failed() {
  echo "$1; the end of its console:" >&2
  tail -c 2000 "$dir/on-$2" | tr -cd '[:print:]\\n' | grep . | tail -n 12 >&2
  # Packages that an index names, and the mirror has not.
  if missing=$(grep -m 1 '^/debian/pool/' "$dir/missing" 2>/dev/null); then
    echo "$(cat "$dir/mirror") does not have $missing: let apt's sources name a whole mirror" >&2
  fi
  exit 1
}
began=$(up)
"$@" -serial "file:$console/on-installer" -kernel "$images/linux" -initrd "$images/initrd.gz" -append 'APPEND' >&2 &
qemu=$!
watch installer 'no such line' || failed "the installer failed" installer
wait "$qemu"; ended=$? qemu=
[ "$ended" -eq 0 ] || failed "QEMU ended with exit code $ended" installer
[ -e "$dir/asked-installed" ] || failed "the installer ended before all was installed" installer
echo "install_s $(since "$began")"
awk '{ waited += $2 - $1 } END { printf "mirror_s %.2f\\n", waited }' "$dir/fetched"
echo "accel ${accel%%,*}"
sync -- "$file"; { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null
began=$(up)
"$@" -serial "file:$console/on-booted" >&2 &
qemu=$!
watch booted ' login:' || failed "what was installed did not boot" booted
grep -aqF ' login:' "$dir/on-booted" || failed "what was installed ended as it booted" booted
echo "boot_s $(since "$began")"
""".replace("KVM_CPU", CPU["kvm"])
    .replace("TCG_CPU", CPU["tcg"])
    .replace(
        "APPEND",
        # Its network leads to the mirror only: what QEMU would tell it by DHCP has no way out, and it would ask.
        f"auto=true priority=critical url=http://{_ADDRESS}/preseed.cfg hostname=strata domain= interface=auto "
        "netcfg/disable_autoconfig=true netcfg/get_ipaddress=10.0.2.15 netcfg/get_netmask=255.255.255.0 "
        "netcfg/get_gateway=10.0.2.2 netcfg/get_nameservers=10.0.2.3 netcfg/confirm_static=true "
        # Emulated on a busy machine it is kept waiting, and the kernel would take its timer to be broken; what follows
        # the dashes is for the installed one as well.
        "locale=en_US.UTF-8 DEBIAN_FRONTEND=text no_timer_check console=ttyS0 --- no_timer_check console=ttyS0",
    )
)

# As in layers/vm.py: whether the host's page cache is passed by.
_DIRECT = {"none": True, "writeback": False}


class Installer:
    info = WorkloadInfo(
        name="guest/debian-installer",
        about=(
            "debian-installer with a preseed installs a Debian onto the image or volume, in a machine of its own, "
            "which is then booted from it. Packages come from a copy of the mirror that is kept."
        ),
        params=(
            Param("debian", ParamType.CHOICE, "the release", default="13", choices=tuple(_SUITES)),
            Param("memory", ParamType.SIZE, "memory of that machine", default=1 << 30, minimum=1 << 30),
            Param("cpus", ParamType.INT, "its virtual processors", default=1, minimum=1, maximum=64),
            Param("cache", ParamType.CHOICE, "QEMU's cache mode", default="none", choices=tuple(_DIRECT)),
        ),
        metrics=(
            Metric(
                "install_s",
                "s",
                "lower",
                "from the start of QEMU until the installer has switched it off",
                merge="largest",
            ),
            Metric(
                "boot_s",
                "s",
                "lower",
                "from the start of QEMU to the login of what was installed, GRUB's wait in",
                merge="largest",
            ),
            Metric(
                "mirror_s",
                "s",
                "lower",
                "of the installation, waiting for files that were not kept yet",
                merge="largest",
            ),
        ),
        primary="install_s",
        memory="memory",
        accepts=frozenset({Kind.BLOCK, Kind.IMAGE}),
        tools={"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "apt-get": "apt", "awk": "mawk"},
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = [
            f"{spec.text} starts a machine with {tool}, which is not here; install {package}."
            for tool, package in self.info.tools.items()
            if tool not in facts.tools
        ]
        memory = int(spec["memory"] or 0)
        if memory > facts.memory_bytes:
            reasons.append(
                f"{spec.text}: memory={format_size(memory)} is more than this machine has, "
                f"{human_size(facts.memory_bytes)}; give less."
            )
        return reasons

    def checks(self, spec: Call) -> list[Command]:
        return [Command(("sh", "-c", _LOOK, "sh", str(spec["debian"]), _images(spec)), timeout_s=60.0)]

    def data_bytes(self, spec: Call) -> int:
        return 2048 * _MIB  # 1.1 GB of files, and swap

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        release, suite = str(spec["debian"]), _SUITES[str(spec["debian"])]
        server = f"sh {shlex.quote(scratch + '/server')} {shlex.quote(scratch)}"
        cache = f"cache.direct={'on' if _DIRECT[str(spec['cache'])] else 'off'}"
        qemu = (
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", "q35", "-smp", str(spec["cpus"])),
            *("-m", f"{int(spec['memory'] or 0) // _MIB}M", "-device", "virtio-net-pci,netdev=net,romfile="),
            "-netdev",
            f"user,id=net,ipv6=off,restrict=on,guestfwd=tcp:{_ADDRESS}:80-cmd:{_escaped(server)}",
        )
        measure = (_INSTALL, "sh", scratch, _escaped(scratch), _escaped(target.path), cache, _images(spec), *qemu)
        return TrialPlan(
            prepare=(Command(("sh", "-c", _PREPARE, "sh", release, _images(spec), suite, scratch)),),
            measure=Command(("sh", "-c", *measure), timeout_s=_PATIENCE_S),
            collect={},
            work=_WORK,
            put={
                f"{scratch}/server": _SERVER,
                f"{scratch}/preseed.cfg": _ANSWERS.replace("ADDRESS", _ADDRESS).replace("SUITE", suite),
            },
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        if output.exit_code != 0:
            said = last_lines(output.stderr, 6) or "it said nothing"
            raise WorkloadFailed(f"the installation ended with exit code {output.exit_code}: {said}")
        found = dict(line.split(" ", 1) for line in output.stdout.splitlines())
        metrics = {name: float(found[name]) for name in ("install_s", "boot_s", "mirror_s")}
        notes = []
        if metrics["mirror_s"] > _SHARE * metrics["install_s"]:
            notes.append(
                f"of the installation {human_time(metrics['mirror_s'])} went into fetching files from the mirror; they "
                "are kept, so another run is not kept waiting"
            )
        if found["accel"] == "tcg":
            notes.append("the machine that was installed is emulated, without KVM: its processor is what is slow")
        return Measured(metrics, notes=tuple(notes))


# Emulated it takes an hour of a processor that has nothing else to do, with the boot of what was installed; by KVM it
# was never measured. Whether there is KVM for this machine of its own shows when it is started.
_WORK = Work(native_s=3600.0, emulated_s=3600.0)
_PATIENCE_S = 6 * 3600.0
_SHARE = 0.01  # of the installation, that waiting for the mirror may take


def _images(spec: Call) -> str:
    return f"/usr/lib/debian-installer/images/{spec['debian']}/amd64/text/debian-installer/amd64"


def _escaped(text: str) -> str:
    """As QEMU's options want commas."""
    return text.replace(",", ",,")


WORKLOADS: tuple[Workload, ...] = (Installer(),)
