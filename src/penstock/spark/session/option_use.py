"""Which options a function takes: one that does nothing there is refused, as an unknown one is.

Only where people call a function. Options of a view come to all that is done with it, reads and writes alike.
"""

from __future__ import annotations

from penstock.errors import InvalidError
from penstock.spark.session.options import OPTIONS, Options


def check_use(options: Options, *uses: str) -> Options:
    """Return the options if all are of these uses, as the table of options names them.

    Raises:
        InvalidError: one is not; the message says where it belongs.
    """
    for option in OPTIONS:
        users = option.used_by.split(", ")
        if options.is_set(option.name) and "all" not in users and not set(users) & set(uses):
            raise InvalidError(
                f"this option does nothing here, it is for: {option.used_by}; leave it out", option=option.name
            )
    return options
