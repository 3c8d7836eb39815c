"""What the flight of the tests consists of: known to the vehicle, to the ground station and to the verdict."""

MISSION_ITEMS = 12
MAV_CMD_NAV_WAYPOINT, MAV_CMD_NAV_LAND, MAV_CMD_NAV_TAKEOFF, MAV_CMD_COMPONENT_ARM_DISARM = 16, 21, 22, 400
CRUISE_HEIGHT_M = 10.0
FILE_NAME, FILE_BYTES = "flight.log", 60_000


def parameters():
    """Gives the names and values that the ground station is to read: 48 integers and 16 real numbers."""
    integers = {f"TEST_INT_{index:02}": 100 + index for index in range(48)}
    reals = {f"TEST_REAL_{index:02}": index + 0.5 for index in range(16)}
    return integers, reals


def waypoint(seq):
    """Gives latitude and longitude of a mission item, in 10⁻⁷ degrees: a line to the east, so that each is another."""
    return 473977420, 85455940 + 1000 * seq


def file_content():
    """Gives the file that the ground station is to read: no two of its pieces are alike."""
    return b"".join(number.to_bytes(4, "big") for number in range(FILE_BYTES // 4))
