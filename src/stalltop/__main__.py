"""Runs ``python -m stalltop``, which is the same as the installed command ``stalltop``."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Before a command runs there is nothing to clean up: Ctrl-C ends the program without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from stalltop.cli.main import main

sys.exit(main())
