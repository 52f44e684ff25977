"""Checks the module with programs of the tests in profinfer's place: no privileges, no engine, no pyarrow."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import profinfer

# Shows live lines for a while, is slow to write its error, and fails.
FAILS = r"""
import signal, sys, time
interrupts = []
signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))
for number in range(5000):
    sys.stderr.write(f"\r\x1b[2Kstep {number}")
sys.stderr.flush()
while not interrupts:
    time.sleep(0.01)
sys.stderr.write("\r\x1b[2Kerror[R001]: what went wrong\n" + "  note: one of many\n" * 400 + "  = hint: the remedy\n")
sys.stderr.flush()
sys.exit(3)
"""
# Never comes to its first live line; writes what it is told to a file.
ATTACHES = r"""
import os, signal, sys, time
def told(*_):
    open(os.environ["TOLD"], "w").write("interrupt")
    sys.exit(0)
signal.signal(signal.SIGINT, told)
open(os.environ["STARTED"], "w").close()
time.sleep(60)
"""


class Programs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))

    def program(self, folder: str, text: str) -> Path:
        path = self.folder / folder / "profinfer"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        return path

    def in_path(self, text: str) -> None:
        os.environ["PATH"] = f"{self.program('path', text).parent}:{os.environ['PATH']}"

    def test_an_error_has_the_messages_in_full_and_no_live_lines(self) -> None:
        self.in_path(FAILS)
        with self.assertRaises(profinfer.Error) as raised:
            with profinfer.record("toy", output=self.folder / "run.pfi"):
                pass
        text = str(raised.exception)
        self.assertTrue(text.startswith("error[R001]: what went wrong\n"), text[:200])
        self.assertTrue(text.endswith("\n  = hint: the remedy"), text[-200:])
        self.assertEqual(text.count("one of many"), 400)
        self.assertNotIn("step 1", text)

    def test_an_interrupt_while_attaching_ends_the_program(self) -> None:
        # A shell that runs these tests in the background has them ignore it.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        self.in_path(ATTACHES)
        os.environ["TOLD"], os.environ["STARTED"] = str(self.folder / "told"), str(self.folder / "started")

        def interrupt() -> None:
            while not (self.folder / "started").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with self.assertRaises(KeyboardInterrupt):
            with profinfer.record("toy", output=self.folder / "run.pfi"):
                self.fail("the block began")
        self.assertEqual((self.folder / "told").read_text(), "interrupt")

    def test_the_program_of_the_same_package_comes_first(self) -> None:
        # As `pip install --prefix` does it; another version is in PATH.
        modules = self.folder / "lib/modules"
        shutil.copytree(Path(profinfer.__file__).parent, modules / "profinfer")
        of_package = self.program("bin", "")
        about = modules / "profinfer-0.1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: profinfer\nVersion: 0.1.0\n")
        (about / "RECORD").write_text("profinfer/__init__.py,,\n../../bin/profinfer,,\n")
        self.in_path("")

        def chosen(first: Path) -> str:
            path = os.pathsep.join([str(first), str(modules)])
            command = [sys.executable, "-c", "import profinfer; print(profinfer.program())"]
            return subprocess.check_output(command, env={**os.environ, "PYTHONPATH": path}, text=True).strip()

        self.assertEqual(chosen(modules), os.path.realpath(of_package))
        # A module of another origin has no part in that package.
        self.assertEqual(chosen(Path(profinfer.__file__).parent.parent), str(self.folder / "path/profinfer"))

    def test_tables_are_not_in_memory(self) -> None:
        trace = self.folder / "run.pfi"
        trace.touch()
        os.environ.pop("TMPDIR", None)
        tempfile.tempdir = None
        self.assertEqual(Path(profinfer.read(trace)._folder.name).parent, Path("/var/tmp"))
        os.environ["TMPDIR"] = str(self.folder)
        self.assertEqual(Path(profinfer.read(trace)._folder.name).parent, self.folder)
        tempfile.tempdir = None


unittest.main(verbosity=2)
