"""The two ends of a first heartbeat, with nothing but Python: a vehicle that sends it, a ground station that hears it.

    mavlink.py vehicle ADDRESS:PORT            sends a heartbeat of system 1 every second
    mavlink.py ground ADDRESS:PORT SECONDS     says when the first one arrives; fails if none does
"""

import socket
import struct
import sys
import time

# HEARTBEAT: its number, and what its definition adds to the checksum.
HEARTBEAT, CRC_EXTRA = 0, 50
VEHICLE = (1, 1)


def checksum(data):
    """CRC-16/MCRF4XX."""
    crc = 0xFFFF
    for byte in data:
        byte ^= crc & 0xFF
        byte = (byte ^ byte << 4) & 0xFF
        crc = crc >> 8 ^ byte << 8 ^ byte << 3 ^ byte >> 4
    return crc & 0xFFFF


def heartbeat(number):
    """A quadrotor with ArduPilot, in MAVLink 2."""
    payload = struct.pack("<IBBBBB", 0, 2, 3, 81, 3, 3)
    head = struct.pack("<BBBBBB3s", len(payload), 0, 0, number % 256, *VEHICLE, HEARTBEAT.to_bytes(3, "little"))
    return b"\xfd" + head + payload + struct.pack("<H", checksum(head + payload + bytes([CRC_EXTRA])))


def is_heartbeat(data):
    return len(data) >= 10 and data[0] == 0xFD and tuple(data[5:7]) == VEHICLE and data[7:10] == bytes(3)


def vehicle(address):
    """Sends for ever; nobody listening is no error."""
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for number in range(1 << 62):
        line.sendto(heartbeat(number), address)
        time.sleep(1)


def ground(address, seconds):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind(address)
    start = time.monotonic()
    while (left := start + seconds - time.monotonic()) > 0:
        line.settimeout(left)
        try:
            data = line.recv(65535)
        except TimeoutError:
            break
        if is_heartbeat(data):
            print(f"(the ground station hears system 1, {time.monotonic() - start:.0f} s after the first command)")
            return
    sys.exit("mavlink.py: no heartbeat")


host, port = sys.argv[2].rsplit(":", 1)
if sys.argv[1] == "vehicle":
    vehicle((host, int(port)))
else:
    ground((host, int(port)), float(sys.argv[3]))
