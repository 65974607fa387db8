#!/usr/bin/env python3
"""Edits through the real tools, beside a second implementation of them on the text.
usage: edits.py property SOCKET BOX SEED COUNT     random sequences; every answer and every byte of the file is compared
       edits.py parallel BOX COUNT SOCKET...       COUNT str_replace at once on one file, by turns through the daemons
       edits.py mixed BOX COUNT SOCKET...          the same with appends by tools among them
       edits.py strangers BOX COUNT SOCKET...      and with appends by others, for daemons without read before write
       edits.py broken BOX COUNT SOCKET            appends COUNT bytes of twice as many, and hangs up
Prints what is not as it should be; exit status 1 then."""
import http.client, json, random, re, socket, sys, threading

PATH = "/workspace/edits.txt"
wrong = []


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect(self.path)


def ask(connection, method, target, body=None):
    connection.request(method, target, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def tool(connection, box, name, **arguments):
    status, data = ask(connection, "POST", f"/v1/boxes/{box}/tools/{name}", json.dumps(arguments))
    answer = json.loads(data)
    if status != 200:
        return True, f"{status} {answer}"
    return answer["is_error"], answer["text"]


def content(connection, box):
    return ask(connection, "GET", f"/v1/boxes/{box}/files?path={PATH}")[1]


# ---- the reference ----

class Refused(Exception):
    pass


def split(body):
    """Lines with their newlines."""
    lines, rest = [], body
    while rest:
        head, newline, rest = rest.partition(b"\n")
        lines.append(head + newline)
    return lines


def window(lines, first, last):
    total = len(lines)
    last = last or total
    if last > total:
        raise Refused(f"end_line {last} exceeds total lines {total}")
    if (first or 1) > max(total, 1):
        raise Refused(f"start_line {first} exceeds total lines {total}")
    if total and (first or 1) > last:
        raise Refused(f"start_line {first} is greater than end_line {last}")
    return (first or 1) - 1, last


def in_window(body, first, last, change):
    lines = split(body)
    begin, end = window(lines, first, last)
    return b"".join(lines[:begin]) + change(b"".join(lines[begin:end])) + b"".join(lines[end:])


def as_text(data, texts, change):
    """change(body, texts) in a file's own line ends, without its byte order mark."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Refused(f"'{PATH}' is UTF-16 text: convert it first, e.g. with iconv")
    if b"\0" in data:
        raise Refused(f"'{PATH}' is binary")
    mark = data[:3] if data[:3] == b"\xef\xbb\xbf" else b""
    body = data[len(mark):]
    windows = body.count(b"\n") > 0 and body.count(b"\n") == body.count(b"\r\n")
    if windows:
        body = body.replace(b"\r\n", b"\n")
        texts = [text.replace(b"\r\n", b"\n") for text in texts]
    body = change(body, texts)
    return mark + (body.replace(b"\n", b"\r\n") if windows else body)


def with_newlines(given, lines, begin, end):
    """What takes the place of lines[begin:end]."""
    unfinished = bool(lines) and not lines[-1].endswith(b"\n")
    at_end = end == len(lines)
    if not given:
        return b""
    if at_end and unfinished:
        return (b"\n" if begin == end else b"") + given
    return given if given.endswith(b"\n") else given + b"\n"


class Reference:
    def __init__(self):
        self.data, self.seen, self.known = None, True, False

    def guard(self, name):
        if self.data is not None and not self.seen:
            since = " It has changed since you last read or wrote it." if self.known else ""
            return (f"Error: {name} blocked — {PATH} already exists and you have not read its current version.{since} Call read_file on it "
                    "(a ranged read of the relevant section is enough, e.g. the last ~30 lines before an append), check what is already "
                    "there, then retry.")
        return None

    def write(self, text, append):
        refusal = self.guard("write_file")
        if refusal:
            return True, refusal
        data = text.encode()
        self.data = (self.data or b"") + data if append else data
        self.seen = self.known = True
        return False, "OK"

    def edit(self, name, texts, change, failed, said):
        if self.data is None:
            return True, f"Error: File not found: {PATH}"
        refusal = self.guard(name)
        if refusal:
            return True, refusal
        try:
            self.data = as_text(self.data, [text.encode() for text in texts], change)
        except Refused as refused:
            text = str(refused)
            return True, text if text.startswith("Error: ") else f"Error: {failed} '{PATH}': {text}"
        self.known = True
        return False, said()

    def string(self, name, old, new, every, first, last, failed, said):
        count = 0
        where = f" in lines {first or 1}-{last or 'end'}" if first or last else ""

        def change(body, texts):
            def inside(part):
                nonlocal count
                count = part.count(texts[0])
                return part.replace(texts[0], texts[1])
            changed = in_window(body, first, last, inside)
            if count == 0:
                raise Refused(f"Error: String to replace not found in file{where}: {PATH}")
            if count > 1 and not every:
                raise Refused(f"Error: String to replace is in the file {count} times{where}: {PATH}")
            return changed
        return self.edit(name, [old, new], change, failed, lambda: said(count))

    def regex(self, pattern, python, new, template, every, first, last):
        count = 0
        where = f" in lines {first or 1}-{last or 'end'}" if first or last else ""

        def change(body, texts):
            def inside(part):
                nonlocal count
                def each(match):
                    nonlocal count
                    count += 1
                    return template(match)
                try:
                    return re.sub(python, each, part.decode(), flags=re.M | re.A).encode()
                except UnicodeDecodeError:
                    return re.sub(python.encode(), lambda match: each(match), part, flags=re.M | re.A)
            changed = in_window(body, first, last, inside)
            if count == 0:
                raise Refused(f"Error: no match found for pattern{where}: {pattern}")
            if count > 1 and not every:
                raise Refused(f"Error: pattern matches {count} times{where}: {PATH}")
            return changed
        return self.edit("edit", [new], change, "Failed to edit file", lambda: f"Successfully replaced {count} match(es) in {PATH}")

    def lines(self, given, first, last, said):
        place = 0

        def change(body, texts):
            nonlocal place
            lines = split(body)
            begin, end = first, last
            if begin is None:
                begin, end = len(lines) + 1, len(lines)
            elif end == begin - 1:
                if end > len(lines):
                    raise Refused(f"end_line {end} exceeds total lines {len(lines)}")
            else:
                window(lines, begin, end)
            place = begin
            return b"".join(lines[:begin - 1]) + with_newlines(texts[0], lines, begin - 1, end) + b"".join(lines[end:])
        return self.edit("edit", [given], change, "Failed to edit file", lambda: said(place))


# ---- random work ----

WORDS = ["a", "aa", "b", "x y", " ", "\t", "ü", "€", "end", "if (x) {", ""]
PATTERNS = [  # ours, the same in Python, new text, the same
    ("a+", "a+", "<$0>", lambda m: "<" + m[0] + ">"),
    ("(a)(b)?", "(a)(b)?", "$2${1}$$", lambda m: (m[2] or "") + m[1] + "$"),
    ("^", r"(?:^(?!\Z)|\A)", "> ", lambda m: "> "),
    ("$", "$", ";", lambda m: ";"),
    ("b*", "b*", "-", lambda m: "-"),
    (r"^\s+", r"^\s+", "", lambda m: ""),
    ("(?i)END", "(?i)END", "E", lambda m: "E"),
    (r"(?<first>\w)\s(?<second>\w)", r"(?P<first>\w)\s(?P<second>\w)", "${second} ${first}", lambda m: m["second"] + " " + m["first"]),
    (r"\n", r"\n", "\n\n", lambda m: "\n\n"),
]


def random_text(dice):
    end = dice.choice(["\n", "\n", "\r\n"])
    lines = ["".join(dice.choice(WORDS) for _ in range(dice.randrange(4))) for _ in range(dice.randrange(8))]
    if dice.random() < 0.1:
        end, lines = dice.choice(["\r", "\n"]), lines + ["mixed\r\nends"]
    text = end.join(lines) + (end if lines and dice.random() < 0.6 else "")
    return ("\ufeff" if dice.random() < 0.15 else "") + text


def visible(data):
    """What a model sees of a file: a piece of it may be what it asks for."""
    return data.decode("utf-8", "ignore").lstrip("\ufeff")


def random_step(dice, reference):
    data = reference.data or b""
    seen, lines = visible(data), data.count(b"\n") + 2
    begin = dice.randrange(len(seen) + 1)
    old = seen[begin:begin + dice.randrange(1, 12)] if dice.random() < 0.8 else dice.choice(WORDS)
    old = old.replace("\0", "") or "a"
    new = random_text(dice) if dice.random() < 0.3 else dice.choice(WORDS)
    first = dice.choice([0, 0, dice.randrange(1, lines + 1)])
    last = dice.choice([0, 0, dice.randrange(1, lines + 2)])
    every = dice.random() < 0.5
    edit = {"path": PATH}
    kind = dice.randrange(10)
    if kind == 0 or reference.data is None:
        text = random_text(dice)
        return "write_file", {"path": PATH, "content": text}, lambda: reference.write(text, False)
    if kind == 1:
        return "write_file", {"path": PATH, "content": new, "append": True}, lambda: reference.write(new, True)
    if kind <= 3:
        return "str_replace", {"path": PATH, "old_str": old, "new_str": new, "replace_all": every}, lambda: reference.string(
            "str_replace", old, new, every, 0, 0, "Unexpected error replacing string in", lambda count: "OK")
    if kind == 4:
        edit.update(mode="replace", old_str=old, new_str=new, start_line=first, end_line=last, replace_all=every)
        return "edit", edit, lambda: reference.string("edit", old, new, every, first, last, "Failed to edit file",
                                                      lambda count: f"Successfully replaced {count} occurrence(s) in {PATH}")
    if kind == 5:
        first = first or 1
        edit.update(mode="replace", new_str=new, start_line=first, end_line=last)
        return "edit", edit, lambda: reference.lines(new, first, last or first,
                                                     lambda place: f"Successfully replaced lines {first}-{last or first} in {PATH}")
    if kind == 6:
        given = new or "line"
        edit.update(mode="insert", content=given, line=first)
        count = given.count("\n") + (not given.endswith("\n"))
        return "edit", edit, lambda: reference.lines(given, first or None, first - 1 if first else None,
                                                     lambda place: f"Successfully inserted {count} line(s) at line {place} in {PATH}")
    if kind == 7:
        first = first or 1
        edit.update(mode="delete_lines", start_line=first, end_line=last)
        return "edit", edit, lambda: reference.lines("", first, last or first,
                                                     lambda place: f"Successfully deleted {(last or first) - first + 1} line(s) from {PATH}")
    ours, python, given, template = dice.choice(PATTERNS)
    edit.update(mode="regex", pattern=ours, new_str=given, start_line=first, end_line=last, replace_all=every)
    return "edit", edit, lambda: reference.regex(ours, python, given, template, every, first, last)


def outside(dice, connection, box, reference):
    """Somebody else changes the file: with any bytes, as no tool would."""
    data = dice.choice([b"latin-\xfc\nend\n", b"\xff\xfea\0b\0", b"bin\0ary", b"a\r\nb\r\nc", (reference.data or b"") + b"more"])
    ask(connection, "PUT", f"/v1/boxes/{box}/files?path={PATH}", data)
    reference.data, reference.seen = data, False


def property_run(path, box, seed, count):
    global PATH
    PATH = f"/workspace/edits-{seed}.txt"
    dice, connection, reference = random.Random(seed), Unix(path), Reference()
    for number in range(count):
        if dice.random() < 0.06:
            outside(dice, connection, box, reference)
        if reference.data is not None and not reference.seen and dice.random() < 0.6:
            failed, text = tool(connection, box, "read_file", path=PATH)
            reference.seen = reference.known = not failed
            if failed:  # not text for read_file: written anew
                ask(connection, "DELETE", f"/v1/boxes/{box}/files?path={PATH}")
                reference.data, reference.seen = None, True
        name, arguments, expect = random_step(dice, reference)
        before = reference.data
        got, want = tool(connection, box, name, **arguments), expect()
        if want[0] and got[0] and (want[1].find("not found in file") > 0 or want[1].find(" times") > 0):
            got = (True, got[1].split("\n")[0])
        now = content(connection, box)
        if got != want or now != (reference.data if reference.data is not None else now):
            wrong.append(f"seed {seed} step {number}: {name} {arguments}\n before {before!r}\n got  {got}\n want {want}\n"
                         f" is   {now!r}\n want {reference.data!r}")
            return


# ---- at once ----

def at_once(jobs):
    gate = threading.Barrier(len(jobs))

    def run(job):
        gate.wait()
        try:
            job()
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def replace_job(path, box, number):
    def job():
        failed, text = tool(Unix(path), box, "str_replace", path=PATH, old_str=f"line-{number}-end", new_str=f"done-{number}-end")
        if (failed, text) != (False, "OK"):
            wrong.append(f"{number}: {text}")
    return job


def append_job(path, box, number, kinds):
    def job():
        if number % kinds == 0:
            failed, text = tool(Unix(path), box, "write_file", path=PATH, content=f"added-{number}\n", append=True)
        elif number % kinds == 1:
            failed, text = tool(Unix(path), box, "edit", path=PATH, mode="insert", content=f"added-{number}")
        else:
            status, text = ask(Unix(path), "PUT", f"/v1/boxes/{box}/files?path={PATH}&append=true", f"added-{number}\n")
            failed = status != 200
        if failed:
            wrong.append(f"append {number}: {text}")
    return job


def parallel_run(box, count, paths, kinds):
    connection = Unix(paths[0])
    tool(connection, box, "read_file", path=PATH)
    text = "".join(f"line-{number}-end\n" for number in range(count))
    failed, said = tool(connection, box, "write_file", path=PATH, content=text)
    if failed:
        wrong.append(said)
        return
    jobs = [replace_job(paths[number % len(paths)], box, number) for number in range(count)]
    if kinds:
        jobs += [append_job(paths[number % len(paths)], box, number, kinds) for number in range(count)]
    at_once(jobs)
    lines = content(connection, box).decode().splitlines()
    want = [f"done-{number}-end" for number in range(count)]
    if lines[:count] != want:
        wrong.append(f"lost: {sorted(set(want) - set(lines))}")
    if kinds and sorted(lines[count:]) != sorted(f"added-{number}" for number in range(count)):
        wrong.append(f"appends: {sorted(lines[count:])}")


def broken_run(box, count, path):
    connection = Unix(path)
    connection.putrequest("PUT", f"/v1/boxes/{box}/files?path={PATH}&append=true")
    connection.putheader("Content-Length", str(2 * count))
    connection.endheaders()
    connection.send(b"x" * count)
    connection.close()


if sys.argv[1] == "broken":
    broken_run(sys.argv[2], int(sys.argv[3]), sys.argv[4])
elif sys.argv[1] == "property":
    property_run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
else:
    parallel_run(sys.argv[2], int(sys.argv[3]), sys.argv[4:], {"parallel": 0, "mixed": 2, "strangers": 3}[sys.argv[1]])
print("\n".join(wrong[:5]))
sys.exit(bool(wrong))
