#!/usr/bin/env bash
# The main job on the host target: a real exported DiT for two resolutions, compiled into one package, run,
# and compared with the numbers that PyTorch gave.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh

ditc=build/bin/ditc
model=tests/models/dit
out=build/demo
mkdir -p "$out"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }
