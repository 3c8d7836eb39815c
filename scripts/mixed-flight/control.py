"""Control messages over a session, with nothing but Python.

    control.py send ADDRESS:PORT SECONDS RATE      sends numbered messages with the time
    control.py receive ADDRESS:PORT SECONDS RATE   counts them; fails if one in twenty has not arrived, or comes twice
"""

import socket
import struct
import sys
import time

FORMAT = struct.Struct("<IQ")
# What CONTRIBUTING.md calls a miss comes later, or not at all.
MISSED_AFTER_MS = 100


def send(address, seconds, rate):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begin = time.monotonic()
    for number in range(int(seconds * rate)):
        time.sleep(max(0.0, begin + number / rate - time.monotonic()))
        try:
            line.sendto(FORMAT.pack(number, time.time_ns()), address)
        except ConnectionRefusedError:
            pass


def receive(address, seconds, rate):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind(address)
    ages, twice = {}, 0
    # What is under way at the end still counts.
    end = time.monotonic() + seconds + 2
    while (left := end - time.monotonic()) > 0:
        line.settimeout(left)
        try:
            data = line.recv(2048)
        except TimeoutError:
            break
        number, at = FORMAT.unpack(data)
        twice += number in ages
        ages[number] = (time.time_ns() - at) / 1e6
    sent = int(seconds * rate)
    late = sum(age > MISSED_AFTER_MS for age in ages.values())
    ordered = sorted(ages.values()) or [float("nan")]
    half, most = ordered[len(ordered) // 2], ordered[-1]
    print(
        f"control: {len(ages)} of {sent} arrived, {late} of them later than {MISSED_AFTER_MS} ms, {twice} twice; "
        f"age {half:.1f} ms in the median, {most:.1f} ms at most"
    )
    return 0 if len(ages) >= 0.95 * sent and not twice else 1


def main():
    what, at, seconds, rate = sys.argv[1:]
    host, port = at.rsplit(":", 1)
    play = {"send": send, "receive": receive}[what]
    sys.exit(play((host, int(port)), float(seconds), float(rate)))


main()
