#!/bin/bash
# Format and lints of the Rust code; a tool that this machine cannot have is skipped with that said.
set -euo pipefail
cd "$(dirname "$0")/.."
if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
else
    echo "skipped: cargo fmt --check, because rustfmt is not installed here"
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --locked --quiet --workspace --all-targets -- -D warnings
else
    echo "skipped: cargo clippy, because it is not installed here (Debian 12 has none beside rustc-web)"
fi
