"""What users need to test programs on Penstock: a faulty disk, a manual clock, a server that can be killed.

The disk loses what was not synced, and only that. The tests' own kit is not here, and is not installed. Imports the
server, runtime and errors.
"""

from penstock.testing.fault_plan import Operation, SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock
from penstock.testing.server import ServerProcess, server

__all__ = ["FaultyDisk", "ManualClock", "Operation", "ServerProcess", "SimulatedCrash", "server"]
