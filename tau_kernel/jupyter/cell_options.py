"""The options of a ``%%tau`` line: one table that parses, completes and explains.

`OPTIONS` says everything about an option once. What an option does to a submission
is the kernel's affair; a value that no place could accept is refused here.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, cast, get_args

from tau_kernel.errors import CallerError
from tau_kernel.models import ReasoningLevel
from tau_kernel.submissions import MultitaskStrategy

__all__ = [
    "OPTIONS",
    "UNAVAILABLE",
    "AnswerFormat",
    "CellOptions",
    "HeaderWord",
    "OptionSpec",
    "check_available",
    "option_named",
    "parse_options",
    "scan_header",
]

AnswerFormat: TypeAlias = Literal["text", "json"]
ValueSource: TypeAlias = Literal["models", "tools", "paths"]

UNAVAILABLE: Final[Mapping[str, str]] = {
    "format": "Answers come as text only; read them with `into=`.",
    "schema": "Answers cannot be held to a schema; read them with `into=`.",
}
"""What cannot be had, by ``name`` or ``name=value``, with a sentence that says so.

Parsing accepts these all the same; `check_available` refuses them, completion leaves
them out, and inspection adds the sentence.
"""

_LARGEST: Final = 2**63 - 1
_MOST_DOLLARS: Final = 1e6
_SHOWN: Final = 60
_WHOLE: Final = re.compile(r"[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]*)?|\.[0-9]+")
_SWITCH: Final = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """What one cell wants otherwise than the session; the defaults want nothing.

    Args:
        strategy: What happens if a turn is running.
        model: Name of the model for this turn.
        history: Whether the model sees the conversation before this prompt.
        tools: Names of the tools that the turn may use; None leaves the session's.
        image: Paths of images that go with the prompt.
        from_: Where the turn attaches: an entry's id, a cell's id or ``root``.
        into: Name of the Python variable that receives the answer.
        format: Form of the answer.
        schema: Path of a JSON Schema for the answer.
        system: System prompt for this turn.
        reasoning: How hard the model thinks.
        temperature: From 0 to 2.
        seed: From 0 upward; makes sampling repeatable where the provider can.
        max_tokens: Tokens that the model may write for this prompt.
        max_turns: Completions that this prompt may take.
        max_cost: US dollars that this prompt may cost.
        expand: Whether ``{{name}}`` in the prompt is replaced by the variable.
        wait: Whether the cell stays open until its branch ends; None leaves it to
            the kernel.
    """

    strategy: MultitaskStrategy | None = None
    model: str | None = None
    history: bool = True
    tools: tuple[str, ...] | None = None
    image: tuple[str, ...] = ()
    from_: str | None = None
    into: str | None = None
    format: AnswerFormat | None = None
    schema: str | None = None
    system: str | None = None
    reasoning: ReasoningLevel | None = None
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    expand: bool = False
    wait: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderWord:
    """One word of a ``%%tau`` line.

    Args:
        start: Where it begins in the line, in code points.
        end: Where it ends.
        key: What stands before the first ``=``; None in a word without one.
        items: The value without its quotes, cut at each comma outside quotes.
        item_start: Where the last item begins in the line, its quote included.
        is_closed: Whether each quote has its partner.
    """

    start: int
    end: int
    key: str | None
    items: tuple[str, ...]
    item_start: int
    is_closed: bool

    @property
    def value(self) -> str:
        """The whole value without quotes; of a word without ``=``, the word."""
        return ",".join(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """Everything there is to say about one option.

    Args:
        name: What stands before ``=``.
        rule: What its value may be, as the end of "give ...".
        description: One sentence for people.
        example: A value that is accepted.
        apply: Gives the options with this one set; raises ValueError on a value
            against the rule.
        values: All values, where they are a closed set.
        source: Where values to suggest come from, otherwise.
    """

    name: str
    rule: str
    description: str
    example: str
    apply: Callable[[CellOptions, HeaderWord], CellOptions]
    values: tuple[str, ...] = ()
    source: ValueSource | None = None


def _one_of(word: HeaderWord, allowed: tuple[str, ...]) -> str:
    if word.value not in allowed:
        raise ValueError(word.value)
    return word.value


def _words(word: HeaderWord) -> str:
    if not word.value.strip():
        raise ValueError(word.value)
    return word.value


def _identifier(word: HeaderWord) -> str:
    if not word.value.isidentifier() or keyword.iskeyword(word.value):
        raise ValueError(word.value)
    return word.value


def _paths(word: HeaderWord) -> tuple[str, ...]:
    if not all(item.strip() for item in word.items):
        raise ValueError(word.value)
    return word.items


def _tool_names(word: HeaderWord) -> tuple[str, ...]:
    if word.value == "none":
        return ()
    # No tool has a comma in its name: quotes around the whole list mean the list.
    names = tuple(name.strip() for name in word.value.split(","))
    if not all(names):
        raise ValueError(word.value)
    return names


def _switch(word: HeaderWord) -> bool:
    if word.value not in _SWITCH:
        raise ValueError(word.value)
    return _SWITCH[word.value]


def _whole(word: HeaderWord, least: int) -> int:
    if not _WHOLE.fullmatch(word.value):
        raise ValueError(word.value)
    number = int(word.value)
    if not least <= number <= _LARGEST:
        raise ValueError(word.value)
    return number


def _decimal(word: HeaderWord, most: float) -> float:
    if not _DECIMAL.fullmatch(word.value) or float(word.value) > most:
        raise ValueError(word.value)
    return float(word.value)


def _dollars(word: HeaderWord) -> float:
    amount = _decimal(word, _MOST_DOLLARS)
    if not amount:
        raise ValueError(word.value)
    return amount


_STRATEGIES: Final[tuple[str, ...]] = get_args(MultitaskStrategy)
_LEVELS: Final[tuple[str, ...]] = get_args(ReasoningLevel)
_FORMATS: Final[tuple[str, ...]] = get_args(AnswerFormat)
_ON_OFF: Final = ("on", "off")

OPTIONS: Final[tuple[OptionSpec, ...]] = (
    OptionSpec(
        name="strategy",
        rule=f"one of {', '.join(_STRATEGIES)}",
        description="What happens to this prompt if a turn is already running.",
        example="enqueue",
        apply=lambda options, word: replace(
            options, strategy=cast("MultitaskStrategy", _one_of(word, _STRATEGIES))
        ),
        values=_STRATEGIES,
    ),
    OptionSpec(
        name="model",
        rule="the name of a model",
        description="The model that answers this prompt, and this prompt alone.",
        example="local",
        apply=lambda options, word: replace(options, model=_words(word)),
        source="models",
    ),
    OptionSpec(
        name="history",
        rule="on or off",
        description="Whether the model sees the conversation before this prompt.",
        example="off",
        apply=lambda options, word: replace(options, history=_switch(word)),
        values=_ON_OFF,
    ),
    OptionSpec(
        name="tools",
        rule="names of tools with commas between them, or none",
        description="The only tools that the turn may use.",
        example="none",
        apply=lambda options, word: replace(options, tools=_tool_names(word)),
        source="tools",
    ),
    OptionSpec(
        name="image",
        rule="paths of images with commas between them",
        description="Images that go with the prompt.",
        example="plot.png",
        apply=lambda options, word: replace(options, image=_paths(word)),
        source="paths",
    ),
    OptionSpec(
        name="from",
        rule="the id of an entry or a cell, or root",
        description="Where in the conversation the turn attaches.",
        example="root",
        apply=lambda options, word: replace(options, from_=_words(word)),
        values=("root",),
    ),
    OptionSpec(
        name="into",
        rule="a Python name",
        description="The Python variable that receives the answer.",
        example="answer",
        apply=lambda options, word: replace(options, into=_identifier(word)),
    ),
    OptionSpec(
        name="format",
        rule=f"one of {', '.join(_FORMATS)}",
        description="The form in which the answer is wanted.",
        example="json",
        apply=lambda options, word: replace(
            options, format=cast("AnswerFormat", _one_of(word, _FORMATS))
        ),
        values=_FORMATS,
    ),
    OptionSpec(
        name="schema",
        rule="the path of a JSON Schema",
        description="The schema that the answer has to meet.",
        example="person.json",
        apply=lambda options, word: replace(options, schema=_words(word)),
        source="paths",
    ),
    OptionSpec(
        name="system",
        rule='a text, in quotes if it has spaces: system="Be brief."',
        description="The system prompt for this turn, instead of the session's.",
        example='"Answer in one sentence."',
        apply=lambda options, word: replace(options, system=_words(word)),
    ),
    OptionSpec(
        name="reasoning",
        rule=f"one of {', '.join(_LEVELS)}",
        description="How hard the model thinks before it answers.",
        example="low",
        apply=lambda options, word: replace(
            options, reasoning=cast("ReasoningLevel", _one_of(word, _LEVELS))
        ),
        values=_LEVELS,
    ),
    OptionSpec(
        name="temperature",
        rule="a number from 0 to 2",
        description="How freely the model samples; 0 is the most repeatable.",
        example="0.2",
        apply=lambda options, word: replace(options, temperature=_decimal(word, 2)),
    ),
    OptionSpec(
        name="seed",
        rule="a whole number from 0 upward",
        description="Makes sampling repeatable where the provider can.",
        example="7",
        apply=lambda options, word: replace(options, seed=_whole(word, 0)),
    ),
    OptionSpec(
        name="max_tokens",
        rule="a whole number from 1 upward",
        description="The number of tokens that the model may write for this prompt.",
        example="500",
        apply=lambda options, word: replace(options, max_tokens=_whole(word, 1)),
    ),
    OptionSpec(
        name="max_turns",
        rule="a whole number from 1 upward",
        description="The number of completions, between tool calls, that it may take.",
        example="5",
        apply=lambda options, word: replace(options, max_turns=_whole(word, 1)),
    ),
    OptionSpec(
        name="max_cost",
        rule="US dollars above 0",
        description="What this prompt may cost; it ends where that is reached.",
        example="0.25",
        apply=lambda options, word: replace(options, max_cost=_dollars(word)),
    ),
    OptionSpec(
        name="expand",
        rule="on or off",
        description="Whether {{name}} in the prompt is replaced by the variable.",
        example="on",
        apply=lambda options, word: replace(options, expand=_switch(word)),
        values=_ON_OFF,
    ),
    OptionSpec(
        name="wait",
        rule="on or off",
        description="Whether the cell stays open until its branch has ended.",
        example="on",
        apply=lambda options, word: replace(options, wait=_switch(word)),
        values=_ON_OFF,
    ),
)
"""Every option of ``%%tau``, in the order in which people are shown them."""

_BY_NAME: Final[Mapping[str, OptionSpec]] = {spec.name: spec for spec in OPTIONS}


def option_named(name: str) -> OptionSpec | None:
    """Give the option called `name`, or None."""
    return _BY_NAME.get(name)


def scan_header(line: str) -> tuple[HeaderWord, ...]:
    """Cut what follows ``%%tau`` into words, without judging them.

    A quote, double or single, opens at the start of a value or of an item after a
    comma; behind its partner comes a comma, or the word ends. Within double quotes a
    backslash keeps a quote or a backslash.
    """
    words: list[HeaderWord] = []
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        words.append(_scan_word(line, at))
        at = words[-1].end
    return tuple(words)


def _scan_word(line: str, start: int) -> HeaderWord:
    key: str | None = None
    items: list[str] = [""]
    item_start = at = start
    quote = ""
    while at < len(line) and (quote or not line[at].isspace()):
        char = line[at]
        at += 1
        if quote and char == quote:
            quote = ""
            if line[at : at + 1] != ",":
                break
        elif quote == '"' and char == "\\" and line[at : at + 1] in {'"', "\\"}:
            items[-1] += line[at]
            at += 1
        elif quote:
            items[-1] += char
        elif key is None and char == "=":
            key, items, item_start = items[0], [""], at
        elif key is not None and char == ",":
            items.append("")
            item_start = at
        elif key is not None and char in "\"'" and not items[-1]:
            quote = char
        else:
            items[-1] += char
    return HeaderWord(
        start=start,
        end=at,
        key=key,
        items=tuple(items),
        item_start=item_start,
        is_closed=not quote,
    )


def parse_options(line: str) -> CellOptions:
    """Read what follows ``%%tau`` on its line.

    Raises:
        CallerError: A word is no ``key=value``, a key is unknown or given twice, a
            value is against its rule or a quote is left open.
    """
    options = CellOptions()
    seen: set[str] = set()
    for word in scan_header(line):
        spec = _spec_of(word)
        if spec.name in seen:
            msg = (
                f"%%tau option {spec.name!r} is given twice\n"
                "each option stands once in the line; remove one of them"
            )
            raise CallerError(msg)
        seen.add(spec.name)
        try:
            options = spec.apply(options, word)
        except ValueError as error:
            raise CallerError(_bad_value(spec, word)) from error
    return options


def check_available(options: CellOptions) -> None:
    """Refuse what the kernel cannot do, or not together, before anything is done.

    Raises:
        CallerError: `options` asks for it.
    """
    for key, sentence in UNAVAILABLE.items():
        name, _, value = key.partition("=")
        asked = getattr(options, name)
        if asked == value if value else asked is not None:
            msg = f"%%tau {key} is not available\n{sentence}"
            raise CallerError(msg)
    if options.wait is not None and options.strategy != "fork":
        msg = (
            "%%tau wait= goes with strategy=fork: every other cell waits for its own "
            "answer\nadd strategy=fork, or leave wait= out"
        )
        raise CallerError(msg)
    if options.into is not None and options.strategy == "fork" and not options.wait:
        msg = (
            f"%%tau into={options.into} needs wait=on: a fork's answer comes after "
            "its cell has ended\nadd wait=on, or leave into= out"
        )
        raise CallerError(msg)


def _spec_of(word: HeaderWord) -> OptionSpec:
    if word.key is None:
        msg = (
            f"%%tau cannot read {_shown(word.value)}: options are key=value\n"
            "write the prompt on the lines beneath, and quote values with spaces: "
            'system="Be brief."'
        )
        raise CallerError(msg)
    spec = _BY_NAME.get(word.key)
    if spec is None:
        raise CallerError(_unknown_key(word.key))
    if not word.is_closed:
        msg = (
            f"%%tau option {spec.name!r} opens a quote that its line does not close\n"
            f"add the closing quote after {_shown(word.value)}"
        )
        raise CallerError(msg)
    return spec


def _unknown_key(key: str) -> str:
    near = get_close_matches(key, _BY_NAME, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"%%tau has no option {_shown(key)}{hint}\n"
        f"its options are {', '.join(_BY_NAME)}\n"
        "correct the key, or move the text to the lines beneath"
    )


def _bad_value(spec: OptionSpec, word: HeaderWord) -> str:
    near = get_close_matches(word.value, spec.values, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"%%tau option {spec.name!r} cannot be {_shown(word.value)}{hint}\n"
        f"give {spec.rule}\n"
        f"for example: %%tau {spec.name}={spec.example}"
    )


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[: _SHOWN - 1] + "…")
