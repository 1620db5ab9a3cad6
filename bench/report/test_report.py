"""report.py on a made-up file: its figures, and its plots where matplotlib is."""

import json
import os
import tempfile
import unittest

import report


def runs(group, contender, times):
    name = f"{group}/{contender}"
    return [{"name": name, "run_name": name, "run_type": "iteration", "cpu_time": t, "time_unit": "ns"} for t in times]


def made_up():
    groups, benchmarks = [], []
    for size in (64, 128, 256, 512):
        for precision, speed in (("f32", 100), ("bf16", 200)):  # operations per nanosecond
            name = f"ops/matmul/square/{size}x{size}x{size}/{precision}/warm"
            flops = 2 * size**3
            groups.append({"name": name, "table": f"ops/matmul/square {precision} warm", "type": precision,
                           "flops": flops, "bytes": 12 * size**2, "copies": 1, "ceiling": "F", "ceiling_work": 1000,
                           "details": {"raw": "brgemm", "jit": "jit:8x32"}, "absent": {"eigen": "sinter: no | bf16"},
                           "wrong": ""})
            ideal = flops / speed
            benchmarks += runs(name, "raw", [2 * ideal] * 5) + runs(name, "jit", [1.25 * ideal] * 5)
            benchmarks += runs(name, "ceiling", [1000 / speed] * 5)
    groups[0]["wrong"] = "jit computes nan"
    machine = {"clock": 3.7e9, "peaks": {"f32": {"flops": 100e9, "instruction": "fma"},
                                         "bf16": {"flops": 200e9, "instruction": "dot"}},
               "reads": [{"bytes": 16384, "per_second": 2e11}, {"bytes": 2**28, "per_second": 2e10}]}
    return {"context": {"cpu": "made up", "caches": "L1d 32 KiB"}, "benchmarks": benchmarks,
            "sinter": {"machine": machine, "groups": groups}}


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "run.json")
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(made_up(), file)

    def text(self, *options):
        self.assertEqual(report.main([self.file, *options]), 0)
        with open(os.path.join(self.folder, "run", "report.md"), encoding="utf-8") as file:
            return file.read()

    def test_figures(self):
        text = self.text()
        self.assertIn("| cpu | made up |", text)
        self.assertIn("| kind | problems | jit |\n|---|---|---|\n| ops/matmul/square f32 warm | 4 | **1.60x** (1.60 to 1.60) |", text)
        # 2 * 64^3 operations at 100 per ns are 5242.9 ns; raw takes twice that, jit a quarter more.
        self.assertIn("| square/64x64x64 | 10.49 us ±0.0%, 50% F | 6553.6 ns ±0.0%, 80% F, **1.60x** |", text)
        self.assertIn("| eigen | 8 | sinter: no \\| bf16 |", text)
        self.assertIn("## Wrong results", text)
        self.assertIn("jit computes nan", text)

    def test_other_parts(self):
        extra = os.path.join(self.folder, "extra.txt")
        with open(extra, "w", encoding="utf-8") as file:
            file.write("0.82 s\n")
        text = self.text("--compile-time", extra, "--models", os.path.join(self.folder, "none.md"))
        self.assertIn("## Compile time\n\n```\n0.82 s\n```", text)
        self.assertNotIn("## Models", text)

    def test_plots(self):
        if report.plots is None:
            self.assertIn("No plots: Python's matplotlib is not here", self.text())
            self.skipTest("matplotlib is not here")
        text = self.text()
        for name in ("ratio_ops_matmul", "roofline_f32", "roofline_bf16", "sweep_matmul"):
            self.assertIn(f"]({name}.png)", text)
            self.assertGreater(os.path.getsize(os.path.join(self.folder, "run", name + ".png")), 10000)


if __name__ == "__main__":
    unittest.main()
