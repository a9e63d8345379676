#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the records of a broker as a table of C, for records.c: what is not zero.

    fixture.py /proc/PID/fd/N >version1.h

PID is a broker with --keep, N its descriptor of gpumem-records.
"""
import os
import sys

ROW = 32


def rows(fd, size):
    at = 0
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(fd, at, os.SEEK_HOLE)
        while at < end:
            row = os.pread(fd, ROW, at)
            if any(row):
                yield at, row
            at += ROW


fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
print("/* SPDX-License-Identifier: MIT */")
print("/* The records of a broker, by fixture.py: offset and bytes of all that is not zero. */")
print(f"#define FIXTURE_SIZE {size}\n")
print("static const struct fixture_row {\n\tuint64_t at;\n\tconst char *bytes;\n} fixture[] = {")
for at, row in rows(fd, size):
    print(f'\t{{ {at}, "{row.hex()}" }},')
print("};")
