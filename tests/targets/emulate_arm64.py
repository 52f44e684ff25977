"""Executes functions of an arm64 library up to their sites, in an emulated processor.

Reads one call a line: offset of the entry in the file, bytes to the site, bytes that the stack pointer is said to
have moved, number of arguments, whether the return is probed. Prints `right`, `faulted`, or what is wrong.
"""

import struct
import sys

from unicorn import UC_ARCH_ARM64, UC_HOOK_CODE, UC_MODE_ARM, Uc, UcError
from unicorn.arm64_const import (
    UC_ARM64_REG_PC, UC_ARM64_REG_SP, UC_ARM64_REG_TPIDR_EL0, UC_ARM64_REG_X0, UC_ARM64_REG_X29, UC_ARM64_REG_X30)

BASE = 0x10_0000_0000
SCRATCH = 0x20_0000_0000
SIZE = 1 << 20
RETURN = 0x1234_5678
REGISTERS = [UC_ARM64_REG_X0 + n for n in range(29)]


def load(emulator, path):
    """Maps the segments; gives offset, length and address of each."""
    image = open(path, "rb").read()
    start, = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    segments = []
    for n in range(count):
        kind, _, offset, address, _, length, space, _ = struct.unpack_from("<IIQQQQQQ", image, start + n * size)
        if kind == 1:
            segments.append((offset, length, address, space))
    end = max(address + space for _, _, address, space in segments)
    emulator.mem_map(BASE, (end + 0xFFFF) & ~0xFFFF)
    for offset, length, address, _ in segments:
        emulator.mem_write(BASE + address, image[offset:offset + length])
    return segments


def value(n):
    return SCRATCH + 0x8_0000 + 0x1000 * n


def outcome(emulator, segments, passed, offset, site, moved, arguments, returns):
    entry = next(BASE + a + offset - o for o, length, a, _ in segments if o <= offset < o + length)
    stack = SCRATCH + 0x4_0000
    emulator.mem_write(stack - 4096, bytes(8192))
    for n, register in enumerate(REGISTERS):
        emulator.reg_write(register, value(n))
    for register, what in ((UC_ARM64_REG_X29, value(29)), (UC_ARM64_REG_X30, RETURN), (UC_ARM64_REG_SP, stack)):
        emulator.reg_write(register, what)
    emulator.reg_write(UC_ARM64_REG_TPIDR_EL0, value(30))
    for n in range(8, arguments):
        emulator.mem_write(stack + 8 * (n - 8), struct.pack("<Q", value(n)))
    passed.clear()
    try:
        emulator.emu_start(entry, entry + site, count=64)
    except UcError:
        return "faulted"
    if emulator.reg_read(UC_ARM64_REG_PC) != entry + site:
        return "the site is not come to"
    if passed != [entry + 4 * n for n in range(site // 4)]:
        return "the site is not come to in a straight line"
    now = emulator.reg_read(UC_ARM64_REG_SP)
    for n in range(arguments):
        if n < 8:
            found = emulator.reg_read(REGISTERS[n])
        else:
            found, = struct.unpack("<Q", emulator.mem_read(now + moved + 8 * (n - 8), 8))
        if found != value(n):
            return f"argument {n} is {found:#x} and was {value(n):#x}"
    if returns:
        if now != stack or emulator.reg_read(UC_ARM64_REG_X30) != RETURN:
            return "the stack pointer or the return address is another"
        if struct.pack("<Q", RETURN) in emulator.mem_read(stack - 4096, 8192):
            return "the return address was copied"
        if RETURN in (emulator.reg_read(register) for register in REGISTERS):
            return "the return address was copied"
    return "right"


def main():
    emulator = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    segments = load(emulator, sys.argv[1])
    emulator.mem_map(SCRATCH, SIZE)
    emulator.mem_write(SCRATCH, struct.pack("<Q", SCRATCH + SIZE // 2) * (SIZE // 8))
    passed = []
    emulator.hook_add(UC_HOOK_CODE, lambda _, address, size, data: passed.append(address))
    for line in sys.stdin:
        offset, site, moved, arguments, returns = map(int, line.split())
        print(outcome(emulator, segments, passed, offset, site, moved, arguments, returns))


main()
