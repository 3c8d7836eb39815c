"""The papers' equations. Names and symbols are the papers'; times are in seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fulmar import _native

__all__ = [
    "asran_gain",
    "checks",
    "completion_ratio",
    "ideal_time",
    "mean_lifetime",
    "recovery_time",
    "success_probability",
    "tolerable_loss",
]


def success_probability(failures: Sequence[float]) -> float:
    """The probability that at least one copy arrives, of paths that fail with these probabilities [ConClone eq. 1]."""
    return _native.success_probability(list(failures))


def ideal_time(*, count: int, interval_s: float) -> float:
    """Seconds that ``count`` messages take without a failure [ConClone eq. 3]."""
    return _native.ideal_time(count=count, interval_s=interval_s)


def recovery_time(*, count: int, k: float, interval_s: float, f: float, n: int) -> float:
    """Seconds that the recoveries of ``count`` messages take over ``n`` paths of loss ``f`` [ConClone eq. 6]."""
    return _native.recovery_time(count=count, k=k, interval_s=interval_s, f=f, n=n)


def completion_ratio(*, k: float, f: float, n: int) -> float:
    """Completion time over ideal time [ConClone eq. 7]."""
    return _native.completion_ratio(k=k, f=f, n=n)


def tolerable_loss(*, k: float, ratio: float, n: int) -> float:
    """The greatest loss for which the completion ratio stays below ``ratio`` [ConClone eq. 7 solved for f]."""
    return _native.tolerable_loss(k=k, ratio=ratio, n=n)


def mean_lifetime(*, n: int, rate: float) -> float:
    """Mean time until all of ``n`` links have failed, each at ``rate`` per unit of time [ConClone eq. 9]."""
    return _native.mean_lifetime(n=n, rate=rate)


def asran_gain(*, i: float = 1.0, last_max: float = 2.0, t: float = 2.5, step: float = 0.1) -> dict[str, Any]:
    """Sums of ASRAN's and CUBIC's windows between two losses, and their ratio [ASRAN eq. 1-3]."""
    gain: dict[str, Any] = json.loads(_native.asran_gain(i=i, last_max=last_max, t=t, step=step))
    return gain


def checks() -> list[dict[str, Any]]:
    """Each figure that ConClone's analysis prints beside what its equations give."""
    found: list[dict[str, Any]] = json.loads(_native.checks())
    return found
