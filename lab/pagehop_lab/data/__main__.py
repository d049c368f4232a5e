"""`python -m pagehop_lab.data NAME...`, started by `./dev data`: makes sets in the data folder."""

import sys

from pagehop_lab.data.command import main

if __name__ == "__main__":
    sys.exit(main())
