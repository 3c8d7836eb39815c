"""Compares lists of parameters that were read with and without signatures, and says PASSED or FAILED for each claim.

Where the log tells of a flight instead, the claim is that every command of it was answered.

    signing_verdict.py NAME STATION_LOG EMULATION_JSON
"""

import json
import statistics
import sys

import verdict

LISTS = 5
# What was asked of signing: no more than a fifth on top.
MOST = 1.2


class Lists:
    """Holds what the station wrote."""

    def __init__(self, lists):
        self.all = lists
        for mode in ("plain", "signed"):
            count = len(self.of(mode))
            assert count == LISTS, f"{count} lists {mode}, not {LISTS}"

    def of(self, mode):
        return [entry for entry in self.all if entry["mode"] == mode]

    def no_parameter_is_lost(self):
        for entry in self.all:
            assert entry["missing"] == entry["wrong"] == 0, entry
        return f"{len(self.all)} lists"

    def every_command_is_answered_once(self):
        for entry in self.all:
            assert entry["commands"] > 0, entry
            assert entry["unanswered"] == 0 and entry["answers"] == entry["commands"], entry
        return f"{sum(entry['commands'] for entry in self.all)} commands"

    def no_signature_is_rejected(self):
        for entry in self.all:
            assert entry["rejected"] == 0, entry
        return f"{len(self.of('signed'))} lists"

    def signed_takes_a_fifth_longer_at_most(self):
        plain, signed = (statistics.mean(entry["took_s"] for entry in self.of(mode)) for mode in ("plain", "signed"))
        assert signed <= MOST * plain, f"{signed:.2f} s signed, {plain:.2f} s not"
        return f"{signed:.3f} s signed, {plain:.3f} s not"


CLAIMS = [
    Lists.no_parameter_is_lost,
    Lists.every_command_is_answered_once,
    Lists.no_signature_is_rejected,
    Lists.signed_takes_a_fifth_longer_at_most,
]


def every_command_is_answered_once(flight):
    assert flight["commands"] > 50, flight
    assert flight["unanswered"] == 0 and flight["answers"] == flight["commands"], flight
    return f"{flight['commands']} commands, the slowest in {flight['slowest_s']} s"


def verdicts_of_flight(flights, links):
    """Gives the same for a flight."""
    if len(flights) != 1:
        yield "flies", False, f"{len(flights)} flights"
        return
    yield from verdict.judged([(every_command_is_answered_once.__name__, every_command_is_answered_once, flights[0])])
    yield from verdict.judged([(verdict.links_lose_a_fifth.__name__, verdict.links_lose_a_fifth, links)])


def verdicts(entries, links):
    """Gives for each claim its name, whether it holds, and the figures or the reason."""
    try:
        lists = Lists(entries)
    except AssertionError as error:
        yield "reads_every_list", False, str(error)
        return
    yield from verdict.judged([(claim.__name__, claim, lists) for claim in CLAIMS])
    yield from verdict.judged([(verdict.links_lose_a_fifth.__name__, verdict.links_lose_a_fifth, links)])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    name, log, report = sys.argv[1:]
    with open(report, encoding="utf-8") as file:
        links = json.load(file)["links"]
    if name.endswith("moves"):
        sys.exit(verdict.say(name, verdicts_of_flight(verdict.read(log, "flight"), links)))
    sys.exit(verdict.say(name, verdicts(verdict.read(log, "list"), links)))


if __name__ == "__main__":
    main()
