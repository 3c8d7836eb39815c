"""A vehicle for the tests: the server plug-ins of MAVSDK behind one UDP connection.

It takes parameters, missions, arming, take-off and landing as an autopilot does, offers a file, climbs and sinks at a constant
speed, and writes what it was told as one JSON object a line on stdout: the test counts there what was received and what
was *executed*, whatever a link did to the messages. It is no flight simulation.

    vehicle.py CONNECTION_URL       e.g. udpout://127.0.0.1:14540
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time

from mavsdk import Configuration, ConnectionResult, Mavsdk
from mavsdk.plugins.action_server import ActionServer, AllowableFlightModes, FlightMode
from mavsdk.plugins.ftp_server import FtpServer
from mavsdk.plugins.mavlink_direct_server import MavlinkDirectServer, MavlinkMessage
from mavsdk.plugins.mission_raw_server import MissionRawServer
from mavsdk.plugins.param_server import ParamServer
from mavsdk.plugins.telemetry_server import (
    Heading,
    LandedState,
    Position,
    TelemetryServer,
    VelocityNed,
    VtolState,
)

from flight import CRUISE_HEIGHT_M, FILE_NAME, MAV_CMD_NAV_LAND, file_content, parameters

SYSTEM_ID = 1
COMPONENT_ID = 1  # MAV_COMP_ID_AUTOPILOT1
MAV_RESULT_ACCEPTED = 0
CLIMB_M_S = 5.0
STEP_S = 0.1  # 10 Hz, an autopilot's usual rate for its position
LATITUDE_DEG, LONGITUDE_DEG = 47.397742, 8.545594


class Vehicle:
    """Holds the plug-ins and the little state that a flight needs."""

    def __init__(self, url, folder):
        self.height_m = 0.0
        self.target_m = 0.0
        self.lock = threading.Lock()
        self.mavsdk = Mavsdk(Configuration.create_manual(SYSTEM_ID, COMPONENT_ID, True))
        # A server component is made before the connection, so that the first heartbeat is an autopilot's.
        component = self.mavsdk.server_component()
        self.parameters = ParamServer(component)
        self.telemetry = TelemetryServer(component)
        self.actions = ActionServer(component)
        self.missions = MissionRawServer(component)
        self.messages = MavlinkDirectServer(component)
        self.files = FtpServer(component)
        self.files.set_root_dir(folder)
        integers, reals = parameters()
        for name, value in integers.items():
            self.parameters.provide_param_int(name, value)
        for name, value in reals.items():
            self.parameters.provide_param_float(name, value)
        self.actions.set_allow_takeoff(True)
        self.actions.set_armable(True, True)
        self.actions.set_disarmable(True, True)
        self.actions.set_allowable_flight_modes(AllowableFlightModes(*[True] * 7))
        self.actions.set_flight_mode(FlightMode.READY)
        self.actions.subscribe_arm_disarm(self.on_arm)
        self.actions.subscribe_takeoff(self.on_takeoff)
        # ActionServer.subscribe_land() exists and is never called (MAVSDK 4.1): take the command as it comes.
        self.messages.subscribe_command(MAV_CMD_NAV_LAND, self.on_land)
        self.messages.subscribe_message("COMMAND_LONG", self.on_message)
        self.messages.subscribe_message("MISSION_ITEM_INT", self.on_message)
        self.missions.subscribe_incoming_mission(self.on_mission)
        result = self.mavsdk.add_any_connection(url)
        if result != ConnectionResult.SUCCESS:
            sys.exit(f"{url}: {result.name}")
        self.say("ready")

    def say(self, event, **facts):
        """Writes one line about what happened."""
        with self.lock:
            print(json.dumps({"event": event, "at": round(time.monotonic(), 4), **facts}), flush=True)

    def on_arm(self, result, change, _context):
        self.say("arm" if change.arm else "disarm", result=result.name)

    def on_takeoff(self, result, takeoff, _context):
        self.target_m = CRUISE_HEIGHT_M if takeoff else self.target_m
        self.say("takeoff", result=result.name)

    def on_land(self, command, _context):
        self.target_m = 0.0
        self.say("land", result="SUCCESS")
        fields = {
            "command": MAV_CMD_NAV_LAND,
            "result": MAV_RESULT_ACCEPTED,
            "progress": 255,
            "result_param2": 0,
            "target_system": command.system_id,
            "target_component": command.component_id,
        }
        answer = MavlinkMessage(
            "COMMAND_ACK", SYSTEM_ID, COMPONENT_ID, command.system_id, command.component_id, json.dumps(fields)
        )
        self.messages.send_message(answer)

    def on_message(self, message, _context):
        fields = json.loads(message.fields_json)
        names = ("command", "confirmation", "seq")
        self.say("received", name=message.message_name, **{name: fields[name] for name in names if name in fields})

    def on_mission(self, result, plan, _context):
        items = [[item.seq, item.command, item.x, item.y] for item in plan.mission_items]
        self.say("mission", result=result.name, items=items)

    def fly(self):
        """Moves and reports until the process is told to end."""
        speed = 0.0
        while True:
            distance = self.target_m - self.height_m
            step = max(-CLIMB_M_S * STEP_S, min(CLIMB_M_S * STEP_S, distance))
            self.height_m += step
            speed = step / STEP_S
            self.telemetry.publish_position(
                Position(LATITUDE_DEG, LONGITUDE_DEG, 400.0 + self.height_m, self.height_m),
                VelocityNed(0.0, 0.0, -speed),
                Heading(0.0),
            )
            self.telemetry.publish_extended_sys_state(VtolState.UNDEFINED, self.landed(speed))
            time.sleep(STEP_S)

    def landed(self, speed):
        if self.height_m <= 0.0:
            return LandedState.ON_GROUND
        if speed > 0.0:
            return LandedState.TAKING_OFF
        return LandedState.LANDING if speed < 0.0 else LandedState.IN_AIR


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = tempfile.mkdtemp(prefix="fulmar-vehicle-")
    path = os.path.join(folder, FILE_NAME)
    with open(path, "wb") as file:
        file.write(file_content())

    def end(_signal, _frame):
        os.remove(path)
        os.rmdir(folder)
        os._exit(0)

    # The library's threads do not see Python's signals and would not end.
    signal.signal(signal.SIGTERM, end)
    Vehicle(sys.argv[1], folder).fly()


if __name__ == "__main__":
    main()
