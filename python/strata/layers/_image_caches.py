"""What root's Podman and buildah note of images outside of the storage that they are given: blobs and short names."""

from __future__ import annotations

IN_OWN_CACHES = r"""
# A command of root's that loads or builds images. Its mounts end with it.
in_own_caches() {
  for cache in /var/lib/containers/cache /var/cache/containers; do
    mkdir -p -- "$d/caches$cache" "$cache" || return 1
  done
  unshare --mount sh -c '
    caches=$1; shift
    for cache in /var/lib/containers/cache /var/cache/containers; do
      mount --bind -- "$caches$cache" "$cache" || exit 1
    done
    exec "$@"' sh "$d/caches" "$@"
}
"""
"""For clients. Set before: d, the directory of the client. No setting moves these two directories (containers/image
5.23: systemBlobInfoCacheDir, shortNameAliasesConfPath)."""
