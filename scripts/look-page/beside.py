"""Does the page cost a flight anything? A viewer on and off, in turn, and control's delay with and without it.

    fulmar-lab emulate scripts/look-page/beside.toml -- python3 scripts/look-page/beside.py --minutes 60 --out beside.jsonl
    python3 scripts/look-page/beside.py --read beside.jsonl

Two daemons fly mixed control over the emulated links. In a block with the page `fulmar web` runs at the station, over TLS, and
the viewer (viewer.py) looks at it from a network namespace of its own, which has a cable to the station's; in a block without,
neither is there. Blocks of 8 s come in pairs, one with and one without, in an order that is drawn; three seconds between two
blocks belong to neither. Each pair is a line of the file. FULMAR names the program.

Intervals hold 95 of 100 bootstrap samples of the pairs. A miss is a control message that was lost or took longer than 100 ms.
"""

import argparse
import bisect
import contextlib
import itertools
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from traffic import Traffic

MISS_MS = 100.0
SETTLE_S = 3.0
PATIENCE_S = 30.0
PORTS = {"mavlink": 14555, "control": 14800, "video": 14801}
WEB = ("10.99.0.1", 8470)
VIEWER = "10.99.0.2"
SAMPLES = 1_000
TICK = os.sysconf("SC_CLK_TCK")


class Block:
    """Some seconds of the flight, with or without the viewer."""

    def __init__(self, is_with):
        self.is_with, self.sent, self.delays, self.processor = is_with, 0, [], {}

    def kept(self):
        delays = [round(delay, 3) for delay in self.delays]
        return {"with": self.is_with, "sent": self.sent, "delays": delays, "processor": self.processor}


class Flight:
    def __init__(self, folder, fulmar):
        self.at, self.fulmar, self.stack = folder, fulmar, contextlib.ExitStack()
        self.namespace = os.environ.get("FULMAR_NETNS_STATION") or sys.exit(__doc__)
        self.running = {}
        self.ended, self.questions, self.bytes = None, 0, 0

    def begin(self):
        keys = {role: self.run(self.fulmar, "keygen", "--out", str(self.at / f"{role}.key")) for role in ("drone", "station")}
        remotes = {name.rsplit("_", 1)[1].lower(): address for name, address in os.environ.items()
                   if name.startswith("FULMAR_ADDRESS_STATION_")}
        texts = {
            "station": f'listen = [{{ address = "0.0.0.0:14700" }}]\npeer = [{{ name = "alpha", public_key = "{keys["drone"]}" }}]\n',
            "drone": f'peer = [{{ name = "ground", public_key = "{keys["station"]}" }}]\n' + "".join(
                f'[[path]]\ninterface = "{link}"\nremote = "{address}:14700"\n' for link, address in remotes.items()),
        }
        for role, text in texts.items():
            head = f'role = "{role}"\nprivate_key_file = "{role}.key"\nstatus.socket = "{self.at}/{role}.sock"\n'
            ends = "".join(
                f'[[{section}]]\nname = "{name}"\nkind = "udp-server"\naddress = "127.0.0.1:{PORTS[name]}"\n{more}'
                for section, name, more in (("mavlink", "mavlink", ""), ("control", "control", "channel = 9\n"),
                                            ("message", "video", 'channel = 30\norder = "unordered"\ndeadline_ms = 200\n')))
            (self.at / f"{role}.toml").write_text(head + text + ends)
            self.start(role, self.fulmar, "run", str(self.at / f"{role}.toml"), at_station=role == "station")
        self.wait_for(lambda: self.active_paths() == len(remotes), "all paths")
        self.serve_page()

    def serve_page(self):
        """The viewer's namespace ends with the viewer, and the cable with it."""
        token, certificate, key = self.at / "web.token", self.at / "web.crt", self.at / "web.key"
        token.write_text(secrets.token_urlsafe(24))
        self.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", "/CN=ground", "-addext", f"subjectAltName=IP:{WEB[0]}", "-keyout", str(key), "-out", str(certificate))
        self.viewer = self.start(
            "viewer", "unshare", "--net", sys.executable, "-u", str(Path(__file__).with_name("viewer.py")), WEB[0], str(WEB[1]),
            str(certificate), token.read_text(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        own = os.readlink("/proc/self/ns/net")
        self.wait_for(lambda: os.readlink(f"/proc/{self.viewer.pid}/ns/net") != own, "the viewer's namespace")
        at_viewer = ("nsenter", f"--net=/proc/{self.viewer.pid}/ns/net")
        self.run(*self.at_station(), "ip", "link", "add", "page", "type", "veth", "peer", "name", "cable", "netns", str(self.viewer.pid))
        self.run(*self.at_station(), "ip", "address", "add", f"{WEB[0]}/30", "dev", "page")
        self.run(*self.at_station(), "ip", "link", "set", "page", "up")
        self.run(*at_viewer, "ip", "address", "add", f"{VIEWER}/30", "dev", "cable")
        self.run(*at_viewer, "ip", "link", "set", "cable", "up")
        self.web = (self.fulmar, "web", "--listen", f"{WEB[0]}:{WEB[1]}", "--socket", str(self.at / "station.sock"),
                    "--token-file", str(token), "--tls-cert", str(certificate), "--tls-key", str(key))

    def begin_look(self):
        self.start("web", *self.web, at_station=True)
        print("on", file=self.viewer.stdin, flush=True)

    def end_look(self):
        print("off", file=self.viewer.stdin, flush=True)
        self.ended = self.running.pop("web")
        self.ended.terminate()

    def look_is_over(self):
        """Waits, if anything has to be waited for, until the look that was ended has left nothing behind."""
        if self.ended is not None:
            _, questions, of_bytes = self.viewer.stdout.readline().split()
            self.questions, self.bytes = self.questions + int(questions), self.bytes + int(of_bytes)
            self.ended.wait(timeout=10)
            self.ended = None

    def at_station(self):
        return ("nsenter", f"--net={self.namespace}")

    def start(self, name, *command, at_station=False, **more):
        if at_station:
            command = (*self.at_station(), *command)
        log = self.stack.enter_context(open(self.at / f"{name}.log", "wb"))
        self.running[name] = subprocess.Popen(command, stderr=log, **{"stdout": log, **more})
        return self.running[name]

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"beside: {' '.join(command)}: {done.stderr}")
        return done.stdout.strip()

    def active_paths(self):
        done = subprocess.run([self.fulmar, "status", "--json", "--socket", str(self.at / "station.sock")],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return 0
        return sum(path["state"] == "active" for peer in json.loads(done.stdout)["peers"] for path in peer["paths"])

    def wait_for(self, look, what):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if look():
                return
            time.sleep(0.05)
        logs = "".join(f"\n{log.name}: {log.read_text()[-400:]}" for log in self.at.glob("*.log"))
        raise SystemExit(f"beside: waited in vain for {what}{logs}")

    def processor(self):
        """Milliseconds of processor time that each program has had."""
        spent = {}
        for name, process in self.running.items():
            if process.poll() is not None:
                raise SystemExit(f"beside: {name} has ended: {(self.at / f'{name}.log').read_text()[-400:]}")
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent[name] = (int(fields[11]) + int(fields[12])) * 1000 // TICK
        return spent

    def end(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(timeout=10)
        self.stack.close()


def fly(flight, minutes, seconds, out, seed):
    """Flies pair after pair; what is late or lost of a block is known by the end of the pair after it."""
    traffic, dice = Traffic(None, flight.namespace, PORTS), random.Random(seed)
    traffic.run(time.monotonic() + 5, None)
    kept, pairs = None, max(1, round(minutes * 60 / (2 * (seconds + SETTLE_S))))
    for number in range(pairs + 1):
        pair = []
        for is_with in dice.sample((True, False), 2) if number < pairs else ():
            traffic.run(time.monotonic() + SETTLE_S / 2, None)
            flight.look_is_over()
            if is_with:
                flight.begin_look()
            traffic.run(time.monotonic() + SETTLE_S / 2, None)
            block, before = Block(is_with), flight.processor()
            traffic.run(time.monotonic() + seconds, block)
            block.processor = {name: spent - before.get(name, 0) for name, spent in flight.processor().items()}
            if is_with:
                flight.end_look()
            pair.append(block)
        if number == pairs:
            traffic.run(time.monotonic() + 5, None)
            flight.look_is_over()
        if kept:
            out.write(json.dumps([block.kept() for block in kept]) + "\n")
            out.flush()
        kept = pair
        traffic.forget()
    for stream in traffic.streams:
        print(f"beside: {stream.sent} of {stream.name}", file=sys.stderr)
    print(f"beside: the viewer asked {flight.questions} times, and was given {flight.bytes} bytes", file=sys.stderr)


class Side:
    """All blocks with the viewer, or all without: each delay with the pair that it is of, a lost message's endless."""

    def __init__(self, pairs, is_with):
        blocks = [next(block for block in pair if block["with"] == is_with) for pair in pairs]
        of = sorted((delay, place) for place, block in enumerate(blocks)
                    for delay in block["delays"] + [float("inf")] * (block["sent"] - len(block["delays"])))
        self.delays, self.pairs = [delay for delay, _ in of], [place for _, place in of]
        self.first_miss = bisect.bisect_right(self.delays, MISS_MS)
        self.blocks = blocks

    def figures(self, weights):
        """Returns the median, the 99th percentile, and the misses of 10,000, where each pair counts as its weight says."""
        sums = list(itertools.accumulate(map(weights.__getitem__, self.pairs)))
        of = lambda share: self.delays[bisect.bisect_left(sums, sums[-1] * share)]
        in_time = sums[self.first_miss - 1] if self.first_miss else 0
        return of(0.5), of(0.99), (sums[-1] - in_time) * 10_000 / sums[-1]

    def processor(self, name):
        spent = [block["processor"].get(name, 0) for block in self.blocks]
        return sum(spent) / len(spent)


def read(file, seconds):
    with open(file, encoding="utf-8") as lines:
        pairs = [json.loads(line) for line in lines]
    sides, dice = (Side(pairs, True), Side(pairs, False)), random.Random(1)
    plain = [side.figures([1] * len(pairs)) for side in sides]
    sampled = []
    for _ in range(SAMPLES):
        weights = [0] * len(pairs)
        for _ in pairs:
            weights[dice.randrange(len(pairs))] += 1
        sampled.append([side.figures(weights) for side in sides])
    sent = [len(side.delays) for side in sides]
    print(f"{len(pairs)} pairs of blocks; {sent[0]} control messages with the page looked at, {sent[1]} without")
    print(f"{'':24}{'with':>10}{'without':>10}   {'with less or by without, and 95 of 100 samples'}")
    for place, name in enumerate(("median, ms", "99th percentile, ms")):
        ratio = sorted(one[0][place] / one[1][place] for one in sampled)
        whole = plain[0][place] / plain[1][place]
        print(f"{name:24}{plain[0][place]:10.3f}{plain[1][place]:10.3f}   ratio {whole:.4f}, {bounds(ratio, '.4f')}")
    less = sorted(one[0][2] - one[1][2] for one in sampled)
    print(f"{'missed of 10,000':24}{plain[0][2]:10.3f}{plain[1][2]:10.3f}   {plain[0][2] - plain[1][2]:+.3f}, {bounds(less, '+.3f')}")
    for name in sorted({name for block in pairs[0] for name in block["processor"]}):
        spent = [side.processor(name) / seconds / 10 for side in sides]
        print(f"{f'processor of {name}, %':24}{spent[0]:10.2f}{spent[1]:10.2f}")


def bounds(values, form):
    return f"{values[len(values) * 25 // 1000]:{form}} to {values[len(values) * 975 // 1000]:{form}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=8, help="of a block")
    parser.add_argument("--seed", type=int, default=1, help="of the order within the pairs")
    parser.add_argument("--out", help="a line for each pair of blocks")
    parser.add_argument("--read", metavar="FILE", help="only say what such a file comes to")
    asked = parser.parse_args()
    if asked.read:
        return read(asked.read, asked.seconds)
    with tempfile.TemporaryDirectory(prefix="fulmar-beside.") as folder:
        flight = Flight(Path(folder), os.environ.get("FULMAR", "fulmar"))
        file = asked.out or str(flight.at / "pairs.jsonl")
        try:
            flight.begin()
            with open(file, "w", encoding="utf-8") as out:
                fly(flight, asked.minutes, asked.seconds, out, asked.seed)
        finally:
            flight.end()
        read(file, asked.seconds)


if __name__ == "__main__":
    main()
