"""The options of `outlier run` on a command line, for the commands that take them."""

import argparse
import enum
import os
from pathlib import Path
from typing import Any

from proxy.config.bootstrap import Bootstrap, options
from proxy.config.bootstrap_loader import load_bootstrap
from proxy.config.option import ENVIRONMENT_PREFIX, Option

BOOTSTRAP_VARIABLE = ENVIRONMENT_PREFIX + "BOOTSTRAP"


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap` and one flag for each option; read them back with `bootstrap_from_args`."""
    parser.add_argument(
        "--bootstrap",
        metavar="FILE",
        help=f"YAML file of these options, without the dashes and with _ for - (environment {BOOTSTRAP_VARIABLE})",
    )
    for option in options():
        parser.add_argument(
            option.flag,
            dest=option.name,
            metavar=option.metavar,
            help=option.help + (f" (default {default_text(option)})" if default_text(option) else ""),
            action="append" if option.many else "store",
            default=argparse.SUPPRESS,
        )


def bootstrap_from_args(args: argparse.Namespace) -> Bootstrap:
    """Merge defaults, bootstrap file, the process's environment and the parsed flags.

    Raises:
        BootstrapError: The bootstrap file cannot be read.
        ConfigError: A value is refused.
    """
    given = vars(args)
    file = args.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE)
    command_line = {option.name: given[option.name] for option in options() if option.name in given}
    return load_bootstrap(Path(file) if file else None, os.environ, command_line)


def default_text(option: Option) -> str:
    """Return the default as it would be written on the command line; empty when there is none."""
    value: Any = getattr(Bootstrap(), option.field)
    if option.field.endswith("_ms"):
        return f"{value / 1000:g}"
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, ()) else str(value)
