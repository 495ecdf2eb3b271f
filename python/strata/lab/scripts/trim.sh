# Runs inside mmdebstrap, after all packages are configured: removes what no visit uses. $1: the new root.
set -eu
cd "$1"
# Documentation, translations and caches, whatever made them after dpkg's own filter.
rm -rf usr/share/doc usr/share/doc-base usr/share/info usr/share/locale usr/share/man usr/share/bash-completion \
    var/cache/apt var/cache/debconf var/lib/apt
mkdir -p var/cache/apt var/cache/debconf var/lib/apt
find var/log -type f -delete
# The names of PCI and USB devices; udev works without.
rm -rf usr/lib/udev/hwdb.bin usr/lib/udev/hwdb.d
# Character sets beside UTF-8.
rm -rf usr/lib/x86_64-linux-gnu/gconv
# Python: of fio, xfsprogs and zfs only scripts that draw and watch.
rm -rf usr/lib/python3* usr/bin/python3* usr/share/python3
# Installing packages. What is installed can still be asked: dpkg's status stays.
rm -rf usr/bin/apt usr/bin/apt-* usr/lib/apt usr/bin/sqv usr/lib/x86_64-linux-gnu/libapt-* var/lib/dpkg/info
# The Unicode tables are 31 MB, for xfs_scrub alone unless a feature brought something else that uses them.
users=$(grep -rlE 'libicu[a-z0-9]*\.so' usr/bin usr/sbin usr/lib --include='*' \
    --exclude='libicu*' --exclude='xfs_scrub*' 2>/dev/null || true)
if [ -z "$users" ]; then
    rm -f usr/sbin/xfs_scrub* usr/lib/x86_64-linux-gnu/libicu*
fi
# No lab shares its keys or its machine's name with another: they are given when it starts.
rm -f etc/ssh/ssh_host_*
: > etc/machine-id
# The package of ZFS draws this at random when it is installed. Labs of the same packages are equal in every byte.
if [ -e etc/hostid ]; then printf 'labs' > etc/hostid; fi
