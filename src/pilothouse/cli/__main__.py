"""``python -m pilothouse.cli``."""

import sys

from pilothouse.cli import main

sys.exit(main())
