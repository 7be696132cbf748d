"""`python -m pyinformer` is the command `pyinformer`."""

import sys

from pyinformer_command import main

if __name__ == "__main__":
    sys.exit(main())
