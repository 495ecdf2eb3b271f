# Runs inside mmdebstrap: Podman as an ordinary user needs ids to give to its containers. $1: the new root.
set -eu
for file in subuid subgid; do
    echo nobody:100000:65536 >> "$1/etc/$file"
done
