"""The example that searches: a small search, over links of its own."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples/search_elastic.py"

LINK = """
name = "{name}"
seconds = 8
[[host]]
name = "drone"
[[host]]
name = "station"
[[link]]
name = "radio"
between = ["drone", "station"]
delay_ms = 20
rate_mbps = 4
loss = {loss}
"""


def test_search_finds_what_is_better_than_today_and_judges_it_on_links_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("pyarrow")
    links = {"first": 0.01, "second": 0.05, "wifi-ap1-random-1": 0.03}
    for name, loss in links.items():
        (tmp_path / "windows" / name).mkdir(parents=True)
        (tmp_path / "windows" / name / "scenario.toml").write_text(LINK.format(name=name, loss=loss))
    out = tmp_path / "found.json"
    words = [str(tmp_path / "windows"), "--trials", "24", "--batch", "8", "--judge-seeds", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert ended.value.code == 0
    found = json.loads(out.read_text())
    assert found["learned"] == ["first", "second"]
    assert [row["link"] for row in found["held_out"]] == ["wifi-ap1-random-1"]
    # Today's constants are the first trial: nothing that is worse is the best one.
    assert found["cost"] < 0
    assert json.loads(capsys.readouterr().out) == found
    again = [str(tmp_path / "windows"), "--judge-seeds", "1", "--judge", str(out)]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *again])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert ended.value.code == 0


def test_folder_without_windows_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert ended.value.code == 2
    assert "--cut" in capsys.readouterr().err
