"""Sweeps: an experiment's file at many points and with many seeds, on one machine or on a cluster."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from fulmar import _native
from fulmar.experiment import open_plan
from fulmar.report import Value

#: A point and a seed.
Task = tuple[int, int]
#: The bytes of a task's results, or why there are none.
Outcome = Union[bytes, str]

#: How often is told how far a sweep is, seconds.
_TOLD_EVERY_S = 5.0


@dataclass(frozen=True)
class Swept:
    """What a sweep came to."""

    #: The folder of results, as ``fulmar-lab sweep`` makes it.
    folder: Path
    #: How many tasks there are: a point with a seed each.
    tasks: int
    #: How many were done before.
    done_before: int
    #: How many failed now; :meth:`failures` says why.
    failed: int

    def table(self) -> Any:
        """Returns all results as one ``pyarrow.Table``: a row for each point, seed and scheme (needs pyarrow)."""
        from pyarrow import parquet

        return parquet.read_table(self.folder / "points")

    def failures(self) -> list[dict[str, Any]]:
        """Returns the tasks that failed: ``point``, ``values``, ``seed``, ``why``."""
        files = sorted((self.folder / "failed").glob("*.json"))
        return [json.loads(file.read_text()) for file in files]


class Sweep:
    """An experiment's file at many points and with many seeds.

    ``over`` varies keys, every combination: ``{"link.wifi.loss": [0, 0.1]}``; ``points`` lists points one by one. ``seeds`` is one
    seed, the first and the last, or a range; a seed more is a repetition more. The file's own ``[[sweep]]``, seeds and schemes hold
    where nothing is said here.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | None = None,
        over: Mapping[str, Sequence[Value]] | None = None,
        *,
        text: str | None = None,
        points: Sequence[Mapping[str, Value]] | None = None,
        seeds: int | tuple[int, int] | range | None = None,
        schemes: Sequence[str] | None = None,
    ) -> None:
        if source is not None and os.fspath(source).endswith(".json"):
            if over is not None or points is not None or seeds is not None or schemes is not None:
                raise TypeError("a sweep.json says itself what is run: give it alone, or the experiment's TOML file")
            try:
                description = Path(source).read_text()
            except OSError as error:
                raise _native.InputError(f"read {os.fspath(source)}: {error.strerror}") from None
            self._plan = _native.Plan.of_description(description)
        else:
            self._plan = open_plan(source, text, over, points, seeds, schemes)

    @property
    def hash(self) -> str:
        """What tells this sweep from every other; stands in every row of its results."""
        return self._plan.hash

    @property
    def name(self) -> str:
        """What the file calls the experiment."""
        return self._plan.name

    @property
    def points(self) -> list[dict[str, Value]]:
        """The values of every point."""
        points: list[dict[str, Value]] = json.loads(self._plan.points())
        return points

    @property
    def seeds(self) -> range:
        """The seeds that every point is run with."""
        first, last = self._plan.seeds
        return range(first, last + 1)

    def run(
        self,
        folder: str | os.PathLike[str],
        *,
        engine: str = "local",
        jobs: int | None = None,
        task_seconds: float = 3.0,
        progress: bool | Callable[[int, int, int], None] = True,
    ) -> Swept:
        """Runs what is not in the folder yet, and puts the results there: the same bytes as ``fulmar-lab sweep``, whatever the engine.

        ``engine`` is ``"local"``, all processors of this machine or ``jobs`` of them, or ``"ray"``: the Ray cluster that
        ``RAY_ADDRESS`` names, one that runs here, or else one on this machine alone. Ray is asked for tasks of about ``task_seconds``
        each; every node needs the same version of this package. A point that fails is noted in the folder, and the others go
        on. After a crash of anything, run it again: what is there is not run twice.

        ``progress`` is called with tasks that ended, failed, and all; ``True`` tells on stderr.
        """
        results = _native.Results.open(folder, self._plan)
        rest = results.missing(self._plan)
        tasks = self._plan.point_count * len(self.seeds)
        told = _Told(self.name, len(rest), progress)
        failed = 0
        for (point, seed), outcome in self._outcomes(engine, rest, jobs, task_seconds):
            if isinstance(outcome, bytes):
                results.keep(point, seed, outcome)
            else:
                results.keep_failure(self._plan, point, seed, outcome)
                failed += 1
            told.on_end(failed)
        return Swept(Path(folder), tasks, tasks - len(rest), failed)

    def _outcomes(
        self, engine: str, rest: list[Task], jobs: int | None, task_seconds: float
    ) -> Iterator[tuple[Task, Outcome]]:
        if jobs is not None and jobs < 1:
            raise _native.InputError(f"jobs: {jobs}: at least 1")
        if not task_seconds > 0:
            raise _native.InputError(f"task_seconds: {task_seconds} is not above 0")
        if engine == "local":
            return local(self._plan, rest, jobs or os.cpu_count() or 1)
        if engine == "ray":
            if jobs is not None:
                raise TypeError("jobs: a cluster has as many as it has processors")
            from fulmar import ray_engine

            return ray_engine.outcomes(self._plan.description(), rest, task_seconds)
        raise _native.InputError(f'engine: there is no {engine!r}; there are "local" and "ray"')

    def __repr__(self) -> str:
        return f"<fulmar.Sweep {self.name}: {self._plan.point_count} points, {len(self.seeds)} seeds, {self.hash}>"


def outcome_of(plan: _native.Plan, task: Task) -> Outcome:
    """Runs a task; what it fails with is its outcome."""
    try:
        return plan.run_to_parquet(*task)
    except _native.RunError as error:
        return str(error)


def local(plan: _native.Plan, rest: list[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Runs tasks on threads: the interpreter is free while a world runs."""
    waiting = iter(rest)
    pool = ThreadPoolExecutor(jobs)
    under_way: dict[Future[Outcome], Task] = {}

    def fill() -> None:
        while len(under_way) < 2 * jobs and (task := next(waiting, None)) is not None:
            under_way[pool.submit(outcome_of, plan, task)] = task

    try:
        fill()
        while under_way:
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield under_way.pop(future), future.result()
            fill()
    finally:
        # Ctrl-C: what has begun ends by itself, the rest does not begin.
        pool.shutdown(wait=False, cancel_futures=True)


class _Told:
    """Tells how far a sweep is."""

    def __init__(self, name: str, tasks: int, progress: bool | Callable[[int, int, int], None]) -> None:
        self._name, self._tasks, self._progress = name, tasks, progress
        self._ended = 0
        self._began = self._last = time.monotonic()

    def on_end(self, failed: int) -> None:
        self._ended += 1
        if callable(self._progress):
            self._progress(self._ended, failed, self._tasks)
            return
        now = time.monotonic()
        if self._progress and (now - self._last >= _TOLD_EVERY_S or self._ended == self._tasks):
            self._last = now
            left = (now - self._began) / self._ended * (self._tasks - self._ended)
            print(
                f"{self._name}: {self._ended} of {self._tasks} tasks, {failed} failed, {_shown(left)} left",
                file=sys.stderr,
                flush=True,
            )


def _shown(seconds: float) -> str:
    whole = -int(-seconds // 1)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole // 60 % 60} min"
