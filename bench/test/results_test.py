"""What a tiny run wrote: results_test.py tiny.json. The file of --chain stands beside it."""

import io
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report"))

import compare  # noqa: E402
import report  # noqa: E402
from results import Results  # noqa: E402


def check(condition, sentence):
    if not condition:
        sys.exit(f"sinter: {sentence}")


def check_groups(results):
    check(results.groups, f"{results.path} has no groups")
    for name, group in results.groups.items():
        check(group.contenders or group.absent, f"{name} has no contender with a time")
        check(not group.wrong, f"{name}: {group.wrong}")
        check(all(t > 0 for times in group.times.values() for t in times), f"{name} has a time of 0")
        # Who is described has run, and the other way round.
        check(set(group.details) == set(group.contenders), f"{name}: {group.details} ran as {group.contenders}")
        if group.contenders and group.bytes > 0 and results.machine["peaks"]:
            check(group.ideal() > 0, f"{name} has no ceiling")
        if "/matmul/" in name:
            check(("(model, not measured)" in group.model) == (group.precision == "bf16"),
                  f"{name} has the model's figures '{group.model}'")


def main():
    tiny, chain = Results(sys.argv[1]), Results(sys.argv[1] + ".chain")
    for results in (tiny, chain):
        check_groups(results)
        for key in ("cpu", "features", "caches", "built"):
            check(key in results.context, f"{results.path} does not say {key}")
        check(results.machine["clock"] == 0 or 1e8 < results.machine["clock"] < 1e10, "the clock is not to be believed")
    families = {g.family for g in tiny.groups.values()}
    wanted = {"ops/matmul", "ops/conv", "ops/eltwise", "ops/reduce", "ops/rows", "ops/generation",
              "blocks/fusion", "blocks/networks"}
    check(wanted - {"ops/generation"} <= families, f"families are missing: {wanted - families}")
    cold = [g for g in chain.groups.values() if g.memory == "cold"]
    check(len(cold) == 1 and cold[0].copies > 1, "the problem of the command line did not run in cold memory")

    out = io.StringIO()
    check(compare.main([sys.argv[1], sys.argv[1]], out) == 0, "a file cannot be compared with itself")
    check("0 slower, 0 faster, 0 unchanged" in out.getvalue(), "one repetition is no opinion: " + out.getvalue())
    with tempfile.TemporaryDirectory() as folder:
        check(report.main([sys.argv[1], folder]) == 0, "there is no report")
        with open(os.path.join(folder, "report.md"), encoding="utf-8") as file:
            text = file.read()
        for group in tiny.groups.values():
            check(f"### {group.table}\n" in text, f"the report has no table of {group.table}")


main()
