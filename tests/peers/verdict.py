"""Compares what the ground station saw with what the vehicle was told, and says PASSED or FAILED for each claim.

    verdict.py NAME STATION_LOG VEHICLE_LOG

The claims hold whatever the link does: every step succeeds; each command is executed once and acknowledged once; no
mission item and no command reaches the vehicle more often than the station sent it; no acknowledgement is a refusal.
"""

import collections
import json
import sys

import vehicle
from station import MISSION_ITEMS

ARM, TAKEOFF, LAND = 400, 22, 21
MISSION_ACCEPTED = 0


def read(path, key):
    """Reads the JSON lines that have the key; libraries write lines of their own between them."""
    found = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("{"):
                entry = json.loads(line)
                if key in entry:
                    found.append(entry)
    return found


class Flight:
    """Holds both logs."""

    def __init__(self, station_log, vehicle_log):
        self.steps = {entry["step"]: entry for entry in read(station_log, "step")}
        self.events = read(vehicle_log, "event")

    def step(self, name):
        entry = self.steps.get(name)
        assert entry is not None, f"the station never came to {name}"
        assert "error" not in entry, entry["error"]
        return entry

    def executed(self, event):
        return [entry for entry in self.events if entry["event"] == event]

    def received(self, name, **fields):
        arrived = [entry for entry in self.events if entry["event"] == "received" and entry["name"] == name]
        return [entry for entry in arrived if all(entry[key] == value for key, value in fields.items())]

    def connects(self):
        return f"{self.step('connect')['took_s']:.2f} s"

    def reads_every_parameter(self):
        integers, reals = vehicle.parameters()
        step = self.step("parameters")
        assert step["names"] == sorted([*integers, *reals]), f"read {step['names']}"
        return f"{step['parameters']} in {step['took_s']:.2f} s, {step['requests']} requests"

    def uploads_a_mission_without_a_spurious_refusal(self):
        step = self.step("mission")
        acks = self.step("aftermath")["mission_acks"]
        assert acks == [MISSION_ACCEPTED], f"mission acknowledged with {acks}"
        missions = self.executed("mission")
        assert len(missions) == 1, f"the vehicle took {len(missions)} missions"
        items = [[seq, x, y] for seq, _command, x, y in missions[0]["items"]]
        assert items == [[i, 473977420, 85455940 + 1000 * i] for i in range(MISSION_ITEMS)], items
        sent = collections.Counter(step["requested"])
        for seq in range(MISSION_ITEMS):
            copies = len(self.received("MISSION_ITEM_INT", seq=seq))
            assert copies <= sent[seq], f"item {seq}: sent {sent[seq]} times, arrived {copies} times"
        return f"{MISSION_ITEMS} items in {step['took_s']:.2f} s, {step['offers']} offers, {sum(sent.values())} requests"

    def arms_once(self):
        return self.commands_once([("arm", "arm")], ARM, 2)

    def takes_off_once(self):
        return self.commands_once([("takeoff", "takeoff")], TAKEOFF, 1)

    def lands_and_disarms_once(self):
        self.commands_once([("land", "land")], LAND, 1)
        return self.commands_once([("disarm", "disarm")], ARM, 2)

    def commands_once(self, pairs, command, uses):
        """Checks a command that the flight uses so many times: executed, acknowledged and received once each."""
        said = []
        for name, event in pairs:
            step, done = self.step(name), self.executed(event)
            assert len(done) == 1, f"{event} was executed {len(done)} times"
            assert step["sent"] == 1, f"the station had to send it {step['sent']} times"
            said.append(f"{name} acknowledged in {step.get('acked_s', step['took_s']):.3f} s")
        acks = [result for acked, result in self.step("aftermath")["command_acks"] if acked == command]
        assert acks == [0] * uses, f"command {command} acknowledged with {acks}"
        copies = len(self.received("COMMAND_LONG", command=command))
        assert copies == uses, f"command {command} arrived {copies} times"
        return ", ".join(said)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    name, flight = sys.argv[1], Flight(*sys.argv[2:])
    claims = [
        flight.connects,
        flight.reads_every_parameter,
        flight.uploads_a_mission_without_a_spurious_refusal,
        flight.arms_once,
        flight.takes_off_once,
        flight.lands_and_disarms_once,
    ]
    failed = False
    for claim in claims:
        try:
            print(f"PASSED: {name}::{claim.__name__}: {claim()}", flush=True)
        except AssertionError as error:
            failed = True
            print(f"FAILED: {name}::{claim.__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
