#!/usr/bin/env python3
"""Compares the API of a daemon with what cubby's clients know of it. usage: contract.py CUBBYD [--write]

clients/contract.json lists each operation with its query parameters, members of the body and of the answer. What is
new, or gone, fails by its name. A field that a client is to offer must stand in its source, in the class that names the
operation or in Box, which makes the others. `left_out` has what is not offered on purpose, with the reason. --write: takes the daemon's list over, for
whoever has just wrapped something new."""
import json, os, re, subprocess, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
FOREIGN = re.compile("^(aio|e2b|deerflow|filesecbox|fsb2|runner|page)")  # as in clients/generate
CONTRACT = os.path.join(ROOT, "clients/contract.json")
failed = 0


def report(name, wrong):
    global failed
    failed += bool(wrong)
    print(f"not ok - {name} # {'; '.join(wrong)}"[:1500] if wrong else f"ok - {name}")


def members(api, content):
    """Fields of a body or an answer, as name or Schema.name."""
    for media, each in content.items():
        schema = each.get("schema", {})
        named = schema.get("$ref", "").split("/")[-1]
        for field in (api["components"]["schemas"][named] if named else schema).get("properties", {}):
            yield field


def of_daemon(api):
    out = {}
    for methods in api["paths"].values():
        for operation in methods.values():
            if FOREIGN.match(operation["operationId"]):
                continue
            answers = [answer.get("content", {}) for answer in operation["responses"].values()]
            out[operation["operationId"]] = {
                "query": sorted(p["name"] for p in operation.get("parameters", []) if p["in"] == "query"),
                "body": sorted(members(api, operation.get("requestBody", {}).get("content", {}))),
                "answer": sorted({field for answer in answers for field in members(api, answer)}),
            }
    return out


def classes(source, opening):
    """The text of each class of a source, by what names it; the rest is under ''."""
    parts = re.split(opening, source, flags=re.M)
    return {"": parts[0], **{parts[i]: parts[i + 1] for i in range(1, len(parts), 2)}}


def unknown(name, texts, common, operations, left_out, spell):
    """Operations and fields that a client's source does not have."""
    wrong = []
    for operation, fields in operations.items():
        if operation in left_out:
            continue
        users = [text for text in texts.values() if re.search(rf"[\"'`]{operation}[\"'`]", text)]
        if not users:
            wrong.append(f"{name} does not offer {operation}")
            continue
        words = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", "".join(users) + common + texts["Box"]))
        for field in fields["query"] + fields["body"]:
            if f"{operation}.{field}" not in left_out and not words & set(spell(field)):
                wrong.append(f"{name} does not offer {field} of {operation}")
    return wrong


def camel(field):
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), field)


def main():
    api = json.loads(subprocess.run([sys.argv[1], "--openapi"], check=True, capture_output=True).stdout)
    daemon, contract = of_daemon(api), json.load(open(CONTRACT))
    known, left_out = contract["operations"], contract["left_out"]
    if "--write" in sys.argv:
        rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(fields)}" for name, fields in daemon.items())
        reasons = ",\n".join(f"    {json.dumps(name)}: {json.dumps(why)}" for name, why in left_out.items())
        open(CONTRACT, "w").write(f'{{\n  "left_out": {{\n{reasons}\n  }},\n  "operations": {{\n{rows}\n  }}\n}}\n')
        return
    report("every operation of the daemon is known", [f"{name} is new" for name in daemon if name not in known])
    report("and no other one", [f"{name} is gone" for name in known if name not in daemon])
    changed = []
    for name in daemon.keys() & known.keys():
        for part, fields in daemon[name].items():
            changed += [f"{name}: {part} has the new field {field}" for field in set(fields) - set(known[name][part])]
            changed += [f"{name}: {part} lost the field {field}" for field in set(known[name][part]) - set(fields)]
    report("every field of the daemon is known", sorted(changed))
    report("what is left out has a reason, and exists", [
        name for name, why in left_out.items() if len(why) < 10 or name.split(".")[0] not in daemon])
    python = os.path.join(ROOT, "clients/python/cubby")
    texts = classes(open(f"{python}/aio.py").read(), r"^class (\w+)")
    core = open(f"{python}/_core.py").read()
    report("Python offers all of it", unknown(
        "Python", texts, core, known, left_out, lambda field: (field, field.removesuffix("_ms"), field.removesuffix("_bytes"))))
    path = os.path.join(ROOT, "clients/typescript/src/index.ts")
    if os.path.exists(path):
        texts = classes(open(path).read(), r"^(?:export )?class (\w+)")
        report("TypeScript offers all of it", unknown(
            "TypeScript", texts, texts[""], known, left_out, lambda field: (field, camel(field))))


main()
sys.exit(failed > 0)
