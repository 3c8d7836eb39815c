"""An experiment's file, point by point."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fulmar import _native
from fulmar.report import Value, seed_range


@dataclass(frozen=True)
class Detail:
    """What became of everything in one run, as Arrow tables. Times are nanoseconds after the workload began."""

    #: A row for each message that an application sent: stream, flow, direction, sequence, bytes, sent_ns, delivered_ns
    #: (null where it was lost).
    messages: _native.Table
    #: A row for each packet on a link and each of its receivers: number, entry_ns, link, sender, receiver, bytes, fate
    #: (delivered, or why it was dropped), arrival_ns, copies.
    packets: _native.Table


class Experiment:
    """An experiment that a TOML file describes (docs/experiments.md), at one or many points.

    ``source`` is the file; a text of TOML is given as ``text=``. ``over`` varies keys: ``{"link.wifi.loss": [0, 0.1]}``,
    every combination; ``points`` lists points one by one.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | None = None,
        *,
        text: str | None = None,
        over: Mapping[str, Sequence[Value]] | None = None,
        points: Sequence[Mapping[str, Value]] | None = None,
        schemes: Sequence[str] | None = None,
    ) -> None:
        self._plan = open_plan(source, text, over, points, None, schemes)

    @property
    def name(self) -> str:
        """What the file calls the experiment."""
        return self._plan.name

    @property
    def schemes(self) -> list[str]:
        """Schemes that run at every point."""
        return self._plan.schemes

    @property
    def points(self) -> list[dict[str, Value]]:
        """The values of every point."""
        points: list[dict[str, Value]] = json.loads(self._plan.points())
        return points

    def run(self, point: int | None = None, seed: int | None = None) -> list[dict[str, Any]]:
        """Does what the file says, as ``fulmar-lab run FILE`` does: each point of its sweeps, with the file's seeds pooled.

        Returns an object of figures for each point and scheme. ``point`` is the number of one point; ``seed`` is one seed in place
        of the file's.
        """
        results: list[dict[str, Any]] = json.loads(self._plan.run(point, seed))
        return results

    def detail(self, point: int = 0, seed: int = 1, *, scheme: str = "fulmar") -> Detail:
        """Runs a point with a seed under one scheme; returns what became of each message and each packet."""
        messages, packets = self._plan.detail(point, seed, scheme)
        return Detail(messages, packets)

    def __repr__(self) -> str:
        return f"<fulmar.Experiment {self.name}: {self._plan.point_count} points, {', '.join(self.schemes)}>"


def open_plan(
    source: str | os.PathLike[str] | None,
    text: str | None,
    over: Mapping[str, Sequence[Value]] | None,
    points: Sequence[Mapping[str, Value]] | None,
    seeds: int | tuple[int, int] | range | None,
    schemes: Sequence[str] | None,
) -> _native.Plan:
    """Reads an experiment's file and what varies."""
    if (source is None) == (text is None):
        raise TypeError("give a file, or text=, not both")
    if over is not None and points is not None:
        raise TypeError("give over=, or points=, not both")
    if isinstance(schemes, str):
        raise TypeError(f"schemes: {schemes!r} is a text: give a list of names")
    return _native.Plan.open(
        os.fspath(source) if source is not None else "experiment.toml",
        text,
        None if over is None else _json("over", {key: list(values) for key, values in over.items()}),
        None if points is None else _json("points", [dict(point) for point in points]),
        None if seeds is None else seed_range(seeds),
        list(schemes or []),
    )


def _json(what: str, value: object) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _native.InputError(f"{what}: {error}: values are numbers, texts and flags") from None
