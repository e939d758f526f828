"""`python -m spare` is the command `spare`."""

import sys

from spare.commands.cli import main

sys.exit(main())
