"""Make the Python environment: ``python3 tools/bootstrap.py VENV LOCK [PYTHON]``.

It runs before anything is installed, with any Python, so it only uses the standard library, and
reports in one sentence what is missing. Without PYTHON the environment is that of the fastest
Python on PATH.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv

OLDEST = (3, 11)
# pyspark comes as source: these two build it, so they are installed first, and nothing unpinned is
# fetched.
LOG = os.path.join(".cache", "pip.log")
LOCK = os.path.join(".cache", "bootstrap.lock")
BUILDERS = ("setuptools", "wheel", "hatchling", "editables")
# Measured: the environment takes 1.4 GB and the jars 0.3 GB; pip's own files 2.5 GB at most, as it
# builds pyspark.
KEPT_GB, BUILT_GB = 2.0, 2.5
# The tests run with the first one; the next one is only taken where there is none of it.
TRIED = ("python3.11", "python3.12", "python3.13")
# Two builds that differ by less are equally fast: the first one is taken, so that two runs of one
# machine take the same.
FASTER = 0.93
# What a machine of ours does most: calls, attributes, tuples, dicts, struct. 5 times 15 ms of CPU;
# the options that a build was made with do not tell how fast it is.
LOOP = """
import importlib.util, json, struct, sys, time
class Entry:
    def __init__(self, key, value):
        self.key, self.value = key, value
    def size(self):
        return len(self.key) + self.value
def loop():
    found, pack = {}, struct.Struct(">hiq").pack
    for number in range(20000):
        entry = Entry(str(number % 512), number)
        found[entry.key] = (pack(1, number, entry.size()), found.get(entry.key))[0]
    return b"".join(found.values())
def timed():
    began = time.process_time()
    loop()
    return time.process_time() - began
able = importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")
seconds = min(timed() for _ in range(5))
print(json.dumps([sys.base_prefix, sys.version.split()[0], bool(able), seconds]))
"""


def speed(path):
    """Where a Python is installed, its version and seconds; None: it can make no environment."""
    command = [path, "-I", "-c", LOOP]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=True)
        prefix, version, able, seconds = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return (prefix, version, seconds) if able else None


def fastest():
    """The path of the fastest Python on PATH that can make an environment, and why it is taken.

    Only builds of the first version that is there are compared. None and "": there is none.
    """
    found = {}
    for name in TRIED:
        for folder in os.get_exec_path():
            path = shutil.which(name, path=folder)
            measured = path and speed(path)
            if measured:
                prefix, version, seconds = measured
                found.setdefault(prefix, (path, version, seconds))
        if found:
            break
    best = None
    for one in found.values():
        if best is None or one[2] < FASTER * best[2]:
            best = one
    if best is None:
        return None, ""
    others = [one for one in found.values() if one is not best]
    beside = ", ".join(f"{seconds / best[2]:.2f} {path}" for path, _, seconds in others)
    times = f"; a loop takes there, with 1 for this one: {beside}" if others else ""
    return best[0], f"Python {best[1]}, {best[0]}{times} (PYTHON=... takes another)"


def too_little(kept, built):
    """What to do if there is too little room; None if there is enough.

    ``kept`` and ``built`` are the folders of the environment and of temporary files.
    """
    needed = {kept: KEPT_GB}
    if os.stat(kept).st_dev == os.stat(built).st_dev:
        needed[kept] += BUILT_GB
    else:
        needed[built] = BUILT_GB
    for folder, gb in needed.items():
        free = shutil.disk_usage(folder).free / 1e9
        if free < gb:
            return (
                f"The disk of {folder} has {free:.1f} GB free and the Python packages, with Spark, "
                f"need {gb:.1f} GB there: free some and run make again"
            )
    return None


def make_venv(target):
    """Create the environment if it is not there; returns the pip command that installs into it."""
    python = os.path.join(target, "bin", "python")
    own_pip = importlib.util.find_spec("ensurepip") is not None
    if not os.path.exists(python):
        venv.EnvBuilder(with_pip=own_pip, clear=True).create(target)
    for pip in ([python, "-m", "pip"], [sys.executable, "-m", "pip", "--python", python]):
        if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0:
            return pip
    sys.exit(
        "Neither ensurepip nor pip is there: install your system's python3-venv package "
        "and run make again"
    )


def install(pip, *arguments):
    """Run pip install; on failure exit with its last line, which has the reason."""
    command = [*pip, "install", "-q", "--disable-pip-version-check", "--no-build-isolation"]
    done = subprocess.run([*command, *arguments], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        with open(LOG, "w") as log:
            log.write(done.stderr)
        lines = [line.strip() for line in done.stderr.splitlines()]
        errors = [line for line in lines if line.lower().startswith("error")]
        why = (errors or lines or ["it said nothing"])[0].partition(":")[2].strip()
        sys.exit(f"The Python packages could not be installed ({why}); pip's words are in {LOG}")


def needed_to_build(lock):
    """The part of the lock that builds packages: BUILDERS and what hatchling needs."""
    with open(lock) as file:
        entries = re.split(r"\n(?=\S)", file.read())
    names = (*BUILDERS, "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers")
    return "\n".join(entry for entry in entries if entry.split("==")[0] in names) + "\n"


def main():
    """Make the environment hold what the lock pins, and this project from its checkout."""
    target, lock = sys.argv[1:3]
    given, own = sys.argv[3:], os.path.join(target, "bin", "python")
    if not given and os.path.exists(own):
        given = [own]  # python3 of this system may be too old for it
    elif not given:
        path, why = fastest()
        if path:
            sys.stderr.write(why + "\n")
            given = [path]
    if any(given):
        # An empty text in place of the path: it is this one now.
        os.execvp(given[0], [given[0], os.path.abspath(__file__), target, lock, ""])
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"Python 3.11 or newer is needed, this is {found}: set PYTHON=/path/to/python3.11")
    done = os.path.join(target, ".installed")
    # Not by the time of day: times of files come from a clock that is some milliseconds late.
    before = written(done)
    with alone():
        if written(done) != before:
            return  # by the process that held the lock
        make(target, lock)
        with open(done, "w"):
            pass


def written(file):
    """When a file was written, in ns; None: it is not there."""
    return os.stat(file).st_mtime_ns if os.path.exists(file) else None


@contextlib.contextmanager
def alone():
    """Inside, no other make of this checkout makes the environment: two would spoil it."""
    os.makedirs(os.path.dirname(LOCK), exist_ok=True)
    with open(LOCK, "w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("Another make sets up the Python packages: this one waits for it\n")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def make(target, lock):
    """Make the environment; see `main`."""
    if not os.path.exists(target):
        problem = too_little(os.path.dirname(os.path.abspath(target)), tempfile.gettempdir())
        if problem:
            sys.exit(problem)
    pip = make_venv(target)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as builders:
        builders.write(needed_to_build(lock))
        builders.flush()
        install(pip, "--require-hashes", "-r", builders.name)
    install(pip, "--require-hashes", "-r", lock)
    install(pip, "--no-deps", "-e", ".")


if __name__ == "__main__":
    main()
