# SPDX-License-Identifier: Apache-2.0
"""Results as text: one line per case, the peer beside the best and every variant."""
import math


PEERS = ("cublas", "cublaslt", "torch.compile", "max-autotune", "scaled_mm", "scaled_mm, rows and columns")


def checks(cases, results):
    bad = [r for r in results if not r.get("ok")]
    lines = [f"check: {len(results) - len(bad)} of {len(cases)} right"]
    for r in bad[:40]:
        lines.append(f"  WRONG {cases[r['case']]} {({k: v for k, v in r.items() if k != 'case'})}")
    return "\n".join(lines)


def benches(cases, results):
    lines, ratios = [], []
    for r in results:
        if "us" not in r:
            lines.append(f"{cases[r['case']][0]:18} {r['error']}")
            continue
        times = r["us"]
        peer, peer_name = min((times[p], p) for p in times if p in PEERS)
        ours = sorted((t, name) for name, t in times.items() if name not in PEERS)
        ratios.append(peer / ours[0][0])
        wrong = f"  WRONG {r['worst']:.2f} x eager's error" if not r.get("ok", True) else ""
        lines.append(f"{r['shape']:30} {peer_name} {peer:8.1f} us  best {ours[0][0]:8.1f} us "
                     f"{r['flop'] / ours[0][0] / 1e6:5.0f} TF  x{ratios[-1]:.3f}{wrong}")
        lines.append("      " + "  ".join(f"{name.split('_', 1)[1]} {peer / t:.3f}" for t, name in ours))
    if ratios:
        lines.append(f"geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    return "\n".join(lines)


def table(part, cases, results):
    return checks(cases, results) if part in ("check", "small") else benches(cases, results)


def stored(part, results):
    """What a results file keeps: of checks the count and the worst, of timings every figure."""
    if part == "check":
        return {"cases": len(results), "right": sum(r.get("ok", False) for r in results),
                "worst error / eager's": round(max(r["ours"] / r["eager"] for r in results if "ours" in r), 3)}
    kept = []
    for r in results:
        entry = {k: r[k] for k in ("name", "shape", "size", "flop", "error") if k in r}
        if "worst" in r:
            entry["worst error / eager's"] = round(r["worst"], 3)
        if "us" in r:
            entry["us"] = {name: round(us, 2) for name, us in r["us"].items()}
        kept.append(entry)
    return kept
