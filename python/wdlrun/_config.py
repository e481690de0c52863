"""The configuration of a training: the text that `wdlrun init` proposes, and changes to it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from ._binary import binary
from ._process import call
from ._table import Written


class Config:
    """A configuration. text is YAML with a comment for each choice; lines marked CHECK need a look.

    config["train.epochs"] = 3 sets a key; str(config) shows the text and the keys that were set. label
    is the label with the value that means 1, if init proposed it.
    """

    def __init__(self, text, data=None, settings=None, label=None):
        self.text, self.data, self.settings, self.label = text, data, dict(settings or {}), label

    def __setitem__(self, key, value):
        self.settings[key] = value

    def __getitem__(self, key):
        """Returns a key that was set here; text has the others."""
        return self.settings[key]

    def __str__(self):
        return "".join([self.text, *(f"# set: {s}\n" for s in arguments(self.settings))])

    __repr__ = __str__

    def save(self, path):
        """Writes the text to a file. Keys that were set are not part of it."""
        Path(path).write_text(self.text, encoding="utf-8")


def init(data, label=None):
    """Reads a sample of data (a DataFrame or paths) and returns a proposed configuration with the evidence for it."""
    with tempfile.TemporaryDirectory(prefix="wdlrun-") as folder:
        return propose(Written(data, folder, "data"), data, label)


def propose(written, data, label):
    command = ["init", *(["-label", label] if label else []), "-json", "-data", *written.files]
    proposed = json.loads(call(binary(), command, verbose=False))
    return Config(proposed["config"], data, label=_meaning(proposed))


def _meaning(proposed):
    """Returns the label and what its 1 means, in words."""
    if proposed.get("label_ones"):
        return f"{proposed['label']}: 1 is {', '.join(map(repr, proposed['label_ones']))}"
    if proposed.get("label_from") is not None:
        return f"{proposed['label']}: 1 is {proposed['label_from']} or more"
    return str(proposed.get("label"))


def load(config):
    """Returns a Config from YAML, a path, a Config or None."""
    if config is None or isinstance(config, Config):
        return config
    if isinstance(config, str) and "\n" in config:
        return Config(config)
    return Config(Path(os.fspath(config)).read_text(encoding="utf-8"))


def named(settings):
    """Returns keyword arguments as keys: train__epochs is train.epochs."""
    return {key.replace("__", "."): value for key, value in settings.items()}


def arguments(settings):
    """Returns settings in the form KEY=VALUE."""
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()]


def flags(settings):
    """Returns the flags -set KEY=VALUE."""
    return [word for setting in arguments(settings) for word in ("-set", setting)]
