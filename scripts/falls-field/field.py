"""A recorded flight between real daemons, over emulated links that were fast and become thin.

    python3 scripts/falls-field/field.py FULMAR FULMAR_LAB [--cells both-50,both-20,…] [--tlog FILE]

Each cell: two links (or one) of 10 Mbit/s that fall to so many kbit/s from second 20 to 50, and MAVLink from a tlog both ways, again and
again. Says for each direction how many heartbeats were sent, how many came, and the longest time between two that came.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
TLOG = HERE.parents[2] / "crates/lab/data/arducopter_flight.tlog"
CELLS = "both-100,both-50,both-20,alone-50,alone-20,other-dead-20"
FALL, RISE, END = 20, 50, 70
HEARTBEAT = bytes(3)
GROUND_SYSTEM = 255


def frames(tlog):
    """Yields seconds from the start, and a frame of MAVLink 2."""
    data, at, first = tlog.read_bytes(), 0, None
    while at + 10 <= len(data):
        (stamp,) = struct.unpack_from(">Q", data, at)
        first = stamp if first is None else first
        size = data[at + 9] + (25 if data[at + 10] & 1 else 12)
        yield (stamp - first) / 1e6, data[at + 8 : at + 8 + size]
        at += 8 + size


def play(tlog, side):
    """Plays one side's frames, and notes when heartbeats of both left and came."""
    is_ground = side == "station"
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer = None if is_ground else ("127.0.0.1", 14555)
    if is_ground:
        line.bind(("127.0.0.1", 14550))
    mine = [(at, frame) for at, frame in frames(tlog) if (frame[5] == GROUND_SYSTEM) == is_ground]
    long = mine[-1][0] + 0.1
    began, place, sent, came = time.monotonic(), 0, [], []
    while True:
        rounds, index = divmod(place, len(mine))
        now = time.monotonic() - began
        if now > END:
            break
        line.settimeout(min(max(mine[index][0] + rounds * long - now, 0.001), 0.1))
        try:
            data, who = line.recvfrom(4096)
            peer = who if is_ground else peer
            if data[7:10] == HEARTBEAT:
                came.append(time.monotonic())
        except (TimeoutError, ConnectionRefusedError):
            pass
        if mine[index][0] + rounds * long <= time.monotonic() - began:
            frame = mine[index][1]
            place += 1
            if peer:
                line.sendto(frame, peer)
                if frame[7:10] == HEARTBEAT:
                    sent.append(time.monotonic())
    print(json.dumps({"sent": sent, "came": came}))


def heartbeats(sent, came):
    """Sets what came beside what was sent."""
    marks = [sent[0], *came, sent[-1]]
    gap, at = max((after - before, before) for before, after in zip(marks, marks[1:]))
    return f"{len(sent)} heartbeats sent, {len(came)} came, {gap:.1f} s between two at most, from second {at - sent[0]:.0f}"


def inside(fulmar, tlog, cell):
    """Runs in the emulated hosts: two daemons, and what speaks at each end."""
    folder = pathlib.Path(tempfile.mkdtemp())
    links = ["l0"] if cell == "alone" else ["l0", "l1"]
    key = {}
    for name in ["drone", "station"]:
        made = subprocess.run([fulmar, "keygen", "--out", folder / f"{name}.key"], check=True, capture_output=True, text=True)
        key[name] = made.stdout.strip()
    paths = "".join(
        f'[[path]]\ninterface = "{link}"\nremote = "{os.environ[f"FULMAR_ADDRESS_STATION_{link.upper()}"]}:14700"\n' for link in links
    )
    other = {
        "drone": paths + '[[mavlink]]\nname = "autopilot"\nkind = "udp-server"\naddress = "127.0.0.1:14555"\n',
        "station": '[[listen]]\naddress = "0.0.0.0:14700"\n[[mavlink]]\nname = "ground"\nkind = "udp-client"\naddress = "127.0.0.1:14550"\n',
    }
    running, players = [], {}

    def at(host, command, **more):
        namespace = os.environ[f"FULMAR_NETNS_{host.upper()}"]
        return subprocess.Popen(["nsenter", f"--net={namespace}", *map(str, command)], **more)

    for host, peer in [("station", "drone"), ("drone", "station")]:
        file = folder / f"{host}.toml"
        file.write_text(
            f'role = "{host}"\nprivate_key_file = "{host}.key"\nstatus.socket = "{folder}/{host}.sock"\n'
            f'[[peer]]\nname = "{peer}"\npublic_key = "{key[peer]}"\n{other[host]}'
        )
        subprocess.run(["nsenter", f'--net={os.environ[f"FULMAR_NETNS_{host.upper()}"]}', "ip", "link", "set", "lo", "up"], check=True)
        running.append(at(host, [fulmar, "run", file], stderr=open(folder / f"{host}.log", "w")))
    for host in ["station", "drone"]:
        here = [sys.executable, HERE, "--play", host, "--tlog", tlog]
        players[host] = at(host, here, stdout=subprocess.PIPE, text=True)
    said = {host: json.loads(player.communicate()[0]) for host, player in players.items()}
    for child in running:
        child.send_signal(signal.SIGTERM)
        child.wait()
    print(f'  the vehicle\'s: {heartbeats(said["drone"]["sent"], said["station"]["came"])}', file=sys.stderr)
    print(f'  the ground\'s:  {heartbeats(said["station"]["sent"], said["drone"]["came"])}', file=sys.stderr)


def scenario(folder, cell, kbps):
    """Writes the links of a cell: from and to are the same for both directions."""
    thin, dead = folder / "thin.csv", folder / "dead.csv"
    thin.write_text(f"time_s,rate_mbps\n0,10\n{FALL},{kbps / 1000}\n{RISE},10\n")
    dead.write_text(f"time_s,rate_mbps\n0,10\n{FALL},0\n{RISE},10\n")
    rates = {"both": [thin, thin], "alone": [thin], "other-dead": [thin, dead]}[cell]
    text = "".join(
        f'[[link]]\nname = "l{number}"\nbetween = ["drone", "station"]\ndelay_ms = {30 + 10 * number}\nrate_csv = "{rate.name}"\n'
        "queue_bytes = 500000\n"
        for number, rate in enumerate(rates)
    )
    file = folder / f"{cell}.toml"
    file.write_text(f'name = "{cell}"\nseconds = 600\n[[host]]\nname = "drone"\n[[host]]\nname = "station"\n{text}')
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fulmar", nargs="?", help="the daemon")
    parser.add_argument("lab", nargs="?", help="the lab")
    parser.add_argument("--cells", default=CELLS, help=f"which, of both, alone and other-dead, and to how many kbit/s: {CELLS}")
    parser.add_argument("--tlog", default=TLOG, type=pathlib.Path, help="MAVLink 2 of system 255 and a vehicle")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.play:
        return play(asked.tlog, asked.play)
    if asked.inside:
        return inside(pathlib.Path(asked.fulmar).resolve(), asked.tlog, asked.inside)
    if not asked.lab:
        parser.error("which daemon, and which lab?")
    for each in asked.cells.split(","):
        cell, kbps = each.rsplit("-", 1)
        with tempfile.TemporaryDirectory() as folder:
            file = scenario(pathlib.Path(folder), cell, float(kbps))
            print(f"{cell}, to {kbps} kbit/s:", flush=True)
            here = [sys.executable, HERE, asked.fulmar, asked.lab, "--inside", cell, "--tlog", asked.tlog]
            subprocess.run([asked.lab, "emulate", file, "--", *map(str, here)], check=True, stdout=subprocess.DEVNULL)


main()
