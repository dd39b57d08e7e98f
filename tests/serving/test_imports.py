"""Importing the server loads no heavy libraries before something is served."""

import subprocess
import sys


def test_heavy_libraries_are_imported_lazily() -> None:
    code = (
        "import sys; sys.path[:] = eval(sys.argv[1]); import pilothouse.serving, pilothouse.serving.certificates\n"
        "heavy = ('httptools', 'cryptography')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, repr(sys.path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
