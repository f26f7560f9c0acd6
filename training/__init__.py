"""What every step of a training has in common."""

import argparse
import contextlib
import math
import signal
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from index.errors import EncoderUnavailable


class Explained(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help with the formulas as they are written, and what holds where nothing is said."""


def arguments(description: str | None, **paths: str) -> argparse.ArgumentParser:
    """Return a step's parser, with these paths by default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=Explained)
    for name, path in paths.items():
        parser.add_argument(f"--{name}", type=Path, default=Path(path), help="path")
    return parser


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """End with one line where a file cannot be read or written, and without a word on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except (OSError, SafetensorError, EncoderUnavailable) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None


def minutes(text: str) -> float:
    """Read how long to train: some time, and not for ever."""
    with contextlib.suppress(ValueError):
        if 0 < (found := float(text)) < math.inf:
            return found
    raise argparse.ArgumentTypeError(f"{text} is no number of minutes above zero")


def steps(text: str) -> int:
    """Read how many steps to make."""
    with contextlib.suppress(ValueError):
        if (found := int(text)) > 0:
            return found
    raise argparse.ArgumentTypeError(f"{text} is no number of steps above zero")
