"""Pictures of a run, drawn with matplotlib: sorted ratio bars, rooflines, size sweeps."""

import math
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of the drawing library)

# Okabe and Ito's colours, which colour-blind people tell apart.
COLOURS = {"jit": "#D55E00", "onednn": "#0072B2", "raw": "#000000", "raw_steps": "#999999", "jit_steps": "#E8A06B",
           "onednn_steps": "#80B9DA", "eigen": "#009E73", "openblas": "#CC79A7", "libxsmm": "#E69F00",
           "xnnpack": "#56B4E9", "loops": "#7A5195", "reference": "#B8860B", "sinter": "#D55E00", "graph": "#0072B2",
           "two_threads": "#009E73", "one_by_one": "#CC79A7"}
NAMES = {"raw": "oneDNN, fused", "raw_steps": "oneDNN, unfused", "jit": "Sinter, JIT", "onednn": "Sinter, oneDNN",
         "jit_steps": "Sinter JIT, unfused", "onednn_steps": "Sinter oneDNN, unfused", "eigen": "Eigen",
         "openblas": "OpenBLAS + loops", "libxsmm": "libxsmm + loops", "xnnpack": "XNNPACK", "loops": "loops",
         "sinter": "Sinter", "graph": "oneDNN Graph", "two_threads": "Sinter, two threads",
         "one_by_one": "Sinter, image by image"}
MARKERS = {"jit": "o", "raw": "s", "onednn": "D", "eigen": "^", "openblas": "v", "libxsmm": "P", "xnnpack": "X"}

plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 120,
                     "axes.axisbelow": True, "axes.titlesize": 10, "axes.titlelocation": "left"})


def colour(name):
    return COLOURS.get(name, "#444444")


def label(name):
    return NAMES.get(name, name)


def shorten(text, most):
    return text if len(text) <= most else text[: most - 1] + "…"


def save(figure, path):
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)
    return path


MOST_BARS = 40


def bar_label(group, kind):
    """The problem without what the title says already."""
    own = group.problem.removeprefix(kind.removeprefix(group.family).lstrip("/") + "/")
    return f"{shorten(own, 48)}  {group.precision} {group.memory}".rstrip()


def ratio_bars(groups, contender, title, path):
    """One bar for each problem, sorted: how many times as fast as the first contender. The title is their kind."""
    rows = sorted(((g.ratio(contender), g) for g in groups if contender in g.contenders and contender != g.baseline),
                  key=lambda r: r[0])
    if not rows:
        return None
    left_out = max(0, len(rows) - MOST_BARS)
    if left_out:  # both ends tell most
        rows = rows[: MOST_BARS // 2] + rows[-MOST_BARS // 2:]
    figure, axes = plt.subplots(figsize=(8.5, 0.9 + 0.21 * len(rows)))
    ratios = [r for r, _ in rows]
    bars = axes.barh(range(len(rows)), [r - 1 for r in ratios], left=1, height=0.72,
                     color=[colour("jit") if r >= 1 else colour("onednn") for r in ratios])
    axes.set_yticks(range(len(rows)), [bar_label(g, title) for _, g in rows], fontsize=7.5)
    axes.set_xscale("log")
    low, high = min(ratios + [0.9]), max(ratios + [1.1])
    axes.set_xlim(low / 1.18, high * 1.18)
    ticks = [t for t in (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500)
             if low / 1.18 <= t <= high * 1.18]
    if len(ticks) > 9:
        ticks = [t for t in ticks if t not in (0.67, 0.8, 1.25, 1.5, 0.33)]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=1)
    axes.grid(axis="x", alpha=0.3)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    for bar, r in zip(bars, ratios):
        axes.annotate(f"{r:.2f}", (r, bar.get_y() + bar.get_height() / 2), xytext=(3 if r >= 1 else -3, 0),
                      textcoords="offset points", va="center", ha="left" if r >= 1 else "right", fontsize=7)
    more = f" ({left_out} in the middle left out)" if left_out else ""
    axes.set_title(f"{title}: {label(contender)}, times as fast as {label(rows[0][1].baseline)}{more}")
    return save(figure, path)


LEAST_OPERATIONS = 1e5  # what takes less is bound by its call


def draw_ceilings(axes, machine, precision, peak, low, high):
    """The peaks of multiply-adds and of reads between two intensities."""
    for i, read in enumerate(machine.get("reads", [])):
        size = read["bytes"]
        text = f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
        ridge = peak / read["per_second"]
        start = max(low, min(ridge, high))
        axes.plot([low, start], [low * read["per_second"] / 1e9, start * read["per_second"] / 1e9], color="grey",
                  linestyle=["-", "--", "-.", ":"][i % 4], linewidth=1,
                  label=f"reads of {text}: {read['per_second'] / 1e9:.0f} GB/s")
    axes.axhline(peak / 1e9, color="black", linewidth=1.2)
    axes.annotate(f"{peak / 1e9:.0f} GFLOP/s, {machine['peaks'][precision].get('instruction', '')}",
                  (low, peak / 1e9), xytext=(4, 4), textcoords="offset points", fontsize=8)


def roofline(groups, machine, precision, path):
    """Speed by arithmetic intensity, under the peaks that were measured in the same run."""
    points = [(g, c) for g in groups if g.precision == precision and g.flops >= LEAST_OPERATIONS and g.bytes > 0
              for c in g.contenders if c in MARKERS]
    peak = machine.get("peaks", {}).get(precision, {}).get("flops", 0)
    if not points or peak <= 0:
        return None
    figure, axes = plt.subplots(figsize=(8.5, 5))
    xs = [g.flops / g.bytes for g, _ in points]
    low, high = min(xs) / 1.5, max(xs) * 1.5
    draw_ceilings(axes, machine, precision, peak, low, high)
    for c in [c for c in MARKERS if any(c == p for _, p in points)]:
        own = [g for g, p in points if p == c]
        axes.scatter([g.flops / g.bytes for g in own], [g.flops / g.median(c) for g in own], s=20, alpha=0.75,
                     color=colour(c), marker=MARKERS[c], label=label(c), linewidths=0)
    speeds = [g.flops / g.median(c) for g, c in points]
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(min(speeds) / 1.5, peak / 1e9 * 1.8),
             xlabel="operations per byte that a call has to touch", ylabel="GFLOP/s, one thread",
             title=f"Roofline, {precision}: problems of at least {LEAST_OPERATIONS:,.0f} operations")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7.5, loc="lower right", ncols=2)
    return save(figure, path)


def sweep_of(groups, pattern):
    """{(title, precision): [(size, group)]} of groups whose problem says one size."""
    series = {}
    for g in groups:
        if g.memory == "cold":
            continue
        found = re.fullmatch(pattern, g.problem)
        if found:
            series.setdefault((found["title"], g.precision), []).append((float(found["size"]), g))
    return {k: sorted(v, key=lambda p: p[0]) for k, v in series.items() if len(v) >= 3}


def sweeps(groups, pattern, x_label, y_label, value, peak, title, path):
    """A panel for each kind and precision: a line for each contender over sizes."""
    series = sweep_of(groups, pattern)
    if not series:
        return None
    columns = 2
    rows = math.ceil(len(series) / columns)
    figure, panels = plt.subplots(rows, columns, figsize=(9, 2.9 * rows), squeeze=False)
    seen = {}
    for axes, ((name, precision), points) in zip(panels.flat, sorted(series.items())):
        names = []
        for _, g in points:
            names += [c for c in g.contenders if c not in names]
        for c in names:
            own = [(x, value(g, c)) for x, g in points if c in g.contenders]
            line, = axes.plot([x for x, _ in own], [y for _, y in own], color=colour(c), marker=MARKERS.get(c, "."),
                              markersize=4, linewidth=1.3, linestyle="--" if c.endswith("_steps") else "-")
            seen.setdefault(label(c), line)
        top = peak(precision)
        if top > 0:
            axes.axhline(top, color="black", linewidth=1, linestyle=":")
        axes.set_xscale("log", base=2)
        sizes = [x for x, _ in points]
        axes.set_xticks(sizes, [f"{x:g}" for x in sizes])
        axes.set_ylim(bottom=0)
        axes.set_title(f"{name}, {precision}")
        axes.grid(alpha=0.3)
    for axes in panels[-1]:
        axes.set_xlabel(x_label)
    for axes in panels[:, 0]:
        axes.set_ylabel(y_label)
    for axes in panels.flat[len(series):]:
        axes.set_visible(False)
    figure.suptitle(title, x=0.01, y=1.0, ha="left", va="bottom", fontsize=10)
    figure.legend(seen.values(), seen.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, fontsize=8,
                  frameon=False)
    figure.tight_layout()
    return save(figure, path)


def model_bars(groups, path):
    """A panel for each precision: for each network, how many times as fast as raw oneDNN layer by layer."""
    precisions = [p for p in ("f32", "bf16") if any(g.precision == p for g in groups)]
    if not precisions:
        return None
    names = []
    for g in groups:
        names += [g.problem] if g.problem not in names else []
    who = [c for c in ("sinter", "graph", "two_threads", "one_by_one") if any(c in g.contenders for g in groups)]
    figure, panels = plt.subplots(1, len(precisions), figsize=(4.8 * len(precisions), 1.3 + 0.2 * len(who) * len(names)),
                                  squeeze=False, sharey=True)
    for axes, precision in zip(panels[0], precisions):
        most = 1.0
        for g in (g for g in groups if g.precision == precision):
            for i, c in enumerate(who):
                if c not in g.contenders or c == g.baseline:
                    continue
                y = names.index(g.problem) + (i - (len(who) - 1) / 2) * 0.8 / len(who)
                r = g.ratio(c)
                most = max(most, r)
                axes.barh(y, r, height=0.74 / len(who), color=colour(c))
                axes.annotate(f"{r:.2f}  {g.median(c) / 1e6:.2f} ms", (r, y), xytext=(3, 0), textcoords="offset points",
                              va="center", fontsize=7)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xlim(0, most * 1.35)
        axes.set_title(f"{precision}: times as fast as oneDNN layer by layer")
        axes.grid(axis="x", alpha=0.3)
    panels[0][0].set_yticks(range(len(names)), names)
    panels[0][0].invert_yaxis()
    figure.legend([plt.Rectangle((0, 0), 1, 1, color=colour(c)) for c in who], [label(c) for c in who],
                  loc="upper center", bbox_to_anchor=(0.5, 0.03), ncols=4, fontsize=8, frameon=False)
    figure.tight_layout()
    return save(figure, path)


# What a group of a network is, with the colour of its points and bars.
KINDS = {"convolution": "#0072B2", "depthwise or grouped": "#009E73", "linear": "#E69F00", "no contraction": "#999999",
         "copy": "#CC79A7"}


def kind_of(group):
    if group["copy"]:
        return "copy"
    if group["linear"]:
        return "linear"
    if group["flops"] <= 0:
        return "no contraction"
    return "depthwise or grouped" if "groups=" in group["group"] else "convolution"


def network_roofline(networks, machine, precision, path):
    """Every group of every network: speed by arithmetic intensity, under the peaks of the same run."""
    points = [g for n in networks if n["precision"] == precision for g in n["groups"]
              if g["flops"] >= LEAST_OPERATIONS and g["ms"] > 0]
    peak = machine.get("peaks", {}).get(precision, {}).get("flops", 0)
    if not points or peak <= 0:
        return None
    figure, axes = plt.subplots(figsize=(8.5, 5))
    xs = [g["flops"] / g["bytes"] for g in points]
    low, high = min(xs) / 1.5, max(xs) * 1.5
    draw_ceilings(axes, machine, precision, peak, low, high)
    for kind, shade in KINDS.items():
        own = [g for g in points if kind_of(g) == kind]
        if own:
            axes.scatter([g["flops"] / g["bytes"] for g in own], [g["flops"] / g["ms"] / 1e6 for g in own], s=16, alpha=0.7,
                         color=shade, label=kind, linewidths=0)
    speeds = [g["flops"] / g["ms"] / 1e6 for g in points]
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(min(speeds) / 1.5, peak / 1e9 * 1.8),
             xlabel="operations per byte of activations and weights", ylabel="GFLOP/s, one thread",
             title=f"Groups of networks, {precision}: {len(points)} of at least {LEAST_OPERATIONS:,.0f} operations")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="y", which="minor", labelsize=7)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7.5, loc="lower right", ncols=2)
    return save(figure, path)


MOST_STEPS = 70


def waterfall(network, path):
    """One network's groups, one behind the other: how long each takes, and how long its roofline says it has to."""
    groups = [g for g in network["groups"] if g["ms"] > 0]
    if not groups:
        return None
    shown = groups[:MOST_STEPS]
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.17 * len(shown)))
    start = 0.0
    for y, g in enumerate(shown):
        axes.barh(y, g["ms"], left=start, height=0.8, color=KINDS[kind_of(g)], alpha=0.55)
        axes.barh(y, min(g["roofline_ms"], g["ms"]), left=start, height=0.8, color=KINDS[kind_of(g)])
        axes.annotate(f"{g['ms']:.3f}", (start + g["ms"], y), xytext=(3, 0), textcoords="offset points", va="center",
                      fontsize=6)
        start += g["ms"]
    axes.set_yticks(range(len(shown)), [shorten(g["group"], 62) for g in shown], fontsize=6)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, start * 1.07)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("ms, one thread; the full colour is what the group's own roofline allows")
    more = f", the first {len(shown)} of {len(groups)} groups" if len(groups) > len(shown) else ""
    axes.set_title(f"{network['model']}, {network['precision']}{more}: "
                   f"{sum(g['ms'] for g in groups):.2f} ms group by group")
    kinds = [k for k in KINDS if any(kind_of(g) == k for g in shown)]
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=KINDS[k]) for k in kinds], kinds, fontsize=7, loc="upper right")
    return save(figure, path)
