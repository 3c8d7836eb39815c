"""The laboratory of Fulmar: drone links, transports and experiments in exact virtual time.

>>> import fulmar
>>> report = fulmar.run("lrt-tcp", seeds=(1, 3), loss=[0.05])
>>> report.results[0]["scheme"]
'fulmar'

Everything runs in virtual time: the same call gives the same figures, on every machine. Times are in the unit that
their name ends with: ``_s``, ``_ms``, ``_ns``.
"""

from __future__ import annotations

from fulmar import model
from fulmar._native import CODE as __code__
from fulmar._native import VERSION as __version__
from fulmar._native import InputError, RunError, Scenario, Table
from fulmar.experiment import Detail, Experiment
from fulmar.report import Report, experiments, run
from fulmar.sweep import Sweep, Swept

__all__ = [
    "Detail",
    "Experiment",
    "InputError",
    "Report",
    "RunError",
    "Scenario",
    "Sweep",
    "Swept",
    "Table",
    "__code__",
    "__version__",
    "experiments",
    "model",
    "run",
]
