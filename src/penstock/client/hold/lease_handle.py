"""The part of a lease that a scan needs: its id, and a check that the lease is of the same database."""

from __future__ import annotations

from penstock.client.link.link import Link
from penstock.errors import InvalidError


class LeaseHandle:
    """A lease by its id, in the database of the connection that acquired it."""

    def __init__(self, link: Link, lease_id: str) -> None:
        self._database = link.database
        self.id = lease_id

    def check_of(self, link: Link) -> None:
        """Refuse to be used with another database, where a lease of the same id is another lease.

        Raises:
            InvalidError: the connection is to another database.
        """
        if self._database != link.database:
            raise InvalidError(
                "the lease is of another database; acquire one in this one", lease_id=self.id, found=self._database
            )
