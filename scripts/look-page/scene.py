"""What the page shows while it is looked at: a station and a drone over the loopback interface, with two paths of which
one can be cut, the page's server, and a made-up station of a thousand drones."""

import asyncio
import contextlib
import copy
import json
import os
import random
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

PATIENCE_S = 30


class Relay(asyncio.DatagramProtocol):
    """Passes datagrams between a drone and its station, until it is cut: then they vanish, without any error."""

    def __init__(self, station):
        self.station, self.is_cut, self.back = station, False, {}

    def connection_made(self, transport):
        self.transport = transport
        self.address = transport.get_extra_info("sockname")

    def datagram_received(self, data, address):
        if self.is_cut:
            return
        if address in self.back:
            self.back[address].sendto(data)
        else:
            asyncio.ensure_future(self.begin(data, address))

    async def begin(self, data, address):
        relay = self

        class Back(asyncio.DatagramProtocol):
            def datagram_received(self, data, _):
                if not relay.is_cut:
                    relay.transport.sendto(data, address)

        loop = asyncio.get_running_loop()
        back, _ = await loop.create_datagram_endpoint(Back, remote_addr=self.station)
        self.back[address] = back
        back.sendto(data)


class Scene:
    def __init__(self, fulmar):
        self.fulmar = fulmar
        self.folder = tempfile.TemporaryDirectory(prefix="fulmar-look.")
        self.at = Path(self.folder.name)
        self.running = []
        self.token = secrets.token_urlsafe(24)

    def run(self, *arguments):
        done = subprocess.run([self.fulmar, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"look: fulmar {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def start(self, *arguments, log):
        out = open(self.at / log, "wb")
        process = subprocess.Popen([self.fulmar, *arguments], stdout=out, stderr=out)
        self.running.append(process)
        return process

    async def wait_for(self, look, what):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if found := look():
                return found
            await asyncio.sleep(0.02)
        logs = "".join(f"\n{log.name}: {log.read_text()[-400:]}" for log in self.at.glob("*.log"))
        raise SystemExit(f"look: waited in vain for {what}{logs}")

    async def begin(self):
        """Starts both daemons; the drone's second path goes by the relay."""
        loop = asyncio.get_running_loop()
        keys = {role: self.run("keygen", "--out", str(self.at / f"{role}.key")) for role in ("station", "drone", "second")}
        free = [await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)) for _ in range(3)]
        port, *sticks = [transport.get_extra_info("sockname")[1] for transport, _ in free]
        for transport, _ in free:
            transport.close()
        _, self.relay = await loop.create_datagram_endpoint(
            lambda: Relay(("127.0.0.1", port)), local_addr=("127.0.0.1", 0))
        head = 'role = "{role}"\nprivate_key_file = "{name}.key"\nstatus.socket = "{at}/{name}.sock"\n'
        files = {
            "station": f'listen = [{{ address = "127.0.0.1:{port}" }}]\n'
                       f'peer = [{{ name = "alpha", public_key = "{keys["drone"]}" }}]\n',
            "drone": f'peer = [{{ name = "ground", public_key = "{keys["station"]}" }}]\n'
                     f'path = [{{ name = "wifi", interface = "lo", remote = "127.0.0.1:{port}" }},\n'
                     f'        {{ name = "lte", interface = "lo", remote = "127.0.0.1:{self.relay.address[1]}" }}]\n',
            "second": "",
        }
        for name, at in zip(("station", "drone"), sticks):
            files[name] += f'control = [{{ name = "sticks", channel = 9, address = "127.0.0.1:{at}" }}]\n'
        for name, text in files.items():
            role = "station" if name == "station" else "drone"
            (self.at / f"{name}.toml").write_text(head.format(role=role, name=name, at=self.at) + text)
        for name in ("station", "drone"):
            self.start("run", str(self.at / f"{name}.toml"), log=f"{name}.log")
        await self.wait_for(lambda: self.paths() == 2, "two paths")
        self.flight = asyncio.ensure_future(self.fly(sticks))

    async def fly(self, sticks):
        """Control in both directions, as in a flight: a path that carries nothing is looked at less often."""
        loop = asyncio.get_running_loop()
        programs = [await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", at)) for at in sticks]
        while True:
            for transport, _ in programs:
                transport.sendto(b"stick")
            await asyncio.sleep(0.05)

    def paths(self):
        done = subprocess.run([self.fulmar, "status", "--json", "--socket", str(self.at / "station.sock")],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return 0
        peers = json.loads(done.stdout)["peers"]
        return sum(path["state"] == "active" for peer in peers for path in peer["paths"])

    async def serve_page(self, socket, log, *more):
        """Starts a page for one socket, and returns its address."""
        self.start("web", "--listen", "127.0.0.1:0", "--socket", str(socket), *more, log=log)
        file = self.at / log

        def address():
            text = file.read_text()
            return text.split("the page is at ")[1].split()[0] if "the page is at " in text else None

        return await self.wait_for(address, "the page")

    async def page_that_pairs(self):
        token = self.at / "pairing.token"
        token.write_text(self.token)
        token.chmod(0o600)
        return await self.serve_page(self.at / "station.sock", "web.log",
                                     "--pairing-token-file", str(token), "--config", str(self.at / "station.toml"))

    def pair(self, code):
        return self.run("pair", "--config", str(self.at / "second.toml"), "--no-tunnel", "--wait", "20s", code)

    async def page_of_a_thousand(self):
        """A page of a station that tells of a thousand drones, each second otherwise."""
        report = json.loads(self.run("status", "--json", "--socket", str(self.at / "station.sock")))
        [peer] = [peer for peer in report["peers"] if peer["name"] == "alpha"]
        dice = random.Random(1)

        async def answer(_, writer):
            peers = []
            for number in range(1000):
                one = copy.deepcopy(peer)
                one["name"] = f"drone-{number:04}"
                for path in one["paths"]:
                    path["srtt_ms"] = dice.uniform(5, 90)
                    path["loss_percent"] = dice.uniform(0, 5)
                    path["in_mbps"] = dice.uniform(0, 5)
                    if dice.random() < 0.02:
                        path["state"], path["trouble"] = "suspected", "silent"
                peers.append(one)
            writer.write(json.dumps({**report, "peers": peers}).encode())
            # Who asks may have gone meanwhile.
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()

        socket = self.at / "fleet.sock"
        self.fleet = await asyncio.start_unix_server(answer, path=str(socket))
        os.chmod(socket, 0o600)
        return await self.serve_page(socket, "fleet-web.log")

    def end(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.folder.cleanup()
