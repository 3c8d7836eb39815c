"""A transfer over relays while somebody on every wire and on the radio sends what was forged, altered, cut, replayed, reflected and moved.

    fulmar-lab emulate scripts/relay-field/hostile.toml -- python3 scripts/relay-field/hostile.py FULMAR [--frames N] [--rate N]

Quiet spans and spans with hostile frames take turns, until so many frames were sent on each hop, and so at each role: the gateways,
the ground relay, the air relay. Says the goodput of both, what each node counted under which name, and whether every byte came as it was sent.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import random
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from field import PORT, Field

WIRE, RADIO = 14710, 14711
#: Interface and port of each hop.
HOPS = {"gwire": WIRE, "awire": WIRE, "air": RADIO}
HOSTS = ["station", "drone", "g1", "a1"]
#: What must be counted at each node.
NAMES = ["malformed", "bad_code", "replayed", "reflected", "cross_hop", "misdirected"]
#: Who is started again before the attack, and why what they sent before is refused: by those who knew them, and by those who know nobody.
AGAIN = ["g1", "drone"]
EARLIER = {"station": "earlier_boot", "a1": "earlier_boot", "g1": "unproved", "drone": "unproved"}
SPAN_S = 10.0
#: Frames that are remembered of each hop.
REMEMBERED = 2_000


class Eve:
    """Hears everything, and sends what she makes of it."""

    def __init__(self):
        self.heard, self.earlier = self.nothing(), self.nothing()
        self.ears = {hop: self.socket(hop, port) for hop, port in HOPS.items()}
        # Apart, so that she knows her own frames when the kernel gives them back.
        self.mouths = {hop: self.socket(hop, 0) for hop in HOPS}
        self.own = {mouth.getsockname()[1] for mouth in self.mouths.values()}
        self.random = random.Random(1)

    @staticmethod
    def socket(hop, port):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_REUSEADDR, socket.SO_BROADCAST):
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, hop.encode())
        made.bind(("", port))
        made.setblocking(False)
        return made

    @staticmethod
    def nothing():
        return {hop: collections.deque(maxlen=REMEMBERED) for hop in HOPS}

    def listen(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(self.ears.values(), [], [], left)
            for hop, ear in self.ears.items():
                if ear in ready:
                    frame, (_, port) = ear.recvfrom(2048)
                    if port not in self.own:
                        self.heard[hop].append(frame)

    def forget_to_earlier(self):
        """What was heard is of an earlier start from now on."""
        self.earlier, self.heard = self.heard, self.nothing()

    def frame(self, hop, kind):
        draw = self.random
        frame = draw.choice(self.heard[hop])
        if kind == "forged":
            # Name and boot of somebody, a counter that is still to come, and a code that is none.
            return frame[:11] + draw.randbytes(6) + draw.randbytes(len(frame) - 17)
        if kind == "altered":
            altered = bytearray(frame)
            altered[draw.randrange(17, len(frame))] ^= 1 << draw.randrange(8)
            return bytes(altered)
        if kind == "cut":
            return frame[: draw.randrange(33)]
        if kind == "earlier":
            return draw.choice(self.earlier[hop])
        if kind == "moved":
            return draw.choice(self.heard[draw.choice([other for other in HOPS if other != hop])])
        # Sent again: to its sender it is reflected, to the others replayed.
        return frame

    def flood(self, seconds, rate):
        began, sent = time.monotonic(), 0
        kinds = ["forged", "altered", "cut", "again", "earlier", "moved"]
        # What the transfer sends meanwhile is heard as well, so that what is sent again is new.
        while (gone := time.monotonic() - began) < seconds:
            while sent < gone * rate:
                for hop, mouth in self.mouths.items():
                    try:
                        mouth.sendto(self.frame(hop, kinds[sent % len(kinds)]), ("255.255.255.255", HOPS[hop]))
                    except BlockingIOError:
                        select.select([], [mouth], [], 1)
                sent += 1
            self.listen(0.002)
        return sent


def be_eve():
    eve = Eve()
    print("ready", flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        said = getattr(eve, what)(*map(float, numbers))
        print(json.dumps(said), flush=True)


def chunk(number):
    return random.Random(number).randbytes(50_000)


def send(address):
    """Sends until it is told to end, then says how many chunks those were."""
    line = socket.create_connection((address, PORT), timeout=120)
    told, number = threading.Event(), 0
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    while not told.is_set():
        line.sendall(chunk(number))
        number += 1
    line.shutdown(socket.SHUT_WR)
    print(number, flush=True)


def receive(address):
    """Says how many bytes have come whenever it is asked, and at the end the hash of all."""
    listener = socket.create_server((address, PORT))
    print("ready", flush=True)
    line, _ = listener.accept()
    digest, came = hashlib.sha256(), [0]

    def answer():
        while sys.stdin.readline():
            print(came[0], flush=True)

    threading.Thread(target=answer, daemon=True).start()
    while data := line.recv(1 << 16):
        digest.update(data)
        came[0] += len(data)
    print(digest.hexdigest(), flush=True)


def ask(child, line=""):
    child.stdin.write(f"{line}\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def refused(field):
    return {host: field.status(host)["relays"][0]["refused"] for host in HOSTS}


def spans(given, field, eve, receiver):
    """Runs the spans; returns the goodput of the quiet and of the others, Mbit/s, and what was refused meanwhile."""
    goodput, sent, before = {False: [], True: []}, 0, refused(field)
    hostile = False
    while sent < given.frames or hostile:
        came = ask(receiver)
        frames = ask(eve, f"flood {SPAN_S} {given.rate}" if hostile else f"listen {SPAN_S}")
        rate = (ask(receiver) - came) * 8e-6 / SPAN_S
        goodput[hostile].append(rate)
        sent += frames or 0
        print(f"{sent:>9} frames on each hop, {'beside them' if hostile else 'quiet':<11} {rate:.2f} Mbit/s", flush=True)
        hostile = not hostile
    after = refused(field)
    return goodput, {host: {why: after[host][why] - before[host][why] for why in [*NAMES, EARLIER[host]]} for host in HOSTS}


def attack(given, field):
    here = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    eve = field.at("eve", [*here, "--eve"], **pipes)
    receiver = field.at("station", [*here, "--receive", "10.88.0.1"], **pipes)
    assert eve.stdout.readline() == receiver.stdout.readline() == "ready\n"
    sender = field.at("drone", [*here, "--send", "10.88.0.1"], **pipes)
    ask(eve, "listen 3")
    for host in AGAIN:
        field.kill(host)
        field.start(host)
    ask(eve, "forget_to_earlier")
    assert field.connect(20) is not None, "no session after the nodes were started again"
    ask(eve, "listen 3")
    goodput, counted = spans(given, field, eve, receiver)
    chunks = ask(sender)
    *_, digest = receiver.communicate(timeout=120)[0].split()
    wanted = hashlib.sha256()
    for number in range(chunks):
        wanted.update(chunk(number))
    eve.stdin.close()
    eve.wait()
    return goodput, counted, digest == wanted.hexdigest(), chunks * 50_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fulmar", nargs="?")
    parser.add_argument("--frames", type=int, default=1_000_000, help="hostile frames on each hop")
    parser.add_argument("--rate", type=float, default=4_000, help="of them in a second")
    parser.add_argument("--relay-rate", type=float, default=5, help="rate_mbps of the relays")
    for part in ("send", "receive"):
        parser.add_argument(f"--{part}", help=argparse.SUPPRESS)
    parser.add_argument("--eve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.eve:
        return be_eve()
    if given.receive:
        return receive(given.receive)
    if given.send:
        return send(given.send)
    with tempfile.TemporaryDirectory(prefix="fulmar-hostile-") as folder:
        field = Field(pathlib.Path(given.fulmar).resolve(), pathlib.Path(folder), given.relay_rate, "ranked")
        try:
            for host in HOSTS:
                field.start(host)
            assert field.connect(20) is not None, "no session"
            goodput, counted, is_same, sent = attack(given, field)
        except BaseException:
            for host in HOSTS:
                print(host, (field.folder / f"{host}.log").read_text()[-600:], file=sys.stderr)
            raise
        finally:
            for child in field.running.values():
                child.terminate()
            for child in field.running.values():
                child.wait()
    for host, counts in counted.items():
        print(f"{host:<8}", ", ".join(f"{why} {count}" for why, count in counts.items()))
    quiet, beside = (statistics.median(goodput[hostile]) for hostile in (False, True))
    print(f"{sent} bytes {'bit for bit' if is_same else 'NOT THE SAME'}; goodput {quiet:.2f} Mbit/s quiet, {beside:.2f} beside: {beside / quiet:.3f}")
    return 0 if is_same and all(count for counts in counted.values() for count in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
