"""A sweep on a real Ray cluster of two nodes on this machine, one of which is killed in the middle.

    python ray_cluster.py [POINTS]

Prints how long it took, how busy two processors were, and whether the bytes are those of one process. 2,000 points unless said.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster
from test_sweep import SCENE, contents

import fulmar


def workers_cpu_s() -> float:
    """Processor time of all workers, seconds."""
    total = 0.0
    for process in psutil.process_iter(["name", "cmdline", "cpu_times"]):
        words = process.info["cmdline"] or [""]
        if words[0].startswith("ray::"):
            total += process.info["cpu_times"].user + process.info["cpu_times"].system
    return total


def swept(sweep: fulmar.Sweep, folder: Path, kill: bool) -> dict[str, bytes]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second: Any = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    half = threading.Event()
    tasks = len(sweep.points) * len(sweep.seeds)

    def on_end(ended: int, failed: int, all: int) -> None:
        if ended >= tasks // 2 and not half.is_set():
            half.set()
            if kill:
                cluster.remove_node(second, allow_graceful=False)
                print(f"  a node was killed after {ended} of {all}")

    before, began = workers_cpu_s(), time.monotonic()
    outcome = sweep.run(folder, engine="ray", progress=on_end)
    took = time.monotonic() - began
    busy = (workers_cpu_s() - before) / (2 * took)
    print(f"  {outcome.tasks} tasks, {outcome.failed} failed, {took:.1f} s" + ("" if kill else f", {busy:.0%} of two processors"))
    ray.shutdown()
    cluster.shutdown()
    return contents(folder)


def main() -> int:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    losses = [number / points for number in range(points)]
    scene = SCENE.replace("seconds = 2", "seconds = 20").replace('["fulmar", "udp"]', '["fulmar"]')
    sweep = fulmar.Sweep(text=scene, over={"link.wifi.loss": [round(0.5 * loss, 6) for loss in losses]})
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        print("one process:")
        began = time.monotonic()
        one = sweep.run(folder / "one", progress=False)
        print(f"  {one.tasks} tasks, {time.monotonic() - began:.1f} s")
        wanted = contents(one.folder)
        for name, kill in (("cluster", False), ("killed", True)):
            print(f"two nodes, {name}:")
            if swept(sweep, folder / name, kill) != wanted:
                print("  the bytes differ")
                return 1
            print("  the same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
