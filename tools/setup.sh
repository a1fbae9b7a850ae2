#!/usr/bin/env bash
# Installs the Debian packages that ditc needs (root or sudo), configures and builds into build/.
# Usage: tools/setup.sh [--build-only]
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools   # compiler, MLIR, lit, FileCheck
  cmake ninja-build ccache                                                 # build
  nlohmann-json3-dev libfmt-dev libcli11-dev libxxhash-dev zlib1g-dev libzstd-dev
  libopenblas0-pthread                                                     # BLAS of the host target
  libgtest-dev libgmock-dev python3 python3-numpy python3-pip               # tests
)

missing() { for p in "${packages[@]}"; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"; done; }

if [[ "${1:-}" != "--build-only" ]] && [[ -n "$(missing)" ]]; then
  echo "installing: $(missing | tr '\n' ' ')"
  as_root=""
  [[ $(id -u) -eq 0 ]] || as_root=sudo
  $as_root apt-get update -qq
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(missing) >/dev/null
fi

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
if [[ ! -f build/build.ninja ]]; then
  cmake -S . -B build -G Ninja -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22
fi
cmake --build build
