"""`python -m spare` is the command `spare`."""

import sys

from spare.cli import main

sys.exit(main())
