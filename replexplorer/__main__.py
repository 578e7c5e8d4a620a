"""`python -m replexplorer`."""

import sys

from replexplorer.cli import main

sys.exit(main())
