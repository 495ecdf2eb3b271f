#!/bin/bash
# Installs the system's packages that Strata needs and that are missing. Never fails: what cannot be had is said
# plainly, with where to get it, and what needs it is skipped later with that reason.
#   os-packages.sh run     what building and running needs
#   os-packages.sh test    what the tests want beside that
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
test -x .venv/bin/python || want python3-venv python_can_make_venvs
rust_is_new_enough || packages+=(RUST)
if [[ ${1:-run} == test ]]; then
    want chromium have chromium
    want fonts-dejavu-core test -d /usr/share/fonts
    if rust_is_new_enough && ! have rustup; then
        have cargo-fmt || packages+=(RUSTFMT)
        # It depends on the rustc of its own release: there is none beside rustc-web.
        have cargo-clippy || dpkg -s rustc-web >/dev/null 2>&1 || packages+=(rust-clippy)
    fi
fi
((${#packages[@]})) || exit 0

say() { printf 'set-up: %s\n' "$*" >&2; }

where_else() {
    case $1 in
        RUST | cargo*) echo "Rust 1.85 or newer is needed to build strata-engine: Debian 12 has it as rustc-web and cargo-web (bookworm-security), Debian 13 as rustc and cargo; elsewhere https://rustup.rs" ;;
        python3-venv) echo "Python 3.11 or newer with the venv module is needed (python3-venv on Debian, or PYTHON=/path/to/python3.11 make setup)" ;;
        chromium) echo "without Chromium the tests that open the report in a browser are skipped" ;;
        rust-clippy | RUSTFMT | rustfmt*) echo "without it that check of the Rust code is skipped; rustup has it as a component" ;;
        fio) echo "fio 3.16 or newer is needed for every fio workload; https://github.com/axboe/fio" ;;
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
new_enough() { # new_enough PACKAGE: the version offered is 1.85 or newer
    local offered
    offered=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p')
    [[ -n $offered && $offered != '(none)' ]] && dpkg --compare-versions "$offered" ge 1.85
}

if ((EUID == 0)); then
    say "looking for: ${packages[*]}"
    apt-get update -q >/dev/null 2>&1 || say "apt-get update failed; going on with the package lists that are here"
fi

# RUST and RUSTFMT stand for packages whose name differs between releases.
named=()
missing=()
for package in "${packages[@]}"; do
    case $package in
        RUST)
            if new_enough rustc && new_enough cargo; then named+=(rustc cargo)
            elif new_enough rustc-web && new_enough cargo-web; then named+=(rustc-web cargo-web)
            else missing+=(RUST); fi ;;
        RUSTFMT)
            if dpkg -s rustc-web >/dev/null 2>&1; then named+=(rustfmt-web); else named+=(rustfmt); fi ;;
        *)
            if available "$package"; then named+=("$package"); else missing+=("$package"); fi ;;
    esac
done

if ((EUID != 0)); then
    say "not root, so nothing is installed; please ask for: apt-get install --no-install-recommends ${named[*]}"
elif ((${#named[@]})); then
    say "installing ${named[*]}"
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300)
    log=$(mktemp)
    if ! "${install[@]}" "${named[@]}" >"$log" 2>&1 </dev/null; then
        say "together they could not be installed; trying one after the other"
        for package in "${named[@]}"; do
            "${install[@]}" "$package" >"$log" 2>&1 </dev/null || { missing+=("$package"); tail -n 3 "$log" >&2; }
        done
    fi
    rm -f "$log"
fi
for package in "${missing[@]}"; do say "cannot get $package here: $(where_else "$package")"; done
exit 0
