"""Shows that each claim of the verdict can fail: a good flight passes, and each thing that may go wrong is found."""

import copy
import unittest

import flight
import signing_verdict
import verdict

ARM, TAKEOFF, LAND = flight.MAV_CMD_COMPONENT_ARM_DISARM, flight.MAV_CMD_NAV_TAKEOFF, flight.MAV_CMD_NAV_LAND


def good():
    """Gives a flight on which everything went well."""
    seen = verdict.Flight("/dev/null", "/dev/null")
    integers, reals = flight.parameters()
    names = sorted([*integers, *reals])
    items = list(range(flight.MISSION_ITEMS))
    steps = {
        "connect": {},
        "parameters": {"parameters": len(names), "requests": 1, "names": names},
        "file": {"bytes": flight.FILE_BYTES, "whole": True},
        "mission": {"offers": 1, "requested": items},
        "arm": {"sent": 1},
        "takeoff": {"sent": 1},
        "land": {"sent": 1},
        "disarm": {"sent": 1},
        "aftermath": {"command_acks": [[ARM, 0], [TAKEOFF, 0], [LAND, 0], [ARM, 0]], "mission_acks": [0]},
    }
    seen.steps = {step: {"step": step, "took_s": 0.1, **facts} for step, facts in steps.items()}
    mission = [[seq, flight.MAV_CMD_NAV_WAYPOINT, *flight.waypoint(seq)] for seq in items]
    seen.events = [{"event": "mission", "items": mission}]
    seen.events += [{"event": event} for event in ("arm", "takeoff", "land", "disarm")]
    seen.events += [{"event": "received", "name": "MISSION_ITEM_INT", "seq": seq} for seq in items]
    for command in (ARM, TAKEOFF, LAND, ARM):
        seen.events.append({"event": "received", "name": "COMMAND_LONG", "command": command})
    return seen


def failures(seen, links=None):
    return [claim for claim, passed, _text in verdict.verdicts(seen, links) if not passed]


class VerdictTest(unittest.TestCase):
    def test_a_good_flight_passes(self):
        self.assertEqual(failures(good()), [])

    def test_a_second_acknowledgement_is_found(self):
        seen = good()
        seen.steps["aftermath"]["command_acks"].append([TAKEOFF, 0])
        self.assertEqual(failures(seen), ["takes_off_once"])

    def test_a_refusal_is_found(self):
        seen = good()
        seen.steps["aftermath"]["mission_acks"].append(13)
        self.assertEqual(failures(seen), ["uploads_a_mission_without_a_spurious_refusal"])

    def test_a_damaged_file_is_found(self):
        seen = good()
        seen.steps["file"]["whole"] = False
        self.assertEqual(failures(seen), ["reads_a_file_whole"])

    def test_a_second_execution_is_found(self):
        seen = good()
        seen.events.append({"event": "land"})
        self.assertEqual(failures(seen), ["lands_once"])

    def test_a_second_copy_on_the_vehicle_is_found(self):
        seen = good()
        seen.events.append({"event": "received", "name": "COMMAND_LONG", "command": LAND})
        seen.events.append({"event": "received", "name": "MISSION_ITEM_INT", "seq": 3})
        self.assertEqual(failures(seen), ["uploads_a_mission_without_a_spurious_refusal", "lands_once"])

    def test_a_wrong_item_and_a_missing_parameter_are_found(self):
        seen = good()
        seen.events[0] = copy.deepcopy(seen.events[0])
        seen.events[0]["items"][5][2] += 1
        seen.steps["parameters"]["names"].pop()
        expected = ["reads_every_parameter", "uploads_a_mission_without_a_spurious_refusal"]
        self.assertEqual(failures(seen), expected)

    def test_a_step_that_failed_or_never_came_is_found(self):
        seen = good()
        seen.steps["land"] = {"step": "land", "took_s": 30.0, "error": "not acknowledged"}
        del seen.steps["disarm"]
        self.assertEqual(failures(seen), ["lands_once", "disarms_once"])

    def test_links_that_lose_too_little_are_found(self):
        link = {"link": "net1", "from": "drone", "packets_in": 1000, "dropped": {"loss": 205}}
        self.assertEqual(failures(good(), [link]), [])
        link["dropped"]["loss"] = 10
        self.assertEqual(failures(good(), [link]), ["links_lose_a_fifth"])
        link["packets_in"] = 10
        self.assertEqual(failures(good(), [link]), ["links_lose_a_fifth"])


def good_lists():
    """Gives what the station writes where signing costs nothing."""
    entry = {"took_s": 0.9, "missing": 0, "wrong": 0, "commands": 7, "answers": 7, "unanswered": 0, "rejected": 0}
    return [{**entry, "list": number, "mode": mode} for mode in ("plain", "signed") for number in range(5)]


class SigningVerdictTest(unittest.TestCase):
    def failures(self, lists):
        link = {"link": "net1", "from": "drone", "packets_in": 1000, "dropped": {"loss": 205}}
        return [claim for claim, passed, _text in signing_verdict.verdicts(lists, [link]) if not passed]

    def test_signing_that_costs_nothing_passes(self):
        self.assertEqual(self.failures(good_lists()), [])

    def test_each_thing_that_may_go_wrong_is_found(self):
        for key, value, claim in [
            ("missing", 1, "no_parameter_is_lost"),
            ("wrong", 1, "no_parameter_is_lost"),
            ("unanswered", 1, "every_command_is_answered_once"),
            ("answers", 8, "every_command_is_answered_once"),
            ("rejected", 1, "no_signature_is_rejected"),
            ("took_s", 2.0, "signed_takes_a_fifth_longer_at_most"),
        ]:
            lists = good_lists()
            lists[-1][key] = value
            self.assertEqual(self.failures(lists), [claim])
        self.assertEqual(self.failures(good_lists()[1:]), ["reads_every_list"])

    def test_a_flight_with_an_answer_too_few_or_too_many_is_found(self):
        link = {"link": "net1", "from": "drone", "packets_in": 1000, "dropped": {"loss": 205}}
        good = {"commands": 100, "answers": 100, "unanswered": 0, "slowest_s": 0.3}
        flights = [[good], [{**good, "unanswered": 1}], [{**good, "answers": 101}], [{**good, "commands": 3}], []]
        failed = [
            [claim for claim, passed, _text in signing_verdict.verdicts_of_flight(flight, [link]) if not passed]
            for flight in flights
        ]
        answered = "every_command_is_answered_once"
        self.assertEqual(failed, [[], [answered], [answered], [answered], ["flies"]])


if __name__ == "__main__":
    unittest.main()
