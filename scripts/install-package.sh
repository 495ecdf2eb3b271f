#!/bin/bash
# Builds strata-engine and installs it with the `strata` command into .venv; the Python code stays where it is
# (editable), so only a change of the Rust code or of the packaging needs this again.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustc --version >/dev/null 2>&1 || ! command -v cargo >/dev/null; then
    echo "set-up: strata-engine cannot be built without Rust (1.85 or newer): Debian 12 has rustc-web and cargo-web, Debian 13 rustc and cargo, elsewhere https://rustup.rs" >&2
    exit 1
fi
export PATH="$PWD/.venv/bin:$PATH" # the build backend calls maturin by its name
# The engine is in every exact machine, so it must be the same one whoever builds it: without the path of their home.
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
echo "set-up: building strata-engine"
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation --editable .
