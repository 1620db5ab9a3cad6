"""A JSON file of sinter_bench: Google Benchmark's, with one more member, "sinter" (bench/support/suite.cpp).

Files of Google Benchmark without that member are read as well: groups and contenders then come from the names.
"""

import json
import re
import statistics

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
# What Google Benchmark appends to a name.
SUFFIX = re.compile(r"/(?:(?:min_time|min_warmup_time|repeats|iterations|threads):[^/]*|process_time|real_time)$")


class Unreadable(Exception):
    pass


def split_name(name):
    """The group and the contender of a run's name."""
    while SUFFIX.search(name):
        name = SUFFIX.sub("", name)
    group, _, contender = name.rpartition("/")
    return group, contender


def spread(times):
    """Half the distance between the quartiles as a part of the median, as sinter_bench prints it."""
    if len(times) < 4:
        return 0.0
    v = sorted(times)
    return (v[len(v) * 3 // 4] - v[len(v) // 4]) / 2 / statistics.median(v)


class Group:
    def __init__(self, name):
        self.name = name
        self.table = name
        self.type = ""
        self.flops = 0.0
        self.bytes = 0.0
        self.copies = 1
        self.ceiling = " "
        self.ceiling_work = 0.0
        self.details = {}
        self.absent = {}
        self.model = ""  # what the model of AMX says of it
        self.wrong = ""
        self.times = {}  # contender: processor time of each repetition in nanoseconds

    @property
    def contenders(self):
        """In the order of the file's details, without the ceiling and the steps alone."""
        order = list(self.details) or list(self.times)
        return [c for c in order if c in self.times and c not in ("ceiling", "steps")]

    @property
    def baseline(self):
        return self.contenders[0] if self.contenders else None

    def median(self, contender):
        return statistics.median(self.times[contender])

    def spread(self, contender):
        return spread(self.times[contender])

    def ratio(self, contender):
        """How many times as fast as the first contender."""
        return self.median(self.baseline) / self.median(contender)

    def ideal(self):
        """The time of the work at the ceiling that was measured beside it; 0: there is none."""
        if "ceiling" not in self.times or self.ceiling_work <= 0:
            return 0.0
        work = self.flops if self.ceiling == "F" else self.bytes
        return work / self.ceiling_work * self.median("ceiling")

    @property
    def precision(self):
        for part in reversed(self.name.split("/")):
            if part in ("f32", "bf16", "f16", "int8"):
                return part
        return self.type

    @property
    def memory(self):
        last = self.name.rpartition("/")[2]
        return last if last in ("warm", "cold") else ""

    @property
    def family(self):
        """"ops/matmul" of "ops/matmul/square/64x64x64/f32/warm"."""
        return "/".join(self.name.split("/")[:2])

    @property
    def problem(self):
        """The name without what the family, the precision and the memory say."""
        parts = self.name.split("/")[2:]
        return "/".join(p for p in parts if p not in (self.precision, self.memory))


class Results:
    def __init__(self, path):
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except OSError as error:
            raise Unreadable(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise Unreadable(f"{path} holds no JSON: {error}") from error
        if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
            raise Unreadable(f"{path} is no file of Google Benchmark: it has no list 'benchmarks'")
        self.path = path
        self.context = data.get("context", {})
        ours = data.get("sinter", {})
        self.machine = ours.get("machine", {})
        self.networks = ours.get("networks", [])  # of sinter_bench_models: group by group
        self.groups = {}
        for described in ours.get("groups", []):
            group = self.groups.setdefault(described["name"], Group(described["name"]))
            for key in ("table", "type", "flops", "bytes", "copies", "ceiling", "ceiling_work", "details",
                        "absent", "model", "wrong"):
                setattr(group, key, described.get(key, getattr(group, key)))
        for run in data["benchmarks"]:
            if run.get("run_type", "iteration") != "iteration" or run.get("error_occurred") or run.get("skipped"):
                continue
            group, contender = split_name(run.get("run_name", run["name"]))
            try:
                time = run["cpu_time"] * UNITS[run.get("time_unit", "ns")]
            except (KeyError, TypeError) as error:
                raise Unreadable(f"{path}: the run '{run['name']}' has no cpu_time in a known unit") from error
            known = self.groups.setdefault(group, Group(group))
            known.times.setdefault(contender, []).append(time)

    def with_times(self):
        return [g for g in self.groups.values() if g.contenders]
