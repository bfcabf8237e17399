"""`outlier completion SHELL`: a script that completes commands, options and values of options in bash, zsh or fish.

Made from the parsers themselves, so it knows what they know. Everything without a list of values completes to files.
"""

import argparse
import enum
import re
import shlex
import sys
from collections.abc import Callable, Mapping

import attrs

from proxy.config.bootstrap import Bootstrap, options

Commands = Mapping[str, argparse.ArgumentParser]


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `outlier completion`."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes this command line in a shell",
        description="Print a script that completes commands, options and their values; the shell runs it at its start.",
        epilog="example: outlier completion bash > ~/.local/share/bash-completion/completions/outlier",
    )
    parser.add_argument("shell", choices=sorted(_SCRIPTS), help="the shell the script is for")
    parser.set_defaults(commands=subparsers.choices)  # complete by the time that `run` reads it


def run(args: argparse.Namespace) -> int:
    """Print the script and return 0."""
    sys.stdout.write(_SCRIPTS[args.shell](args.commands))
    return 0


@attrs.frozen
class _Option:
    """One option: its flags, the values to choose from (none: a file, or anything), and whether it takes a value."""

    flags: tuple[str, ...]
    choices: tuple[str, ...]
    takes_value: bool
    help: str


def _options(parser: argparse.ArgumentParser) -> list[_Option]:
    return [
        _Option(
            flags=tuple(action.option_strings),
            choices=_choices(action),
            takes_value=action.nargs != 0,
            help=_first_words(action.help),
        )
        for action in parser._actions  # argparse has no public way to its options
        if action.option_strings and action.help != argparse.SUPPRESS
    ]


def _positional_choices(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    return tuple(choice for action in parser._actions if not action.option_strings for choice in _choices(action))


def _choices(action: argparse.Action) -> tuple[str, ...]:
    """Return the values to choose from; those of `outlier run` are checked later than by its parser."""
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    defaults = {option.name: getattr(Bootstrap(), option.field) for option in options()}
    default = defaults.get(action.dest)
    return tuple(str(member.value) for member in type(default)) if isinstance(default, enum.Enum) else ()


def _first_words(help_text: str | None) -> str:
    return re.split(r"[:;,(]", help_text or "")[0].strip().replace("%%", "%")


def _bash(commands: Commands) -> str:
    cases, values = [], []
    for name, parser in commands.items():
        words = [flag for option in _options(parser) for flag in option.flags]
        cases.append(f"    {name}) words={shlex.quote(' '.join([*_positional_choices(parser), *words]))} ;;")
        by_choices: dict[tuple[str, ...], list[str]] = {}
        for option in _options(parser):
            if option.takes_value:
                by_choices.setdefault(option.choices, []).extend(shlex.quote(f"{name} {f}") for f in option.flags)
        values += [
            f"    {'|'.join(flags)}) words={shlex.quote(' '.join(choices))} ;;" for choices, flags in by_choices.items()
        ]
    newline = "\n"
    return f"""\
_outlier() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=
  if [ "$COMP_CWORD" -eq 1 ]; then words={shlex.quote(" ".join(commands))}; else
    case $command in
{newline.join(f"  {line}" for line in cases)}
    esac
    case "$command $previous" in
{newline.join(f"  {line}" for line in values)}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _outlier outlier
"""


def _zsh(commands: Commands) -> str:
    lines = ["#compdef outlier", "_outlier() {", "  if (( CURRENT == 2 )); then", "    local -a commands=("]
    lines += [f"      {shlex.quote(f'{name}:{_help_of(parser)}')}" for name, parser in commands.items()]
    lines += ["    )", "    _describe command commands", "    return", "  fi", "  case $words[2] in"]
    for name, parser in commands.items():
        specs = []
        for option in _options(parser):
            for flag in option.flags:
                value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
                about = option.help.replace("[", "(").replace("]", ")")
                specs.append(shlex.quote(f"*{flag}[{about}]{value if option.takes_value else ''}"))
        chosen = _positional_choices(parser)
        specs.append(shlex.quote(f"*:argument:({' '.join(chosen)})" if chosen else "*:file:_files"))
        # The words after the command are all that `_arguments` is to see.
        lines.append(f"    {name}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} ;;")
    return "\n".join([*lines, "  esac", "}", "compdef _outlier outlier"]) + "\n"


def _fish(commands: Commands) -> str:
    lines = []
    for name, parser in commands.items():
        lines.append(f"complete -c outlier -f -n __fish_use_subcommand -a {name} -d {shlex.quote(_help_of(parser))}")
        here = f"complete -c outlier -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{here} -f -a {choice}" for choice in _positional_choices(parser)]
        for option in _options(parser):
            flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
            value = f" -x -a {shlex.quote(' '.join(option.choices))}" if option.choices else " -r"
            about = f" -d {shlex.quote(option.help)}" if option.help else ""
            lines.append(f"{here} {flags}{value if option.takes_value else ''}{about}")
    return "\n".join(lines) + "\n"


def _help_of(parser: argparse.ArgumentParser) -> str:
    return re.split(r"[.:;,](?:\s|$)", parser.description or "")[0]


_SCRIPTS: Mapping[str, Callable[[Commands], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
