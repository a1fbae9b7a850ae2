#!/usr/bin/env bash
# The main job on the host target: a real exported diffusion transformer (PixArt, small, from diffusers) for two
# resolutions, compiled into one package, run at both, and compared with the numbers that PyTorch gave. Where NVRTC is found
# the same model is compiled for an H100 as well, which needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh

ditc=build/bin/ditc
model=tests/models/pixart
out=build/demo
mkdir -p "$out"

say() { printf '\n$ %s\n' "$*"; "$@"; }

say $ditc inspect $model/model.pt2 | grep -v '^ *[0-9]* torch.ops'
say $ditc compile $model/model.pt2 -o $out/pixart.dita \
  --bucket square:hidden_states.2=16,hidden_states.3=16,hidden_states.0=2,encoder_hidden_states.1=13 \
  --bucket tall:hidden_states.2=26,hidden_states.3=14,hidden_states.0=2,encoder_hidden_states.1=19
for bucket in square tall; do
  say $ditc run $out/pixart.dita --inputs $model/inputs_$bucket.safetensors --check $model/outputs_$bucket.safetensors --tolerance 1e-4
done
say $ditc explain $out/pixart.dita transformer_blocks.0.ff.net.2
say $ditc report $out/pixart.dita --bucket square --format html -o $out/report.html
if say $ditc compile $model/model.pt2 -o $out/pixart_sm_90a.dita --target sm_90a \
  --bucket square:hidden_states.2=16,hidden_states.3=16,hidden_states.0=2,encoder_hidden_states.1=13; then
  printf 'The kernels and their sources are in %s/pixart_sm_90a.dita, an ordinary zip.\n' "$out"
else
  printf 'Without NVRTC nothing is compiled for a GPU; the rest needs none.\n'
fi
printf '\nBoth resolutions agree with PyTorch. The fusion report is %s/report.html\n' "$out"
