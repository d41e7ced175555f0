"""The test kit, also for users: oracle, faulty disk, manual clock, a server that can be killed."""

from penstock.testing.fault_gate import Operation, SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.manual_clock import ManualClock
from penstock.testing.server import ServerProcess, server

__all__ = ["FaultyDisk", "ManualClock", "Operation", "ServerProcess", "SimulatedCrash", "server"]
