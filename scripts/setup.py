"""Make `.venv` with everything the project needs, pinned by constraints.txt. Runs on a bare Python."""

import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOWEST, HIGHEST = (3, 11), (3, 13)


def main() -> int:
    """Create or refresh the environment; do nothing when it is up to date."""
    if not LOWEST <= sys.version_info[:2] <= HIGHEST:
        have = ".".join(map(str, sys.version_info[:3]))
        print(f"SPARE needs Python 3.11 to 3.13; this is {have}. Try: make PYTHON=python3.11 test", file=sys.stderr)
        return 1
    inputs = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs) + sys.version.encode()).hexdigest()
    stamp, python = ROOT / ".venv" / "ready", ROOT / ".venv" / "bin" / "python"
    if stamp.exists() and stamp.read_text() == digest and python.exists():
        return 0
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        print("Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv", file=sys.stderr)
        return 1
    if not python.exists():
        print("creating .venv ...")
        venv.create(ROOT / ".venv", with_pip=True)
    print("installing (a few minutes the first time) ...")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
    # The environment in which pip builds the package sees no options: older pips read the first name, newer the second.
    pins = {name: str(ROOT / "constraints.txt") for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
    done = subprocess.run(
        [*pip, "-e", ".[lab,planning,tables,cluster,dev]"], cwd=ROOT, env={**os.environ, **pins}, check=False
    )
    if done.returncode:
        print("installing failed; see the message above (is a package index reachable?)", file=sys.stderr)
        return 1
    stamp.write_text(digest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
