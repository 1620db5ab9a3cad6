"""What changed between two JSON files of sinter_bench, beyond noise.

    ./run bench compare before.json after.json [--relative-to ceiling] [--fail-on-slower]

A contender of a group has changed where all of this is so:
  * a rank test (Mann-Whitney, two-sided) gives p < 0.01 for its repetitions in the two files;
  * its median moved by more than the spreads of both files together (half the distance between the quartiles, each);
  * and by more than 2%.
Fewer than 5 repetitions in a file cannot tell, and are said to.

Two runs meet two states of the machine. --relative-to ceiling divides each time by the median of the ceiling that was
measured in turn with it, so that a slower clock alone is no change; --relative-to raw does so with oneDNN's primitive.
"""

import argparse
import math
import statistics
import sys
from collections import Counter

from results import Results, Unreadable, spread

MOST_P = 0.01
LEAST_SHIFT = 0.02
LEAST_REPETITIONS = 5


def exact_p(u, n, m):
    """Two-sided probability of a U as small as u or smaller, without ties: by counting arrangements."""
    counts = {(0, 0): [1]}
    for i in range(n + 1):
        for j in range(m + 1):
            if i == 0 or j == 0:
                counts[i, j] = [1]
                continue
            ways = [0] * (i * j + 1)
            # The largest of i + j values belongs to the first side and is above all j others, or to the second.
            for k, c in enumerate(counts[i - 1, j]):
                ways[k + j] += c
            for k, c in enumerate(counts[i, j - 1]):
                ways[k] += c
            counts[i, j] = ways
    ways = counts[n, m]
    return min(1.0, 2 * sum(ways[: int(u) + 1]) / sum(ways))


def mann_whitney(a, b):
    """The two-sided p of the hypothesis that neither side tends to larger values."""
    n, m = len(a), len(b)
    values = sorted([(v, 0) for v in a] + [(v, 1) for v in b])
    ranks = {}
    ties = Counter(v for v, _ in values)
    at = 1
    for value in sorted(ties):
        ranks[value] = at + (ties[value] - 1) / 2
        at += ties[value]
    u = sum(ranks[v] for v in a) - n * (n + 1) / 2
    u = min(u, n * m - u)
    if max(ties.values()) == 1 and n * m <= 1000:
        return exact_p(u, n, m)
    total = n + m
    variance = n * m / 12 * (total + 1 - sum(t**3 - t for t in ties.values()) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(0.0, (n * m / 2 - u - 0.5)) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


class Change:
    """One contender in two files. shift: +0.1 is 10% slower."""

    def __init__(self, name, before, after):
        self.name = name
        self.before, self.after = statistics.median(before), statistics.median(after)
        self.shift = self.after / self.before - 1
        self.noise = spread(before) + spread(after)
        self.enough = min(len(before), len(after)) >= LEAST_REPETITIONS
        self.p = mann_whitney(before, after)

    @property
    def verdict(self):
        if not self.enough:
            return "unknown"
        if self.p >= MOST_P or abs(self.shift) <= max(LEAST_SHIFT, self.noise):
            return "same"
        return "slower" if self.shift > 0 else "faster"


def scaled(group, contender, relative_to):
    times = group.times[contender]
    if relative_to is None:
        return times
    by = group.median(relative_to)
    return [t / by for t in times]


def compare(before, after, relative_to=None):
    """Changes by name, and the names that one file alone has."""
    changes, alone = [], []
    for side, other, where in ((before, after, "before"), (after, before, "after")):
        for name, group in side.groups.items():
            there = other.groups.get(name)
            for contender in group.times:
                if there is None or contender not in there.times:
                    alone.append((f"{name}/{contender}", where))
    for name, group in before.groups.items():
        there = after.groups.get(name)
        if there is None:
            continue
        if relative_to is not None and not (relative_to in group.times and relative_to in there.times):
            continue
        for contender in group.times:
            if contender in there.times and contender != relative_to:
                changes.append(Change(f"{name}/{contender}", scaled(group, contender, relative_to),
                                      scaled(there, contender, relative_to)))
    return changes, alone


def time_text(value, relative):
    if relative:
        return f"{value:.3f}"
    for unit, size in (("ns", 1e4), ("us", 1e7), ("ms", math.inf)):
        if value < size:
            return f"{value / {'ns': 1, 'us': 1e3, 'ms': 1e6}[unit]:.1f} {unit}"
    return ""


def differences(before, after):
    """Facts of the machine that are not equal in the two files."""
    keys = ("cpu", "features", "caches", "built", "num_cpus")
    return [(k, str(before.context.get(k)), str(after.context.get(k))) for k in keys
            if before.context.get(k) != after.context.get(k)]


def write(changes, alone, before, after, relative_to, out):
    for key, a, b in differences(before, after):
        print(f"note: {key} differs: {a} | {b}", file=out)
    by = {v: [c for c in changes if c.verdict == v] for v in ("slower", "faster", "same", "unknown")}
    for verdict in ("slower", "faster"):
        for c in sorted(by[verdict], key=lambda c: -abs(c.shift)):
            print(f"{verdict}  {c.shift:+7.1%}  noise {c.noise:5.1%}  p {c.p:.4f}  "
                  f"{time_text(c.before, relative_to):>10} -> {time_text(c.after, relative_to):>10}  {c.name}", file=out)
    line = f"{len(by['slower'])} slower, {len(by['faster'])} faster, {len(by['same'])} unchanged"
    if by["unknown"]:
        line += f", {len(by['unknown'])} with fewer than {LEAST_REPETITIONS} repetitions in a file"
    for where in ("before", "after"):
        names = [n for n, w in alone if w == where]
        if names:
            line += f"; {len(names)} only {where}, for example {names[0]}"
    print(line, file=out)


def main(arguments=None, out=sys.stdout):
    parser = argparse.ArgumentParser(prog="./run bench compare", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--relative-to", metavar="CONTENDER", help="divide by this one's median: ceiling, raw, ...")
    parser.add_argument("--fail-on-slower", action="store_true", help="exit status 1 where anything is slower")
    options = parser.parse_args(arguments)
    try:
        before, after = Results(options.before), Results(options.after)
    except Unreadable as error:
        print(f"sinter: {error}", file=sys.stderr)
        return 2
    changes, alone = compare(before, after, options.relative_to)
    if not changes:
        print("sinter: the two files have no contender in common"
              + (f" in a group with '{options.relative_to}'" if options.relative_to else ""), file=sys.stderr)
        return 2
    write(changes, alone, before, after, options.relative_to, out)
    slower = any(c.verdict == "slower" for c in changes)
    return 1 if options.fail_on_slower and slower else 0


if __name__ == "__main__":
    sys.exit(main())
