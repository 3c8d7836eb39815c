"""Mixed control traffic between two daemons' local endpoints, in two network namespaces, and when each message arrived.

A message's delay is from the moment before it is handed to the kernel to the moment at which the kernel has it for the other
end: how late this program is makes no difference."""

import ctypes
import heapq
import os
import selectors
import socket
import struct
import time

CLONE_NEWNET = 0x40000000
NANOSECONDS = socket.CMSG_SPACE(16)
# MAVLink: number, what its checksum takes in beside the bytes, where a payload of so many bytes has room for our eight.
HEARTBEAT, MANUAL_CONTROL, COMMAND_LONG, ATTITUDE = (0, 50, 9, None), (69, 243, 11, 0), (76, 152, 33, 0), (30, 39, 28, 4)


def checksum(data):
    crc = 0xFFFF
    for byte in data:
        byte ^= crc & 0xFF
        byte = (byte ^ (byte << 4)) & 0xFF
        crc = (crc >> 8) ^ (byte << 8) ^ (byte << 3) ^ (byte >> 4)
    return crc & 0xFFFF


def frame(kind, number, system, sequence):
    """Returns a frame of MAVLink 2 that carries a number; a heartbeat has room for 32 bits of it."""
    message, extra, length, at = kind
    payload = bytearray(b"\x01" * length)
    if at is None:
        # custom_mode; a quadcopter of ArduPilot, active; MAVLink 2.
        payload[:] = struct.pack("<IBBBBB", number & 0xFFFFFFFF, 2, 3, 81, 4, 3)
    else:
        payload[at:at + 8] = struct.pack("<Q", number)
    head = struct.pack("<BBBBBB", length, 0, 0, sequence & 0xFF, system, 1) + message.to_bytes(3, "little")
    body = head + bytes(payload)
    return b"\xfd" + body + struct.pack("<H", checksum(body + bytes([extra])))


def numbers(data):
    """Returns message kind and number of each frame of a datagram."""
    while len(data) >= 12 and data[0] == 0xFD:
        length, signed = data[1], data[2] & 1
        message = int.from_bytes(data[7:10], "little")
        kind = next((kind for kind in (HEARTBEAT, MANUAL_CONTROL, COMMAND_LONG, ATTITUDE) if kind[0] == message), None)
        if kind is not None:
            # MAVLink 2 leaves out zeros at the end.
            payload = data[10:10 + length].ljust(40, b"\0")
            at = kind[3]
            yield message, struct.unpack_from("<I" if at is None else "<Q", payload, at or 0)[0]
        data = data[12 + length + 13 * signed:]


class End:
    """The programs of one host."""

    def __init__(self, name, namespace, ports):
        self.name, self.sockets = name, {}
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        libc = ctypes.CDLL(None, use_errno=True)
        if namespace:
            other = os.open(namespace, os.O_RDONLY)
            if libc.setns(other, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"enter {namespace}")
            os.close(other)
        for what, port in ports.items():
            program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            program.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
            program.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            program.connect(("127.0.0.1", port))
            program.setblocking(False)
            self.sockets[what] = program
        if namespace and libc.setns(own, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "come back")
        os.close(own)


class Stream:
    """Messages of one kind, one way."""

    def __init__(self, name, sender, what, rate, make, is_control=True):
        self.name, self.sender, self.what, self.rate, self.make = name, sender, what, rate, make
        self.is_control, self.sent = is_control, 0


class Traffic:
    def __init__(self, drone, station, ports):
        self.ends = {"drone": End("drone", drone, ports), "station": End("station", station, ports)}
        sequence = {"drone": 0, "station": 0}

        def mavlink(kind, sender, system):
            def make(number):
                sequence[sender] += 1
                return frame(kind, number, system, sequence[sender])
            return make

        def bare(length):
            return lambda number: struct.pack("<Q", number).ljust(length, b"\0")

        self.streams = [
            Stream("sticks", "station", "mavlink", 25, mavlink(MANUAL_CONTROL, "station", 255)),
            Stream("commands", "station", "mavlink", 4, mavlink(COMMAND_LONG, "station", 255)),
            Stream("heartbeats up", "station", "mavlink", 1, mavlink(HEARTBEAT, "station", 255)),
            Stream("own control up", "station", "control", 20, bare(60)),
            Stream("heartbeats down", "drone", "mavlink", 1, mavlink(HEARTBEAT, "drone", 1)),
            Stream("telemetry", "drone", "mavlink", 20, mavlink(ATTITUDE, "drone", 1), False),
            Stream("own control down", "drone", "control", 49, bare(60)),
            Stream("video", "drone", "video", 200, bare(1100), False),
            # A daemon's endpoint knows the program that has spoken of late.
            Stream("whoever sees the video", "station", "video", 1, bare(20), False),
        ]
        self.selector = selectors.DefaultSelector()
        for end in self.ends.values():
            for what, program in end.sockets.items():
                self.selector.register(program, selectors.EVENT_READ, (end.name, what))
        # What is under way, by receiver, kind and number: stream, when sent, what it counts for.
        self.under_way, self.others = {}, 0
        start = time.monotonic()
        self.due = [(start + place * 0.003, place) for place in range(len(self.streams))]
        heapq.heapify(self.due)

    def run(self, until, block):
        """Sends and receives until a moment of the monotonic clock; what is sent counts for a block, None for nothing."""
        while True:
            now = time.monotonic()
            while self.due[0][0] <= now:
                at, place = heapq.heappop(self.due)
                stream = self.streams[place]
                # Whoever was held up does not catch up.
                heapq.heappush(self.due, (max(at, now - 0.1) + 1 / stream.rate, place))
                self.send(stream, block)
            if now >= until:
                return
            for key, _ in self.selector.select(max(0.0, min(self.due[0][0], until) - now)):
                self.receive(key.fileobj, *key.data)

    def send(self, stream, block):
        stream.sent += 1
        datagram = stream.make(stream.sent)
        key = (stream.sender, self.kind(stream, datagram), stream.sent)
        self.under_way[key] = (stream, time.time_ns(), block)
        if block is not None and stream.is_control:
            block.sent += 1
        try:
            self.ends[stream.sender].sockets[stream.what].send(datagram)
        except (BlockingIOError, ConnectionRefusedError):
            pass

    @staticmethod
    def kind(stream, datagram):
        return next(numbers(datagram))[0] if stream.what == "mavlink" else stream.what

    def receive(self, program, end, what):
        sender = "drone" if end == "station" else "station"
        while True:
            try:
                data, extra, _, _ = program.recvmsg(65535, NANOSECONDS)
            except (BlockingIOError, ConnectionRefusedError):
                return
            seconds, nanoseconds = struct.unpack("<qq", extra[0][2][:16])
            arrived = seconds * 1_000_000_000 + nanoseconds
            found = numbers(data) if what == "mavlink" else [(what, struct.unpack_from("<Q", data)[0])]
            for kind, number in found:
                sent = self.under_way.pop((sender, kind, number), None)
                if sent is None:
                    self.others += 1
                    continue
                stream, at, block = sent
                if block is not None and stream.is_control:
                    block.delays.append((arrived - at) / 1e6)

    def forget(self):
        """Forgets what is under way; whoever counts has waited long enough."""
        old = time.time_ns() - 5_000_000_000
        self.under_way = {key: sent for key, sent in self.under_way.items() if sent[1] > old}
