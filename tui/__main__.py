"""``python -m tui``: the same as the installed command ``stalltop``."""

import sys

from tui.cli import main

sys.exit(main())
