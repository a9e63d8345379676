#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Prints what gpumem declares of the driver, as rows of macros for declared.c and toolkit.c:

    CONSTANT(NAME)  SIZE(TYPE)  MEMBER(TYPE, MEMBER)
    CALLBACK(NAME, RESULT, PARAMETERS)  CALL(SYMBOL, TYPE OF cudaTypedefs.h)

usage: declared.py CUDA.H DRIVER.H
"""

import pathlib
import re
import sys


def print_declarations(header):
    """Reads headers where each constant and each member has a line of its own."""
    records = []  # that are open, the innermost last: the names of their members
    for line in header.splitlines():
        if match := re.match(r"(?:\t|#define )(CU[A-Z_0-9]+)\b", line):
            print(f"CONSTANT({match[1]})")
        elif re.match(r"\s*(typedef )?(struct|union) {$", line):
            records.append([])
        elif records and (match := re.match(r"\s*} (\w+);$", line)):
            record, members = match[1], records.pop()
            if records:
                records[-1] += [record] + [f"{record}.{member}" for member in members]
                continue
            print(f"SIZE({record})")
            for member in members:
                print(f"MEMBER({record}, {member})")
        elif records and (match := re.match(r"\t+[\w ]+[ *](\w+)(\[\d+\])?;$", line)):
            if match[1] != "reserved":
                records[-1].append(match[1])
        elif match := re.match(r"(?:}|typedef [\w ]+[ *])\s*(\w+);$", line):
            print(f"SIZE({match[1]})")


def print_callbacks(header):
    for result, name, parameters in re.findall(
        r"^typedef (\w+) \(\*(\w+)\)(\([^)]*\));", header, re.MULTILINE
    ):
        print(f"CALLBACK({name}, {result}, {' '.join(parameters.split())})")


def print_calls(header):
    """cuMemAlloc_v2 of version 3020 has the type PFN_cuMemAlloc_v3020."""
    for symbol, version in re.findall(r"\bX\((cu\w+), (\d+),", header):
        print(f"CALL({symbol}, PFN_{re.sub('_v[0-9]+$', '', symbol)}_v{version})")


cuda, driver = (pathlib.Path(name).read_text() for name in sys.argv[1:])
print_declarations(cuda)
print_callbacks(cuda)
print_calls(driver)
