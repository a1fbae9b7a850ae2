# SPDX-License-Identifier: Apache-2.0
"""The table and the picture of docs/performance.md, from results that are kept and from made-up ones."""
import pathlib
import unittest
import xml.dom.minidom

import plot_models

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


class PlotModels(unittest.TestCase):
    def test_results_that_are_kept(self):
        models, environment = plot_models.read(sorted(RESULTS.glob("models-*.json")))
        self.assertIn("| FLUX.1-dev 1024² |", plot_models.table(models))
        picture = xml.dom.minidom.parseString(plot_models.svg(models, environment))
        self.assertEqual(len(picture.getElementsByTagName("line")), 1)

    def test_peers_that_failed_are_left_out(self):
        model = {"model": "new", "ms": {"ditc": 10.0, "eager": 25.0, "max-autotune": 12.0}, "speedup": {"eager": 2.5, "max-autotune": 1.2},
                 "ratio_of_errors": 1, "peers": {"compile": {"failed": "out of memory"}}}
        self.assertEqual(plot_models.table({"new": model}).splitlines()[-1], "| new | 10.0 | 25.0 | 12.0 | 1.20× | 1.00 |")
        bars = xml.dom.minidom.parseString(plot_models.svg({"new": model}, {})).getElementsByTagName("rect")
        self.assertEqual(len(bars), 1 + 2 + 2)  # the ground, two bars, two of the legend


if __name__ == "__main__":
    unittest.main()
