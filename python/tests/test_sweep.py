"""Sweeps: the same folder, byte for byte, whoever makes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fulmar

SCENE = """
seconds = 2
schemes = ["fulmar", "udp"]
[[stream]]
kind = "control"
[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 10
rate_mbps = 20
[[link]]
name = "lte"
between = ["drone", "station"]
delay_ms = 35
rate_mbps = 4
"""
OVER = {"link.wifi.loss": [0, 0.1, 0.3]}
WORDS = ["--over", "link.wifi.loss=[0, 0.1, 0.3]", "--seeds", "1-4"]


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    file = tmp_path / "scene.toml"
    file.write_text(SCENE)
    return file


def contents(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def by_command(scene: Path, out: Path) -> dict[str, bytes]:
    words = [sys.executable, "-m", "fulmar", "sweep", str(scene), "--out", str(out), *WORDS]
    subprocess.run(words, check=True, capture_output=True)
    return contents(out)


def test_folder_is_that_of_the_command_line_byte_for_byte(scene: Path, tmp_path: Path) -> None:
    swept = fulmar.Sweep(scene, OVER, seeds=(1, 4)).run(tmp_path / "ours", progress=False)
    assert (swept.tasks, swept.done_before, swept.failed) == (12, 0, 0)
    assert contents(tmp_path / "ours") == by_command(scene, tmp_path / "theirs")
    elsewhere = fulmar.Sweep(tmp_path / "ours" / "sweep.json")
    elsewhere.run(tmp_path / "elsewhere", jobs=1, progress=False)
    assert contents(tmp_path / "elsewhere") == contents(tmp_path / "ours")


def test_what_is_done_is_not_done_again(scene: Path, tmp_path: Path) -> None:
    sweep = fulmar.Sweep(scene, OVER, seeds=(1, 4))
    sweep.run(tmp_path / "out", progress=False)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/points").iterdir()}
    (tmp_path / "out/points/000001-seed-2.parquet").unlink()
    again = sweep.run(tmp_path / "out", progress=False)
    assert (again.done_before, again.failed) == (11, 0)
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/points").iterdir()}
    assert {file.name for file in after if after[file] != times[file]} == {"000001-seed-2.parquet"}


def test_driver_that_is_killed_goes_on_where_it_was(scene: Path, tmp_path: Path) -> None:
    code = f"import fulmar\nfulmar.Sweep({str(scene)!r}, {OVER!r}, seeds=(1, 4)).run({str(tmp_path / 'out')!r}, jobs=1)"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    points = tmp_path / "out/points"
    while process.poll() is None and (not points.is_dir() or len(list(points.glob("0*.parquet"))) < 2):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    fulmar.Sweep(scene, OVER, seeds=(1, 4)).run(tmp_path / "out", progress=False)
    whole = {name: of for name, of in contents(tmp_path / "out").items() if not Path(name).name.startswith(".")}
    assert whole == by_command(scene, tmp_path / "theirs")


def test_point_that_fails_is_noted_and_the_others_go_on(tmp_path: Path) -> None:
    # The kernel's TCP is not in the world.
    text = SCENE.replace('["fulmar", "udp"]', '["kernel_tcp_cubic"]')
    swept = fulmar.Sweep(text=text, seeds=(1, 2), schemes=["kernel_tcp_cubic"]).run(tmp_path / "out", progress=False)
    assert swept.failed == 2
    assert [failure["seed"] for failure in swept.failures()] == [1, 2]
    assert "kernel" in swept.failures()[0]["why"]


def test_folder_of_another_sweep_is_refused_with_what_differs(scene: Path, tmp_path: Path) -> None:
    fulmar.Sweep(scene, seeds=1).run(tmp_path / "out", progress=False)
    with pytest.raises(fulmar.InputError, match="another sweep.*seeds"):
        fulmar.Sweep(scene, seeds=2).run(tmp_path / "out")
    file = tmp_path / "out/sweep.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "code": "0" * 16}))
    with pytest.raises(fulmar.InputError, match="by code 0000000000000000"):
        fulmar.Sweep(file)
    with pytest.raises(fulmar.InputError, match="engine"):
        fulmar.Sweep(scene).run(tmp_path / "new", engine="slurm")


def test_table_has_a_row_for_each_point_seed_and_scheme(scene: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    swept = fulmar.Sweep(scene, OVER, seeds=range(1, 5)).run(tmp_path / "out", progress=False)
    table = swept.table()
    assert table.num_rows == 3 * 4 * 2
    assert set(table["code"].to_pylist()) == {fulmar.__code__}
    assert sorted(set(table["link.wifi.loss"].to_pylist())) == [0, 0.1, 0.3]


def test_progress_is_told_to_who_asks(scene: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    fulmar.Sweep(scene, OVER, seeds=1).run(
        tmp_path / "out", progress=lambda ended, failed, all: seen.append((ended, failed, all))
    )
    assert seen == [(1, 0, 3), (2, 0, 3), (3, 0, 3)]


@pytest.mark.skipif(os.environ.get("FULMAR_RAY") != "1", reason="Ray takes minutes: FULMAR_RAY=1, with ray installed")
def test_cluster_of_two_nodes_gives_the_same_bytes_although_one_is_killed() -> None:
    subprocess.run([sys.executable, str(Path(__file__).with_name("ray_cluster.py")), "200"], check=True)
