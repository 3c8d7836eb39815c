"""A ground station for the tests: pymavlink, with the time-outs and retries that QGroundControl has.

It connects, reads all parameters and a file, uploads a mission of 12 items, arms, takes off, lands and disarms, and writes one
JSON object a line on stdout for each step: how long it took and how often it had to ask. The last line, `aftermath`, has
every acknowledgement of the flight, so that a second one or a refusal that nobody waited for is seen too.

    station.py CONNECTION_URL       e.g. udpin:127.0.0.1:14550
"""

import json
import sys
import time

import flight
from pymavlink import mavftp, mavutil

# pymavlink writes whatever arrives as MAVLink 2 only when told so before the connection is made.
mavutil.set_dialect("common")
from pymavlink.dialects.v20 import common as mavlink  # noqa: E402 (after the dialect is chosen)

STATION_SYSTEM, STATION_COMPONENT = 255, 190
# QGroundControl 4: first message of a mission transfer again after 250 ms, commands after 3 s, parameters after 1 s.
MISSION_RETRY_S, COMMAND_RETRY_S, PARAMETER_RETRY_S = 0.25, 3.0, 1.0
HEARTBEAT_S = 1.0
STEP_LIMIT_S = 30.0
# The slowest retry, a command's, is 3 s: what a late copy of anything provokes has come by then.
AFTERMATH_S = 3.5


class Station:
    """Holds the connection and what the vehicle said without being asked."""

    def __init__(self, url):
        self.link = mavutil.mavlink_connection(
            url, source_system=STATION_SYSTEM, source_component=STATION_COMPONENT, dialect="common"
        )
        self.link.target_system, self.link.target_component = 1, 1
        self.next_heartbeat = 0.0
        self.command_acks = []
        self.mission_acks = []
        self.height_m = 0.0

    def receive(self, limit_s):
        """Takes the next message, or none within the limit; keeps the heartbeat going and books answers."""
        now = time.monotonic()
        if now >= self.next_heartbeat:
            # Before the first datagram from the vehicle there is nowhere to send to.
            if getattr(self.link, "last_address", None) is not None:
                gcs, none = mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID
                self.link.mav.heartbeat_send(gcs, none, 0, 0, 0)
            self.next_heartbeat = now + HEARTBEAT_S
        message = self.link.recv_match(blocking=True, timeout=min(limit_s, 0.05))
        if message is None:
            return None
        kind = message.get_type()
        if kind == "COMMAND_ACK":
            self.command_acks.append((message.command, message.result))
        elif kind == "MISSION_ACK":
            self.mission_acks.append(message.type)
        elif kind == "GLOBAL_POSITION_INT":
            self.height_m = message.relative_alt / 1000.0
        return message

    def until(self, wanted, limit_s=STEP_LIMIT_S):
        """Receives until `wanted(message)` gives something other than none; fails after the limit."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            found = wanted(self.receive(end - time.monotonic()))
            if found is not None:
                return found
        raise TimeoutError(f"nothing within {limit_s} s")

    def aftermath(self):
        """Waits for answers that nobody expects, and gives all acknowledgements of the flight."""
        end = time.monotonic() + AFTERMATH_S
        while time.monotonic() < end:
            self.receive(end - time.monotonic())
        return {"command_acks": self.command_acks, "mission_acks": self.mission_acks}

    def connect(self):
        """Waits for the heartbeat of an autopilot."""
        self.until(lambda message: self.autopilot(message))
        return {}

    def autopilot(self, message):
        if message is None or message.get_type() != "HEARTBEAT":
            return None
        system, component = message.get_srcSystem(), message.get_srcComponent()
        return (system, component) if (system, component) == (1, 1) else None

    def read_parameters(self):
        """Asks for the list, then for each parameter that did not come."""
        mav = self.link.mav
        found, count = {}, None
        mav.param_request_list_send(1, 1)
        requests, last_news = 1, time.monotonic()
        end = last_news + STEP_LIMIT_S
        while count is None or len(found) < count:
            message = self.receive(0.05)
            now = time.monotonic()
            if message is not None and message.get_type() == "PARAM_VALUE":
                # 65535: an answer to a request by name, which has no place in the list.
                if message.param_index != 65535:
                    found[message.param_index] = (message.param_id, message.param_value, message.param_type)
                    count, last_news = message.param_count, now
            elif now - last_news > PARAMETER_RETRY_S:
                missing = [] if count is None else [i for i in range(count) if i not in found][:10]
                for index in missing:
                    mav.param_request_read_send(1, 1, b"", index)
                if count is None:
                    mav.param_request_list_send(1, 1)
                requests, last_news = requests + max(1, len(missing)), now
            if now > end:
                raise TimeoutError(f"{len(found)} of {count} parameters within {STEP_LIMIT_S} s")
        return {"parameters": count, "requests": requests, "names": sorted(name for name, *_ in found.values())}

    def read_file(self):
        """Reads the vehicle's file with pymavlink's own client."""
        read = []
        client = mavftp.MAVFTP(self.link, 1, 1)
        client.ftp_settings.burst_read_size = mavftp.MAX_Payload
        client.cmd_get([flight.FILE_NAME], callback=lambda file: read.append(file.read()))
        result = client.process_ftp_reply("OpenFileRO", timeout=STEP_LIMIT_S)
        if not read:
            raise TimeoutError(f"the file did not come: {mavftp.FtpError(result.error_code).name}")
        return {"bytes": len(read[0]), "whole": read[0] == flight.file_content()}

    def upload_mission(self):
        """Offers the mission and answers each request for an item until the vehicle says that it has all."""
        mav = self.link.mav
        counts, requested, started = 0, [], False
        next_offer = end = time.monotonic()
        end += STEP_LIMIT_S
        while not self.mission_acks:
            now = time.monotonic()
            if not started and now >= next_offer:
                mav.mission_count_send(1, 1, flight.MISSION_ITEMS)
                counts, next_offer = counts + 1, now + MISSION_RETRY_S
            message = self.receive(0.05)
            if message is not None and message.get_type() in ("MISSION_REQUEST_INT", "MISSION_REQUEST"):
                started = True
                requested.append(message.seq)
                self.send_item(message.seq)
            if now > end:
                raise TimeoutError(f"items {requested} were asked for within {STEP_LIMIT_S} s")
        return {"offers": counts, "requested": requested}

    def send_item(self, seq):
        """Sends one mission item."""
        frame = mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT
        command, hold_s, height_m = flight.MAV_CMD_NAV_WAYPOINT, 2.0, 20.0
        values = (0.0, hold_s, 0.0, 0.0, *flight.waypoint(seq), height_m)
        self.link.mav.mission_item_int_send(1, 1, seq, frame, command, int(seq == 0), 1, *values)

    def command(self, command, *parameters):
        """Sends a command until it is acknowledged, each time with the next confirmation number."""
        before, sent, next_send = len(self.command_acks), 0, 0.0
        end = time.monotonic() + STEP_LIMIT_S
        while not any(acked == command for acked, _ in self.command_acks[before:]):
            now = time.monotonic()
            if now >= next_send:
                values = (list(parameters) + [0.0] * 7)[:7]
                self.link.mav.command_long_send(1, 1, command, sent, *values)
                sent, next_send = sent + 1, now + COMMAND_RETRY_S
            self.receive(0.05)
            if now > end:
                raise TimeoutError(f"command {command} not acknowledged within {STEP_LIMIT_S} s")
        return {"sent": sent}

    def fly(self, command, height_reached):
        """Gives a command and waits until the height says that it was carried out."""
        began = time.monotonic()
        facts = self.command(command)
        acked_s = round(time.monotonic() - began, 4)
        self.until(lambda _: True if height_reached(self.height_m) else None)
        return {**facts, "acked_s": acked_s, "height_m": self.height_m}

    def arm(self, armed):
        """Arms or disarms."""
        return self.command(flight.MAV_CMD_COMPONENT_ARM_DISARM, float(armed))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    station = Station(sys.argv[1])
    steps = [
        ("connect", station.connect),
        ("parameters", station.read_parameters),
        ("file", station.read_file),
        ("mission", station.upload_mission),
        ("arm", lambda: station.arm(True)),
        ("takeoff", lambda: station.fly(flight.MAV_CMD_NAV_TAKEOFF, lambda height: height > 0.9 * flight.CRUISE_HEIGHT_M)),
        ("land", lambda: station.fly(flight.MAV_CMD_NAV_LAND, lambda height: height < 0.5)),
        ("disarm", lambda: station.arm(False)),
        ("aftermath", station.aftermath),
    ]
    for name, step in steps:
        began = time.monotonic()
        try:
            facts = step()
        except TimeoutError as error:
            facts = {"error": str(error)}
        took_s = round(time.monotonic() - began, 4)
        print(json.dumps({"step": name, "took_s": took_s, **facts}), flush=True)


if __name__ == "__main__":
    main()
