"""A vehicle and a ground station that sign, or do not: pymavlink at both ends.

The vehicle has as many parameters as ArduCopter and sends them at the pace of its simulator, its attitude beside them, and
answers commands. The station asks for the list again and again, never for a single parameter, and gives commands meanwhile;
it writes one JSON object a line for each list. A receiver that checks signatures throws away what is older than what it
has seen, as an autopilot does. A station that is given seconds in the place of lists gives commands alone for so long.

    signing.py vehicle|station signed|plain CONNECTION_URL [LISTS|SECONDSs]
"""

import json
import os
import sys
import time

os.environ["MAVLINK20"] = "1"
from pymavlink import mavutil  # noqa: E402 (after the version is chosen)

mavutil.set_dialect("common")
from pymavlink.dialects.v20 import common as mavlink  # noqa: E402 (after the dialect is chosen)

PARAMETERS, PARAMETER_EVERY_S = 1349, 0.00065
ATTITUDE_EVERY_S, HEARTBEAT_EVERY_S, COMMAND_EVERY_S = 0.02, 1.0, 0.13
# The station gives up a list when nothing of it has come for so long.
LIST_SILENCE_S, ANSWER_LIMIT_S, CONNECT_LIMIT_S = 3.0, 3.0, 30.0
SECRET = bytes(range(32))
GROUND, VEHICLE = (255, 190), (1, 1)
COMMAND = mavlink.MAV_CMD_REQUEST_MESSAGE


def connect(url, ours, signs):
    """Opens a connection; one that signs takes nothing unsigned."""
    link = mavutil.mavlink_connection(url, source_system=ours[0], source_component=ours[1], dialect="common")
    if signs:
        link.setup_signing(SECRET, sign_outgoing=True, allow_unsigned_callback=None)
    return link


class Every:
    """Says when something is due that is done again and again."""

    def __init__(self, interval_s):
        self.interval_s, self.next = interval_s, time.monotonic()

    def due(self):
        if time.monotonic() < self.next:
            return False
        self.next += self.interval_s
        return True


def vehicle(link):
    """Answers until it is ended."""
    heartbeat, attitude, pace = Every(HEARTBEAT_EVERY_S), Every(ATTITUDE_EVERY_S), None
    began, left = time.monotonic(), 0
    while True:
        if heartbeat.due():
            link.mav.heartbeat_send(mavlink.MAV_TYPE_QUADROTOR, mavlink.MAV_AUTOPILOT_GENERIC, 0, 0, 4)
        if attitude.due():
            link.mav.attitude_send(int((time.monotonic() - began) * 1e3), 0, 0, 0, 0, 0, 0)
        while left and pace.due():
            index = PARAMETERS - left
            kind = mavlink.MAV_PARAM_TYPE_REAL32
            link.mav.param_value_send(f"TEST_{index:04}".encode(), index + 0.5, kind, PARAMETERS, index)
            left -= 1
        message = link.recv_msg()
        if message is None:
            time.sleep(0.0003)
        elif message.get_type() == "PARAM_REQUEST_LIST":
            left, pace = PARAMETERS, Every(PARAMETER_EVERY_S)
        elif message.get_type() == "COMMAND_LONG":
            # The number of the command comes back with its answer.
            number = int(message.param1)
            link.mav.command_ack_send(message.command, 0, 255, number, *GROUND)


class Station:
    """Keeps what came since the last list was asked for."""

    def __init__(self, link):
        self.link, self.heartbeat, self.number = link, Every(HEARTBEAT_EVERY_S), 0
        self.begin()

    def begin(self):
        self.came, self.wrong, self.asked, self.answers, self.slowest_s = set(), 0, {}, [], 0.0
        self.last_news = time.monotonic()

    def step(self):
        """Takes one message, if there is one."""
        if getattr(self.link, "last_address", None) is not None and self.heartbeat.due():
            self.link.mav.heartbeat_send(mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, 0)
        message = self.link.recv_msg()
        if message is None:
            time.sleep(0.0003)
            return None
        if message.get_type() == "PARAM_VALUE":
            index = message.param_index
            self.wrong += (message.param_id, message.param_value) != (f"TEST_{index:04}", index + 0.5)
            self.came.add(index)
            self.last_news = time.monotonic()
        elif message.get_type() == "COMMAND_ACK":
            self.answers.append(message.result_param2)
            self.slowest_s = max(self.slowest_s, time.monotonic() - self.asked[message.result_param2])
        return message

    def connect(self):
        end = time.monotonic() + CONNECT_LIMIT_S
        while time.monotonic() < end:
            message = self.step()
            if message is not None and message.get_type() == "HEARTBEAT":
                return
        sys.exit("no heartbeat of the vehicle")

    def command(self):
        self.number += 1
        self.asked[self.number] = time.monotonic()
        self.link.mav.command_long_send(*VEHICLE, COMMAND, 0, self.number, 0, 0, 0, 0, 0, 0)

    def wait_for_answers(self):
        end = time.monotonic() + ANSWER_LIMIT_S
        while set(self.answers) != set(self.asked) and time.monotonic() < end:
            self.step()

    def commands(self):
        unanswered = len(set(self.asked) - set(self.answers))
        return {"commands": len(self.asked), "answers": len(self.answers), "unanswered": unanswered}

    def fly(self, seconds):
        """Gives commands for a time; returns what became of them."""
        self.begin()
        end, command = time.monotonic() + seconds, Every(COMMAND_EVERY_S)
        while time.monotonic() < end:
            if command.due():
                self.command()
            self.step()
        self.wait_for_answers()
        return {**self.commands(), "slowest_s": round(self.slowest_s, 3)}

    def read(self):
        """Asks for the list once; returns what became of it and of the commands beside it."""
        self.begin()
        began, command = time.monotonic(), Every(COMMAND_EVERY_S)
        self.link.mav.param_request_list_send(*VEHICLE)
        while len(self.came) < PARAMETERS and time.monotonic() - self.last_news < LIST_SILENCE_S:
            if command.due():
                self.command()
            self.step()
        took_s = self.last_news - began
        self.wait_for_answers()
        return {
            "took_s": round(took_s, 4),
            "missing": PARAMETERS - len(self.came),
            "wrong": self.wrong,
            **self.commands(),
            "rejected": self.link.mav.signing.badsig_count if self.link.mav.signing.secret_key else 0,
        }


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in ("vehicle", "station"):
        sys.exit(__doc__)
    role, mode, url = sys.argv[1:4]
    if role == "vehicle":
        return vehicle(connect(url, VEHICLE, mode == "signed"))
    station = Station(connect(url, GROUND, mode == "signed"))
    station.connect()
    if sys.argv[4].endswith("s"):
        print(json.dumps({"event": "connected"}), flush=True)
        print(json.dumps({"flight": sys.argv[4], **station.fly(int(sys.argv[4][:-1]))}), flush=True)
        return None
    for number in range(int(sys.argv[4])):
        print(json.dumps({"list": number, "mode": mode, **station.read()}), flush=True)
    return None


if __name__ == "__main__":
    main()
