"""``python -m stalltop``: the same as the installed command ``stalltop``."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until a command runs there is nothing to put in order: Ctrl-C ends the program without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from stalltop.cli.main import main

sys.exit(main())
