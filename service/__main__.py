"""``python -m service``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    try:
        from .cli import main

        main()
    except KeyboardInterrupt:  # before click, which knows it, is there
        sys.exit(1)
