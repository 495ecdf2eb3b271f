# Runs inside mmdebstrap: builds the ZFS modules for the one kernel whose headers are installed. $1: the new root.
# dkms is called by hand: the package's own script looks at the running kernel and then builds nothing, silently.
set -eu
cd "$1"
version=$(ls usr/src | sed -n 's/^zfs-//p')
kernel=$(ls lib/modules)
# Type information for debuggers takes an eighth of the time, at each of the hundreds of questions of its configure too.
rm -f usr/src/linux-headers-*/vmlinux
failed() {
    grep -hE 'error|\*\*\*' "var/lib/dkms/zfs/$version/build/make.log" | head -n 8 >&2 || true
    exit 1
}
chroot . dkms add -m zfs -v "$version"
chroot . dkms build -m zfs -v "$version" -k "$kernel" -j "$(nproc)" || failed
mkdir zfs-modules
find "var/lib/dkms/zfs/$version/$kernel" -name '*.ko*' -exec cp {} zfs-modules/ \;
