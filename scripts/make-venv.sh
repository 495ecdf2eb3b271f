#!/bin/bash
# Makes .venv with the first Python that is new enough, unless a working one is there.
set -euo pipefail
cd "$(dirname "$0")/.."
new_enough='import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'
.venv/bin/python -c "$new_enough" 2>/dev/null && exit 0
for python in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if "$python" -c "$new_enough" 2>/dev/null; then
        rm -rf .venv
        exec "$python" -m venv .venv
    fi
done
echo "set-up: no Python 3.11 or newer with the venv module was found; install python3 and python3-venv, or name one: make setup PYTHON=/path/to/python3" >&2
exit 1
