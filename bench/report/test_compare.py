"""compare.py and results.py on made-up files."""

import io
import json
import os
import random
import tempfile
import unittest
from contextlib import redirect_stderr

import compare
from results import Results, Unreadable, split_name


def run(name, times, unit="ns"):
    return [{"name": name, "run_name": name, "run_type": "iteration", "repetition_index": i, "cpu_time": t,
             "real_time": t, "time_unit": unit} for i, t in enumerate(times)]


def around(middle, part, count, seed):
    """Times within a part of the middle, at random but the same each time."""
    rng = random.Random(seed)
    return [middle * (1 + part * (2 * rng.random() - 1)) for _ in range(count)]


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def file(self, name, runs, **more):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"context": {"cpu": "a"}, "benchmarks": sum(runs, []), **more}, file)
        return self.path(name)

    def compared(self, before, after, *options):
        out = io.StringIO()
        status = compare.main([self.file("a.json", before), self.file("b.json", after), *options], out)
        return status, out.getvalue()


class Ranks(unittest.TestCase):
    def test_exact(self):
        # 5 and 5 values apart: 2 of the 252 arrangements are as extreme.
        self.assertAlmostEqual(compare.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252)
        # 3 and 3: 2 of 20.
        self.assertAlmostEqual(compare.mann_whitney([6, 7, 8], [1, 2, 3]), 0.1)
        self.assertEqual(compare.mann_whitney([1, 4, 5, 8], [2, 3, 6, 7]), 1.0)

    def test_one_arrangement_off(self):
        # U = 1: the 2 arrangements with U of 0 or 1, on both sides.
        self.assertAlmostEqual(compare.mann_whitney([1, 2, 3, 4, 6], [5, 7, 8, 9, 10]), 4 / 252)

    def test_ties(self):
        self.assertEqual(compare.mann_whitney([5] * 6, [5] * 6), 1.0)
        self.assertLess(compare.mann_whitney([5] * 8, [6] * 8), 0.01)

    def test_normal_agrees_with_exact(self):
        a = [float(i) for i in range(20)]
        b = [i + 6.5 for i in range(20)]
        exact = compare.mann_whitney(a, b)
        tied = compare.mann_whitney(a + [100.0], b + [100.0])  # a tie: the normal approximation
        self.assertLess(abs(exact - tied), 0.01)


class Compare(Files):
    def test_a_shift_is_found(self):
        status, text = self.compared([run("g/f32/warm/jit", around(100, 0.01, 11, 1))],
                                     [run("g/f32/warm/jit", around(110, 0.01, 11, 2))])
        self.assertEqual(status, 0)
        self.assertRegex(text, r"slower +\+10\.\d% .* g/f32/warm/jit")
        self.assertIn("1 slower, 0 faster, 0 unchanged", text)

    def test_a_gain_is_found(self):
        _, text = self.compared([run("g/jit", around(100, 0.01, 5, 1))], [run("g/jit", around(80, 0.01, 5, 2))])
        self.assertIn("0 slower, 1 faster, 0 unchanged", text)

    def test_noise_is_none(self):
        # The median moves by 6%, each file spreads over more than that.
        _, text = self.compared([run("g/jit", [90, 95, 100, 105, 110])], [run("g/jit", [96, 101, 106, 111, 116])])
        self.assertIn("0 slower, 0 faster, 1 unchanged", text)

    def test_a_small_shift_is_none(self):
        # Clear in ranks, but below 2%.
        _, text = self.compared([run("g/jit", [100 + i * 0.01 for i in range(11)])],
                                [run("g/jit", [101 + i * 0.01 for i in range(11)])])
        self.assertIn("0 slower, 0 faster, 1 unchanged", text)

    def test_an_outlier_is_none(self):
        _, text = self.compared([run("g/jit", [100, 100.1, 100.2, 100.3, 100.4, 100.5, 100.6])],
                                [run("g/jit", [100.05, 100.15, 100.25, 100.35, 100.45, 100.55, 900])])
        self.assertIn("1 unchanged", text)

    def test_few_repetitions_cannot_tell(self):
        _, text = self.compared([run("g/jit", [100, 101, 102])], [run("g/jit", [200, 201, 202])])
        self.assertIn("0 slower, 0 faster, 0 unchanged, 1 with fewer than 5 repetitions", text)

    def test_units(self):
        _, text = self.compared([run("g/jit", around(100, 0.001, 5, 1), "us")],
                                [run("g/jit", around(100e3, 0.001, 5, 2), "ns")])
        self.assertIn("1 unchanged", text)

    def test_relative_to_the_ceiling(self):
        before = [run("g/jit", around(100, 0.005, 11, 1)), run("g/ceiling", around(10, 0.005, 11, 2))]
        slow_clock = [run("g/jit", around(120, 0.005, 11, 3)), run("g/ceiling", around(12, 0.005, 11, 4))]
        self.assertIn("2 slower", self.compared(before, slow_clock)[1])
        self.assertIn("0 slower, 0 faster, 1 unchanged",
                      self.compared(before, slow_clock, "--relative-to", "ceiling")[1])

    def test_status(self):
        slow = [run("g/jit", around(100, 0.01, 5, 1))], [run("g/jit", around(150, 0.01, 5, 2))]
        self.assertEqual(self.compared(*slow, "--fail-on-slower")[0], 1)
        self.assertEqual(self.compared(*reversed(slow), "--fail-on-slower")[0], 0)

    def test_one_file_alone(self):
        _, text = self.compared([run("g/jit", around(1, 0.01, 5, 1)), run("old/jit", [1.0] * 5)],
                                [run("g/jit", around(1, 0.01, 5, 2)), run("new/jit", [1.0] * 5)])
        self.assertIn("1 only before, for example old/jit", text)
        self.assertIn("1 only after, for example new/jit", text)

    def test_nothing_in_common(self):
        errors = io.StringIO()
        with redirect_stderr(errors):
            status, _ = self.compared([run("a/jit", [1.0] * 5)], [run("b/jit", [1.0] * 5)])
        self.assertEqual(status, 2)
        self.assertIn("no contender in common", errors.getvalue())

    def test_machines_differ(self):
        a = self.file("a.json", [run("g/jit", [1.0] * 5)])
        b = self.path("b.json")
        with open(b, "w", encoding="utf-8") as file:
            json.dump({"context": {"cpu": "b"}, "benchmarks": run("g/jit", [1.0] * 5)}, file)
        out = io.StringIO()
        compare.main([a, b], out)
        self.assertIn("note: cpu differs: a | b", out.getvalue())


class Reading(Files):
    def test_names(self):
        self.assertEqual(split_name("ops/x/f32/warm/jit/min_time:0.010/repeats:31/process_time"), ("ops/x/f32/warm", "jit"))
        self.assertEqual(split_name("a/b"), ("a", "b"))

    def test_group(self):
        told = {"groups": [{"name": "ops/matmul/square/8x8x8/bf16/cold", "table": "t", "type": "bf16", "flops": 1000,
                            "bytes": 10, "ceiling": "F", "ceiling_work": 100, "details": {"raw": "r", "jit": "j"},
                            "absent": {"eigen": "f32 only"}, "wrong": ""}]}
        base = "ops/matmul/square/8x8x8/bf16/cold/"
        r = Results(self.file("a.json", [run(base + "jit", [10, 20, 30]), run(base + "raw", [40] * 3),
                                         run(base + "ceiling", [1] * 3)], sinter=told))
        g = r.groups["ops/matmul/square/8x8x8/bf16/cold"]
        self.assertEqual((g.contenders, g.baseline), (["raw", "jit"], "raw"))
        self.assertEqual((g.median("jit"), g.ratio("jit"), g.ideal()), (20, 2, 10))
        self.assertEqual((g.family, g.problem, g.precision, g.memory), ("ops/matmul", "square/8x8x8", "bf16", "cold"))

    def test_failed_runs_are_left_out(self):
        broken = [{"name": "g/jit", "run_name": "g/jit", "run_type": "iteration", "error_occurred": True}]
        aggregate = [{"name": "g/raw_mean", "run_name": "g/raw", "run_type": "aggregate", "cpu_time": 1}]
        r = Results(self.file("a.json", [broken, aggregate, run("g/raw", [1, 2])]))
        self.assertEqual(r.groups["g"].times, {"raw": [1, 2]})

    def test_sentences(self):
        for content, sentence in (("{", "holds no JSON"), ("[]", "no list 'benchmarks'"), ('{"a": 1}', "no list")):
            with open(self.path("bad.json"), "w", encoding="utf-8") as file:
                file.write(content)
            with self.assertRaisesRegex(Unreadable, sentence):
                Results(self.path("bad.json"))
        with self.assertRaisesRegex(Unreadable, "cannot be read"):
            Results(self.path("none.json"))
        errors = io.StringIO()
        with redirect_stderr(errors):
            self.assertEqual(compare.main([self.path("none.json"), self.path("none.json")]), 2)
        self.assertRegex(errors.getvalue(), r"^sinter: ")


if __name__ == "__main__":
    unittest.main()
