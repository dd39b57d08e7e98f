"""``python -m pilothouse``."""

import sys

from pilothouse.cli import main

sys.exit(main())
