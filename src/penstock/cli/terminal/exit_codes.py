"""What an exit code says: one code for each kind of error, and no kind without one."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock import errors
from penstock.errors import PenstockError


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    UNAVAILABLE = 5
    INTERRUPTED = 130


# USAGE where another command line would do; FAILED where the data, the table or another program is in the way.
EXIT_CODES: Final[dict[type[PenstockError], ExitCode]] = {
    errors.PenstockError: ExitCode.FAILED,
    errors.InvalidError: ExitCode.USAGE,
    errors.SchemaMismatchError: ExitCode.FAILED,
    errors.InvalidScanRequestError: ExitCode.USAGE,
    errors.LimitError: ExitCode.FAILED,
    errors.ArithmeticOverflowError: ExitCode.FAILED,
    errors.DeleteDisabledError: ExitCode.FAILED,
    errors.UnsupportedError: ExitCode.USAGE,
    errors.NotFoundError: ExitCode.NOT_FOUND,
    errors.DatabaseNotFoundError: ExitCode.NOT_FOUND,
    errors.TableNotFoundError: ExitCode.NOT_FOUND,
    errors.PartitionNotFoundError: ExitCode.NOT_FOUND,
    errors.OffsetOutOfRangeError: ExitCode.NOT_FOUND,
    errors.SnapshotNotFoundError: ExitCode.NOT_FOUND,
    errors.LeaseNotFoundError: ExitCode.NOT_FOUND,
    errors.OwnerNotFoundError: ExitCode.NOT_FOUND,
    errors.UnknownOrExpiredScannerError: ExitCode.NOT_FOUND,
    errors.AlreadyExistsError: ExitCode.FAILED,
    errors.ConflictError: ExitCode.FAILED,
    errors.FencedError: ExitCode.FAILED,
    errors.LockedError: ExitCode.FAILED,
    errors.SequenceError: ExitCode.FAILED,
    errors.UnavailableError: ExitCode.UNAVAILABLE,
    errors.TooManyScannersError: ExitCode.UNAVAILABLE,
    errors.NotLeaderError: ExitCode.UNAVAILABLE,
    errors.TimedOutError: ExitCode.UNAVAILABLE,
    errors.OverloadedError: ExitCode.UNAVAILABLE,
    errors.DiskFullError: ExitCode.UNAVAILABLE,
    errors.BucketFailedError: ExitCode.UNAVAILABLE,
    errors.PermissionDeniedError: ExitCode.DENIED,
    errors.ClosedError: ExitCode.FAILED,
    errors.DirectoryInUseError: ExitCode.UNAVAILABLE,
    errors.CorruptionError: ExitCode.FAILED,
    errors.InternalError: ExitCode.FAILED,
}


def exit_code(error: PenstockError) -> ExitCode:
    """Return the code that an error ends a command with."""
    return EXIT_CODES[type(error)]
