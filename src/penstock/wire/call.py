"""A call: its name, its arguments, its result, and the frames in which they are said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar

import pyarrow as pa

from penstock.errors import InvalidError
from penstock.model.node.node import Node
from penstock.wire.body import BodyLimits, check_attached, read_body
from penstock.wire.call_tables import TablesOf
from penstock.wire.fault import read_fault
from penstock.wire.field import Field, read_named
from penstock.wire.frame import FRAME_BYTES_MAX, Draft, Frame, FrameKind, check_travels, decode_frame
from penstock.wire.reply import Reply, count_data

R = TypeVar("R")

# What a server sends was checked when it was written; only the shape of its batches is looked at.
REPLY_LIMITS = BodyLimits(bytes_max=FRAME_BYTES_MAX, rows_max=1 << 31)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Generic[R]):
    """One call of `penstock.model.node.node.Node`: its tables, the field of each argument, and of what it returns.

    Its name on the wire is older than the facets, and stays.
    """

    name: str
    target: str
    """The facet of a node, and its method: `scan.open`."""
    tables: TablesOf
    """The tables that the call is on, told from its arguments."""
    result: Field[R]
    arguments: Mapping[str, Field[Any]] = field(default_factory=dict)
    once: bool = False
    """Whether doing it twice is not the same as doing it once: then its requests may have ids."""

    def method(self, node: Node) -> Callable[..., R]:
        """Return the method of a node that answers the call."""
        found: Callable[..., R] = attrgetter(self.target)(node)
        return found

    def draft_request(
        self, call_id: int, arguments: Mapping[str, Any], *, follows: bool = False, request_id: str | None = None
    ) -> Draft:
        """Return the frame that asks; with `follows` only for the case that the call before succeeds."""
        assert arguments.keys() == self.arguments.keys()
        batches: list[pa.RecordBatch] = []
        said = {}
        for name, value in arguments.items():
            said[name] = self.arguments[name].write(value, batches)
        header: dict[str, Any] = {"id": call_id, "call": self.name, "args": said}
        if follows:
            header["follows"] = True
        if self.once and request_id is not None:
            header["request"] = request_id
        return Draft(FrameKind.REQUEST, header, batches)

    def encode_request(self, call_id: int, arguments: Mapping[str, Any], *, follows: bool = False) -> pa.Buffer:
        """Return the bytes of the frame that asks.

        Raises:
            LimitError: the frame is larger than one that travels at once may be.
        """
        return check_travels(self.draft_request(call_id, arguments, follows=follows)).encode()

    def decode_arguments(self, said: object, batches: Sequence[pa.RecordBatch]) -> dict[str, Any]:
        """Return the arguments of a request.

        Raises:
            InvalidError: one is missing, unknown or malformed.
        """
        return read_named(self.arguments, set(self.arguments), said, batches)

    def encode_reply(self, call_id: int, result: R) -> Reply:
        """Return what answers."""
        batches: list[pa.RecordBatch] = []
        said = self.result.write(result, batches)
        return Reply(FrameKind.REPLY, {"id": call_id, "result": said}, batches)

    def decode_reply(self, call_id: int, reply: pa.Buffer, attached: Sequence[pa.RecordBatch] = ()) -> R:
        """Return what the answer says; `attached` are the batches that came beside it.

        Raises:
            PenstockError: the answer is an error, or cannot be read.
        """
        frame = decode_frame(reply)
        if frame.kind is FrameKind.ERROR:
            raise read_fault(frame.header.get("error"))
        if frame.kind is not FrameKind.REPLY or frame.header.get("id") != call_id:
            raise InvalidError("the server answered something that was not asked", call=self.name)
        if count_data(frame.header) != len(attached) or (attached and frame.bodies):
            raise InvalidError("the server's answer lacks batches, or has too many", call=self.name)
        if attached:
            return self.result.read(frame.header.get("result"), [check_attached(batch) for batch in attached])
        return self.result.read(frame.header.get("result"), read_batches(frame, REPLY_LIMITS, full=False))


def read_batches(frame: Frame, limits: BodyLimits, *, full: bool = True) -> list[pa.RecordBatch]:
    """Return the batches of a frame, checked.

    Raises:
        InvalidError: one is not valid.
        LimitError: one is too large.
    """
    return [read_body(body, limits, full=full) for body in frame.bodies]
