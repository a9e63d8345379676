"""What --json printed, for checks: E the events in their order, S the summaries by call,
LOST what was lost."""
import json
import sys

E, S, LOST = [], {}, []


def load(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["t"] == "event":
                E.append(row)
            elif row["t"] == "summary":
                S[row["call"]] = row
            else:
                LOST.append(row)
    E.sort(key=lambda row: row["ts_ns"])


def calls(name):
    return [row for row in E if row["call"] == name]


def one(name):
    found = calls(name)
    same(len(found), 1, name)
    return found[0]


def same(actual, expected, what=""):
    if actual != expected:
        sys.exit(f"{what}: expected {expected!r}, got {actual!r}")


def has(row, **values):
    """The row has these values."""
    for name, value in values.items():
        same(row.get(name), value, f"{row['call']}.{name}")


def lacks(row, *names):
    for name in names:
        same(name in row, False, f"{row['call']}.{name} is there")
