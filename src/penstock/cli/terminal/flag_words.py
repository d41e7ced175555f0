"""Errors in the words of the command line: flags and commands, where the API names arguments and methods.

The API's messages are written for programs. Here is the one place where they are put into other words, by
patterns, the longer ones first; a test takes every message of the source through it and finds none that still
names an argument. Facts (`name=value` at the end) stay as they are.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import PenstockError

_WORDS: Final = (
    # Whole advice.
    (r"pass token=, on the command line PENSTOCK_TOKEN", "give it with --token-file FILE or in PENSTOCK_TOKEN"),
    (
        r"pass token= as its token file has it",
        "give one that is in its token file by --token-file or PENSTOCK_TOKEN",
    ),
    (r"pass its ca by tls=", "name who signed it: --tls-ca FILE"),
    (r"pass cert and key by tls=", "give it with --tls-cert FILE and --tls-key FILE"),
    (r"token and tls go with a server's url", "a token and --tls-... go with a server's url"),
    (r"token is a text; tls and settings are dicts", "the token or a tls option is not understood"),
    (r"send smaller batches, or use writer\(\), which does", "send fewer rows; `penstock put` writes any number"),
    (
        r"a start is penstock\.EARLIEST, penstock\.LATEST, offsets by bucket, a datetime or a stream's position",
        "--from takes earliest, latest, snapshot, a time, offsets by bucket or a position",
    ),
    (r"pass stream\.position unchanged", "give the position unchanged, as `penstock tail` said it"),
    (r"a cut is t\.cut\(\), the text of its to_json\(\), or offsets by bucket", "a cut is json: offsets by bucket"),
    (r"a cut is read from the text of cut\.to_json\(\), or that parsed", "a cut is json: offsets by bucket"),
    (r"a cut is offsets by bucket, as t\.cut\(\) returns them", "a cut is offsets by bucket"),
    (r"pass what cut\.to_json\(\) gave unchanged", "give it unchanged"),
    (
        r"a lease takes t\.latest_snapshots, t\.cut\(\), \{TableBucket: snapshot id\}, or a list of these",
        "a lease takes tables",
    ),
    (r"a lease gives back penstock\.TableBucket, as lease\.snapshots names them", "a lease gives back tables"),
    (r"a schema is a penstock\.Schema, DDL or an Arrow schema", "a schema is DDL"),
    (r"a filter is a string or a penstock\.col expression", "a filter is a text"),
    (r"delete_where needs a filter; truncate deletes all rows", "say --where FILTER; `penstock truncate` deletes all"),
    (r"truncate\(\)", "`penstock truncate`"),
    (
        r"delete\(columns=\) names columns outside the key; leave columns out",
        "--columns are not of the key; leave it out",
    ),
    (r"acquire it without columns=, or name them all", "its job has to name every column, or none"),
    (
        r"the owner does not hold; acquire them, or pass columns=\[\.\.\.\]",
        "the owner does not hold; say --columns A,B",
    ),
    (r"with add_column and open the table again", "with `penstock table alter`"),
    (r"create_table\(\.\.\.\)", "`penstock table create`"),
    (r'name the key columns one by one: \.primary_key\("a", "b"\)', "name the key columns: PRIMARY KEY (a, b)"),
    # Arguments, with their values.
    (r"\bcolumns=\[\.\.\.\]", "--columns A,B"),
    (r"\bbuckets=\[\.\.\.\]", "buckets"),
    (r"\b(?:pass )?(if_not_exists|if_exists|cascade|follow|takeover)=True", lambda m: f"say {_flag(m[1])}"),
    (r"\buse say --", "use --"),
    (r"\bimages='(\w+)'", r"--images \1"),
    (r"\b(merge_engine|version_column|bucket_key|partitioned_by)=(\w+)", lambda m: f"{_flag(m[1])} {m[2]}"),
    (r"\bowner=", "the owner"),
    (r"\bexpect=", "what is expected of rows"),
    (r"\bbuckets=", "its buckets"),
    (r"\b(as_of|columns|filter|limit|source|lease|images|where|token)=", lambda m: _flag(m[1])),
    (
        r"\b(as_of|order_by|merge_engine|version_column|bucket_key|partitioned_by|if_exists|if_not_exists)\b",
        lambda m: _flag(m[1]),
    ),
    (r"\bagg_mode\b", "the mode of aggregation"),
    (r"\b(?:use|pass) cascade\b", "say --cascade"),
    (r"\bpass --", "say --"),
    # Methods.
    (
        r"\b(?:\w+\.)?(create|list|drop)_(database|table|partition|snapshot|lease|owner|scanner)s?\b(?:\(\))?",
        r"`penstock \2 \1`",
    ),
    (r"\b(?:\w+\.)?add_column\b(?:\(\))?", "`penstock table alter`"),
    (r"\b(?:\w+\.)?rename_column\b(?:\(\))?", "`penstock table alter`"),
    (r"\b(?:\w+\.)?(?:drop|widen)_column\b(?:\(\))?", "`penstock table alter`"),
    (r"\b(?:\w+\.)?set_properties\b(?:\(\))?", "`penstock table alter`"),
    (r"\b(?:\w+\.)?kill_scanner\b(?:\(\))?", "`penstock scanner kill`"),
    (r"\b(?:\w+\.)?acquire_lease\b(?:\(\))?", "`penstock lease acquire`"),
    (r"\b(?:\w+\.)?acquire_owner\b(?:\(\))?", "an owner"),
    (r"\b(?:\w+\.)?prefix_lookup\b(?:\(\))?", "`penstock lookup --prefix`"),
    (r"\b(?:\w+\.)?delete_where\b(?:\(\))?", "`penstock delete --where`"),
    (r"\b(?:\w+\.)?snapshot_and_follow\b(?:\(\))?", "--from snapshot"),
    (r"\b(?:\w+\.)?apply_changes\b(?:\(\))?", "--operation apply"),
    (r"\buse writer\(\)", "use `penstock put`"),
    (r"``+", "`"),
)
_RULES: Final = tuple((re.compile(pattern), words) for pattern, words in _WORDS)


def in_flag_words(error: PenstockError) -> str:
    """Return an error as the command line says it."""
    return str(type(error)(flag_words(error.message), **error.facts))


def flag_words(message: str) -> str:
    """Return a message of the API in the words of the command line."""
    for pattern, words in _RULES:
        message = pattern.sub(words, message)
    return message


def _flag(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"
