"""What a sidecar is started with, read from the places where it can be set.

Precedence: default < bootstrap file < environment `OUTLIER_<NAME>` < command line; a list set in one place replaces
that of the place before.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from outlier import ConfigError, OutlierError
from proxy.config.bootstrap import STDOUT, Bootstrap, options
from proxy.config.health_check_reader import read_health_checks
from proxy.config.mesh_reader import read_mesh
from proxy.config.option import Option

_HEALTH_CHECKS = "health_checks"
_MESH = "mesh"


class BootstrapError(OutlierError):
    """Raised when a bootstrap file cannot be read as a mapping.

    Attributes:
        path: The file.
        reason: Why not.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def load_bootstrap(
    file: Path | None, environment: Mapping[str, str], command_line: Mapping[str, str | list[str]]
) -> Bootstrap:
    """Merge the places an option can be set in.

    Args:
        file: The bootstrap file, YAML; None when there is none.
        environment: `os.environ`, or what stands for it; variables that are not ours are ignored.
        command_line: Option name -> text, or list of texts for a repeatable one; only what was given.

    Raises:
        BootstrapError: The file cannot be read, or is not a mapping.
        ConfigError: A value is refused; its path names the place: `boot.yaml: listen`, `OUTLIER_LISTEN`, `--listen`.
    """
    values: dict[str, Any] = {}
    from_file: dict[str, Any] = {}
    if file is not None:
        text = _read_file(file)
        from_file = _options_of(file, text)
        if _HEALTH_CHECKS in from_file:
            checks = read_health_checks(from_file.pop(_HEALTH_CHECKS), f"{file}: {_HEALTH_CHECKS}", file.parent)
            values[_HEALTH_CHECKS] = checks
        if from_file.pop(_MESH, None) is not None:
            values[_MESH] = read_mesh(text, f"{file}: {_MESH}")
    known = {option.name for option in options()}
    for key in from_file:
        if key not in known:
            raise ConfigError(f"{file}: {key}", from_file[key], "is not an option of outlier run")
    for option in options():
        if option.name in command_line:
            given = command_line[option.name]
            texts = given if isinstance(given, list) else [given]
            values[option.field] = _read(option, texts, option.flag)
        elif option.environment_variable in environment:
            text = environment[option.environment_variable]
            values[option.field] = _read(option, [text], option.environment_variable)
        elif file is not None and option.name in from_file:
            place = f"{file}: {option.name}"
            texts = _texts_of(option, from_file[option.name], place)
            values[option.field] = _relative_to(file, option, _read(option, texts, place))
    bootstrap = Bootstrap(**values)
    if bootstrap.tls_problem is not None:
        name, rule = bootstrap.tls_problem
        raise ConfigError(name, getattr(bootstrap, name), rule)
    return bootstrap


def _read(option: Option, texts: list[str], place: str) -> Any:
    if option.many:
        texts = [part for text in texts for part in text.split(",")]
    read = []
    for text in texts:
        try:
            read.append(option.read(text))
        except ValueError as exc:
            raise ConfigError(place, text, str(exc)) from exc
    return tuple(read) if option.many else read[0]


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as exc:
        raise BootstrapError(file, exc.strerror or "cannot be read") from exc
    except UnicodeDecodeError as exc:
        raise BootstrapError(file, str(exc)) from exc


def _options_of(file: Path, text: str) -> dict[str, Any]:
    try:
        # Every scalar stays text: a release "1.40" must not become the number 1.4.
        content = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506
    except yaml.YAMLError as exc:
        raise BootstrapError(file, " ".join(str(exc).split())) from exc
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BootstrapError(file, "must hold a mapping of options")
    return content


def _texts_of(option: Option, value: Any, place: str) -> list[str]:
    if option.pairs and isinstance(value, dict):
        return [f"{key}={item}" for key, item in value.items()]
    items = value if option.many and isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise ConfigError(place, item, "must be text" + (" or a list of texts" if option.many else ""))
    return items


def _relative_to(file: Path, option: Option, value: Any) -> Any:
    if not option.is_path:
        return value
    if option.many:
        return tuple(file.parent / path for path in value)
    return value if value == STDOUT else file.parent / value
