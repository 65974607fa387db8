#!/usr/bin/env python3
"""Uploads, edits, reads and commands of many users on the same skills at once. usage: skillrace.py SOCKET BACKEND SECONDS
Every version of a skill is FILES files that all say which version they are of. Whoever looks must find all of one version,
of the author he should see: his own upload, else the public one; and it must be no older than what he saw before.
Prints what was seen, and what should not have been; exit status 1 then."""
import http.client, io, json, socket, sys, threading, time, zipfile

SOCKET, BACKEND, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
FILES, OWNERS, OTHERS = 24, ("ann", "bob"), ("cy", "dee")
wrong, counts, lock = [], {}, threading.Lock()
begin = time.monotonic()


def going():
    """For the time that was asked for, and, on a slow machine, until new versions of both kinds were seen."""
    with lock:
        seen = counts.get("newer own", 0) > 1 and counts.get("newer public", 0) > 1
    passed = time.monotonic() - begin
    return passed < SECONDS or (not seen and passed < 30)


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(SOCKET)


class Client:
    def __init__(self):
        self.connection = Unix("localhost")

    def ask(self, method, target, body=None, media="application/json"):
        data = json.dumps(body).encode() if media == "application/json" and body is not None else body
        self.connection.request(method, target, data, {"Content-Type": media})
        answer = self.connection.getresponse()
        return answer.status, answer.read()


def note(what):
    with lock:
        counts[what] = counts.get(what, 0) + 1


def bad(text):
    with lock:
        wrong.append(text)


def archive(author, version):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for number in range(FILES):
            file.writestr(f"shared/{'deep/' if number % 2 else ''}{number}", f"{author} {version}\n")
    return data.getvalue()


def box_of(client, user):
    status, answer = client.ask("POST", "/v1/boxes", {"user": user, "agent": "race", "backend": BACKEND})
    assert status in (200, 201), answer
    return "/v1/boxes/" + json.loads(answer)["id"]


def uploader(at, author, query):
    client, version = Client(), 1
    while going():
        version += 1
        status, answer = client.ask("PUT", f"{at}/skills{query}", archive(author, version), "application/zip")
        note(f"upload {status}")
        if status not in (200, 202):
            bad(f"upload of {author}: {status} {answer[:200]}")


def looker(at, author, command):
    """A command that looks twice, with time between: it keeps what it started with."""
    client, last = Client(), 0
    while going():
        status, answer = client.ask("POST", f"{at}/exec", {"command": command})
        if status != 200:
            note(f"look {status}")
            if status != 503:
                bad(f"look: {status} {answer[:200]}")
            continue
        result = json.loads(answer)
        lines = result["stdout"].splitlines()
        note("look")
        if len(lines) != 2 * FILES or len(set(lines)) != 1 or lines[0].split()[0] != author:
            bad(f"{at} of {author}: {len(lines)} lines of {sorted(set(lines))[:4]} {result['stderr'][:200]}")
        elif int(lines[0].split()[1]) < last:
            bad(f"{at}: version {lines[0]} after {last}")
        elif int(lines[0].split()[1]) > last:
            last = int(lines[0].split()[1])
            note("newer " + ("public" if author == "public" else "own"))


def editor(at, user):
    """Files of a skill of his own; nobody else's upload may lose one."""
    client, number = Client(), 0
    while going():
        number += 1
        status, answer = client.ask("PUT", f"{at}/files?parents=true&path=/skills/mine/{number}", user.encode(), "application/octet-stream")
        note("edit")
        if status != 201:
            bad(f"edit: {status} {answer[:200]}")
    status, answer = client.ask("POST", f"{at}/exec", {"command": "ls /skills/mine | wc -l; cat /skills/mine/* | wc -c"})
    want = f"{number}\n{number * len(user)}\n"
    if json.loads(answer).get("stdout") != want:
        bad(f"edits of {user}: {answer[:200]}, should: {want!r}")


LOOK = "cd /skills/shared && cat [0-9]* deep/*; sleep 0.02; cat /workspace/skills/shared/[0-9]* /workspace/skills/shared/deep/*"


def main():
    client = Client()
    boxes = {user: box_of(client, user) for user in OWNERS + OTHERS}
    status, answer = client.ask("PUT", f"{boxes['cy']}/skills?base=1", archive("public", 1), "application/zip")
    assert status == 200, answer
    for user in OWNERS:
        status, answer = client.ask("PUT", f"{boxes[user]}/skills", archive(user, 1), "application/zip")
        assert status == 200, answer
    work = [(uploader, boxes["cy"], "public", "?base=1")]
    work += [(uploader, boxes[user], user, "") for user in OWNERS]
    work += [(looker, boxes[user], user if user in OWNERS else "public", LOOK) for user in boxes for _ in range(2)]
    work += [(editor, boxes[user], user) for user in ("ann", "cy")]
    threads = [threading.Thread(target=each[0], args=each[1:]) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(" ".join(f"{what} {count}" for what, count in sorted(counts.items())))
    print("\n".join(wrong[:20]))
    sys.exit(1 if wrong else 0)


main()
