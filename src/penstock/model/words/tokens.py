"""The words of DDL and filter strings, and a cursor over them.

Both grammars share one alphabet: words, identifiers quoted with backticks or double quotes, strings in
single quotes (a quote inside is doubled), numbers, and symbols. Comments (`-- ...` and `/* ... */`)
are blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn

from penstock.errors import InvalidError, LimitError


class Kind(StrEnum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token: what it is, what it says without its quotes, where it starts."""

    kind: Kind
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else repr(self.text)


_TOKEN: Final = re.compile(
    r"""
    (?P<blank>   \s+ | --[^\n]* | /\*.*?\*/ )
  | (?P<word>    [^\W\d]\w* )
  | (?P<number>  (?: \d+ (?: \.\d* )? | \.\d+ ) (?: [eE][+-]?\d+ )? (?! \w ) )
  | (?P<string>  ' (?: [^'] | '' )* ' )
  | (?P<backtick>` (?: [^`] | `` )+ ` )
  | (?P<quoted>  " (?: [^"] | "" )+ " )
  | (?P<symbol>  <> | <= | >= | != | == | [-+(),<>=.:] )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTES: Final = {"string": (Kind.STRING, "'"), "backtick": (Kind.QUOTED, "`"), "quoted": (Kind.QUOTED, '"')}
_MEANING: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


TOKENS_MAX: Final = 25_000
"""How many words, literals and signs a text may have: reading them takes Python's time, and others wait."""


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens, the last of which is its end.

    Raises:
        InvalidError: a character that starts no token, or a quote that is not closed.
        LimitError: there are too many tokens.
    """
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise InvalidError("the text is not valid Unicode", position=cause.start) from cause
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidError(f"unexpected {text[position]!r}", position=position)
        kind = match.lastgroup
        assert kind is not None
        if kind in _QUOTES:
            token_kind, quote = _QUOTES[kind]
            tokens.append(Token(token_kind, match[0][1:-1].replace(quote * 2, quote), position))
        elif kind != "blank":
            tokens.append(Token(Kind(kind), match[0], position))
        position = match.end()
        if len(tokens) > TOKENS_MAX:
            raise LimitError("the text has too many words, literals and signs", most=TOKENS_MAX)
    tokens.append(Token(Kind.END, "", len(text)))
    return tokens


def quote_identifier(name: str) -> str:
    """Return the name as it stands in DDL and filters: in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_string(value: str) -> str:
    """Return a string literal."""
    return "'" + value.replace("'", "''") + "'"


def is_plain(name: str) -> bool:
    """Tell whether a name can stand without quotes where no keyword could be meant."""
    return _MEANING.fullmatch(name) is not None


class Cursor:
    """A place in a list of tokens. Moves forward only."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._next = 0

    @property
    def token(self) -> Token:
        """Return the token at the cursor."""
        return self._tokens[self._next]

    def at_symbol(self, symbol: str) -> bool:
        """Tell whether the cursor is at a symbol."""
        return self.token.kind is Kind.SYMBOL and self.token.text == symbol

    def at_word(self, *words: str) -> bool:
        """Tell whether the cursor is at the first of some words (upper case) and the rest follow."""
        ahead = self._tokens[self._next : self._next + len(words)]
        return len(ahead) == len(words) and all(
            token.kind is Kind.WORD and token.text.upper() == word for token, word in zip(ahead, words, strict=True)
        )

    def followed_by(self, kind: Kind, text: str | None = None) -> bool:
        """Tell whether the token after the cursor's is of a kind (and says a text)."""
        if self._next + 1 >= len(self._tokens):
            return False
        token = self._tokens[self._next + 1]
        return token.kind is kind and (text is None or token.text == text)

    def take(self) -> Token:
        """Return the token at the cursor and step over it."""
        token = self.token
        if token.kind is not Kind.END:
            self._next += 1
        return token

    def accept_symbol(self, symbol: str) -> bool:
        """Step over a symbol if the cursor is at it."""
        found = self.at_symbol(symbol)
        self._next += found
        return found

    def accept_word(self, *words: str) -> bool:
        """Step over words if the cursor is at them."""
        found = self.at_word(*words)
        self._next += len(words) * found
        return found

    def expect_symbol(self, symbol: str) -> None:
        """Step over a symbol that must be here."""
        if not self.accept_symbol(symbol):
            self.fail(f"expected {symbol!r}")

    def expect_word(self, *words: str) -> None:
        """Step over words that must be here."""
        if not self.accept_word(*words):
            self.fail(f"expected {' '.join(words)}")

    def expect(self, kind: Kind, what: str) -> Token:
        """Return a token of a kind that must be here, and step over it."""
        if self.token.kind is not kind:
            self.fail(f"expected {what}")
        return self.take()

    def expect_identifier(self, what: str) -> str:
        """Return a name, quoted or not, that must be here, and step over it."""
        if self.token.kind not in (Kind.WORD, Kind.QUOTED):
            self.fail(f"expected {what}")
        return self.take().text

    def expect_integer(self, what: str) -> int:
        """Return a whole number that must be here, and step over it."""
        if not (self.token.kind is Kind.NUMBER and self.token.text.isdigit() and len(self.token.text) < 19):
            self.fail(f"expected {what}")
        return int(self.take().text)

    def fail(self, message: str) -> NoReturn:
        """Refuse what stands at the cursor.

        Raises:
            InvalidError: always.
        """
        raise InvalidError(f"{message}, found {self.token}", position=self.token.position)
