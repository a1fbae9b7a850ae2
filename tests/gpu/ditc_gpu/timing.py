# SPDX-License-Identifier: Apache-2.0
"""Times of several implementations of the same work, measured in turns so that all see the same clocks and heat.

Each implementation is a function of a buffer set; a CUDA graph holds several calls over rotating sets, so that neither
launch gaps nor the L2 cache flatter anybody.
"""
import statistics

import torch

L2_BYTES = 60 << 20


def sets_for(bytes_per_call):
    """How many buffer sets make a call's data come from memory."""
    return max(1, min(8, -(-3 * L2_BYTES // max(1, bytes_per_call))))


def capture(call, sets, target_ms, calibrate=3):
    """(graph, calls in it): enough calls to fill about target_ms."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(sets):
            call(i)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for i in range(calibrate):
            call(i % sets)
        end.record()
        end.synchronize()
        once = start.elapsed_time(end) / calibrate
    count = max(2, min(200, round(target_ms / max(once, 1e-3))))
    count = -(-count // sets) * sets if count > sets else count
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for i in range(count):
            call(i % sets)
    return graph, count


def compare(calls, sets, target_ms=6.0, rounds=7):
    """{name: median microseconds per call} for {name: function of the set's index}."""
    graphs = {name: capture(call, sets, target_ms) for name, call in calls.items()}
    times = {name: [] for name in calls}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for round_ in range(rounds + 1):
        for name, (graph, count) in graphs.items():
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if round_ > 0:  # the first is a warm-up
                times[name].append(start.elapsed_time(end) * 1e3 / count)
    return {name: statistics.median(values) for name, values in times.items()}
