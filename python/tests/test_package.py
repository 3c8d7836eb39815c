"""What the package promises. Each test's name is a claim."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fulmar

ROOT = Path(__file__).resolve().parents[2]
SCENE = """
seconds = 5
schemes = ["fulmar", "udp"]
[[stream]]
kind = "control"
[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 10
rate_mbps = 20
loss = 0.1
[[link]]
name = "lte"
between = ["drone", "station"]
delay_ms = 35
rate_mbps = 4
"""


def by_commands(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "fulmar", *words], check=True, capture_output=True, text=True
    ).stdout


def test_report_equals_the_command_lines_to_the_last_digit() -> None:
    report = fulmar.run("lrt-tcp", loss=[0.05], schemes=["fulmar", "ideal_arq"], seeds=3)
    told = by_commands("run", "lrt-tcp", "--sim", "--loss=0.05", "--schemes=fulmar,ideal_arq", "--seed=3", "--json")
    assert json.loads(report.to_json()) == json.loads(told)
    assert report.to_json() == told.strip()
    assert report.versions["code"] == fulmar.__code__


def test_point_of_a_file_equals_the_command_lines(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(SCENE)
    results = fulmar.Experiment(file, over={"link.wifi.loss": [0, 0.3]}).run(point=1, seed=9)
    assert [result["link.wifi.loss"] for result in results] == [0.3, 0.3]
    changed = tmp_path / "changed.toml"
    changed.write_text(SCENE.replace("loss = 0.1", "loss = 0.3"))
    told = json.loads(by_commands("run", str(changed), "--sim", "--seed=9", "--json"))["results"]
    for ours, theirs in zip(results, told):
        assert {key: value for key, value in ours.items() if key != "link.wifi.loss"} == theirs


def test_a_file_runs_with_its_sweep_and_its_seeds_as_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    sweep = '\n[[sweep]]\nkey = "link.wifi.loss"\nvalues = [0, 0.2]\n'
    file.write_text('seeds = "2-3"\n' + SCENE + sweep)
    results = fulmar.Experiment(file).run()
    told = json.loads(by_commands("run", str(file), "--sim", "--json"))["results"]
    assert results == told and len(results) == 4
    assert fulmar.Experiment(text=file.read_text()).run() == told
    one = fulmar.Experiment(file).run(point=1, seed=3)
    assert [result["link.wifi.loss"] for result in one] == [0.2, 0.2] and one != told[2:]


def test_messages_and_packets_say_what_the_figures_say() -> None:
    polars = pytest.importorskip("polars")
    experiment = fulmar.Experiment(text=SCENE)
    for scheme, figures in zip(experiment.schemes, experiment.run(seed=4)):
        detail = experiment.detail(seed=4, scheme=scheme)
        messages = polars.DataFrame(detail.messages).filter(polars.col("stream") == "control")
        lost = messages.filter(polars.col("delivered_ns").is_null()).height
        assert messages.height == 2 * 5 * 50
        assert lost == figures["up"]["control_lost"] + figures["down"]["control_lost"]
        packets = polars.DataFrame(detail.packets)
        assert set(packets["link"].unique()) == {"wifi", "lte"} or scheme == "udp"
        arrived = packets.filter(polars.col("fate") == "delivered")
        assert (arrived["arrival_ns"] > arrived["entry_ns"]).all()
        assert packets.filter(polars.col("fate") != "delivered")["arrival_ns"].is_null().all()


def test_rows_reach_other_libraries_without_a_copy() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    table = fulmar.Experiment(text=SCENE).detail().packets
    first, second = pyarrow.table(table), pyarrow.table(table)
    for name in ("number", "entry_ns", "bytes"):
        one, other = (of[name].chunk(0).buffers()[1].address for of in (first, second))
        assert one == other, name
    frame = polars.DataFrame(table)
    assert frame["entry_ns"].to_arrow().buffers()[1].address == first["entry_ns"].chunk(0).buffers()[1].address
    pandas = pytest.importorskip("pandas")
    column = first["entry_ns"].chunk(0).to_numpy(zero_copy_only=True)
    assert column.__array_interface__["data"][0] == first["entry_ns"].chunk(0).buffers()[1].address
    assert len(pandas.DataFrame({"entry_ns": column})) == len(table)


def test_interpreter_is_free_while_a_world_runs() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    fulmar.Experiment(text=SCENE.replace("seconds = 5", "seconds = 120")).run()
    during = counted - before
    done.set()
    thread.join()
    assert during > 20


def test_interrupt_is_heard_while_a_world_runs() -> None:
    code = f"import fulmar\nprint('runs', flush=True)\nfulmar.Experiment(text={SCENE.replace('seconds = 5', 'seconds = 3600')!r}).run()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "runs\n"
    time.sleep(0.5)
    process.send_signal(2)
    _, told = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in told


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: fulmar.run("lrt-tpc"), fulmar.InputError, "lrt-tpc"),
    (lambda: fulmar.run("lrt-tcp", los=0.1), TypeError, "--los"),
    (lambda: fulmar.run("lrt-tcp", loss=2), fulmar.InputError, "loss"),
    (lambda: fulmar.run("lrt-tcp", loss=float("nan")), fulmar.InputError, "loss"),
    (lambda: fulmar.run("lrt-tcp", seeds=(3, 1)), fulmar.InputError, "3-1"),
    (lambda: fulmar.run("lrt-tcp", schemes=["nobody"]), fulmar.InputError, "nobody"),
    (lambda: fulmar.run("lrt-tcp", schemes="udp"), TypeError, "list of names"),
    (lambda: fulmar.run("lrt-tcp", emu=True), TypeError, "virtual time"),
    (lambda: fulmar.run("none.toml"), fulmar.InputError, "none.toml"),
    (lambda: fulmar.Experiment("none.toml"), fulmar.InputError, "none.toml"),
    (lambda: fulmar.Experiment(text=SCENE + "\nspeed = 3\n"), fulmar.InputError, r"experiment.toml:\d+: .*speed"),
    (lambda: fulmar.Experiment(text=SCENE.replace("delay_ms = 10", "delay_s = 10")), fulmar.InputError, r":\d+: .*delay_s"),
    (lambda: fulmar.Experiment(text=SCENE.replace("delay_ms = 10", 'delay_ms = "10 s"')), fulmar.InputError, "delay_ms"),
    (lambda: fulmar.Experiment(text=SCENE, over={"link.wifi.los": [0]}), fulmar.InputError, "link.wifi.los"),
    (lambda: fulmar.Experiment(text=SCENE, over={"link.wifi.loss": []}), fulmar.InputError, "link.wifi.loss"),
    (lambda: fulmar.Experiment(text=SCENE, over={"link.wifi.loss": [float("nan")]}), fulmar.InputError, "over"),
    (lambda: fulmar.Experiment(text=SCENE, points=[{"link.wifi.loss": 0}, {"seconds": 3}]), fulmar.InputError, "same keys"),
    (lambda: fulmar.Experiment(text=SCENE).run(point=1), fulmar.RunError, "point 1"),
    (lambda: fulmar.Experiment(text=SCENE).detail(scheme="nobody"), fulmar.InputError, "nobody"),
    (lambda: fulmar.Experiment(), TypeError, "a file, or text="),
    (lambda: fulmar.Scenario.parse("seconds = -1", "own.toml"), fulmar.InputError, "own.toml"),
    (lambda: fulmar.model.completion_ratio(k=1, f=1.5, n=1), fulmar.InputError, "f: 1.5"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_mistake_is_an_exception_that_says_where(number: int) -> None:
    do, kind, words = WRONG[number]
    with pytest.raises(kind) as raised:
        do()
    assert re.search(words, str(raised.value)), raised.value


def test_scenario_reads_back_what_it_writes() -> None:
    scenario = fulmar.Scenario.load(ROOT / "scenarios/mixed-blackout.toml")
    assert (scenario.seconds, scenario.hosts, scenario.links) == (60, ["drone", "station"], ["wifi", "lte"])
    assert fulmar.Scenario.parse(scenario.to_toml()).to_toml() == scenario.to_toml()


def test_models_give_the_papers_figures() -> None:
    assert fulmar.model.success_probability([0.1, 0.1]) == pytest.approx(0.99)
    assert fulmar.model.asran_gain()["cubic_total"] == pytest.approx(62.375, abs=5e-4)
    assert all(check["agrees"] or check["note"] for check in fulmar.model.checks())


def test_commands_are_those_of_the_lab() -> None:
    assert json.loads(by_commands("list", "--json"))["experiments"] == fulmar.experiments()
    wrong = subprocess.run([sys.executable, "-m", "fulmar", "rnu"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "rnu" in wrong.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/sweeps.md", "python/README.md"])
def test_python_of_the_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert blocks, page
    pytest.importorskip("pandas")
    for name in ("experiments", "scenarios"):
        os.symlink(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    # Results that a page's shell lines made before.
    if page == "docs/sweeps.md":
        (tmp_path / "loss.toml").write_text(re.findall(r"<<'TOML'\n(.*?)^TOML", text, re.S | re.M)[0])
        words = ["sweep", "loss.toml", "--out", "results", "--over", "link.lte.loss=[0, 0.05]", "--seeds", "1-2"]
        by_commands(*words)
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_notebook_runs_and_its_figures_are_the_command_lines(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("matplotlib")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "docs/notebooks/lrt-fig5.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = "".join(output["text"] for output in outputs if output["output_type"] == "stream" and output["name"] == "stdout")
    figures = json.loads(re.findall(r"^figures: (.*)$", shown, re.M)[0])
    told = json.loads(by_commands("run", "lrt-tcp", "--sim", "--schemes=fulmar,lrt,ideal_arq", "--json"))["results"]
    assert figures == told
    assert any("image/png" in output.get("data", {}) for output in outputs)
