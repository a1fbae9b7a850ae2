#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table and the picture of docs/performance.md from results of tests/gpu (parts `full` and `peers`).

    plot_models.py RESULTS.json... [--svg OUT.svg]

Prints a Markdown table; the SVG shows the time of a step as a multiple of ditc's in the same run. Nothing but Python is
needed. Of a model that is in several files the last one counts.
"""
import argparse
import json
import pathlib
from xml.sax.saxutils import escape

MODELS = {
    "dit_xl2_256": "DiT-XL/2 256², batch 2",
    "dit_xl2_512": "DiT-XL/2 512², batch 2",
    "pixart_sigma_1024": "PixArt-Sigma 1024², batch 2, mask",
    "sd35_medium_1024": "SD3.5-medium 1024², batch 2",
    "sd35_large_1024": "SD3.5-large 1024², batch 2",
    "flux1_dev_1024": "FLUX.1-dev 1024²",
    "flux1_dev_768": "FLUX.1-dev 768²",
    "wan21_t2v_1_3b_480p": "Wan2.1-1.3B 480p, 81 frames",
    "wan21_t2v_14b_480p": "Wan2.1-14B 480p, 81 frames",
}
PEERS = {
    "eager": ("eager", "#b8b8b8"),
    "compile": ("torch.compile", "#6fa8dc"),
    "reduce-overhead": ("reduce-overhead", "#3d85c6"),
    "regional:max-autotune-no-cudagraphs": ("max-autotune, by blocks", "#a390c4"),
    "max-autotune-no-cudagraphs": ("max-autotune, no graphs", "#8e7cc3"),
    "max-autotune": ("max-autotune", "#674ea7"),
}


def read(paths):
    """Models by name, in the order of MODELS; and what they ran on."""
    found, environment = {}, {}
    for path in paths:
        results = json.loads(path.read_text())
        environment = results.get("environment", environment)
        found.update({model["model"]: model for model in results["models"] if "ms" in model})
    known = {name: found[name] for name in MODELS if name in found}
    return {**known, **{name: model for name, model in found.items() if name not in known}}, environment


def ratios(model):
    """Peers' times as multiples of ditc's, each measured in turns with it."""
    return {name: model["speedup"][name] for name in PEERS if name in model["speedup"]}


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def table(models):
    peers = [name for name in PEERS if any(name in ratios(model) for model in models.values())]
    lines = ["| model | ditc ms | " + " | ".join(f"{PEERS[name][0]} ms" for name in peers) + " | against the best peer | error against fp32, ditc / eager |",
             "|---|---:|" + "---:|" * (len(peers) + 2)]
    for name, model in models.items():
        best = min(ratios(model).values(), default=None)
        cells = [MODELS.get(name, name), number(model["ms"]["ditc"]), *(number(model["ms"][peer]) if peer in model["ms"] else "" for peer in peers),
                 f"{best:.2f}×" if best else "", f"{model['ratio_of_errors']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def svg(models, environment):
    """Horizontal bars, a group for each model, a line where ditc is; what is longer than the axis is cut and numbered."""
    left, width, axis, row, gap = 250, 900, 4.0, 15, 16
    scale = (width - left - 70) / axis
    rows = []
    y = 74
    for name, model in models.items():
        bars = ratios(model)
        rows.append(f'<text x="{left - 10}" y="{y + row * len(bars) / 2 + 4:.0f}" text-anchor="end" class="model">{escape(MODELS.get(name, name))}</text>')
        for peer, ratio in bars.items():
            length = min(ratio, axis) * scale
            rows.append(f'<rect x="{left}" y="{y + 1}" width="{length:.1f}" height="{row - 3}" fill="{PEERS[peer][1]}"/>')
            rows.append(f'<text x="{left + length + 5:.1f}" y="{y + row - 4}" class="value">{ratio:.2f}×{" →" if ratio > axis else ""}  {number(model["ms"][peer])} ms</text>')
            y += row
        y += gap
    used = [peer for peer in PEERS if any(peer in ratios(model) for model in models.values())]
    legend = []
    x = left
    for peer in used:
        legend.append(f'<rect x="{x}" y="34" width="10" height="10" fill="{PEERS[peer][1]}"/><text x="{x + 14}" y="43" class="value">{PEERS[peer][0]}</text>')
        x += 26 + 6.2 * len(PEERS[peer][0])
    machine = ", ".join(form.format(environment[key]) for key, form in (("gpu", "{}"), ("torch", "torch {}"), ("date", "{}")) if environment.get(key))
    line = left + scale
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 60} {y + 10}" font-family="sans-serif">',
        "<style>.model{font-size:12px;fill:#222}.value{font-size:10.5px;fill:#444}.title{font-size:14px;fill:#222}</style>",
        f'<rect width="{width + 60}" height="{y + 10}" fill="#fff"/>',
        f'<text x="{left}" y="22" class="title">Time of one step as a multiple of ditc\'s{escape(" (" + machine + ")" if machine else "")}</text>',
        *legend, *rows,
        f'<line x1="{line:.1f}" y1="70" x2="{line:.1f}" y2="{y - gap + 4}" stroke="#cc4125" stroke-width="1.5"/>',
        f'<text x="{line:.1f}" y="66" text-anchor="middle" class="value" style="fill:#cc4125">ditc</text>',
        "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    models, environment = read(arguments.results)
    print(table(models))
    if arguments.svg:
        arguments.svg.write_text(svg(models, environment))


if __name__ == "__main__":
    main()
