# SPDX-License-Identifier: Apache-2.0
"""Convolutions as the compiler emits them: problems as plan.programs, and the grid and the shapes of models that are run.

`program` writes a problem as a plan.program with one launch of family "conv"; `ditc-opt --ditc-plan-convolutions` adds the
launches that lay out images and filters, and compile_kernels makes the images. Needs no torch."""
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Problem:
    batch: int
    channels: int
    size: tuple  # spatial, one to three
    out_channels: int
    window: tuple
    stride: tuple = ()  # ones
    padding: tuple = ()  # zeros
    dilation: tuple = ()  # ones
    groups: int = 1
    element: str = "bf16"
    bias: bool = True
    input_last: bool = False  # channels lie innermost
    output_last: bool = False

    def of(self, values, default):
        return values or (default,) * len(self.size)

    @property
    def strides(self):
        return self.of(self.stride, 1)

    @property
    def pads(self):
        return self.of(self.padding, 0)

    @property
    def dilations(self):
        return self.of(self.dilation, 1)

    @property
    def out_size(self):
        return tuple((n + 2 * p - d * (w - 1) - 1) // s + 1
                     for n, w, s, p, d in zip(self.size, self.window, self.strides, self.pads, self.dilations))

    @property
    def shapes(self):
        """Of the input, the filter and the output."""
        return ((self.batch, self.channels, *self.size), (self.out_channels, self.channels // self.groups, *self.window),
                (self.batch, self.out_channels, *self.out_size))

    @property
    def flop(self):
        return 2.0 * math.prod(self.shapes[2]) * math.prod(self.shapes[1][1:])

    @property
    def bytes(self):
        return (4 if self.element == "f32" else 2) * sum(map(math.prod, self.shapes))


def strides_of(shape, last):
    """Of [N, C, spatial...], dense, channels innermost with `last`."""
    order = [0, *range(2, len(shape)), 1] if last else range(len(shape))
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return strides


def memref(shape, element, last=False):
    text = "x".join(map(str, shape)) + "x" + element
    return f"memref<{text}, strided<[{', '.join(map(str, strides_of(shape, True)))}]>>" if last else f"memref<{text}>"


def numbers(values):
    return f"array<i64: {', '.join(map(str, values))}>"


def program(p, name):
    """The text of program @name and of its kernel."""
    image, filter_, out = p.shapes
    args = [("%x", memref(image, p.element, p.input_last)), ("%w", memref(filter_, p.element))]
    args += [("%b", memref(filter_[:1], p.element))] if p.bias else []
    args += [("%y", memref(out, p.element, p.output_last))]
    spaces = {"%x": "input {index = 0 : i64}", "%w": 'weight {name = "w"}', "%b": 'weight {name = "b"}', "%y": "output {index = 0 : i64}"}
    config = [f"alignments = {numbers([16] * len(args))}", f"dilations = {numbers(p.dilations)}", f"groups = {p.groups} : i64",
              f"has_bias = {str(p.bias).lower()}", f"padding_high = {numbers(p.pads)}", f"padding_low = {numbers(p.pads)}", f"strides = {numbers(p.strides)}"]
    types = ", ".join(t for _, t in args)
    return "\n".join([
        f'plan.program @{name} inputs ["x"] outputs ["y"] {{', *(f"  {a} = plan.buffer {spaces[a]} : {t}" for a, t in args), "  plan.prepare {", "  }",
        "  plan.step {", f"    plan.launch @conv_{name}({', '.join(a for a, _ in args)}) : {types}", "  }", "}",
        f'plan.kernel @conv_{name} family "conv" args [{types}] outputs 1 config {{{", ".join(config)}}} {{', "}", ""])


def grid():
    """The correctness grid: dimensions, windows, strides, padding, dilation, groups, odd sizes, layouts and types in turn."""
    same = [((3, 3), (1, 1), (1, 1), (1, 1)), ((3, 3), (2, 2), (1, 1), (1, 1)), ((3, 3), (1, 1), (2, 2), (2, 2)), ((5, 1), (1, 2), (2, 0), (1, 1)),
            ((2, 4), (2, 1), (0, 3), (1, 2)), ((7, 7), (2, 2), (3, 3), (1, 1))]
    sizes = ((32, 32), (17, 33), (61, 24), (9, 128))
    result, turn = [], 0
    for window, stride, padding, dilation in same:
        for channels, out, groups in ((64, 64, 1), (40, 72, 1), (8, 130, 1), (13, 24, 1), (96, 48, 3), (320, 320, 1)):
            turn += 1
            result.append(Problem(1 + turn % 3, channels, sizes[turn % 4], out, window, stride, padding, dilation, groups, ("bf16", "f16")[turn % 3 == 0],
                                  turn % 2 == 0, turn % 5 == 0, turn % 7 == 0))
    result += [Problem(2, 48, (300,), 64, (3,), (1,), (1,)), Problem(3, 24, (77,), 40, (5,), (2,), (2,), (2,), element="f16"),
               Problem(1, 32, (5, 17, 19), 40, (3, 3, 3), (1, 1, 1), (1, 1, 1)), Problem(2, 64, (9, 16, 16), 64, (3, 1, 1), (1, 1, 1), (1, 0, 0)),
               Problem(1, 16, (8, 20, 20), 32, (3, 3, 3), (2, 2, 2), (0, 1, 1)), Problem(1, 64, (7, 8, 9), 64, (2, 3, 1), (1, 1, 1), (1, 2, 0), (2, 2, 1)),
               Problem(2, 64, (40, 40), 64, (3, 3), (1, 1), (1, 1), input_last=True, output_last=True)]
    return result + hopper_grid() + depthwise_grid()


def hopper_grid():
    """Large enough for wgmma: boxes that leave rows of a tile empty or reach past the image, channels that fill no step of 64 and no
    tile, one to three dimensions, strides, dilation, even windows, images as planes and with channels last, both types."""
    last = {"input_last": True, "output_last": True}
    return [
        Problem(4, 104, (61, 47), 250, (3, 3), padding=(1, 1), element="f16"), Problem(6, 184, (64, 96), 150, (3, 3), padding=(2, 2), dilation=(2, 2), **last),
        Problem(6, 64, (33, 40), 320, (5, 1), padding=(2, 0), bias=False, output_last=True), Problem(2, 128, (9000,), 256, (3,), padding=(1,)),
        Problem(4, 320, (3501,), 96, (7,), padding=(9,), dilation=(3,), **last), Problem(3, 120, (7, 30, 52), 250, (3, 3, 3), padding=(1, 1, 1)),
        Problem(3, 128, (9, 30, 26), 224, (3, 1, 1), padding=(1, 0, 0), **last), Problem(5, 120, (9, 31, 27), 154, (3, 1, 1), element="f16", output_last=True),
        Problem(3, 128, (64, 64), 128, (2, 4), padding=(0, 3)), Problem(20, 256, (16, 16), 512, (3, 3), padding=(1, 1), **last),
        Problem(4, 192, (5, 40, 40), 380, (3, 3, 3), padding=(0, 1, 1), dilation=(2, 1, 1), element="f16", bias=False),
        Problem(6, 128, (95, 97), 256, (3, 3), (2, 2), (1, 1)), Problem(4, 192, (130, 161), 128, (3, 3), (2, 2), (0, 1), (1, 2), element="f16", **last),
        Problem(3, 192, (9, 64, 64), 192, (3, 3, 3), (2, 2, 2), (1, 1, 1)), Problem(4, 256, (9001,), 256, (7,), (3,), (3,), element="f16"),
        Problem(8, 128, (64, 120), 192, (4, 5), (1, 2), (2, 4), (3, 1)), Problem(6, 128, (17, 24, 40), 192, (3, 1, 1), (2, 1, 1), (1, 0, 0), **last),
    ]


def depthwise(batch, channels, size, window, element="bf16", bias=True, input_last=False, output_last=False):
    return Problem(batch, channels, size, channels, window, padding=tuple(w // 2 for w in window), groups=channels, element=element, bias=bias,
                   input_last=input_last, output_last=output_last)


def depthwise_grid():
    """One channel a group: dimensions, windows, widths, types and layouts in turn; few threads (one row each) and many."""
    result, turn = [], 0
    sizes = ((32, 32), (17, 33), (31, 7), (20, 40), (9, 200), (64, 64))
    for window in ((3, 3), (5, 5), (1, 3), (3, 1), (7, 7)):
        for size in sizes:
            turn += 1
            result.append(depthwise(1 + turn % 2, (96, 1000, 330, 77)[turn % 4], size, window, ("bf16", "f16", "f32")[turn % 3], turn % 2 == 0,
                                    turn // 2 % 2 == 1, turn // 3 % 2 == 1))
    for last in (False, True):
        result += [depthwise(2, 1600, (32, 32), (3, 3), input_last=last, output_last=last), depthwise(1, 1300, (37, 48), (3, 3), "f32", input_last=last, output_last=last),
                   depthwise(2, 96, (301,), (3,), input_last=last, output_last=last), depthwise(1, 64, (4096,), (31,), "f16", input_last=last, output_last=last),
                   depthwise(1, 128, (9, 20, 24), (3, 3, 3), input_last=last, output_last=last), depthwise(2, 320, (16, 15, 26), (3, 1, 1), input_last=last, output_last=last)]
    return result


def models():
    """{name: Problem} of layers of models."""
    def plain(batch, channels, side, out, stride=1):
        return Problem(batch, channels, (side, side), out, (3, 3), (stride, stride), (1, 1))
    return {
        "sdxl_320_128": plain(2, 320, 128, 320), "sdxl_960to320_128": plain(2, 960, 128, 320), "sdxl_320_128_stride2": plain(2, 320, 128, 320, 2),
        "sdxl_640_64": plain(2, 640, 64, 640), "sdxl_1920to640_64": plain(2, 1920, 64, 640), "sdxl_640_64_stride2": plain(2, 640, 64, 640, 2),
        "sdxl_1280_32": plain(2, 1280, 32, 1280), "sdxl_2560to1280_32": plain(2, 2560, 32, 1280),
        "sana_video_conv_temp": Problem(2, 2240, (21, 1260), 2240, (3, 1), (1, 1), (1, 0)),
        "sana_video_conv_temp_tokens": Problem(2, 2240, (21, 1260), 2240, (3, 1), (1, 1), (1, 0), input_last=True, output_last=True),
        "vae_in_16to512_128": plain(1, 16, 128, 512), "vae_512_128": plain(1, 512, 128, 512), "vae_512_256": plain(1, 512, 256, 512),
        "vae_256_512": plain(1, 256, 512, 256), "vae_128_1024": plain(1, 128, 1024, 128),
        "sana_depthwise": depthwise(2, 11200, (32, 32), (3, 3)), "sana_depthwise_last": depthwise(2, 11200, (32, 32), (3, 3), input_last=True, output_last=True),
        "segformer_depthwise_tokens": depthwise(8, 1280, (64, 64), (3, 3), input_last=True, output_last=True),
        "convnext_depthwise_7x7": depthwise(16, 384, (56, 56), (7, 7)), "video_depthwise_3x1x1": depthwise(1, 1280, (16, 45, 80), (3, 1, 1)),
        "video_vae_192": Problem(1, 192, (9, 120, 208), 192, (3, 3, 3), (1, 1, 1), (1, 1, 1)),
    }
