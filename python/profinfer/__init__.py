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
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Sequence

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Error", "Recording", "Trace", "program", "read", "record"]


class Error(Exception):
    """profinfer refused: its own message, with the remedy."""


def program() -> str:
    """The profinfer program of this package; else the one in ``PATH``.

    Raises:
        Error: there is neither.
    """
    for folder in {sysconfig.get_path("scripts"), os.path.dirname(sys.executable)}:
        path = os.path.join(folder, "profinfer")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("profinfer")
    if found is None:
        raise Error("the profinfer program is not installed; install it with `pip install profinfer`")
    return found


def _run(words: Sequence[str]) -> bytes:
    """The output of a subcommand. Exit status 4: the trace is incomplete, as its tables and report show."""
    finished = subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if finished.returncode not in (0, 4):
        raise Error(finished.stderr.decode(errors="replace").strip())
    return finished.stdout


class Trace:
    """A trace. Each table is made when it is first asked for, and is mapped from a private temporary file, so that memory
    does not grow with the trace."""

    def __init__(self, path: str | os.PathLike[str], engine: str | None = None) -> None:
        self.path = Path(path)
        self._engine = [] if engine is None else ["--engine", engine]
        self._folder = tempfile.TemporaryDirectory(prefix="profinfer-")
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
        self._process: subprocess.Popen[str] | None = None
        self._messages: list[str] = []
        self._live = threading.Event()

    def __enter__(self) -> Recording:
        self._process = subprocess.Popen(
            [program(), *self._words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # The interrupt of a terminal is for the program: the recording ends with the block.
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        self._live.wait()
        if self._process.poll() is not None:
            raise Error("".join(self._messages).strip())
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Gathers messages. The first live line comes once the probes are attached."""
        assert process.stderr is not None
        line = ""
        while character := process.stderr.read(1):
            line += character
            if line.endswith("\x1b[2K"):
                line = ""
                self._live.set()
            elif character == "\n":
                self._messages.append(line)
                line = ""
        process.wait()
        self._live.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        status = process.wait()
        if status not in (0, 4) and kind is None:
            raise Error("".join(self._messages).strip())

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
