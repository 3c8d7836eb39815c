"""A small ground station for the first flight: it waits for an autopilot, takes off, lands, and says what it sees.

Each second it prints a line: the height, and how long ago the last heartbeat came. At the end it says how long it ever had to
wait for one, and for the answer to a command. It is no judge of a link: fulmar-lab's experiments are.

    ground.py CONNECTION SECONDS        e.g. udpin:127.0.0.1:14550 45

Exit code 1 when no autopilot is heard within 20 s, or no command is answered.
"""

import os
import sys
import time

# pymavlink writes MAVLink 2 only when told so before the connection is made.
os.environ["MAVLINK20"] = "1"
from pymavlink import mavutil

mavlink = mavutil.mavlink
HEIGHT_M = 10.0
HEARD_WITHIN_S = 20.0
# A ground station asks again after a second, as QGroundControl does.
ASK_AGAIN_S = 1.0
GIVE_UP_S = 5.0


class Ground:
    """Holds the connection and what it has brought so far."""

    def __init__(self, url):
        self.link = mavutil.mavlink_connection(url, source_system=255, source_component=190)
        self.vehicle = None
        self.heard = None
        self.longest_wait_s = 0.0
        self.heartbeats = 0
        self.height_m = 0.0
        self.next_heartbeat = 0.0
        self.answers = {}

    def listen(self, seconds):
        """Takes what comes for a while."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            if now >= self.next_heartbeat and self.vehicle:
                self.link.mav.heartbeat_send(mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, 0)
                self.next_heartbeat = now + 1.0
            message = self.link.recv_match(blocking=True, timeout=min(0.05, end - now))
            if message is not None:
                self.take(message)

    def take(self, message):
        """Books one message."""
        kind = message.get_type()
        if kind == "HEARTBEAT" and message.autopilot != mavlink.MAV_AUTOPILOT_INVALID:
            now = time.monotonic()
            if self.heard is not None:
                self.longest_wait_s = max(self.longest_wait_s, now - self.heard)
            self.heard = now
            self.heartbeats += 1
            self.vehicle = (message.get_srcSystem(), message.get_srcComponent())
        elif kind == "GLOBAL_POSITION_INT":
            self.height_m = message.relative_alt / 1000.0
        elif kind == "COMMAND_ACK":
            self.answers[message.command] = message.result

    def command(self, name, command, *parameters):
        """Gives a command, again each second until it is answered; returns the seconds that took, or none."""
        self.answers.pop(command, None)
        began, asked = time.monotonic(), 0
        values = (list(parameters) + [0.0] * 7)[:7]
        while (now := time.monotonic()) < began + GIVE_UP_S:
            if now >= began + asked * ASK_AGAIN_S:
                self.link.mav.command_long_send(*self.vehicle, command, asked, *values)
                asked += 1
            self.listen(0.01)
            if command in self.answers:
                took_s = time.monotonic() - began
                result = mavlink.enums["MAV_RESULT"][self.answers[command]].name.removeprefix("MAV_RESULT_").lower()
                print(f"{name}: {result} after {took_s:.2f} s, asked {asked} time{'s' if asked > 1 else ''}")
                return took_s
        print(f"{name}: no answer in {GIVE_UP_S:.0f} s")
        return None


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ground, seconds = Ground(sys.argv[1]), float(sys.argv[2])
    began = time.monotonic()
    while ground.vehicle is None:
        ground.listen(0.1)
        if time.monotonic() > began + HEARD_WITHIN_S:
            sys.exit(f"no heartbeat of an autopilot within {HEARD_WITHIN_S:.0f} s")
    print(f"heartbeat of system {ground.vehicle[0]} after {time.monotonic() - began:.1f} s")
    began = time.monotonic()
    steps = [
        (2.0, "arm", mavlink.MAV_CMD_COMPONENT_ARM_DISARM, (1.0,)),
        (3.0, "take-off", mavlink.MAV_CMD_NAV_TAKEOFF, (0.0,) * 6 + (HEIGHT_M,)),
        (0.5 * seconds, "land", mavlink.MAV_CMD_NAV_LAND, ()),
    ]
    took = []
    while (now := time.monotonic() - began) < seconds:
        if steps and now >= steps[0][0]:
            _, name, command, parameters = steps.pop(0)
            took.append(ground.command(name, command, *parameters))
            continue
        ground.listen(min(1.0, seconds - now))
        ago_s = time.monotonic() - ground.heard
        print(f"{now + 1.0:5.0f} s  height {ground.height_m:4.1f} m  last heartbeat {ago_s:.1f} s ago")
    answered = [seconds for seconds in took if seconds is not None]
    print(
        f"{ground.heartbeats} heartbeats in {seconds:.0f} s, at most {ground.longest_wait_s:.2f} s from one to the next;"
        f" {len(answered)} of {len(took)} commands answered"
        f"{f', the slowest after {max(answered):.2f} s' if answered else ''}"
    )
    if not answered:
        sys.exit(1)


if __name__ == "__main__":
    main()
