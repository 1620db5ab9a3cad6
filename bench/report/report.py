"""A Markdown report with plots from a JSON file of sinter_bench.

    ./run bench report results.json [FOLDER]      default: a folder beside the file, with its name

It holds the machine's record, a summary, one table for each kind of problem, and who did not take part. Plots want
matplotlib; without it the report says so and has the tables alone.
"""

import argparse
import math
import os
import sys

from results import Results, Unreadable

try:
    import plots
except ImportError:
    plots = None


def time_text(nanoseconds):
    for unit, size, scale in (("ns", 1e4, 1), ("us", 1e7, 1e3), ("ms", math.inf, 1e6)):
        if nanoseconds < size:
            return f"{nanoseconds / scale:.{1 if unit == 'ns' else 2}f} {unit}"
    return ""


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def cell(text):
    return str(text).replace("|", "\\|")


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows]
    return "\n".join(lines)


ORDER = ("raw", "sinter", "graph", "jit", "onednn", "raw_steps", "jit_steps", "onednn_steps")


def contenders_of(groups):
    names = []
    for g in groups:
        names += [c for c in g.contenders if c not in names]
    return [c for c in ORDER if c in names] + [c for c in names if c not in ORDER]


def by_table(groups):
    tables = {}
    for g in groups:
        tables.setdefault(g.table, []).append(g)
    return tables


def machine_section(results):
    context = results.context
    rows = [(k, context[k]) for k in ("cpu", "features", "caches", "num_cpus", "clock", "built", "peak_f32", "peak_bf16",
                                      "read", "date", "load_avg") if k in context]
    repetitions = [len(t) for g in results.with_times() for t in g.times.values()]
    rows.append(("repetitions", f"{min(repetitions)} to {max(repetitions)} of each contender, in random order"))
    return "## Machine\n\n" + table(("what", "value"), rows)


def ratio_cell(groups, contender):
    """Geometric mean of the ratios, and the least and the most of several."""
    ratios = [g.ratio(contender) for g in groups if contender in g.contenders and contender != g.baseline]
    if not ratios:
        return ""
    text = f"**{geometric_mean(ratios):.2f}x**"
    return text if len(ratios) == 1 else f"{text} ({min(ratios):.2f} to {max(ratios):.2f})"


def summary_section(groups):
    text = ("## Summary\n\nHow many times as fast as the first contender of its group (`raw`: oneDNN's own fused "
            "primitive): geometric mean (least to most).\n\n")
    names = [c for c in contenders_of(groups) if any(c != g.baseline for g in groups if c in g.contenders)]
    rows = []
    for name, own in by_table(groups).items():
        cells = [ratio_cell(own, c) for c in names]
        if any(cells):
            rows.append([name, len(own)] + cells)
    return text + table(["kind", "problems"] + names, rows)


def value_cell(group, contender):
    if contender not in group.contenders:
        return ""
    text = f"{time_text(group.median(contender))} ±{100 * group.spread(contender):.1f}%"
    ideal = group.ideal()
    if ideal > 0:
        text += f", {100 * ideal / group.median(contender):.0f}% {group.ceiling}"
    if contender != group.baseline:
        text += f", **{group.ratio(contender):.2f}x**"
    return text


def tables_section(groups):
    parts = ["## Tables\n\nMedian time of a call, half the distance between the quartiles, the part of the ceiling that was "
             "reached (F: multiply-adds, M: reads of memory), and how many times as fast as the first contender."]
    for name, own in by_table(groups).items():
        names = contenders_of(own)
        rows = [[g.problem or g.name] + [value_cell(g, c) for c in names] for g in own]
        parts.append(f"### {name}\n\n" + table(["problem"] + names, rows))
    return "\n\n".join(parts)


def absence_section(results):
    counts = {}
    for g in results.groups.values():
        for name, why in g.absent.items():
            counts.setdefault((name, why), []).append(g.name)
    if not counts:
        return ""
    rows = [(name, len(where), why, where[0]) for (name, why), where in sorted(counts.items())]
    return "## Who did not take part\n\n" + table(("contender", "groups", "why", "for example"), rows)


def wrong_section(results):
    wrong = [(g.name, g.wrong) for g in results.groups.values() if g.wrong]
    return "## Wrong results\n\n" + table(("group", "what"), wrong) if wrong else ""


NETWORKS = "models/networks"


def networks_section(results, folder):
    """Whole networks: where each stands, the groups that lose most, pictures."""
    if not results.networks:
        return ""
    rows = []
    for n in results.networks:
        own = results.groups[network_name(n)]
        total = sum(g["ms"] for g in n["groups"])
        ideal = sum(g["roofline_ms"] for g in n["groups"])
        rows.append([n["model"], n["precision"], n["batch"], f"{own.median('sinter') / 1e6:.3f}",
                     f"{100 * n['part_of_peak']:.1f}", f"{100 * n['part_of_peak_without_linear']:.1f}",
                     f"{100 * ideal / total:.0f}" if total > 0 else "",
                     *(f"{own.median(c) / own.median('sinter'):.3f}" if c in own.contenders else ""
                       for c in ("raw", "graph", "two_threads", "one_by_one")),
                     f"{n['arena'] / 1e6:.1f} / {n['least_arena'] / 1e6:.1f} / {n['intermediates'] / 1e6:.1f}", n["copies"]])
    heads = ("network", "type", "images", "ms", "% of peak", "without linear layers", "% of the groups' rooflines", "raw",
             "graph", "two threads", "one by one", "arena / least / all MB", "copies")
    parts = ["## Networks\n\nTimes of the others are times of Sinter's: 1.05 is 5% slower than Sinter. `raw`: oneDNN's "
             "primitives layer by layer.\n\n" + table(heads, rows), losses(results.networks)]
    if plots:
        own = [g for g in results.with_times() if g.family == NETWORKS]
        pictures = [("Networks against oneDNN", "networks.png", lambda path: plots.model_bars(own, path))]
        for precision in ("f32", "bf16"):
            pictures.append((f"Groups under their roofline, {precision}", f"groups_{precision}.png",
                             lambda path, p=precision: plots.network_roofline(results.networks, results.machine, p, path)))
            mine = [n for n in results.networks if n["precision"] == precision and any(g["ms"] > 0 for g in n["groups"])]
            if mine:
                n = next((n for n in mine if n["model"] == "resnet50"), mine[0])
                pictures.append((f"{n['model']} group by group, {precision}", f"waterfall_{precision}.png",
                                 lambda path, n=n: plots.waterfall(n, path)))
        parts += [f"### {title}\n\n![{title}]({name})" for title, name, make in pictures
                  if make(os.path.join(folder, name))]
    return "\n\n".join(p for p in parts if p)


def network_name(n):
    parts = [NETWORKS, n["model"]]
    parts += [f"batch{n['batch']}"] if n["batch"] > 1 else []
    parts += [f"threads{n['threads']}"] if n["threads"] > 1 else []
    return "/".join(parts + [n["precision"]])


def losses(networks):
    """The groups that take most above oneDNN's own layer, equal ones of a network together."""
    found = {}
    for n in networks:
        for g in n["groups"]:
            if g["raw_ms"] <= 0:
                continue
            what = g["group"].partition(": ")[2]
            entry = found.setdefault((n["model"], what, g["extents"]), [0, 0, 0, g])
            entry[0] += 1
            entry[1] += g["ms"]
            entry[2] += g["raw_ms"]
    rows = []
    for (model, what, extents), (count, ms, raw, g) in sorted(found.items(), key=lambda e: e[1][2] - e[1][1])[:20]:
        if ms > raw:
            rows.append((model, count, what, extents, f"{ms:.3f}", f"{ms - raw:.3f}", f"{ms / raw:.2f}",
                         g["implementation"], g["raw_implementation"]))
    if not rows:
        return ""
    return ("### Where most is lost against raw\n\n" +
            table(("network", "groups", "chain", "of", "ms", "lost ms", "Sinter/raw", "Sinter", "raw"), rows))


def draw(results, folder):
    """The plots' files, with a title each."""
    groups = results.with_times()
    made = []

    def add(title, path):
        if path:
            made.append((title, os.path.basename(path)))

    families = {}
    for g in groups:
        if g.family != NETWORKS:
            families.setdefault(g.family, []).append(g)
    for family, own in families.items():
        # A picture of many bars falls apart into its kinds: "ops/matmul/small".
        parts = {}
        for g in own:
            kind = g.table.split()[0] if len(own) > plots.MOST_BARS else family
            parts.setdefault(kind, []).append(g)
        for kind, some in parts.items():
            path = os.path.join(folder, "ratio_" + kind.replace("/", "_") + ".png")
            add(f"{kind}: Sinter's JIT", plots.ratio_bars(some, "jit", kind, path))
    for precision in ("f32", "bf16"):
        add(f"Roofline, {precision}", plots.roofline(groups, results.machine, precision,
                                                     os.path.join(folder, f"roofline_{precision}.png")))
    peaks = results.machine.get("peaks", {})
    add("Products of square matrices", plots.sweeps(
        families.get("ops/matmul", []), r"(?P<title>square(?:_bias)?)/(?P<size>\d+)x\d+x\d+", "M = N = K", "GFLOP/s",
        lambda g, c: g.flops / g.median(c), lambda p: peaks.get(p, {}).get("flops", 0) / 1e9,
        "Products of square matrices, warm; the dotted line is the peak of multiply-adds",
        os.path.join(folder, "sweep_matmul.png")))
    for family in ("ops/eltwise", "ops/reduce"):
        add(f"{family} by size", plots.sweeps(
            families.get(family, []), r"(?P<title>[a-z_]+)/(?P<size>\d+)x1024", "rows of 1024 values", "GB/s",
            lambda g, c: g.bytes / g.median(c), lambda p: 0, f"{family}, warm: bytes read and written per second",
            os.path.join(folder, f"sweep_{family.replace('/', '_')}.png")))
    return made


def text_of(path):
    """The text of a file that may not be there."""
    if not path or not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().rstrip()


def write(results, folder, compile_time=None, models=None):
    os.makedirs(folder, exist_ok=True)
    groups = results.with_times()
    parts = ["# Sinter's benchmarks", machine_section(results), summary_section(groups)]
    parts += [networks_section(r, folder) for r in (results, models) if r]
    if plots and any(g.family != NETWORKS for g in groups):
        pictures = "\n\n".join(f"### {title}\n\n![{title}]({file})" for title, file in draw(results, folder))
        parts.append("## Plots\n\n" + pictures)
    elif not plots:
        parts.append("No plots: Python's matplotlib is not here (Debian: python3-matplotlib).")
    parts += [wrong_section(results), tables_section(groups)]
    if text_of(compile_time):
        parts.append("## Compile time\n\n```\n" + text_of(compile_time) + "\n```")
    parts.append(absence_section(results))
    path = os.path.join(folder, "report.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n\n".join(p for p in parts if p) + "\n")
    return path


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./run bench report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--compile-time", metavar="FILE", help="what ./run bench compile_time printed")
    parser.add_argument("--models", metavar="FILE", help="the JSON file of ./run bench models")
    options = parser.parse_args(arguments)
    models = None
    try:
        results = Results(options.results)
        if options.models and os.path.exists(options.models):
            models = Results(options.models)
    except Unreadable as error:
        print(f"sinter: {error}", file=sys.stderr)
        return 2
    if not results.with_times():
        print(f"sinter: {options.results} holds no times", file=sys.stderr)
        return 2
    path = write(results, options.folder or os.path.splitext(options.results)[0],
                 options.compile_time, models)
    print(f"report    {path}" + ("" if plots else " (no plots: Python's matplotlib is not here)"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
