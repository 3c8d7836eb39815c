"""What a call from Python costs beside the same from Rust: the same machine code, in one process, in alternating pairs.

    python overhead.py [PAIRS]

Rust is what ``fulmar-lab run … --json`` does, from its command line to the text of its report; Python is ``fulmar.run``, from its
arguments to a report of Python objects. Prints medians of processor time, of all threads, and the ratio of each pair.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import fulmar
from fulmar._native import command

MESSAGES, LOSS = 50_000, 0.05


def from_rust() -> None:
    words = ["run", "lrt-tcp", "--sim", "--json", "--schemes", "fulmar", "--messages", str(MESSAGES), "--loss", str(LOSS)]
    if command(["fulmar-lab", *words]) != 0:
        raise SystemExit("overhead: the run failed")


def from_python() -> None:
    report = fulmar.run("lrt-tcp", schemes=["fulmar"], messages=MESSAGES, loss=[LOSS])
    assert report.results[0]["scheme"] == "fulmar"


def cpu_s(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    shown, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    calls = (from_rust, from_python)
    for call in calls:
        call()
    times: list[tuple[float, float]] = []
    for pair in range(pairs):
        # Each is first in every second pair: what one leaves behind does not weigh on the other alone.
        order = calls if pair % 2 == 0 else calls[::-1]
        took = {call: cpu_s(call) for call in order}
        times.append((took[from_rust], took[from_python]))
    os.dup2(shown, 1)
    ratios = sorted(python / rust for rust, python in times)
    quarters = statistics.quantiles(ratios, n=4)
    result = {
        "pairs": pairs,
        "rust_s": round(statistics.median(rust for rust, _ in times), 4),
        "python_s": round(statistics.median(python for _, python in times), 4),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_quartiles": [round(quarters[0], 4), round(quarters[2], 4)],
        "ratio_least_most": [round(ratios[0], 4), round(ratios[-1], 4)],
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
