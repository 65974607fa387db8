#!/usr/bin/env python3
"""Renders the chart with the few functions of templates that it uses, and refuses all others.
usage: render.py CHART [--namespace NS] [--set KEY=JSON]... [--notes]: prints YAML, one document an object."""
import json
import os
import re
import sys

import yaml

TOKEN = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.S)


class Stop(Exception):
    pass


def lookup(path, scope):
    if path == ".":
        return scope["."]
    at = scope
    for word in path.lstrip(".").split("."):
        if not isinstance(at, dict) or word not in at:
            raise Stop("no value %s" % path)
        at = at[word]
    return at


def evaluate(words, scope):
    if words.startswith("toJson "):
        return json.dumps(lookup(words[7:].strip(), scope))
    if m := re.fullmatch(r'eq (\S+) "([^"]*)"', words):
        return lookup(m[1], scope) == m[2]
    if re.fullmatch(r"\.[A-Za-z.]*", words):
        return lookup(words, scope)
    raise Stop("a template function that this chart may not use: %s" % words)


def parse(text):
    """A list of texts and (words) with the blanks that dashes take away gone."""
    out, at = [], 0
    for m in TOKEN.finditer(text):
        before = text[at:m.start()]
        out.append(before.rstrip() if m[1] else before)
        out.append((m[2],))
        at = m.end()
        if m[3]:
            at += len(text[at:]) - len(text[at:].lstrip())
    return out + [text[at:]]


def render(parts, scope, stops=()):
    """Output, and the word that ended it."""
    out = ""
    while parts:
        part = parts.pop(0)
        if isinstance(part, str):
            out += part
            continue
        words = part[0]
        if words in stops:
            return out, words
        if words.startswith("if "):
            yes, end = render(parts, scope, ("else", "end"))
            no = render(parts, scope, ("end",))[0] if end == "else" else ""
            out += yes if evaluate(words[3:], scope) else no
        elif words.startswith("range "):
            items = evaluate(words[6:], scope)
            rest = list(parts)
            _, _ = render(parts, dict(scope, **{".": ""}), ("end",))
            for item in items:
                out += render(list(rest), dict(scope, **{".": item}), ("end",))[0]
        elif words.startswith("/*"):
            continue
        else:
            value = evaluate(words, scope)
            out += str(value).lower() if isinstance(value, bool) else str(value)
    return out, None


def chart(directory, namespace, changes, notes=False):
    with open(directory + "/values.yaml") as source:
        values = yaml.safe_load(source)
    with open(directory + "/Chart.yaml") as source:
        about = yaml.safe_load(source)
    for key, value in changes:
        at = values
        *outer, last = key.split(".")
        for word in outer:
            at = at[word]
        if last not in at:
            raise Stop("no value %s" % key)
        at[last] = value
    scope = {"Values": values, "Release": {"Namespace": namespace, "Name": "cubby"}, "Chart": {
        "AppVersion": about["appVersion"]}, ".": None}
    objects = []
    for name in sorted(os.listdir(directory + "/templates")):
        with open("%s/templates/%s" % (directory, name)) as source:
            text = render(parse(source.read()), scope)[0]
        if name == "NOTES.txt":
            if notes:
                print(text)
        else:
            objects += [o for o in yaml.safe_load_all(text) if o]
    return objects


if __name__ == "__main__":
    words = sys.argv[2:]
    where, sets = "cubby", []
    while words:
        word = words.pop(0)
        if word == "--namespace":
            where = words.pop(0)
        elif word == "--set":
            name, text = words.pop(0).split("=", 1)
            sets.append((name, json.loads(text)))
    try:
        print(yaml.safe_dump_all(chart(sys.argv[1], where, sets, "--notes" in sys.argv), sort_keys=False), end="")
    except Stop as stop:
        sys.exit("render: %s" % stop)
