#!/usr/bin/env bash
# Builds ditc and runs all tests. DITC_ZOO_DIR and DITC_ZOO_FULL_DIR may name folders of exported models with
# golden outputs (docs/testing.md); tests that need them are skipped without.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
