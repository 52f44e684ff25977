#!/usr/bin/env python3
"""Runs run_xllamacpp.py's workload and writes what the wheel's engine says of its graphs.

The file has the same NDJSON as that of `reference --trace` (graph_trace.hpp says
how); it is what the engine shows its own evaluation callback, which a preloaded
library (trace_hook.cpp) installs. Needs g++.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the import below leaves nothing in the clone
import run_xllamacpp  # noqa: E402

HERE = Path(__file__).resolve().parent


def build_hook() -> Path:
    """The preloaded library, compiled once for each of its texts."""
    sources = [HERE / "trace_hook.cpp", HERE / "graph_trace.hpp"]
    key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("PROFINFER_CACHE") or Path(home) / "profinfer") / "engines"
    library = cache / f"trace_hook-{key}.so"
    if not library.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".hook-", dir=cache) as folder:
            unfinished = Path(folder) / library.name
            command = ["g++", "-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-shared", "-fPIC"]
            try:
                subprocess.run([*command, str(sources[0]), "-o", str(unfinished), "-ldl"], check=True)
            except FileNotFoundError:
                sys.exit("reference_xllamacpp: 'g++' is missing; on Debian: apt install g++")
            except subprocess.CalledProcessError:
                sys.exit("reference_xllamacpp: trace_hook.cpp did not compile")
            unfinished.replace(library)
    return library


def main() -> None:
    parser = run_xllamacpp.arguments(__doc__)
    parser.add_argument("--trace", type=Path, required=True, metavar="FILE", help="where to write the graphs' nodes")
    parser.add_argument(
        "--experts", action="store_true", help="trace the experts' ids, too; this computes each graph in pieces"
    )
    options = parser.parse_args()
    options.trace.unlink(missing_ok=True)
    environment = os.environ | {"LD_PRELOAD": str(build_hook()), "ENGINE_TRACE": str(options.trace)}
    environment.pop("ENGINE_TRACE_EXPERTS", None)
    if options.experts:
        environment["ENGINE_TRACE_EXPERTS"] = "1"
    workload = [sys.executable, str(HERE / "run_xllamacpp.py"), "--model", str(options.model)]
    workload += ["--threads", str(options.threads), "--prompt-tokens", str(options.prompt_tokens)]
    workload += ["--tokens", str(options.tokens)]
    status = subprocess.run(workload, env=environment).returncode
    if status == 0 and not options.trace.exists():
        sys.exit("reference_xllamacpp: the engine ran, but never came by the hook: its entry points have changed")
    sys.exit(status)


if __name__ == "__main__":
    main()
