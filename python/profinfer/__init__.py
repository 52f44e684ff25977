"""Record inference engines with profinfer, and read its traces as Arrow tables.

Times are in nanoseconds of the trace's clock, from the recording's start; sizes are in bytes. What was not recorded is null,
never 0. ``docs/export.md`` of the project lists the columns of each table.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import deque
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Sequence

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Error", "Recording", "Trace", "program", "read", "record"]


# What the live line begins with, each time that it is shown: it clears the line of a terminal.
_CLEAR = b"\x1b[2K"
# Bounds of what an error shows of the program's messages: lines, and bytes of one.
_MOST_LINES, _MOST_BYTES = 1000, 1 << 16
# What is left to read once the program has ended is there at once.
_READER_SECONDS = 10


class Error(Exception):
    """profinfer refused: its own message, with the remedy."""


def program() -> str:
    """The profinfer program of this package; else the one in ``PATH``.

    Raises:
        Error: there is neither.
    """
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for path in [*_installed_with_this_module(), *(os.path.join(folder, "profinfer") for folder in folders)]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("profinfer")
    if found is None:
        raise Error("the profinfer program is not installed; install it with `pip install profinfer`")
    return found


def _installed_with_this_module() -> list[str]:
    """The program that was installed together with this module: others may be of other versions."""
    try:
        files = metadata.files("profinfer") or []
    except metadata.PackageNotFoundError:
        return []
    here = os.path.realpath(__file__)
    # A copy of this module that ``PYTHONPATH`` names is not of the package.
    if not any(file.name == "__init__.py" and os.path.realpath(file.locate()) == here for file in files):
        return []
    return [os.path.realpath(file.locate()) for file in files if file.name == "profinfer" and file.parent.name == "bin"]


def _folder_on_disk() -> str | None:
    """The folder for large temporary files. ``TMPDIR`` is the user's choice; ``/tmp`` may be in memory."""
    others = os.environ.get("TMPDIR") is None and os.access("/var/tmp", os.W_OK | os.X_OK)
    return "/var/tmp" if others else None


def _run(words: Sequence[str]) -> bytes:
    """The output of a subcommand. Exit status 4: the trace is incomplete, as its tables and report show."""
    finished = subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if finished.returncode not in (0, 4):
        raise Error(finished.stderr.decode(errors="replace").strip())
    return finished.stdout


class Trace:
    """A trace. Each table is made when it is first asked for, and is mapped from a private temporary file in ``TMPDIR``,
    else in ``/var/tmp``: where that folder is on disk, memory does not grow with the trace."""

    def __init__(self, path: str | os.PathLike[str], engine: str | None = None) -> None:
        self.path = Path(path)
        self._engine = [] if engine is None else ["--engine", engine]
        self._folder = tempfile.TemporaryDirectory(prefix="profinfer-", dir=_folder_on_disk())
        self._tables: dict[str, pyarrow.Table] = {}
        if not self.path.is_file():
            raise Error(f"{self.path} is not a file")

    def __repr__(self) -> str:
        return f"profinfer.Trace({str(self.path)!r})"

    def table(self, name: str) -> pyarrow.Table:
        """A table as Arrow, without copying: ``to_pandas()``, ``polars.from_arrow`` and DuckDB take it.

        Raises:
            Error: the trace cannot be read, or has no such table.
        """
        if name not in self._tables:
            import pyarrow

            file = os.path.join(self._folder.name, f"{name}.arrow")
            _run(["export", str(self.path), *self._engine, "--format", "arrow", "--table", name, "-o", file])
            self._tables[name] = pyarrow.ipc.open_file(pyarrow.memory_map(file)).read_all()
        return self._tables[name]

    def batches(self, name: str) -> Iterator[pyarrow.RecordBatch]:
        """The same table, a batch at a time."""
        return iter(self.table(name).to_batches())

    @property
    def steps(self) -> pyarrow.Table:
        """One row a step: start, duration, phase, tokens."""
        return self.table("steps")

    @property
    def operators(self) -> pyarrow.Table:
        """One row an operator of a step: name, type, shape, start, duration, operations, bytes."""
        return self.table("operators")

    @property
    def lanes(self) -> pyarrow.Table:
        """One row for each thread that took part in an operator: work and waiting."""
        return self.table("lanes")

    def report(self) -> dict[str, Any]:
        """What ``profinfer report --json`` prints."""
        found: dict[str, Any] = json.loads(_run(["report", str(self.path), *self._engine, "--json"]))
        return found

    def info(self) -> dict[str, Any]:
        """What ``profinfer info --json`` prints: schema, probeset, machine, modules, losses."""
        found: dict[str, Any] = json.loads(_run(["info", str(self.path), *self._engine, "--json"]))
        return found


def read(path: str | os.PathLike[str], engine: str | None = None) -> Trace:
    """Opens a trace. ``engine`` selects one of several, by its probeset's name.

    Raises:
        Error: there is no such file.
    """
    return Trace(path, engine)


class Recording:
    """A recording of this process, from ``with`` to the end of its block."""

    def __init__(self, words: list[str], output: Path) -> None:
        self.output = output
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._messages: deque[bytes] = deque(maxlen=_MOST_LINES)
        self._live = threading.Event()

    def __enter__(self) -> Recording:
        process = self._process = subprocess.Popen(
            [program(), *self._words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # The interrupt of a terminal is for the program: the recording ends with the block.
            start_new_session=True,
        )
        try:
            self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
            self._reader.start()
            self._live.wait()
        except BaseException:
            # The block never begins, and so never ends: nobody else would detach the program from this process.
            self._end(process)
            raise
        if process.poll() is not None:
            raise self._error()
        return self

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        """Gathers messages. The first live line comes once the probes are attached."""
        assert process.stderr is not None
        rest = b""
        with process.stderr as written:
            while piece := written.read1(_MOST_BYTES):  # type: ignore[attr-defined]
                rest += piece
                if _CLEAR in rest:
                    self._live.set()
                *lines, rest = (line.rpartition(_CLEAR)[2][-_MOST_BYTES:] for line in rest.split(b"\n"))
                self._messages.extend(lines)
        self._messages.append(rest)
        process.wait()
        self._live.set()

    def _error(self) -> Error:
        """What the program, which has ended, wrote."""
        assert self._reader is not None
        self._reader.join(_READER_SECONDS)
        return Error(b"\n".join(self._messages.copy()).decode(errors="replace").strip())

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> int:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        return process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        status = self._end(self._process)
        if status not in (0, 4) and kind is None:
            raise self._error()

    def trace(self) -> Trace:
        """The trace, once the block has ended."""
        return read(self.output)


def record(*probesets: str, output: str | os.PathLike[str] = "run.pfi", options: Sequence[str] = ()) -> Recording:
    """Records this process: ``with profinfer.record("llama", output="run.pfi"): …``.

    Probesets are names of shipped ones or files; without one, every shipped probeset that this process has functions of.
    ``options`` are further words of ``profinfer record``, such as ``["--budget", "1%"]``. It needs the privileges that
    ``profinfer record -p`` needs.

    Raises:
        Error: at ``with``, when the recording cannot start; at its end, when it failed.
    """
    path = Path(output)
    pid = str(os.getpid())
    return Recording(["record", *probesets, "--live", "always", "-o", str(path), *options, "-p", pid], path)
