#!/usr/bin/env python3
"""Runs a program in a terminal of its own and types keys.

in_a_terminal.py COLUMNS LINES KEYS COMMAND...: KEYS is a list of
`SECONDS:KEY`, separated by commas; `SECONDS:?TEXT` waits that long at most for
a screen with TEXT. The last line of standard output is JSON: the screens that
were drawn, the exit status, and whether the terminal is as it was.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

columns, lines, keys = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
before = termios.tcgetattr(slave)
program = subprocess.Popen(
    sys.argv[4:], stdin=slave, stdout=slave, stderr=subprocess.PIPE, start_new_session=True
)
output = b""


def read(seconds: float, text: str = "") -> bool:
    global output
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and program.poll() is None:
        if select.select([master], [], [], min(left, 0.05))[0]:
            output += os.read(master, 65536)
        if text and screens() and text in screens()[-1]:
            return True
    return not text


def screens() -> list:
    """What was drawn each time: from the cursor's way home to the end of the screen."""
    frames = re.findall(rb"\x1b\[H(.*?)\x1b\[J", output, re.S)
    return [frame.decode().replace("\x1b[K", "").replace("\r\n", "\n") for frame in frames]


missed = []
for key in keys.split(","):
    seconds, key = key.split(":", 1)
    if key.startswith("?"):
        if not read(float(seconds), key[1:]):
            missed.append(key[1:])
        continue
    read(float(seconds))
    os.write(master, key.encode().decode("unicode_escape").encode())
read(20)
ended = program.poll() is not None
if not ended:
    program.kill()
_, errors = program.communicate()
after = termios.tcgetattr(slave)
while select.select([master], [], [], 0)[0]:
    output += os.read(master, 65536)
print(
    json.dumps(
        {
            "screens": screens(),
            "missed": missed,
            "status": program.returncode if ended else None,
            "errors": errors.decode(errors="replace"),
            "restored": after == before,
            "left": output.rstrip().endswith(b"\x1b[?1049l"),
        }
    )
)
