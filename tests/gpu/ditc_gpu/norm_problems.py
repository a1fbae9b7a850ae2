# SPDX-License-Identifier: Apache-2.0
"""GroupNorm with SiLU over few, very long rows, as VAE decoders have it, written as the fusion that the compiler makes of
it: `ditc-opt --ditc-split-norms` cuts its rows, or leaves it a block for each. Needs no torch."""
import dataclasses

TEXT = """func.func @{name}(%x: {rows}, %w: {scale}, %b: {scale}) -> {image} {{
  %y = dit.fusion "rowwise"(%x, %w, %b) : ({rows}, {scale}, {scale}) -> {image} {{
  ^bb0(%arg0: {rows}, %arg1: {scale}, %arg2: {scale}):
    %0 = dit.norm layer %arg0 axes 1 eps 1.0e-6 : ({rows}) -> {wide_rows}
    %1 = dit.view %0 : {wide_rows} -> {wide_image}
    %2 = dit.map(%1, %arg1, %arg2) : ({wide_image}, {scale}, {scale}) -> {image} {{
    ^bb0(%p: f32, %q: f32, %r: f32):
      %one = arith.constant 1.000000e+00 : f32
      %3 = arith.mulf %p, %q : f32
      %4 = arith.addf %3, %r : f32
      %5 = arith.negf %4 : f32
      %6 = math.exp %5 : f32
      %7 = arith.addf %6, %one : f32
      %8 = arith.divf %4, %7 : f32
      dit.yield %8 : f32
    }}
    dit.yield %2 : {image}
  }}
  return %y : {image}
}}
"""


@dataclasses.dataclass(frozen=True)
class Norm:
    batch: int
    channels: int
    side: int
    groups: int = 32

    @property
    def bytes(self):
        """Read once and written once."""
        return 4 * self.batch * self.channels * self.side**2


def function(p, name):
    def type_of(shape, element):
        return f"tensor<{'x'.join(map(str, shape))}x{element}>"
    rows, image = (p.batch, p.groups, p.channels // p.groups * p.side**2), (p.batch, p.channels, p.side, p.side)
    return TEXT.format(name=name, rows=type_of(rows, "bf16"), wide_rows=type_of(rows, "f32"), image=type_of(image, "bf16"), wide_image=type_of(image, "f32"),
                       scale=type_of((1, p.channels, 1, 1), "bf16"))


def norms():
    return {"norm_512_128": Norm(1, 512, 128), "norm_512_256": Norm(1, 512, 256), "norm_512_512": Norm(1, 512, 512), "norm_256_512": Norm(1, 256, 512),
            "norm_256_1024": Norm(1, 256, 1024), "norm_128_1024": Norm(1, 128, 1024), "norm_batch2_128_1024": Norm(2, 128, 1024)}
