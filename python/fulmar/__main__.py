"""``python -m fulmar``: the commands of ``fulmar-lab``."""

from __future__ import annotations

import signal
import sys

from fulmar._native import command


def main() -> int:
    """Does what the command line says; returns the exit code."""
    # As for any program: Ctrl-C ends it, and so does a reader that has gone.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["fulmar-lab", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
