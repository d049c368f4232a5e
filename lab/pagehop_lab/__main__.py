"""`python -m pagehop_lab` is `pagehop-lab`."""

import sys

from pagehop_lab.command import main

sys.exit(main())
