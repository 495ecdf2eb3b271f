# Runs inside mmdebstrap, at the end: makes the root one that QEMU boots with systemd as its first process, and Debian's
# own initramfs for it. $1: the new root. $2: the kernel's release.
set -eu
root=$1 release=$2
echo strata-reboot > "$root/etc/hostname"
: > "$root/etc/fstab"
: > "$root/etc/machine-id"

# Only what the machine is made of: most modules of a Debian are for devices that it has not, and are slow to unpack.
sed -i 's/^MODULES=.*/MODULES=list/' "$root/etc/initramfs-tools/initramfs.conf"
printf '%s\n' virtio_pci virtio_blk virtio_scsi sd_mod squashfs overlay ext4 >> "$root/etc/initramfs-tools/modules"

# The root is an image that is only read; what is written lies on a disk beside, and is there after a restart.
cat > "$root/etc/initramfs-tools/scripts/init-bottom/strata-overlay" << 'END'
#!/bin/sh
if [ "$1" = prereqs ]; then exit 0; fi
mkdir -p /run/lower /run/upper
mount -o move "$rootmnt" /run/lower
mount -t ext4 /dev/vdb /run/upper
mkdir -p /run/upper/data /run/upper/work
mount -t overlay -o lowerdir=/run/lower,upperdir=/run/upper/data,workdir=/run/upper/work overlay "$rootmnt"
END
chmod 755 "$root/etc/initramfs-tools/scripts/init-bottom/strata-overlay"

# The job is a tar at the beginning of a disk, and so are the answers, at the same place.
cat > "$root/usr/local/sbin/strata-job" << 'END'
#!/bin/sh
mail=/dev/disk/by-id/virtio-mail
mkdir -p /run/job /run/answers
systemctl is-system-running --wait > /run/answers/state
tar -xf "$mail" -C /run/job
cd /run/job
sh ./run /run/answers
tar -cf "$mail" -C /run/answers .
sync
systemctl poweroff
END
chmod 755 "$root/usr/local/sbin/strata-job"
cat > "$root/etc/systemd/system/strata-job.service" << 'END'
[Unit]
Description=what the test does after the boot

[Service]
Type=exec
ExecStart=/usr/local/sbin/strata-job
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=multi-user.target
END
chroot "$root" systemctl --quiet enable strata-job.service

# A boot that ends in the emergency shell ends the machine; the test has no answers then.
mkdir "$root/etc/systemd/system/emergency.service.d"
cat > "$root/etc/systemd/system/emergency.service.d/end.conf" << 'END'
[Service]
ExecStartPre=
ExecStart=
ExecStart=/usr/bin/systemctl poweroff --force --force
END
chroot "$root" systemctl --quiet mask serial-getty@ttyS0.service getty@tty1.service

chroot "$root" update-initramfs -c -k "$release"
