"""Compares what the ground station saw with what the vehicle was told, and says PASSED or FAILED for each claim.

    verdict.py NAME STATION_LOG VEHICLE_LOG [EMULATION_JSON]

The claims hold whatever the link does: every step succeeds; each command is executed once and acknowledged once; no
mission item and no command reaches the vehicle more often than the station sent it; no acknowledgement is a refusal. With
the emulator's report there is one claim more: that the links did lose what they were to lose.
"""

import collections
import json
import sys

import flight

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
        integers, reals = flight.parameters()
        step = self.step("parameters")
        assert step["names"] == sorted([*integers, *reals]), f"read {step['names']}"
        return f"{step['parameters']} in {step['took_s']:.2f} s, {step['requests']} requests"

    def reads_a_file_whole(self):
        step = self.step("file")
        assert step["whole"], f"{step['bytes']} of {flight.FILE_BYTES} bytes, or not the same"
        return f"{step['bytes']} bytes in {step['took_s']:.2f} s"

    def uploads_a_mission_without_a_spurious_refusal(self):
        step = self.step("mission")
        acks = self.step("aftermath")["mission_acks"]
        assert acks == [MISSION_ACCEPTED], f"mission acknowledged with {acks}"
        missions = self.executed("mission")
        assert len(missions) == 1, f"the vehicle took {len(missions)} missions"
        items = [(seq, (x, y)) for seq, _command, x, y in missions[0]["items"]]
        assert items == [(seq, flight.waypoint(seq)) for seq in range(flight.MISSION_ITEMS)], items
        sent = collections.Counter(step["requested"])
        for seq in range(flight.MISSION_ITEMS):
            copies = len(self.received("MISSION_ITEM_INT", seq=seq))
            assert copies <= sent[seq], f"item {seq}: sent {sent[seq]} times, arrived {copies} times"
        return f"{len(items)} items in {step['took_s']:.2f} s, {step['offers']} offers, {sum(sent.values())} requests"

    def arms_once(self):
        return self.command_once("arm", flight.MAV_CMD_COMPONENT_ARM_DISARM, uses=2)

    def takes_off_once(self):
        return self.command_once("takeoff", flight.MAV_CMD_NAV_TAKEOFF)

    def lands_once(self):
        return self.command_once("land", flight.MAV_CMD_NAV_LAND)

    def disarms_once(self):
        return self.command_once("disarm", flight.MAV_CMD_COMPONENT_ARM_DISARM, uses=2)

    def command_once(self, name, command, uses=1):
        """Checks a step whose command the flight uses so many times: executed, acknowledged and received once each."""
        step, done = self.step(name), self.executed(name)
        assert len(done) == 1, f"executed {len(done)} times"
        assert step["sent"] == 1, f"the station had to send it {step['sent']} times"
        acks = [result for acked, result in self.step("aftermath")["command_acks"] if acked == command]
        assert acks == [0] * uses, f"command {command} acknowledged with {acks}"
        copies = len(self.received("COMMAND_LONG", command=command))
        assert copies == uses, f"command {command} arrived {copies} times"
        return f"acknowledged in {step.get('acked_s', step['took_s']):.3f} s"


# Share of packets that scenarios/lossy20.toml loses, and how far a flight of some thousand packets may be from it.
LOSS, LOSS_TOLERANCE = 0.2, 0.05


def links_lose_a_fifth(links):
    """Checks every direction of every link that carried anything."""
    shares = {}
    for link in links:
        if link["packets_in"] >= 100:
            shares[f"{link['link']} {link['from']}"] = link["dropped"]["loss"] / link["packets_in"]
    assert shares, "no link carried a hundred packets"
    for name, share in shares.items():
        assert abs(share - LOSS) < LOSS_TOLERANCE, f"{name} lost {share:.1%}"
    return ", ".join(f"{name} {share:.1%}" for name, share in shares.items())


CLAIMS = [
    Flight.connects,
    Flight.reads_every_parameter,
    Flight.reads_a_file_whole,
    Flight.uploads_a_mission_without_a_spurious_refusal,
    Flight.arms_once,
    Flight.takes_off_once,
    Flight.lands_once,
    Flight.disarms_once,
]


def verdicts(seen, links=None):
    """Gives for each claim its name, whether it holds, and the figures or the reason."""
    claims = [(claim.__name__, claim, seen) for claim in CLAIMS]
    if links is not None:
        claims.append((links_lose_a_fifth.__name__, links_lose_a_fifth, links))
    yield from judged(claims)


def judged(claims):
    """Judges claims: name, function, what it looks at."""
    for name, claim, subject in claims:
        try:
            yield name, True, claim(subject)
        except AssertionError as error:
            yield name, False, str(error)


def say(name, found):
    """Prints a line for each claim; gives the exit status."""
    holds = True
    for claim, passed, text in found:
        print(f"{'PASSED' if passed else 'FAILED'}: {name}::{claim}: {text}", flush=True)
        holds = holds and passed
    return 0 if holds else 1


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    name, links = sys.argv[1], None
    if len(sys.argv) == 5:
        with open(sys.argv[4], encoding="utf-8") as report:
            links = json.load(report)["links"]
    sys.exit(say(name, verdicts(Flight(*sys.argv[2:4]), links)))


if __name__ == "__main__":
    main()
