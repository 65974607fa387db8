#!/usr/bin/env python3
"""Names, for tools/lint.   names.py statics: a static function carries a word of its file's or its directories' names.
names.py structs: within one program (cubbyd, cubby, cubby-runner, cubby-gate) a struct name is defined once; needs `make -n`'s lists from the Makefile.
"""
import os
import re
import subprocess
import sys

# Words that say nothing about a file.
EMPTY = {"src", "private", "internal", "table"}
OPAQUE = {"backend"}  # what a table of functions works on: each backend defines its own behind one declaration
FUNCTION = re.compile(r"^(?:__attribute__\(\(.*?\)\) )?static (?!const struct|struct \w+ \w+\[|inline struct)[^=;{}()]*?\b(\w+)\(", re.M)
STRUCT = re.compile(r"^struct (\w+) \{", re.M)


def code(path):
    """The file without comments and texts; lines stay where they are."""
    text = open(path, encoding="utf-8").read()
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*'
    return re.sub(pattern, lambda m: '""' + "\n" * m.group(0).count("\n"), text, flags=re.S)


def words(path):
    """Nouns that a name in this file may carry: of its stem and of its directories, singular and plural."""
    found = set()
    for part in os.path.splitext(path)[0].split("/")[1:]:
        found.add(part)
        found.update(part.split("_"))
    found -= EMPTY
    return found | {w[:-1] for w in found if w.endswith("s")} | {w + "s" for w in found} | {w[:-1] + "ies" for w in found if w.endswith("y")}


def named(name, nouns):
    return any(w in nouns for w in name.split("_")) or any("_" in n and n in name for n in nouns)


def statics(paths):
    for path in paths:
        nouns, text = words(path), code(path)
        for match in FUNCTION.finditer(text):
            name = match.group(1)
            if name.startswith("__") or name.isupper() or named(name, nouns):
                continue
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {name} carries no word of its file's name"


def sources(variable):
    """What the Makefile builds a program of, and the headers that it reaches."""
    listed = subprocess.run(["make", "-s", "print-" + variable], capture_output=True, text=True, check=True).stdout.split()
    seen, todo = set(), listed
    while todo:
        path = todo.pop()
        if path in seen or not os.path.exists(path):
            continue
        seen.add(path)
        for include in re.findall(r'^#include "([^"]+)"', open(path, encoding="utf-8").read(), re.M):
            todo.append("src/" + include)
    return sorted(seen)


def structs():
    told = set()
    for program, variable in (("cubbyd", "DAEMON"), ("cubby", "CLI"), ("cubby-runner", "RUNNER"), ("cubby-gate", "GATE")):
        where = {}
        for path in sources(variable):
            for name in STRUCT.findall(code(path)):
                where.setdefault(name, []).append(path)
        for name, paths in sorted(where.items()):
            if len(paths) > 1 and name not in OPAQUE and (name, *paths) not in told:
                told.add((name, *paths))
                yield f"{program}: struct {name} is defined in {' and '.join(paths)}"


def main():
    if sys.argv[1:] == ["structs"]:
        found = structs()
    else:
        found = statics(sorted(os.path.join(top, f) for top, _, files in os.walk("src") for f in files if f.endswith(".c")))
    for line in found:
        print(line)


main()
