"""Searches the constants of the elastic window's redundancy over recorded links, and judges what it finds on links held out.

    python search_elastic.py --cut windows                 # cuts the windows of recordings (docs/traces.md)
    python search_elastic.py windows --out found.json      # searches, and judges
    python search_elastic.py windows --judge found.json    # judges again what was found then: exit code 1 if figures differ

A trial runs all links that are learned from; its cost is the mean, over these links, of the logarithm of the delay's tail (p99)
against that of today's constants, and of the bytes on the wire against today's. Both weigh the same: half the tail for twice the bytes is
no gain. Trials are asked for by Optuna (TPE) in batches, so that all processors, or with ``--engine ray`` all of a cluster, have
work. The same versions, seeds and batch give the same trials.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

import optuna

import fulmar

#: What `fulmar-lab trace window` is given for each set of links: twenty windows.
CUTS = (
    "lte-drives:att+verizon --worst 2 --random 1",
    "lte-drives:evdo --worst 1 --random 1",
    "lte-drives:tmobile --worst 1 --random 1",
    "operators:att+tmobile --worst 2 --random 1",
    "operators:verizon --worst 1 --random 1",
    "wifi:ap1+ap4 --worst 1 --random 1",
    "wifi:ap2+ap3 --random 1",
    "wifi:ap1 --random 1",
    "5g-rtt:south1+south2 --worst 1",
    "5g-rtt:weak-strong+strong-weak --worst 1",
    "5g-rtt:south5 --worst 1",
    "starlink-lte:starlink --worst 1",
)
#: Sets that nothing is learned from: other people's recordings of other networks than the rest.
HELD_OUT = ("wifi-", "5g-rtt-", "starlink-lte-")
#: Constants (docs/experiments.md, `[elastic]`): today's, and where they are looked for.
CONSTANTS: dict[str, tuple[float, float, float]] = {
    "level_1": (1 / 32, 0.0, 0.5),
    "level_2": (0.125, 0.0, 0.75),
    "level_3": (0.24, 0.05, 1.0),
    "level_4": (0.5, 0.1, 1.5),
    "slope": (2.5, 1.0, 6.0),
    "unknown": (0.24, 0.05, 1.5),
    "bursts": (1.0, 0.2, 2.0),
    "burst_run": (2.5, 1.5, 8.0),
    "bursts_known": (1024.0, 64.0, 4096.0),
    "spare": (0.08, 0.0, 0.5),
}
TODAY = {name: today for name, (today, _, _) in CONSTANTS.items()}
TAIL, BYTES = "streams.orders.p99_ms", "wire_bytes"
SCENE = """
scenario = "{first}"
schemes = ["fulmar"]
figures = ["streams.orders.p99_ms", "streams.orders.late", "wire_bytes"]

[[stream]]
kind = "messages"
name = "orders"
rate_hz = 50
bytes = 1000
deadline_ms = 250
"""

Constants = dict[str, float]
#: Of one link: its tail and its bytes; the tail is infinite where nothing was delivered.
Figures = tuple[float, float]


def cut(folder: str) -> None:
    for words in CUTS:
        command = [sys.executable, "-m", "fulmar", "trace", "window", *words.split(), "--seconds", "60", "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measured(
    links: Sequence[Path], trials: Sequence[Constants], seeds: tuple[int, int], engine: str
) -> list[list[Figures]]:
    """Returns for each trial the figures of each link, means over the seeds."""
    points: list[dict[str, Union[str, float]]] = [
        {"scenario": str(link / "scenario.toml"), **{f"elastic.{name}": value for name, value in trial.items()}}
        for trial in trials
        for link in links
    ]
    text = SCENE.format(first=links[0] / "scenario.toml")
    sweep = fulmar.Sweep(text=text, points=points, seeds=seeds)
    with tempfile.TemporaryDirectory() as folder:
        swept = sweep.run(folder, engine=engine, progress=False)
        if swept.failed:
            raise SystemExit(f"search_elastic: {swept.failures()[0]['why']}")
        rows: list[dict[str, Any]] = swept.table().to_pylist()
    of_point: list[list[Figures]] = [[] for _ in points]
    for row in rows:
        tail = row[TAIL]
        of_point[row["point"]].append((math.inf if tail is None else tail, row[BYTES]))
    means = [(sum(t for t, _ in f) / len(f), sum(b for _, b in f) / len(f)) for f in of_point]
    return [means[start : start + len(links)] for start in range(0, len(means), len(links))]


def cost(found: Sequence[Figures], today: Sequence[Figures]) -> float:
    """Returns the mean of log(tail ÷ today's) + log(bytes ÷ today's)."""
    total = 0.0
    for (tail, wire), (tail_today, wire_today) in zip(found, today):
        if math.isfinite(tail_today):
            total += math.log(tail / tail_today) if math.isfinite(tail) else 10.0
        total += math.log(wire / wire_today)
    return total / len(today)


def search(
    links: Sequence[Path], trials: int, batch: int, seed: int, seeds: tuple[int, int], engine: str
) -> tuple[Constants, float]:
    """Returns the best constants, and what they cost."""
    (today,) = measured(links, [TODAY], seeds, engine)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial(TODAY)
    for _ in range(-(-trials // batch)):
        asked = [study.ask() for _ in range(batch)]
        values = [
            {name: trial.suggest_float(name, least, most) for name, (_, least, most) in CONSTANTS.items()}
            for trial in asked
        ]
        for trial, found in zip(asked, measured(links, values, seeds, engine)):
            study.tell(trial, cost(found, today))
        print(f"{len(study.trials)} trials, best {study.best_value:.4f}", file=sys.stderr, flush=True)
    return dict(study.best_params), study.best_value


def judged(links: Sequence[Path], found: Constants, seeds: tuple[int, int], engine: str) -> list[dict[str, Any]]:
    """Sets what was found beside today's constants, link by link."""
    today, new = measured(links, [TODAY, found], seeds, engine)
    rows = []
    for link, (tail, wire), (tail_new, wire_new) in zip(links, today, new):
        no_worse = (tail_new <= tail or not math.isfinite(tail)) and wire_new <= wire
        rows.append(
            {
                "link": link.name,
                "today": {"p99_ms": shown(tail), "wire_bytes": wire},
                "found": {"p99_ms": shown(tail_new), "wire_bytes": wire_new},
                "better": no_worse and (tail_new < tail or wire_new < wire),
            }
        )
    return rows


def judged_again(then: dict[str, Any], links: Sequence[Path], seeds: tuple[int, int], engine: str) -> int:
    rows = judged(links, then["constants"], seeds, engine)
    print(json.dumps(rows, indent=2))
    if rows == then["held_out"]:
        return 0
    code = then["versions"]["code"]
    print(f"search_elastic: not the figures of then; that was by the code {code}, this is {fulmar.__code__}", file=sys.stderr)
    return 1


def shown(tail: float) -> Union[float, None]:
    return round(tail, 3) if math.isfinite(tail) else None


def main() -> int:
    parser = argparse.ArgumentParser(description="Searches constants of the elastic window over recorded links.")
    parser.add_argument("windows", help="folder of windows")
    parser.add_argument("--cut", action="store_true", help="cut the windows into the folder, and end")
    parser.add_argument("--trials", type=int, default=96)
    parser.add_argument("--batch", type=int, default=8, help="trials at once")
    parser.add_argument("--seed", type=int, default=1, help="of the search")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each link in a trial")
    parser.add_argument("--judge-seeds", type=int, default=5, help="runs of each link when judging, with other seeds")
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--learn", type=int, help="learn from so many links alone")
    parser.add_argument("--out", help="where to write what was found, as JSON")
    parser.add_argument("--judge", metavar="FILE", help="judge again what this file says was found, in place of a search")
    given = parser.parse_args()
    if given.cut:
        cut(given.windows)
        return 0
    folders = sorted(folder for folder in Path(given.windows).iterdir() if (folder / "scenario.toml").is_file())
    held_out = [folder for folder in folders if folder.name.startswith(HELD_OUT)]
    learned = [folder for folder in folders if not folder.name.startswith(HELD_OUT)][: given.learn]
    if not learned or not held_out:
        print(f"search_elastic: {given.windows}: no windows to learn from and to judge by: --cut", file=sys.stderr)
        return 2
    judge_seeds = (101, 100 + given.judge_seeds)
    if given.judge:
        return judged_again(json.loads(Path(given.judge).read_text()), held_out, judge_seeds, given.engine)
    best, value = search(learned, given.trials, given.batch, given.seed, (1, given.seeds), given.engine)
    # As they are written down, so that they can be judged again.
    best = {name: round(number, 4) for name, number in best.items()}
    rows = judged(held_out, best, judge_seeds, given.engine)
    report = {
        "command": f"search_elastic.py {os.path.basename(given.windows)} --trials {given.trials} --batch {given.batch} "
        f"--seed {given.seed} --seeds {given.seeds} --judge-seeds {given.judge_seeds}",
        "versions": {"fulmar": fulmar.__version__, "code": fulmar.__code__, "optuna": optuna.__version__},
        "learned": [folder.name for folder in learned],
        "cost": round(value, 4),
        "constants": best,
        "held_out": rows,
        "better_on_every_link": all(row["better"] for row in rows),
    }
    text = json.dumps(report, indent=2)
    print(text)
    if given.out:
        Path(given.out).write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
