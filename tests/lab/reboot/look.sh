# Runs in the machine after it has come up, in the folder of the job. $1: the folder for the answers. `names` holds the
# names of the recipes; where there is `apply`, the disks are fresh and they are applied first.
answers=$1
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

apply() {
  echo "applies $1" >&2
  timeout 300 sh "./$1.sh" apply </dev/null >"$answers/$1/apply" 2>&1 || return
  head -c 4M /dev/urandom >"/srv/$1/data"
  (cd "/srv/$1" && sha256sum data >data.sha256)
}

if [ -e apply ]; then
  while read -r name; do
    mkdir "$answers/$name"
    apply "$name"
  done <names
  cp -r files/. /
  cat fstab >>/etc/fstab
  findmnt --verify >"$answers/fstab" 2>&1
  # the machine is restarted anyway, and reading all units again takes seconds
  while read -r unit; do systemctl --no-reload enable "$unit"; done <units
fi

while read -r name; do
  into=$answers/$name
  echo "looks at $name" >&2
  mkdir -p "$into"
  findmnt --noheadings --output FSTYPE --mountpoint "/srv/$name" >"$into/mounted"
  (cd "/srv/$name" && sha256sum --check data.sha256) >"$into/data"
  timeout 300 sh "/var/lib/strata/$name/script" inspect </dev/null >"$into/inspect"
  systemctl is-active "writer-$name" >"$into/daemon"
  grep -c "$(cat /proc/sys/kernel/random/boot_id)" "/srv/$name/by-daemon" >"$into/written"
  if [ ! -e apply ] && [ "$(cat "$into/daemon")" != active ]; then
    journalctl --boot --no-pager --output short-monotonic --unit "strata-$name.service" --unit "writer-$name.service" --unit "$(systemd-escape --path --suffix=mount "/srv/$name")" >"$into/journal"
  fi
  if [ ! -s "$into/mounted" ]; then
    ls -A "/srv/$name" >"$into/below"
    if [ -e "by-hand/$name" ]; then sh "by-hand/$name" >"$into/by-hand"; fi
  fi
done <names
systemctl list-units --failed --plain --no-legend >"$answers/failed"
systemd-analyze time >"$answers/time"
