#!/usr/bin/env python3
"""Random uploads, edits, deletes, commands and syncs of skills by several users of two agents, beside a model of what each of
them must see. usage: skills.py SOCKET STATE BACKEND SECONDS SEED
The model is a small union of trees: a user's own over his agent's public one. After every step some user's /skills is compared
with it, file by file; at the end all are, and no byte of any public layer may have changed. Prints what is not as it should be;
exit status 1 then."""
import hashlib, http.client, io, json, os, random, socket, sqlite3, stat, sys, tarfile, time, urllib.parse, zipfile

SOCKET, STATE, BACKEND, SECONDS, SEED = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5])
AGENTS, USERS, SKILLS = ("red", "blue"), ("ann", "bob", "cy"), ("alpha", "beta", "天气", "with space")
PATHS = ("SKILL.md", "run.sh", "d/a", "d/b", "d/e/f", "g/h")
dice, wrong, counts = random.Random(SEED), [], {}


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(SOCKET)


connection = Unix("localhost")


def ask(method, target, body=None, media="application/json"):
    data = json.dumps(body).encode() if media == "application/json" and body is not None else body
    connection.request(method, target, data, {"Content-Type": media})
    answer = connection.getresponse()
    return answer.status, answer.read()


# ---- the model: a node is a directory (dict), a file (bytes, executable), or GONE; a directory of a user may be whole ----

class Dir(dict):
    whole = False  # hides whatever the public one has
    put = False  # by an upload or a sync: there is a row for it


GONE = object()


def merged(own, public):
    if own is None:
        return public
    if own is GONE:
        return None
    if not isinstance(own, Dir) or own.whole or not isinstance(public, Dir):
        public = Dir()
    if not isinstance(own, Dir):
        return own
    tree = Dir()
    for name in set(own) | set(public):
        node = merged(own.get(name), public.get(name))
        if node is not None:
            tree[name] = node
    return tree


def below(public, name):
    return public.get(name) if isinstance(public, Dir) else None


def reach(own, public, parts):
    """The user's own directory at parts, made where it is missing, and the public one that is seen through it."""
    for name in parts:
        node = own.get(name)
        public = None if own.whole else below(public, name)
        if not isinstance(node, Dir):
            node_new = Dir()
            node_new.whole = node is GONE  # made where something was removed
            own[name] = node_new
        own = own[name]
    return own, None if own.whole else public


def write(own, public, path, node):
    *parents, name = path.split("/")
    directory, _ = reach(own, public, parents)
    directory[name] = node


def remove(own, public, path):
    *parents, name = path.split("/")
    directory, seen = reach(own, public, parents)
    directory.pop(name, None)
    if below(seen, name) is not None:
        directory[name] = GONE


def find(tree, path):
    for name in path.split("/"):
        tree = below(tree, name)
    return tree


def flat(tree, prefix=""):
    for name, node in (tree or {}).items():
        if isinstance(node, Dir):
            yield prefix + name, "dir"
            yield from flat(node, prefix + name + "/")
        else:
            yield prefix + name, node


def copy(tree):
    new = Dir()
    for name, node in tree.items():
        new[name] = copy(node) if isinstance(node, Dir) else node
    return new


class User:
    def __init__(self, agent, name):
        self.agent, self.name, self.own = agent, name, Dir()
        status, answer = ask("POST", "/v1/boxes", {"user": name, "agent": agent.name, "backend": BACKEND})
        assert status == 201, answer
        self.at = "/v1/boxes/" + json.loads(answer)["id"]

    def view(self):
        return merged(self.own, self.agent.public)


class Agent:
    def __init__(self, name):
        self.name, self.public = name, Dir()
        self.users = [User(self, user) for user in USERS]


# ---- steps ----

def note(step, got, want):
    counts[step] = counts.get(step, 0) + 1
    if got != want:
        wrong.append(f"{step}: got {got!r}, want {want!r}")


def content():
    return dice.randbytes(dice.choice((0, 3, 40, 5000))).hex().encode()


def tree_new():
    tree = Dir()
    for path in dice.sample(PATHS, dice.randint(1, len(PATHS))):
        write(tree, None, path, (content(), path == "run.sh"))
    return tree


def archive(skills):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for path, node in flat(skills):
            if node != "dir":
                info = zipfile.ZipInfo(path)
                info.external_attr = (0o755 if node[1] else 0o644) << 16
                file.writestr(info, node[0])
    return data.getvalue()


def upload(user, public):
    skills = Dir({name: tree_new() for name in dice.sample(SKILLS, dice.randint(1, 2))})
    status, answer = ask("PUT", user.at + "/skills" + ("?base=1" if public else ""), archive(skills), "application/zip")
    note("public upload" if public else "upload", (status, json.loads(answer).get("skills")), (200, sorted(skills)))
    for name, tree in skills.items():
        if public:
            user.agent.public[name] = tree
        else:
            tree.whole = tree.put = True
            user.own[name] = tree


def step_upload(user):
    upload(user, False)


def step_public_upload(user):
    upload(user, True)


def step_drop(user):
    name = dice.choice(SKILLS)
    there = name in user.view()
    status, _ = ask("DELETE", f"{user.at}/skills/{urllib.parse.quote(name)}")
    note("drop", status, 204 if there else 404)
    if there:
        remove(user.own, user.agent.public, name)


def step_public_drop(user):
    name = dice.choice(SKILLS)
    there = name in user.agent.public
    status, _ = ask("DELETE", f"{user.at}/skills/{urllib.parse.quote(name)}?base=1")
    note("public drop", status, 204 if there else 404)
    user.agent.public.pop(name, None)


def step_write(user):
    path, data = f"{dice.choice(SKILLS)}/{dice.choice(PATHS)}", content()
    old = find(user.view(), path)
    status, _ = ask("PUT", f"{user.at}/files?parents=true&path=" + urllib.parse.quote("/skills/" + path), data, "application/octet-stream")
    note("write", status, 200 if old else 201)
    write(user.own, user.agent.public, path, (data, bool(old and old[1])))


def step_remove(user):
    files = [path for path, _ in flat(user.view()) if "/" in path]
    if not files:
        return
    path = dice.choice(files)
    status, _ = ask("DELETE", f"{user.at}/files?recursive=true&path=" + urllib.parse.quote("/skills/" + path))
    note("remove", status, 204)
    remove(user.own, user.agent.public, path)


def step_command(user):
    """One command that appends, makes, marks and removes."""
    files = [path for path, node in flat(user.view()) if node != "dir" and "/" in path]
    if not files:
        return
    path, gone = dice.choice(files), dice.choice(files)
    fresh = f"{path.split('/')[0]}/made/{dice.randint(0, 3)}"
    command = f'cd /workspace/skills && printf more >> "$1" && chmod +x "$1" && mkdir -p "${{3%/*}}" && printf new > "$3" && rm -f "$2"'
    status, answer = ask("POST", user.at + "/exec", {"argv": ["/bin/sh", "-c", command, "sh", path, gone, fresh]})
    note("command", (status, json.loads(answer).get("exit_code")), (200, 0))
    write(user.own, user.agent.public, path, (find(user.view(), path)[0] + b"more", True))
    old = find(user.view(), fresh)
    write(user.own, user.agent.public, fresh, (b"new", bool(old and old[1])))
    remove(user.own, user.agent.public, gone)


def step_to_base(user):
    name = dice.choice(SKILLS)
    mine, public = user.view().get(name), user.agent.public.get(name)
    status, _ = ask("POST", f"{user.at}/skills/{urllib.parse.quote(name)}/sync", {"direction": "to_base"})
    note("to base", status, 204 if mine is not None or public is not None else 404)
    if mine is not None:
        user.agent.public[name] = copy(mine)
    else:
        user.agent.public.pop(name, None)


def step_from_base(user):
    name = dice.choice(SKILLS)
    mine, public = user.view().get(name), user.agent.public.get(name)
    status, _ = ask("POST", f"{user.at}/skills/{urllib.parse.quote(name)}/sync", {"direction": "from_base"})
    note("from base", status, 204 if mine is not None or public is not None else 404)
    if public is not None:
        user.own[name] = copy(public)
        user.own[name].whole = user.own[name].put = True
    elif mine is not None:
        remove(user.own, user.agent.public, name)


STEPS = {step_upload: 3, step_public_upload: 3, step_drop: 1, step_public_drop: 1, step_write: 4, step_remove: 3, step_command: 5,
         step_to_base: 1, step_from_base: 1}


# ---- comparing ----

def seen(user):
    status, data = ask("GET", user.at + "/archive?path=/skills")
    assert status == 200, data
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar:
            name = entry.name.strip("/")
            if name.split("/")[0] not in ("", ".cubby"):
                files[name] = "dir" if entry.isdir() else (tar.extractfile(entry).read(), bool(entry.mode & 0o111))
    return files


def compare(user, step):
    got, want = seen(user), dict(flat(user.view()))
    for path in sorted(set(got) | set(want)):
        if got.get(path) != want.get(path):
            short = lambda node: node and (node if node == "dir" else (node[0][:20], len(node[0]), node[1]))
            wrong.append(f"after {step}: {user.agent.name}/{user.name} has {path}: {short(got.get(path))}, should: {short(want.get(path))}")


def layers():
    """Every file of every public layer, as it lies on the disk."""
    top, found = os.path.join(STATE, "skills/layers"), {}
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    found[path] = (hashlib.sha256(file.read()).digest(), status.st_mode, status.st_uid, status.st_mtime_ns)
    return found


def rows(agents):
    with sqlite3.connect(f"file:{STATE}/skills.db?mode=ro", uri=True) as db:
        for agent in agents:
            got = {row[0] for row in db.execute("SELECT skill_id FROM agent_skill_registry WHERE agent_id = ? AND user_id IS NULL", (agent.name,))}
            note("public rows", got, set(agent.public))
            for user in agent.users:
                got = {row[0] for row in db.execute("SELECT skill_id FROM agent_skill_registry WHERE agent_id = ? AND user_id = ?", (agent.name, user.name))}
                view = user.view()
                put = {name for name, node in user.own.items() if isinstance(node, Dir) and node.put}
                note("rows", (got - set(view), put - got), (set(), set()))


def main():
    agents = [Agent(name) for name in AGENTS]
    users = [user for agent in agents for user in agent.users]
    names, weights, known, begin = list(STEPS), list(STEPS.values()), {}, time.monotonic()
    while not wrong and time.monotonic() < begin + (SECONDS if len(counts) > len(STEPS) else 60):  # layers are counted too
        user, step = dice.choice(users), dice.choices(names, weights)[0]
        step(user)
        compare(user, step.__name__[5:])
        if "public" in step.__name__ or "base" in step.__name__:
            compare(dice.choice(user.agent.users), step.__name__[5:] + " by another")
            for path, state in layers().items():
                note("layers", known.setdefault(path, state), state)
    for user in users:
        compare(user, "all")
    for path, state in layers().items():
        note("layers", known.setdefault(path, state), state)
    if BACKEND == "jail":
        rows(agents)
    print(" ".join(f"{step} {count}" for step, count in sorted(counts.items())))
    print("\n".join(wrong[:20]))
    sys.exit(1 if wrong else 0)


main()
