#!/bin/bash
# Installs the system's packages that Strata needs and that are missing. Never fails: what cannot be had is said
# plainly, with where to get it, and what needs it is skipped later with that reason.
#   os-packages.sh run     what building and running needs
#   os-packages.sh test    what the tests want beside that
#   os-packages.sh lab     what the lab needs: building it, and a QEMU that carries it
set -uo pipefail
PATH="$PATH:/usr/sbin:/sbin" # an ordinary user on Debian does not have them
export LC_ALL=C

have() { command -v "$1" >/dev/null 2>&1; }

rust_is_new_enough() { # 1.85 is the oldest supported; a rustup without a toolchain answers with an error
    local version
    have cargo && version=$(rustc --version 2>/dev/null) || return 1
    [[ $version =~ ^rustc\ 1\.([0-9]+)\. ]] && ((BASH_REMATCH[1] >= 85))
}

python_can_make_venvs() {
    "${PYTHON:-python3}" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Under emulation an older one loses machines while they boot. A KVM that is there may still not work, as in a machine
# that is itself one, so it excuses no older one.
qemu_is_new_enough() {
    local version
    version=$(qemu-system-x86_64 --version 2>/dev/null) || return 1
    [[ $version =~ version\ ([0-9]+)\. ]] && ((BASH_REMATCH[1] >= 10))
}

packages=()
want() { # want PACKAGE CHECK...: notes the package when the check fails
    local package=$1
    shift
    "$@" || packages+=("$package")
}

want gcc have gcc
want libc6-dev test -e /usr/include/stdio.h
want fio have fio
want e2fsprogs have mkfs.ext4
want xfsprogs have mkfs.xfs
want btrfs-progs have mkfs.btrfs
want f2fs-tools have mkfs.f2fs
want util-linux have findmnt
want mount have losetup
want kmod have modprobe
want fdisk have sfdisk
want qemu-utils have qemu-storage-daemon
want libnbd-bin have nbdfuse
test -x .venv/bin/python || want python3-venv python_can_make_venvs
rust_is_new_enough || packages+=(RUST)
if [[ ${1:-run} == test ]]; then
    want nbdkit have nbdkit
    want chromium have chromium
    want strace have strace
    want zsh have zsh
    want fish have fish
    want man-db have man
    # Container engines; as the layers use them nothing of them runs in the background.
    want podman have podman
    want conmon have conmon
    want runc have runc
    want docker.io have dockerd
    want containerd have ctr
    want fuse-overlayfs have fuse-overlayfs
    want lxd have lxd
    want lxd-client have lxc
    want lxc have lxc-start
    want incus-base test -x /usr/libexec/incus/incusd
    want incus-client have incus
    want buildah have buildah
    want busybox-static have busybox
    # The tests of these engines compare the machine's network before and after.
    want iproute2 have ip
    want nftables have nft
    want iptables have iptables-legacy
    # No service comes with it: the test starts a libvirt of its own.
    want libvirt-daemon have libvirtd
    want libvirt-daemon-driver-qemu test -e "/usr/lib/$(uname -m)-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"
    want libvirt-clients have virsh
    want python3-libvirt /usr/bin/python3 -c 'import libvirt'
    # They read recipes, as their users would have them read.
    want ansible-core have ansible-playbook
    want libxml2-utils have xmllint
    want nix-bin have nix-instantiate
    want fonts-dejavu-core test -d /usr/share/fonts
    want postgresql test -d /usr/lib/postgresql
    # For CI only: on a developer's machine the package would open a port. The tests start a server of their own.
    [[ -z ${CI:-} ]] || want openssh-server have sshd
    want sysbench have sysbench
    if rust_is_new_enough && ! have rustup; then
        have cargo-fmt || packages+=(RUSTFMT)
        # It depends on the rustc of its own release: there is none beside rustc-web.
        have cargo-clippy || dpkg -s rustc-web >/dev/null 2>&1 || packages+=(rust-clippy)
    fi
fi
if [[ ${1:-run} == lab ]]; then
    want mmdebstrap have mmdebstrap
    want squashfs-tools have mksquashfs
    want openssh-client have ssh-keygen
    want debian-archive-keyring test -e /usr/share/keyrings/debian-archive-keyring.gpg
    # An ordinary user makes the lab in a user namespace.
    want uidmap have newuidmap
    want qemu-system-x86 qemu_is_new_enough
fi
((${#packages[@]})) || exit 0

say() { printf 'set-up: %s\n' "$*" >&2; }

where_else() {
    case $1 in
        RUST | cargo*) echo "Rust 1.85 or newer is needed to build strata-engine: Debian 12 has it as rustc-web and cargo-web (bookworm-security), Debian 13 as rustc and cargo; elsewhere https://rustup.rs" ;;
        python3-venv) echo "Python 3.11 or newer with the venv module is needed (python3-venv on Debian, or PYTHON=/path/to/python3.11 make setup)" ;;
        podman | conmon | runc | docker.io | containerd | fuse-overlayfs | lxd | lxd-client | lxc | buildah | incus-* | busybox-static)
            echo "without it stacks of that container engine are skipped" ;;
        chromium) echo "without Chromium the tests that open the report in a browser are skipped" ;;
        rust-clippy | RUSTFMT | rustfmt*) echo "without it that check of the Rust code is skipped; rustup has it as a component" ;;
        qemu-system-x86) echo "the lab needs QEMU, 10.0 or newer where there is no KVM; Debian 12 has it in bookworm-backports" ;;
        mmdebstrap | squashfs-tools | debian-archive-keyring) echo "without it no lab can be built" ;;
        uidmap) echo "without it only root can build a lab" ;;
        fio) echo "fio 3.16 or newer is needed for every fio workload; https://github.com/axboe/fio" ;;
        qemu-utils | libnbd-bin) echo "stacks with a disk image will be skipped" ;;
        libvirt-* | python3-libvirt) echo "without it the tests of vm(engine=libvirt) are skipped" ;;
        ansible-core | libxml2-utils | nix-bin) echo "without it recipes in that form are not read by the program that they are for" ;;
        nbdkit) echo "without it the test of what QEMU's cache modes flush is skipped" ;;
        f2fs-tools | btrfs-progs | xfsprogs | e2fsprogs) echo "stacks with that file system will be skipped" ;;
        *) echo "ask the administrator of this machine for it" ;;
    esac
}

if ! have apt-get; then
    say "this system has no apt-get; please install with its own package manager what is missing:"
    for package in "${packages[@]}"; do say "  $package: $(where_else "$package")"; done
    exit 0
fi

available() { [[ -n $(apt-cache madison "$1" 2>/dev/null) ]]; }
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p'; }
new_enough() { # new_enough PACKAGE: the version offered is 1.85 or newer
    local offered
    offered=$(candidate "$1")
    [[ -n $offered && $offered != '(none)' ]] && dpkg --compare-versions "$offered" ge 1.85
}

# The backports of this very release, from the mirror that the machine uses, by lists of our own that are gone
# afterwards: nothing else of the machine is ever taken from there.
from_backports() { # from_backports PACKAGE
    local folder mirror release status=1
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mirror=$(apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(LABEL)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's/|Debian|Debian$//p' | head -n 1)
    [[ -n $release && -n $mirror ]] || return 1
    folder=$(mktemp -d)
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    chmod 755 "$folder" # apt fetches as a user of its own
    chown -R _apt "$folder/lists/partial" "$folder/cache/archives/partial" 2>/dev/null
    {
        cat /etc/apt/sources.list 2>/dev/null
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release-backports main"
    } >"$folder/sources.list"
    private=(-o "Dir::Etc::sourcelist=$folder/sources.list" -o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder/cache")
    apt-get update -q "${private[@]}" >/dev/null 2>&1 # another source that fails is no reason
    "${install[@]}" "${private[@]}" -t "$release-backports" "$1" >"$log" 2>&1 </dev/null && status=0
    rm -rf "$folder"
    return $status
}

if ((EUID == 0)); then
    say "looking for: ${packages[*]}"
    apt-get update -q >/dev/null 2>&1 || say "apt-get update failed; continuing with the package lists that are here"
fi

# RUST and RUSTFMT stand for packages whose name differs between releases.
named=()
missing=()
backports=()
for package in "${packages[@]}"; do
    case $package in
        qemu-system-x86)
            offered=$(candidate "$package")
            if [[ -n $offered ]] && dpkg --compare-versions "$offered" ge 1:10; then named+=("$package")
            else backports+=("$package"); fi ;;
        RUST)
            if new_enough rustc && new_enough cargo; then named+=(rustc cargo)
            elif new_enough rustc-web && new_enough cargo-web; then named+=(rustc-web cargo-web)
            else missing+=(RUST); fi ;;
        RUSTFMT)
            if dpkg -s rustc-web >/dev/null 2>&1; then named+=(rustfmt-web); else named+=(rustfmt); fi ;;
        incus-*) # Debian 12 has it in its backports
            if available "$package"; then named+=("$package"); else backports+=("$package"); fi ;;
        *)
            if available "$package"; then named+=("$package"); else missing+=("$package"); fi ;;
    esac
done

# Packages must not start their services here: a policy of invoke-rc.d forbids it until this script ends.
policy=/usr/sbin/policy-rc.d
if ((EUID == 0)) && [[ ! -e $policy ]]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300)
log=$(mktemp)
if ((EUID != 0)); then
    ((${#named[@]})) && say "not root, so nothing is installed; please ask for: apt-get install --no-install-recommends ${named[*]}"
    ((${#backports[@]})) && say "and, from this release's backports: ${backports[*]}"
elif ((${#named[@]})); then
    say "installing ${named[*]}"
    if ! "${install[@]}" "${named[@]}" >"$log" 2>&1 </dev/null; then
        say "together they could not be installed; trying one after the other"
        for package in "${named[@]}"; do
            "${install[@]}" "$package" >"$log" 2>&1 </dev/null || { missing+=("$package"); tail -n 3 "$log" >&2; }
        done
    fi
fi
if ((EUID == 0)); then
    for package in "${backports[@]}"; do
        say "installing $package from this release's backports"
        from_backports "$package" || { missing+=("$package"); tail -n 3 "$log" >&2; }
    done
fi
rm -f "$log"
for package in "${missing[@]}"; do say "cannot get $package here: $(where_else "$package")"; done
exit 0
