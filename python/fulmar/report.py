"""Experiments by their names, and their reports."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from fulmar import _native

Value = Union[str, int, float, bool]
Option = Union[Value, Sequence[Value], "os.PathLike[str]"]


@dataclass(frozen=True)
class Report:
    """What an experiment came to."""

    #: The experiment's name.
    experiment: str
    #: One object of figures for each scheme and point, as the command line's ``--json`` has them.
    results: list[dict[str, Any]]
    #: What was asked for.
    parameters: dict[str, Any]
    #: What ran it; ``code`` is the hash of the sources that figures come from.
    versions: dict[str, Any]
    _text: str = field(repr=False, default="")

    def to_json(self) -> str:
        """Returns the report as ``fulmar-lab run … --sim --json`` prints it."""
        return self._text

    def rows(self) -> list[dict[str, Any]]:
        """Returns the results with figures of objects as ``up.control_lost``: rows for ``pandas.DataFrame``."""
        return [_flat(result) for result in self.results]

    def table(self, *columns: str) -> str:
        """Returns some columns as a text, or all that hold numbers or names."""
        rows = self.rows()
        names = list(columns) or _columns(rows)
        cells = [names, *[[_cell(row.get(name)) for name in names] for row in rows]]
        widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in cells]
        return "\n".join(line.rstrip() for line in lines)


def run(
    experiment: str | os.PathLike[str],
    *,
    seeds: int | tuple[int, int] | None = None,
    schemes: Sequence[str] | None = None,
    **options: Option,
) -> Report:
    """Runs an experiment in virtual time.

    ``experiment`` is a name of :func:`experiments`, or a TOML file. ``seeds`` is one seed, or the first and the last of
    several, whose samples are pooled. ``options`` are those of ``fulmar-lab run NAME``: ``loss=[0.02, 0.05]`` stands for
    ``--loss 0.02,0.05``, ``rtt_ms=40`` for ``--rtt-ms 40``.

    The interpreter is free meanwhile: other threads go on. Ctrl-C raises ``KeyboardInterrupt`` at once; what was running
    goes on to its end in a thread of its own.

    Raises :class:`InputError` (a ``ValueError``) where something asked for cannot be, ``TypeError`` for an option that the
    experiment does not have, :class:`RunError` where it was tried and failed.
    """
    words: list[str] = []
    if seeds is not None:
        one = isinstance(seeds, int)
        words += ["--seed", str(seeds)] if one else ["--seeds", _range(seeds)]
    if schemes is not None:
        if isinstance(schemes, str):
            raise TypeError(f"schemes: {schemes!r} is a text: give a list of names")
        words += ["--schemes", ",".join(schemes)]
    for name, value in options.items():
        words += _words(name, value)
    text = _native.run(os.fspath(experiment), words)
    report = json.loads(text)
    return Report(
        experiment=report["experiment"],
        results=report["results"],
        parameters=report["parameters"],
        versions=report["versions"],
        _text=text,
    )


def experiments() -> list[dict[str, Any]]:
    """Returns what can be run by name: ``experiment``, ``about``, schemes of ``sim`` and ``emu``, ``figures``."""
    listed: list[dict[str, Any]] = json.loads(_native.experiments())["experiments"]
    return listed


def seed_range(seeds: int | tuple[int, int] | range) -> tuple[int, int]:
    """Returns the first and the last of one seed, of two, or of a range."""
    if isinstance(seeds, bool):
        raise TypeError("seeds: a flag is no seed")
    if isinstance(seeds, int):
        return (seeds, seeds)
    if isinstance(seeds, range):
        if seeds.step != 1 or not seeds:
            raise _native.InputError(f"seeds: {seeds!r}: seeds follow one another")
        return (seeds[0], seeds[-1])
    if len(seeds) != 2 or not all(isinstance(one, int) for one in seeds):
        raise _native.InputError(f"seeds: {seeds!r}: one seed, or the first and the last")
    return (seeds[0], seeds[1])


def _range(seeds: int | tuple[int, int] | range) -> str:
    first, last = seed_range(seeds)
    return f"{first}-{last}"


def _words(name: str, value: Option) -> list[str]:
    if name in ("sim", "emu", "json", "csv", "seed"):
        raise TypeError(f"{name}: is not for Python: seeds= says seeds, and everything runs in virtual time")
    flag = "--" + name.replace("_", "-")
    if value is True:
        return [flag]
    if value is False or value is None:
        return []
    if isinstance(value, (str, int, float)):
        return [f"{flag}={value}"]
    if isinstance(value, os.PathLike):
        return [f"{flag}={os.fspath(value)}"]
    if isinstance(value, Sequence):
        return [f"{flag}=" + ",".join(str(one) for one in value)]
    raise TypeError(f"{name}: {value!r} is no number, text, flag, path or list of them")


def _flat(result: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, Mapping):
            row.update(_flat(value, f"{prefix}{key}."))
        else:
            row[f"{prefix}{key}"] = value
    return row


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    names = {name: None for row in rows for name, value in row.items() if isinstance(value, (str, int, float))}
    return list(names)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
