"""Help without the names of Python's types: flags show nothing, values a word in capitals or their choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

CHOICES_LENGTH_MAX: Final = 24
_TYPES: Final = {"int": "N", "float": "N", "Path": "FILE", "path": "FILE"}


def plain_help(command: Any) -> None:
    """Have a command's help show its parameters plainly."""
    found = command.get_params
    command.get_params = lambda context: [_plain(parameter) for parameter in found(context)]


def _plain(parameter: Any) -> Any:
    if getattr(parameter, "plain", False):
        return parameter
    parameter.plain = True
    word = _word(parameter)
    if parameter.param_type_name == "argument":
        optional = not parameter.required
        parameter._usage_display_name = lambda: f"[{word}]" if optional else word
        # The name stands in a column of its own already.
        parameter.display_type_rich = lambda **_: None
    else:
        parameter.display_type_rich = lambda **_: word or None
        parameter.metavar = word or None
    parameter._get_number_range_help_str = lambda: None
    return parameter


def _word(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar is not None:
        return str(parameter.metavar)
    kind = getattr(parameter, "type_descriptor", None)
    choices = _choices(kind)
    if not choices:
        name = getattr(getattr(kind, "annotation", None), "__name__", "")
        return _TYPES.get(name) or str(parameter.name).upper().replace("_", "-")
    joined = "|".join(choices)
    if len(joined) <= CHOICES_LENGTH_MAX:
        return joined
    parameter.help = f"{(parameter.help or '').rstrip()} One of {', '.join(choices)}."
    return "FORMAT" if parameter.name == "output" else str(parameter.name).upper()


def _choices(kind: Any) -> Sequence[str]:
    if not getattr(kind, "is_choice", False):
        return ()
    return [str(getattr(choice, "value", choice)) for choice in kind.choices or ()]
