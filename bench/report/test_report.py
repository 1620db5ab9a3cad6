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


def made_up_networks():
    name = "models/networks/resnet50/f32"
    benchmarks = runs(name, "raw", [60e6] * 5) + runs(name, "sinter", [50e6] * 5) + runs(name, "graph", [75e6] * 5)
    convolution = {"group": "layer1: conv2d(x, w1) | relu [f32]", "extents": "1x56x56x64, 64x1x1x64", "ms": 20, "raw_ms": 15, "roofline_ms": 20, "flops": 2e9,
                   "bytes": 1e6, "linear": False, "copy": False, "implementation": "jit", "raw_implementation": "brgconv"}
    copied = {**convolution, "group": "copy a into b: it is shuffled", "ms": 10, "raw_ms": 0, "roofline_ms": 0, "flops": 0,
              "copy": True}
    network = {"model": "resnet50", "precision": "f32", "batch": 1, "threads": 1, "part_of_peak": 0.8,
               "part_of_peak_without_linear": 0.85, "arena": 1e6, "intermediates": 3e6, "least_arena": 1e6, "copies": 1,
               "groups": [convolution, {**convolution, "group": "layer2: conv2d(x, w1) | relu [f32]"}, copied]}
    group = {"name": name, "table": "models f32", "type": "f32", "flops": 4e9, "bytes": 2e6, "copies": 1, "ceiling": "F",
             "ceiling_work": 0, "details": {"raw": "2 layers", "sinter": "3 groups", "graph": "1 partitions"}, "absent": {},
             "wrong": ""}
    machine = {"peaks": {"f32": {"flops": 100e9, "instruction": "fma"}}, "reads": [{"bytes": 16384, "per_second": 2e11}]}
    return {"context": {"cpu": "made up"}, "benchmarks": benchmarks,
            "sinter": {"machine": machine, "groups": [group], "networks": [network]}}


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

    def test_networks(self):
        file = os.path.join(self.folder, "models.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(made_up_networks(), out)
        text = self.text("--models", file)
        # 4 GFLOP in 50 ms at a peak of 100 GFLOP/s; raw takes 60 ms, oneDNN Graph 75.
        self.assertIn("| resnet50 | f32 | 1 | 50.000 | 80.0 | 85.0 | 80 | 1.200 | 1.500 |  |  | 1.0 / 1.0 / 3.0 | 1 |", text)
        # Two equal groups that take 20 ms each, where raw takes 15.
        self.assertIn("| resnet50 | 2 | conv2d(x, w1) \\| relu [f32] | 1x56x56x64, 64x1x1x64 | 40.000 | 10.000 | 1.33 | jit | brgconv |", text)
        if report.plots is not None:
            for name in ("networks", "groups_f32", "waterfall_f32"):
                self.assertIn(f"]({name}.png)", text)
                self.assertGreater(os.path.getsize(os.path.join(self.folder, "run", name + ".png")), 10000)

    def test_networks_alone(self):
        file = os.path.join(self.folder, "models.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(made_up_networks(), out)
        self.assertEqual(report.main([file]), 0)

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
