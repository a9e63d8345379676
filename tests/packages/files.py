#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What is installed, and what the packaging says of it. Speaks TAP.

usage: files.py SOURCE BUILD MESON...
"""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys

source, build = pathlib.Path(sys.argv[1]), sys.argv[2]


def introspect(what):
    said = subprocess.run(
        [*sys.argv[3:], "introspect", what, build], check=True, capture_output=True
    )
    return json.loads(said.stdout)


def test_everything_is_installed_below_the_prefix():
    options = {option["name"]: option["value"] for option in introspect("--buildoptions")}
    prefix = options["prefix"].rstrip("/") + "/"
    files = introspect("--installed").values()
    assert files, "nothing is installed"
    return [f"{path} is not below {prefix}" for path in files if not path.startswith(prefix)]


def test_every_file_belongs_to_a_debian_package():
    options = {option["name"]: option["value"] for option in introspect("--buildoptions")}
    patterns = []
    for listing in (source / "tools/debian").glob("*.install"):
        patterns += [line.split()[0] for line in listing.read_text().splitlines()]
    wrong = []
    for path in introspect("--installed").values():
        path = "usr" + path.removeprefix(options["prefix"].rstrip("/"))
        path = path.replace("/site-packages/", "/dist-packages/")
        if not any(fnmatch.fnmatch(path, p) or fnmatch.fnmatch(path, p + "/*") for p in patterns):
            wrong.append(f"{path} is in no tools/debian/*.install")
    return wrong


def test_the_symbols_file_has_every_function_of_the_library():
    exported = re.findall(
        r"^\t(gpumem_\w+);", (source / "broker/client/gpumem.map").read_text(), re.M
    )
    listed = re.findall(
        r"^ (gpumem_\w+)@", (source / "tools/debian/libgpumem0.symbols").read_text(), re.M
    )
    assert exported, "gpumem.map has no functions"
    return [f"{name}: not in both" for name in sorted({*exported} ^ {*listed})]


def test_every_package_has_a_name_in_three_distributions():
    lines = (source / "tools/packages").read_text().splitlines()
    rows = [line for line in lines if not line.startswith("#")]
    assert rows, "there are no packages"
    pattern = r"(build|trace|test|package|fetch) +\S+ +\S+ +\S+$"
    return [f"'{row}' is not a row" for row in rows if not re.match(pattern, row)]


def test_build_dependencies_are_the_packages_of_build_and_trace():
    control = (source / "tools/debian/control").read_text()
    wanted = re.search(r"^Build-Depends:\n((?: .*\n)+)", control, re.M)[1]
    wanted = {re.split(r"[\s:,(]", line.strip())[0] for line in wanted.splitlines()}
    # what dpkg-buildpackage, debhelper and meson bring along, and what only runs
    wanted -= {"debhelper-compat", "dh-python"}
    rows = re.findall(r"^(?:build|trace) +(\S+)", (source / "tools/packages").read_text(), re.M)
    listed = {*rows} - {"fuse3", "gcc", "libc6-dev", "ninja-build"}
    return [f"{name}: not in both" for name in sorted(wanted ^ listed)]


cases = [(name[5:], case) for name, case in globals().items() if name.startswith("test_")]
print(f"1..{len(cases)}")
failed = False
for number, (name, case) in enumerate(cases, 1):
    wrong = case()
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    for line in wrong:
        print(f"#   {line}")
    failed = failed or bool(wrong)
sys.exit(failed)
