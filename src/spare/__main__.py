"""`python -m spare` is the command `spare`."""

import sys

from spare.commands.entry import main

sys.exit(main())
