#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_models.sh [BUNDLE] [BUILD] [PART...]: compiles what run_models.sh runs on a CUDA machine into BUNDLE (a folder that
# git ignores, build-gpu/models unless given) with the build folder BUILD. Needs NVRTC, no GPU. PART: bin zoo quantized python full
# recipes rowwise tune; all of them but recipes and tune unless named. The zoo is $DITC_ZOO_DIR, in folders a, b, ... of at most 36 MiB; full-size models come
# from $DITC_ZOO_FULL_DIR, where DITC_MODELS=name,... chooses some. Parts whose variable is not set are left out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bundle=${1:-$root/build-gpu/models}
build=$(cd "${2:-$root/build}" && pwd)
[ $# -ge 2 ] && shift 2 || shift $#
parts=${*:-bin zoo quantized python full rowwise}
ditc=$build/bin/ditc
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$bundle"

# Each piece may be built at another time, so each says from what, when it has been built; the build folder is taken to be
# up to date. Full-size models may be chosen, so each package is a piece.
note() { python3 "$here/note_commit.py" "$bundle" --piece "$1"; }

bin() {
  mkdir -p "$bundle/bin"
  cp "$build/bin/ditc-run" "$bundle/bin/"
  cp -L "$build/lib/libditrt.so" "$bundle/bin/"
}

zoo() {
  python3 "$root/tests/models/check_models.py" --ditc "$ditc" "$DITC_ZOO_DIR" --options "--target sm_90a" --packages "$scratch/packages"
  python3 "$here/split_zoo.py" "$DITC_ZOO_DIR" "$scratch/packages" "$bundle"
}

# bf16 models with all products in fp8, for the host as well, whose numbers are the yardstick; once more by mma.sync, as GPUs
# of other generations multiply them (DITC_QUANTIZED_TARGETS chooses: both together are 85 MiB).
quantized() {
  for folder in "$DITC_ZOO_DIR"/*_bf16; do
    for target in ${DITC_QUANTIZED_TARGETS:-sm_90a ptx89}; do
      to=$bundle/quantized/$(basename "$folder")-$target
      mkdir -p "$to"
      "$ditc" compile "$folder/model.pt2" --quantize fp8 --quantize-only '*' --target host --target $target -q -o "$to/model.dita"
      cp "$folder/inputs.safetensors" "$folder/outputs.safetensors" "$to/"
    done
  done
}

python() {
  mkdir -p "$bundle/python"
  "$ditc" compile "$root/tests/models/dit/model.pt2" --target sm_90a --bucket two:hidden_states.0=2 --bucket four:hidden_states.0=4 \
    -q -o "$bundle/python/dit.dita"
}

# The package that a full-size model goes into: sizes of one model share it, where they share all weights.
package_of() {
  case $1 in flux1_dev_*) echo flux1_dev ;; *) echo "$1" ;; esac
}

# Names of the full-size models that were asked for.
full_models() {
  for archive in "$DITC_ZOO_FULL_DIR"/*.pt2.gz; do
    model=$(basename "$archive" .pt2.gz)
    case ",${DITC_MODELS:-$model}," in *",$model,"*) echo "$model" ;; esac
  done
}

# Full-size models: packages, notes for the modules that they came from, and the dumps that rowwise takes kernels from.
full() {
  mkdir -p "$bundle/full"
  for name in $(for model in $(full_models); do package_of "$model"; done | sort -u); do
    set --
    for model in $(full_models); do
      [ "$(package_of "$model")" = "$name" ] || continue
      gzip -dc "$DITC_ZOO_FULL_DIR/$model.pt2.gz" > "$scratch/$model.pt2"
      set -- "$@" "$model=$scratch/$model.pt2"
      cp -f "$DITC_ZOO_FULL_DIR/$model.notes.json" "$bundle/full/"
      chmod u+w "$bundle/full/$model.notes.json"
      echo "$name.dita" > "$bundle/full/$model.package"
    done
    "$ditc" compile "$@" --target sm_90a --weights-in none --dump "$scratch/dump" -q -o "$bundle/full/$name.dita"
    "$ditc" compile "$@" --target sm_90a --weights-in none --quantize fp8 -q -o "$bundle/full/$name-fp8.dita"
    "$ditc" compile "$@" --target sm_90a --weights-in none --quantize-attention int8 -q -o "$bundle/full/$name-int8.dita"
    "$ditc" compile "$@" --target sm_90a --weights-in none --quantize fp8 --quantize-attention int8 -q -o "$bundle/full/$name-fp8-int8.dita"
    rm -rf "$bundle/dumps/$name"
    mkdir -p "$bundle/dumps/$name/sm_90a/kernels"
    cp -r "$scratch"/dump/sm_90a/kernels/rowwise_* "$bundle/dumps/$name/sm_90a/kernels/"
    rm -rf "$scratch/dump" "$scratch"/*.pt2
    note "full/$name"
  done
}

# Full-size graphs of the exporter's recipes ($DITC_RECIPES, NAME or NAME@SIZE) beside those, exported by $DITC_EXPORT_PYTHON, a
# Python with tools/requirements-export.txt.
recipes() {
  mkdir -p "$bundle/full"
  for recipe in $DITC_RECIPES; do
    name=$(echo "$recipe" | tr @ -)
    "${DITC_EXPORT_PYTHON:-python3}" "$root/tools/export_diffusers.py" --recipe "$recipe" --graph-only -o "$scratch/export"
    "$ditc" compile "$name=$scratch/export/model.pt2" --target sm_90a --weights-in none -q -o "$bundle/full/$name.dita"
    cp "$scratch/export/notes.json" "$bundle/full/$name.notes.json"
    note "full/$name"
  done
}

# Other models than these have the same patterns.
rowwise() {
  set --
  for name in flux1_dev sd35_medium_1024 sd35_large_1024 pixart_sigma_1024 wan21_t2v_1_3b_480p; do
    [ ! -d "$bundle/dumps/$name" ] || set -- "$@" "$bundle/dumps/$name" "$bundle/full/$name.dita"
  done
  rm -rf "$bundle/rowwise"
  python3 "$here/write_rowwise.py" "$bundle/rowwise" "$@"
  "$build/bin/compile_kernels" sm_90a "$bundle/rowwise" "$bundle"/rowwise/*.mlir
}

# Candidates of all gemm kernels of the full-size models, or with DITC_TUNE_OPTIONS=--tuning-missing-only of those that the
# shipped database has not: `bin/ditc-run tune tune/models.tune -o tuning.json` measures them,
# `ditc tune --merge tuning.json --database codegen/tuning/h200.json` takes the results in.
tune() {
  mkdir -p "$bundle/tune"
  set --
  for model in $(full_models); do
    gzip -dc "$DITC_ZOO_FULL_DIR/$model.pt2.gz" > "$scratch/$model.pt2"
    set -- "$@" "$scratch/$model.pt2"
  done
  "$ditc" compile "$@" --target sm_90a ${DITC_TUNE_OPTIONS:-} --tuning-bundle "$bundle/tune/models.tune"
  rm -f "$scratch"/*.pt2
}

# The variable that a part needs and that is not set; nothing where the part can be built.
missing() {
  case $1 in
    zoo | quantized) [ -n "${DITC_ZOO_DIR:-}" ] || echo DITC_ZOO_DIR ;;
    full | tune) [ -n "${DITC_ZOO_FULL_DIR:-}" ] || echo DITC_ZOO_FULL_DIR ;;
    recipes) [ -n "${DITC_RECIPES:-}" ] || echo DITC_RECIPES ;;
  esac
}

for part in $parts; do
  case $part in
    bin | zoo | quantized | python | full | recipes | rowwise | tune) variable=$(missing "$part") ;;
    *) echo "build_models.sh: no part '$part'" >&2; exit 2 ;;
  esac
  if [ -n "$variable" ]; then
    echo "$part is left out: $variable is not set"
    continue
  fi
  "$part"
  case $part in full | recipes) ;; *) note "$part" ;; esac
done
du -sh "$bundle"
