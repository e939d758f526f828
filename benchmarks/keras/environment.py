"""The extra environment `.venv-keras`, the only place where TensorFlow is installed."""

import hashlib
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PINS = pathlib.Path(__file__).with_name("constraints.txt")


def keras_python() -> pathlib.Path:
    """The interpreter of the extra environment, made and filled if it is missing or out of date."""
    home = ROOT / ".venv-keras"
    python, stamp = home / "bin" / "python", home / "ready"
    digest = hashlib.sha256(PINS.read_bytes() + sys.version.encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return python
    if not python.exists():
        print("creating .venv-keras ...", file=sys.stderr)
        venv.create(home, with_pip=True)
    print("installing TensorFlow (a few minutes the first time) ...", file=sys.stderr)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(PINS)]
    done = subprocess.run([*pip, "tensorflow-cpu"], check=False)
    if done.returncode:
        raise SystemExit("installing TensorFlow failed; see the message above (is a package index reachable?)")
    stamp.write_text(digest)
    return python
