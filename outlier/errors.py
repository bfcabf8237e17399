"""What the detection engine raises.

One class for each thing a caller can do differently; the facts are attributes, so nobody has to parse a message.
"""


class OutlierError(Exception):
    """Raised when the engine cannot do what it was asked; base of all its errors."""


class ConfigError(OutlierError):
    """Raised when a configuration value is refused.

    Attributes:
        path: Where the value stands, e.g. `max_ejection_percent`.
        value: The value as given.
        rule: What it breaks, in Envoy's words where Envoy has the rule.
    """

    def __init__(self, path: str, value: object, rule: str) -> None:
        super().__init__(f"{path} = {value}; {rule}")
        self.path = path
        self.value = value
        self.rule = rule


class ScenarioError(OutlierError):
    """Raised when a scenario cannot be read or asks for something impossible.

    Attributes:
        path: The step or key at fault, e.g. `steps[3].report.host`.
        reason: What is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
