"""What a person types as a command: read, resolved, completed and dispatched.

Only the whole of a text can be a command, and only if its first word is known: a slash
before any other word is prose. Deciding runs nothing; carrying out what `dispatch`
leads to is left to the head and its session.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tau_kernel.errors import UnsupportedCommandError

from .capabilities import slash_vocabulary
from .domains import DomainValue, DomainValues, RuntimePort, SessionPort
from .flows import bind_command_args, enumerate_domain, next_step
from .outcome import Dispatched, Performed, View
from .spec import Argument, Domain, Flow
from .vocabulary import (
    BUILTINS,
    EXTENSION_VIEW_VERBS,
    CommandOrigin,
    CommandSpec,
    TextCommand,
    ViewCommand,
    Vocabulary,
)

__all__ = [
    "EXTENSION_VIEW_VERBS",
    "FRONTEND_COMMANDS",
    "ArgumentSlot",
    "CommandCompletions",
    "CommandInvocation",
    "CommandOrigin",
    "UnsupportedCommandError",
    "complete_command",
    "complete_command_argument",
    "dispatch_builtin",
    "enumerate_slot",
    "extension_performed",
    "parse_command",
    "resolve_command",
    "unsupported_command_message",
]

#: The built-in commands with a line on each.
FRONTEND_COMMANDS: Final[Mapping[str, str]] = MappingProxyType(slash_vocabulary())

_VIEW_OF_VERBS: Final = "extensions"
_VERB: Final = Argument("action", "extension_action", "What is to happen to it?")
_VERBS: Final = Domain(
    "extension_action",
    "What can be done with an extension.",
    values=tuple(EXTENSION_VIEW_VERBS),
    field_kind="select",
)
_NO_COMMANDS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CommandInvocation:
    """A command as somebody wrote it.

    Args:
        name: Its name, without the slash.
        args: What follows the name, stripped.
        origin: Who declared it.
    """

    name: str
    args: str
    origin: CommandOrigin


@dataclass(frozen=True, slots=True)
class CommandCompletions:
    """The commands that a typed word may become.

    Args:
        token: The word, with its slash; what a choice replaces.
        matches: The commands, in the vocabulary's order.
    """

    token: str
    matches: tuple[CommandSpec, ...]


@dataclass(frozen=True, slots=True)
class ArgumentSlot:
    """The place of an argument in a command that is being typed.

    Args:
        command: The command's name.
        argument: What is being typed.
        domain: The argument's domain.
        query: What is there already.
        start: Where it begins in the text, in code points.
        end: Where it ends; a choice replaces the part between the two.
    """

    command: str
    argument: Argument
    domain: Domain
    query: str
    start: int
    end: int


def parse_command(text: str) -> tuple[str, str] | None:
    """Give the name and the arguments that a text has if it is a command.

    The name ends at the first space and nowhere else, so a command that is followed by
    a line break has a name that nobody declares, and stays prose.

    Returns:
        The name without its slash and the rest, stripped; None if no slash leads.
    """
    stripped = text.strip()
    if not stripped.startswith("/"):
        return None
    name, _, args = stripped[1:].partition(" ")
    return name, args.strip()


def resolve_command(
    text: str,
    extension_commands: Collection[str] = (),
    *,
    vocabulary: Vocabulary = BUILTINS,
) -> CommandInvocation | None:
    """Tell which command a text is, or None if it is prose.

    Args:
        text: What was typed.
        extension_commands: Names of commands that are not in the vocabulary; one that
            is there as well is hidden by it.
        vocabulary: The commands that are declared.
    """
    parsed = parse_command(text)
    if parsed is None:
        return None
    name, args = parsed
    if name in vocabulary.commands:
        return CommandInvocation(name, args, vocabulary.commands[name].origin)
    if name in extension_commands:
        return CommandInvocation(name, args, "extension")
    return None


def dispatch_builtin(
    name: str,
    args: str,
    *,
    cursor: str | None,
    vocabulary: Vocabulary = BUILTINS,
) -> Dispatched:
    """Tell what a command with its arguments has come to; nothing is carried out.

    ``/extensions enable PATH`` and its like are the flows that `EXTENSION_VIEW_VERBS`
    names.

    Args:
        name: The command, without its slash.
        args: What was typed after it.
        cursor: The log's cursor, for arguments with a scope.
        vocabulary: The commands that are declared.

    Raises:
        UnknownFlowError: No command has that name.
        UnsupportedCommandError: The command takes no arguments, or not these; or its
            extension has to run it.
        CallerError: The argument is no value of its domain.
    """
    spec = vocabulary.commands.get(name)
    if spec is not None and not spec.takes_text:
        _refuse_arguments(name, args)
    match None if spec is None else spec.declared:
        case ViewCommand() if args.strip():
            flow, target = _extension_action(args)
            return _stepped(flow, target, cursor, vocabulary)
        case ViewCommand():
            return View(name, unavailable_because=_no_state(name))
        case TextCommand():
            msg = (
                f"/{name} is run by its extension {vocabulary.commands[name].owner!r}; "
                "use the session's run_extension_command"
            )
            raise UnsupportedCommandError(msg)
        case Flow() | None:
            return _stepped(name, args, cursor, vocabulary)


def extension_performed(
    command: str, output: str | None, *, cursor: str | None
) -> Performed:
    """Give what a command of an extension gave back.

    Its data is what `COMMAND_OUTPUT` says, whatever the extension; there is no cursor
    in it.
    """
    return Performed(command, "run_extension_command", {"output": output}, cursor)


def complete_command(
    text: str,
    extension_commands: Mapping[str, str] = _NO_COMMANDS,
    *,
    vocabulary: Vocabulary = BUILTINS,
) -> CommandCompletions | None:
    """Give the commands that a text may be the start of.

    Args:
        text: What stands before the cursor.
        extension_commands: Commands that are not in the vocabulary, by name, with a
            line on each.
        vocabulary: The commands that are declared.

    Returns:
        The commands that begin with the typed word. Behind a space there is only the
        command itself. None if the text is no start of a command.
    """
    word, has_space = _first_word(text)
    if not word.startswith("/"):
        return None
    known = _known(extension_commands, vocabulary)
    name = word[1:]
    if has_space:
        return CommandCompletions(word, (known[name],)) if name in known else None
    matches = tuple(spec for spec in known.values() if spec.name.startswith(name))
    return CommandCompletions(word, matches)


def complete_command_argument(
    text: str, *, vocabulary: Vocabulary = BUILTINS
) -> ArgumentSlot | None:
    """Give the argument that a text ends in, if it is a command that takes one.

    A flow with several arguments has none here, for nobody could tell them apart. Of
    a list, it is the last value.

    Args:
        text: What stands before the cursor.
        vocabulary: The commands that are declared.
    """
    word, has_space = _first_word(text)
    spec = vocabulary.commands.get(word[1:])
    if not word.startswith("/") or not has_space or spec is None:
        return None
    start = _argument_start(text, text.index(word) + len(word))
    if isinstance(spec.declared, ViewCommand) and spec.takes_text:
        return _verb_or_target(text, start, vocabulary)
    if len(spec.arguments) != 1:
        return None
    argument = spec.arguments[0]
    if argument.cardinality == "many":
        start = max(start, len(text) - len(text.rsplit(" ", maxsplit=1)[-1]))
    return _slot(spec.name, argument, vocabulary.domains[argument.domain], text, start)


def enumerate_slot(
    slot: ArgumentSlot,
    *,
    session: SessionPort | None = None,
    runtime: RuntimePort | None = None,
    cursor: str | None = None,
    vocabulary: Vocabulary = BUILTINS,
) -> DomainValues:
    """Give the values that fit what is typed in a slot.

    Fixed values are those that begin with it, in any case; for all others see
    `enumerate_domain`, which raises what this raises.
    """
    if slot.domain.values is None:
        return enumerate_domain(
            slot.domain.name,
            session=session,
            runtime=runtime,
            scope=slot.argument.scope,
            cursor=cursor,
            query=slot.query,
            vocabulary=vocabulary,
        )
    typed = slot.query.casefold()
    values = tuple(
        DomainValue(value, value)
        for value in slot.domain.values
        if value.casefold().startswith(typed)
    )
    return DomainValues(slot.domain.name, values, len(values))


def unsupported_command_message(name: str, frontend: str) -> str:
    """Give the sentence for a command that a head cannot carry out."""
    return (
        f"/{name} is not supported in {frontend}; nothing was done. "
        "Use a head that can show it, or write prose that begins with another word"
    )


def _first_word(text: str) -> tuple[str, bool]:
    """Give the first word of a text, and whether a space ends it."""
    word, space, _ = text.lstrip().partition(" ")
    return word, bool(space)


def _argument_start(text: str, after: int) -> int:
    rest = text[after:]
    return len(text) - len(rest.lstrip())


def _verb_or_target(
    text: str, start: int, vocabulary: Vocabulary
) -> ArgumentSlot | None:
    """Give the slot after ``/extensions``: a verb, then what it is done to."""
    verb, space, _ = text[start:].partition(" ")
    if not space:
        return _slot(_VIEW_OF_VERBS, _VERB, _VERBS, text, start)
    flow = EXTENSION_VIEW_VERBS.get(verb)
    if flow is None:
        return None
    (target,) = vocabulary.commands[flow].arguments
    begin = _argument_start(text, start + len(verb))
    domain = vocabulary.domains[target.domain]
    return _slot(_VIEW_OF_VERBS, target, domain, text, begin)


def _slot(
    command: str, argument: Argument, domain: Domain, text: str, start: int
) -> ArgumentSlot:
    return ArgumentSlot(command, argument, domain, text[start:], start, len(text))


def _known(
    extension_commands: Mapping[str, str], vocabulary: Vocabulary
) -> dict[str, CommandSpec]:
    known = dict(vocabulary.commands)
    for name, description in extension_commands.items():
        declared = TextCommand(name=name, description=description)
        more = CommandSpec(declared=declared, owner="extension", origin="extension")
        known.setdefault(name, more)
    return known


def _stepped(
    flow: str, args: str, cursor: str | None, vocabulary: Vocabulary
) -> Dispatched:
    bound = bind_command_args(flow, args, vocabulary=vocabulary)
    return next_step(flow, bound, cursor, vocabulary=vocabulary)


def _extension_action(args: str) -> tuple[str, str]:
    verb, _, target = args.strip().partition(" ")
    if verb not in EXTENSION_VIEW_VERBS:
        verbs = ", ".join(EXTENSION_VIEW_VERBS)
        msg = (
            f"/extensions {args.strip()!r} names no action: {verb!r} is none of "
            f"{verbs}; write /extensions alone to see them"
        )
        raise UnsupportedCommandError(msg)
    return EXTENSION_VIEW_VERBS[verb], target.strip()


def _refuse_arguments(name: str, args: str) -> None:
    if args.strip():
        msg = f"/{name} takes no arguments, got {args!r}; write /{name} alone"
        raise UnsupportedCommandError(msg)


def _no_state(name: str) -> str:
    return f"The core projects no state for the view {name!r}; a head has to draw it."
