# Runs inside mmdebstrap, before trim.sh, while apt still knows the mirror: puts the packages of a small Debian into the
# root, as a repository for an apt without a network. $1: the new root. They are what `guest/install` installs.
set -eu
root=$1
into="$root/usr/share/strata/packages"
nothing=$(mktemp)
mkdir -p "$into/partial"
# As if nothing were installed yet, so that everything is fetched that an empty disk needs.
APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -qq -y --download-only -o APT::Install-Recommends=false \
    -o APT::Sandbox::User=root -o Dir::State::status="$nothing" -o Dir::Cache::archives="$into" \
    install apt linux-image-amd64 '?essential' '?priority(required)' '?priority(important)'
rm -rf "$into/partial" "$into/lock" "$nothing"
cd "$into"
for deb in *.deb; do
    package=${deb%%_*}
    version=$(dpkg-deb -f "$deb" Version)
    # What the mirror says of it (its priority among that), but that it lies here.
    APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-cache show "$package=$version" | sed "s|^Filename: .*|Filename: ./$deb|"
    echo
done > Packages
# mmdebstrap takes essential packages from the suite that it is asked for only: so this has a name.
cat > Release <<END
Suite: strata
Codename: strata
SHA256:
 $(sha256sum Packages | cut -d ' ' -f 1) $(stat -c %s Packages) Packages
END
# Says where they are; that there is such a program says that there are packages.
printf '#!/bin/sh\necho /usr/share/strata/packages\n' > "$root/usr/local/bin/strata-packages"
chmod 755 "$root/usr/local/bin/strata-packages"
