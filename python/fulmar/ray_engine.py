"""Sweeps on a Ray cluster.

The driver sends each worker the description of the sweep, texts of all files included, once; a worker builds the plan of it and keeps
it. A task is as many points and seeds as take some seconds; what comes back is the bytes of their files, which the driver writes. So a
worker needs this package and nothing else: no file, no folder that is shared. A worker or a node that dies takes its tasks with
it, and Ray runs those again elsewhere.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from fulmar import _native
from fulmar.sweep import Outcome, Task, outcome_of

#: So many tasks for each processor are under way or wait at it.
_AHEAD = 2
#: The most points and seeds of one task.
_BATCH_MAX = 2_000

#: Plans that this worker has built, by their hashes: the last one alone.
_plans: dict[str, _native.Plan] = {}


class WorkerMismatch(Exception):
    """A worker has no package, or one of another version."""


def batch(description: str, drivers: str, tasks: list[Task]) -> tuple[float, list[Outcome]]:
    """Runs points and seeds on a worker; returns the seconds that they took, and what they came to.

    ``drivers`` is the driver's :func:`version`.
    """
    import platform

    if version() != drivers:
        raise WorkerMismatch(
            f"node {platform.node()} ({sys.prefix}) has fulmar {version()}, the driver has {drivers}: "
            "install the same wheel on every node"
        )
    began = time.monotonic()
    sweep = json.loads(description)["sweep"]
    if sweep not in _plans:
        _plans.clear()
        _plans[sweep] = _native.Plan.of_description(description)
    outcomes = [outcome_of(_plans[sweep], task) for task in tasks]
    return time.monotonic() - began, outcomes


def version() -> str:
    """Returns what a worker and the driver must have in common."""
    return f"{_native.VERSION} of code {_native.CODE}"


def outcomes(description: str, rest: list[Task], task_seconds: float) -> Iterator[tuple[Task, Outcome]]:
    """Runs tasks on the cluster, in whatever order they end."""
    try:
        import ray
    except ImportError:
        raise _native.InputError('engine="ray": Ray is not installed: pip install "fulmar[ray]"') from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.WARNING)
    # Of tasks that fail alike the first one is told; Ray would print the others' traces after that.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    remote = ray.remote(num_cpus=1, max_retries=-1)(batch)
    shared = ray.put(description)
    waiting, each = list(reversed(rest)), 1
    under_way: dict[Any, list[Task]] = {}
    try:
        while waiting or under_way:
            processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
            while waiting and len(under_way) < _AHEAD * processors:
                # The last ones are shared out, so that no processor waits long for another.
                fair = -(-len(waiting) // (_AHEAD * processors))
                size = max(1, min(each, fair, _BATCH_MAX))
                tasks = [waiting.pop() for _ in range(min(size, len(waiting)))]
                under_way[remote.remote(shared, version(), tasks)] = tasks
            ready, _ = ray.wait(list(under_way), num_returns=1, timeout=1.0)
            for future in ready:
                tasks = under_way.pop(future)
                took, came = _result(ray, future)
                each = max(1, int(task_seconds * len(tasks) / max(took, 1e-3)))
                yield from zip(tasks, came)
    finally:
        for future in under_way:
            ray.cancel(future, force=False)


def _result(ray: Any, future: Any) -> tuple[float, list[Outcome]]:
    try:
        result: tuple[float, list[Outcome]] = ray.get(future)
        return result
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, WorkerMismatch):
            raise _native.InputError(str(cause)) from None
        if "No module named 'fulmar" in str(error):
            # What fails before the task begins has its place in its words alone.
            place = re.search(r"\bip=([^)\s]+)", str(error))
            raise _native.InputError(
                f"node {place[1] if place else 'unknown'} has no package fulmar, the driver has {version()}: "
                "install the same wheel on every node"
            ) from None
        raise
