"""A sweep on a real Ray cluster of two nodes on this machine, whose parts are killed in the middle.

    python ray_cluster.py [--points N] [--seconds S] [CASE ...]

Points count each seed; a point is so many seconds of virtual time.

First one process runs all points; whatever is killed afterwards, the folder must be the same, byte for byte. Cases: ``cluster``
(nothing is killed), ``node``, ``worker``, ``driver`` and ``head``; the driver is a process of its own, and where it or the head dies,
it is started again. Prints how long each took, and how many results were written twice. Needs ray and
psutil.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from ray.cluster_utils import Cluster
from test_sweep import SCENE, contents

import fulmar

CASES = ("cluster", "node", "worker", "driver", "head")
#: So many values of loss for each seed.
POINTS_OF_A_SEED = 1_000
#: How long a driver may live on whose head has died, seconds.
ORPHAN_S = 180.0


def the_sweep(points: int, seconds: int) -> fulmar.Sweep:
    seeds = -(-points // POINTS_OF_A_SEED)
    losses = [round(0.5 * number * seeds / points, 6) for number in range(points // seeds)]
    scene = SCENE.replace("seconds = 2", f"seconds = {seconds}").replace('["fulmar", "udp"]', '["fulmar"]')
    return fulmar.Sweep(text=scene, over={"link.wifi.loss": losses}, seeds=(1, seeds))


def drive(points: int, seconds: int, folder: Path) -> None:
    """What the driver does: RAY_ADDRESS says where."""
    began = time.monotonic()
    swept = the_sweep(points, seconds).run(folder, engine="ray", progress=False)
    print(swept.tasks - swept.done_before, swept.done_before, swept.failed, time.monotonic() - began, flush=True)


def workers() -> Iterator[psutil.Process]:
    """Those that run tasks; a node's agents have such names too."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if words[0].startswith(("ray::batch", "ray::IDLE")):
            yield process


def results(folder: Path) -> dict[str, float]:
    """When each file of results was written."""
    times = {}
    for file in (folder / "points").glob("*.parquet"):
        times[file.name] = file.stat().st_mtime
    return times


class Watch:
    """Adds up what the workers use of the processors, those included that end meanwhile."""

    def __init__(self) -> None:
        self._used: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            for worker in workers():
                try:
                    times = worker.cpu_times()
                except psutil.Error:
                    continue
                self._used[worker.pid] = times.user + times.system

    def end(self) -> float:
        """Returns how much it was, seconds."""
        self._over.set()
        self._thread.join()
        return sum(self._used.values())


class Case:
    """A cluster, and the driver on it."""

    def __init__(self, points: int, seconds: int, folder: Path) -> None:
        self._points, self._seconds, self._folder = points, seconds, folder
        self._said = open(f"{folder}.log", "w+")
        self._start()

    def _start(self) -> None:
        # Ray's own choice, 15, lets every other program go first: on a machine that does other things the sweep would hardly move.
        os.environ["RAY_worker_niceness"] = "0"
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self.second: Any = self.cluster.add_node(num_cpus=1)
        self.cluster.wait_for_nodes()

    def _what(self) -> list[str]:
        return ["--points", str(self._points), "--seconds", str(self._seconds)]

    def drive(self) -> subprocess.Popen[str]:
        words = [sys.executable, __file__, "--drive", str(self._folder), *self._what()]
        environment = {**os.environ, "RAY_ADDRESS": self.cluster.address}
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=self._said, text=True)

    def run(self, kill: str) -> bool:
        driver, began, watch = self.drive(), time.monotonic(), Watch()
        if kill != "cluster":
            while len(results(self._folder)) < self._points // 2 and driver.poll() is None:
                time.sleep(0.05)
            self._kill(kill, driver)
        before = results(self._folder)
        if kill in ("driver", "head"):
            try:
                print(f"  the driver ended with {driver.wait(ORPHAN_S)}")
            except subprocess.TimeoutExpired:
                driver.kill()
                print(f"  the driver still lived {ORPHAN_S:.0f} s after the head: killed")
                return False
            before = results(self._folder)
            print(f"  {len(before)} of {self._points} were done")
            if kill == "head":
                self.cluster.shutdown()
                self._start()
            driver = self.drive()
        # Ray says things on the same output, before.
        report = driver.communicate()[0].splitlines()[-1:]
        used = watch.end()
        if driver.returncode != 0:
            self._said.seek(0)
            print(f"  the driver failed: {driver.returncode}: {self._said.read()[-2_000:]}")
            return False
        ran, done_before, failed, took = (float(word) for word in report[0].split())
        after = results(self._folder)
        twice = sum(after[name] != at for name, at in before.items())
        wall = time.monotonic() - began
        print(f"  {wall:.1f} s in all, the last driver {took:.1f} s: ran {ran:.0f}, found {done_before:.0f}, failed {failed:.0f}")
        print(f"  written twice: {twice}")
        if kill == "cluster":
            print(f"  the workers used {used:.1f} s in {took:.1f} s of two processors: {used / (2 * took):.1%}")
        return twice == 0 and failed == 0 and done_before in (0, len(before)) and ran + done_before == self._points

    def _kill(self, what: str, driver: subprocess.Popen[str]) -> None:
        if what == "node":
            self.cluster.remove_node(self.second, allow_graceful=False)
        elif what == "head":
            self.cluster.remove_node(self.cluster.head_node, allow_graceful=False)
        else:
            victim = driver.pid if what == "driver" else next(workers()).pid
            os.kill(victim, signal.SIGKILL)
        print(f"  {what} killed when {len(results(self._folder))} of {self._points} were done")

    def end(self) -> None:
        self._said.close()
        self.cluster.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="unless said all: " + ", ".join(CASES))
    parser.add_argument("--points", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        drive(given.points, given.seconds, given.drive)
        return 0
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    status = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        print("one process:", flush=True)
        began, used = time.monotonic(), time.process_time()
        one = the_sweep(given.points, given.seconds).run(folder / "one", progress=False)
        took, used = time.monotonic() - began, time.process_time() - used
        print(f"  {one.tasks} tasks, {took:.1f} s, {used:.1f} s of processors", flush=True)
        wanted = contents(one.folder)
        print(f"  {sum(map(len, wanted.values())) / len(wanted):.0f} bytes in a file")
        for kill in given.cases or CASES:
            print(f"two nodes, {kill}:", flush=True)
            case = Case(given.points, given.seconds, folder / kill)
            try:
                good = case.run(kill)
            finally:
                case.end()
            same = contents(folder / kill) == wanted
            print("  the same bytes" if same else "  the bytes differ", flush=True)
            status |= not (good and same)
    return status


if __name__ == "__main__":
    sys.exit(main())
