#!/bin/sh
# Stands for the script that provisions your machines: what you spend your day waiting for. Put your own in its place; it
# starts in an empty directory on the stack, and its run time decides. It has the three parts of most of them: packages
# are fetched, unpacked and synced one after another; a service's database writes its log; the result of it is packed.
# It needs a shell, coreutils, tar and gzip only, and ends in about ten seconds on a laptop.
set -eu

packages=40
transactions=400

now() { cut -d ' ' -f 1 /proc/uptime; }
since() { awk "BEGIN { printf \"%.2f\", $(now) - $1 }"; }

began=$(now)
mkdir archives system
head -c 2M /dev/urandom > archives/first
package=0
while [ "$package" -lt "$packages" ]; do
    cp archives/first "archives/$package"
    mkdir "new.$package"
    split --bytes=16K --suffix-length=3 "archives/$package" "new.$package/file."
    sync --file-system .
    mv "new.$package" "system/$package"
    echo "package $package: installed" >> system/status
    sync system/status
    package=$((package + 1))
done
packages_s=$(since "$began")

began=$(now)
dd if=/dev/zero of=database.log bs=8K count="$transactions" oflag=append,dsync conv=notrunc status=none
database_s=$(since "$began")

began=$(now)
tar --create system | gzip -1 > image.tar.gz
sync --file-system .
image_s=$(since "$began")

cat > "$STRATA_OUTPUT" <<END
{"packages_s": {"value": $packages_s, "unit": "s", "better": "lower"},
 "database_s": {"value": $database_s, "unit": "s", "better": "lower"},
 "image_s": {"value": $image_s, "unit": "s", "better": "lower"}}
END
