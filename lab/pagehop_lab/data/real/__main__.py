"""`python -m pagehop_lab.data.real NAME...`, started by `./dev data`: makes real sets into the data folder."""

import sys

from pagehop_lab.data.real.command import main

if __name__ == "__main__":
    sys.exit(main())
