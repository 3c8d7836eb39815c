"""A transfer over four and four relays, some of which are killed and started again meanwhile.

    fulmar-lab emulate scripts/relay-field/field.toml -- python3 scripts/relay-field/field.py FULMAR [--mb N] [--kill N] [--rate MBPS] [--form FORM]

Says how long the transfer took, whether every byte came as it was sent, and the longest time in which nothing came.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

PORT = 5001


def chunks(megabytes):
    """The bytes of the transfer: the same at both ends."""
    source = random.Random(1)
    for _ in range(megabytes * 4):
        yield source.randbytes(250_000)


def receive(address, megabytes):
    listener = socket.create_server((address, PORT))
    print("ready", flush=True)
    line, _ = listener.accept()
    digest, came, longest, began = hashlib.sha256(), 0, 0.0, time.monotonic()
    last = began
    while data := line.recv(1 << 16):
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        digest.update(data)
        came += len(data)
    print(json.dumps({"bytes": came, "seconds": last - began, "longest_s": longest, "sha256": digest.hexdigest()}))


def send(address, megabytes):
    line = socket.create_connection((address, PORT), timeout=120)
    digest = hashlib.sha256()
    for data in chunks(megabytes):
        digest.update(data)
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)
    print(digest.hexdigest())


class Field:
    def __init__(self, fulmar, folder, rate, form):
        self.fulmar, self.folder, self.rate, self.form, self.running = fulmar, folder, rate, form, {}
        self.keys = {name: self.keygen(name) for name in ["station", "drone", "relay"]}

    def keygen(self, name):
        made = subprocess.run(
            [self.fulmar, "keygen", "--out", self.folder / f"{name}.key"], check=True, capture_output=True, text=True
        )
        return made.stdout.strip()

    def at(self, host, command, **more):
        namespace = os.environ[f"FULMAR_NETNS_{host.upper()}"]
        return subprocess.Popen(["nsenter", f"--net={namespace}", *map(str, command)], **more)

    def text(self, host):
        status = f'[status]\nsocket = "{self.folder}/{host}.sock"\n'
        if host[1:].isdigit():
            side = {"g": "ground", "a": "air"}[host[0]]
            return (
                f'role = "relay"\n{status}[relay]\nside = "{side}"\nnode = {host[1:]}\ngroup_key_file = "relay.key"\n'
                f'wire = {{ interface = "{host[0]}wire" }}\nradio = {{ interface = "air", rate_mbps = {self.rate} }}\n'
            )
        is_drone = host == "drone"
        peer, own = ("station", 2) if is_drone else ("drone", 1)
        wire, section = ("awire", "[[path]]") if is_drone else ("gwire", "[[listen]]")
        return (
            f'role = "{host}"\nprivate_key_file = "{host}.key"\n{status}'
            f'[[peer]]\nname = "{peer}"\npublic_key = "{self.keys[peer]}"\nallowed_addresses = "10.88.0.{3 - own}/32"\n'
            f'[[relay]]\nname = "air"\ngroup_key_file = "relay.key"\nwire = {{ interface = "{wire}" }}\n'
            f'form = "{self.form}"\n{section}\nrelay = "air"\n[tunnel]\naddress = "10.88.0.{own}/24"\n'
        )

    def start(self, host):
        file = self.folder / f"{host}.toml"
        file.write_text(self.text(host))
        log = open(self.folder / f"{host}.log", "a")
        self.running[host] = self.at(host, [self.fulmar, "run", file], stderr=log)

    def kill(self, host):
        child = self.running.pop(host)
        child.kill()
        child.wait()

    def status(self, host):
        asked = subprocess.run(
            [self.fulmar, "status", "--json", "--socket", self.folder / f"{host}.sock"], capture_output=True, text=True
        )
        return json.loads(asked.stdout or "{}") if asked.returncode == 0 else {}

    def table(self, host):
        asked = [self.fulmar, "status", "--socket", self.folder / f"{host}.sock"]
        return subprocess.run(asked, capture_output=True, text=True).stdout

    def connect(self, within):
        began = time.monotonic()
        while time.monotonic() < began + within:
            peers = self.status("drone").get("peers", [])
            if any(path["state"] == "active" for peer in peers for path in peer["paths"]):
                return time.monotonic() - began
            time.sleep(0.1)
        return None


def transfer(field, megabytes, kill):
    here = [sys.executable, __file__]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    receiver = field.at("station", [*here, "--receive", "10.88.0.1", "--mb", megabytes], **pipe)
    assert receiver.stdout.readline() == "ready\n"
    sender = field.at("drone", [*here, "--send", "10.88.0.1", "--mb", megabytes], **pipe)
    victims = [f"{side}{number}" for side in "ga" for number in range(1, kill + 1)]
    began = time.monotonic()
    for victim in victims:
        time.sleep(2)
        print(f"{time.monotonic() - began:5.1f} s: {victim} is killed", flush=True)
        field.kill(victim)
    for victim in victims:
        time.sleep(2)
        print(f"{time.monotonic() - began:5.1f} s: {victim} is started again", flush=True)
        field.start(victim)
    sent = sender.communicate(timeout=300)[0].strip()
    came = json.loads(receiver.communicate(timeout=60)[0])
    rate = came["bytes"] * 8e-6 / came["seconds"]
    is_same = came["sha256"] == sent
    print(
        f'{came["bytes"]} bytes in {came["seconds"]:.1f} s, {rate:.1f} Mbit/s, {"bit for bit" if is_same else "NOT THE SAME"}; '
        f'nothing came for {came["longest_s"]:.2f} s at most'
    )
    return is_same and came["bytes"] == megabytes * 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fulmar", nargs="?")
    parser.add_argument("--mb", type=int, default=100, help="megabytes that are sent")
    parser.add_argument("--kill", type=int, default=2, help="relays of each side that are killed and started again")
    parser.add_argument("--rate", type=float, default=20, help="rate_mbps of the relays")
    parser.add_argument("--form", default="ranked", choices=["ranked", "published"], help="when the gateways send what")
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--show", action="store_true", help="print the status of some nodes at the end")
    given = parser.parse_args()
    if given.receive:
        return receive(given.receive, given.mb)
    if given.send:
        return send(given.send, given.mb)
    with tempfile.TemporaryDirectory(prefix="fulmar-field-") as folder:
        field = Field(pathlib.Path(given.fulmar).resolve(), pathlib.Path(folder), given.rate, given.form)
        hosts = ["station", "drone"] + [f"{side}{number}" for side in "ga" for number in range(1, 5)]
        try:
            for host in hosts:
                field.start(host)
            took = field.connect(20)
            print("no session" if took is None else f"connected after {took:.1f} s", flush=True)
            is_good = took is not None and transfer(field, given.mb, given.kill)
            if given.show or not is_good:
                for host in ["station", "drone", "g1", "a1"]:
                    print(field.table(host))
            if not is_good:
                for host in hosts:
                    print(host, (field.folder / f"{host}.log").read_text()[-600:])
        finally:
            for child in field.running.values():
                child.terminate()
            for child in field.running.values():
                child.wait()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
