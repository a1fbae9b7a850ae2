#!/usr/bin/env bash
# Builds libditrt.so and the wheel of the Python package that holds it; prints the wheel's path.
# Usage: tools/build_wheel.sh [--no-build] [BUILD_FOLDER [OUTPUT_FOLDER]]     (build, BUILD_FOLDER/wheel)
set -euo pipefail
build_library=1
if [[ "${1:-}" == --no-build ]]; then
  build_library=0
  shift
fi
root="$(cd "$(dirname "$0")/.." && pwd)"
build="${1:-$root/build}"
output="${2:-$build/wheel}"
[[ $build_library == 0 ]] || cmake --build "$build" --target ditrt >&2
exec python3 "$root/tools/wheel.py" --library "$build/lib/libditrt.so.0" --output "$output"
