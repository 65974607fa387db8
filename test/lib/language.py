#!/usr/bin/env python3
"""Words that mean something else in English than their writer thought (false friends), in what users read: string
literals of src/, manual pages, README.md, SECURITY.md, docs/. Prints FILE:LINE: WORD: TEXT for each.
usage: language.py [FILE...]; of FILE.json the texts of an OpenAPI document are read, of FILE.txt every line."""
import glob
import json
import os
import re
import sys

# What was written, and what to write instead. A pattern is about words; the case of letters does not matter.
NOT_NO = r"(?!longer\b|more\b|less\b|such\b|larger\b|greater\b|later\b|earlier\b|older\b|newer\b|smaller\b|better\b"
NOT_NO += r"|worse\b|way\b|limit\b|need\b)\w"
FRIENDS = [
    (r"(?<!there )\bis no " + NOT_NO, "is not a"),
    (r"(?<!there )\bare no " + NOT_NO, "are not"),
    (r"(?<!there )\bwas no " + NOT_NO, "was not a"),
    (r"\b(is|are|was|were) none\b", "no X exists, does not exist"),
    (r"\b(told|tells?|telling)\b(?! apart)(?! \w+( \w+)*( of one box)? apart)", "report, send, show"),
    (r"\b(he|his|him|himself)\b", "they, its"),
    (r"\b(can|cannot|could|may|to) be had\b", "is available"),
    (r"\bnot to break\b", "Invariant:"),
    (r"\bbesides?\b", "also; next to, in addition to"),
    (r"(?<!nothing )\bbehind\b(?! (a |any |an )?(firewall|nat|proxy)\b)", "after"),
    (r"\bmeanwhile\b", "during that time, since; or leave it out"),
    (r"\b(whoever|whomever|whosoever)\b", "name the subject"),
    (r"(?<!user )\bnobody\b(?!:)", "no user, no process; only"),
    (r"\b(somebody|everybody)\b", "another user, all users"),
    (r"\bstands? still\b|\bstood still\b", "is paused"),
    (r"\bstands? (there|in|alone|before|below|by|with)\b", "is, is given, appears"),
    (r"\b(goes|go|went|going) on\b", "continues, is resumed"),
    (r"\blives? on\b(?! from)", "keeps running"),
    (r"\bhas its way\b", "is allowed"),
    (r"\b(usher|errand|parcel|seat|ride|dress)(s|es|ed)?\b", "the ordinary name of the thing"),
    (r"\bwalk(s|ed|ing)?\b", "traverse, resolve; request path"),
    (r"\bshelf\b", "state warm"),
    (r"\bthe house'?s?\b|\bin the house\b|\bhouse rules?\b", "architecture, project"),
    (r"\bdoors?\b", "endpoint, dialect"),
    (r"\b(no|not enough|enough|more|without|much|needs?|makes?) room\b", "space"),
    (r"\bthe room\b|\brooms\b", "package, directory, space"),
    (r"\bfor want of\b", "without"),
    (r"\bbeforehand\b", "before"),
    (r"\btime-outs?\b", "timeout"),
    (r"(?<!not )\banew\b(?! integer)", "again"),
    (r"\bof another make\b", "foreign"),
    (r"\bas ever\b", "as always, or leave it out"),
    (r"\b(leave|leaves|left) (it |them )?away\b", "omit"),
]
FRIENDS = [(re.compile(pattern, re.I), instead) for pattern, instead in FRIENDS]
LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|\'(?:\\.|[^\'\\\n])+\'|((?:"(?:\\.|[^"\\\n])*"\s*)+)', re.S)


def literals(path):
    """(line, text) of each string literal; adjacent ones are one text. A text without a space is not a sentence."""
    source = open(path, encoding="utf-8").read()
    for match in LITERAL.finditer(source):
        if not match.group(1) or source[source.rfind("\n", 0, match.start()) + 1 :].startswith("#include"):
            continue
        text = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group(1)))
        text = text.replace("\\n", " ").replace('\\"', '"')
        if " " in text.strip():
            yield source.count("\n", 0, match.start()) + 1, text


def prose(path):
    """(line, text) of each line of a document, without code: fenced or indented blocks, `code`, literal macros."""
    fenced = literal = False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if line.startswith("```"):
            fenced = not fenced
        if line.startswith((".Bd -literal", ".Ed")):
            literal = line.startswith(".Bd")
        if fenced or literal or line.startswith(("    ", '.\\"', ".Dl", ".Nm", ".Xr", ".Sh", ".Ss", ".It Ar")):
            continue
        yield number, re.sub(r"`[^`]*`", "`x`", line.rstrip("\n"))


def described(path):
    """(0, text) of each summary and description of an OpenAPI document."""
    stack = [json.load(open(path, encoding="utf-8"))]
    while stack:
        at = stack.pop()
        stack.extend(at.values() if isinstance(at, dict) else at if isinstance(at, list) else [])
        if isinstance(at, dict):
            yield from ((0, at[key]) for key in ("summary", "description") if isinstance(at.get(key), str))


def texts(path):
    """(line, text) of what users read in a file, by its kind."""
    if path.endswith((".c", ".h")):
        return literals(path)
    if path.endswith(".json"):
        return described(path)
    if path.endswith(".txt"):
        return enumerate(open(path, encoding="utf-8"), 1)
    return prose(path)


def files():
    found = [os.path.join(top, name) for top, _, names in os.walk("src") for name in names]
    found = [path for path in found if path.endswith((".c", ".h"))]
    documents = sorted(glob.glob("man/*.[1-8]")) + ["README.md", "SECURITY.md"] + sorted(glob.glob("docs/*.md"))
    return sorted(found) + documents


def main():
    bad = 0
    for path in sys.argv[1:] or files():
        for line, text in texts(path):
            for pattern, instead in FRIENDS:
                match = pattern.search(text)
                if match:
                    bad += 1
                    around = text[max(0, match.start() - 40) : match.end() + 40].strip()
                    print(f"{path}:{line}: '{match.group(0)}' ({instead}): ...{around}...")
    return bad > 0


sys.exit(main())
