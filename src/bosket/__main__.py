"""`python -m bosket`: the command line, where the script `bosket` isn't on the path."""

import sys

from bosket.cli.main import main

sys.exit(main())
