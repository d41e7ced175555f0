"""A server's URL: its addresses, and whether a token would travel readable."""

from __future__ import annotations

import pytest

from penstock.cli.link.server_url import ServerUrl
from penstock.errors import InvalidError


def parsed(text: str) -> ServerUrl:
    found = ServerUrl.parse(text)
    assert found is not None
    return found


def test_addresses_are_read_with_the_usual_port_and_of_a_cluster_too() -> None:
    assert parsed("penstock://db.example").addresses == (("db.example", 9123),)
    assert parsed("penstock+tls://a:1,b:2,[::1]:3").addresses == (("a", 1), ("b", 2), ("::1", 3))


@pytest.mark.parametrize("text", ["./data", "data", "/var/lib/penstock", "s3://bucket/prefix", "http://h:1"])
def test_what_is_no_server_is_left_to_the_connection(text: str) -> None:
    assert ServerUrl.parse(text) is None


@pytest.mark.parametrize("text", ["localhost:9123", "10.0.0.1:9123", "10.0.0.1", "[::1]:9123", "::1", "penstock:/h:1"])
def test_what_looks_like_a_server_is_told_its_url(text: str) -> None:
    with pytest.raises(InvalidError, match="--url penstock://"):
        ServerUrl.parse(text)


@pytest.mark.parametrize("text", ["penstock://", "penstock://h:x", "penstock://h:99999", "penstock://a:1,"])
def test_url_without_a_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="penstock://host:port"):
        ServerUrl.parse(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("penstock://localhost:1", None),
        ("penstock://127.8.0.1:1", None),
        ("penstock://[::1]:1", None),
        ("penstock+tls://db.example:1", None),
        ("penstock://db.example:1", "db.example"),
        ("penstock://127.0.0.1:1,10.0.0.1:1", "10.0.0.1"),
    ],
)
def test_token_would_be_overheard_beyond_loopback_without_tls(text: str, host: str | None) -> None:
    assert parsed(text).overheard == host
