#!/usr/bin/env python3
"""What the hosts of the world serve to real programs (front/net_clients).   world_files.py DIRECTORY: makes DIRECTORY/www with a Python
index and a page (pypi.test), an npm registry and an apt repository (a.hub.test), a git repository (git.test)."""
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

www = sys.argv[1] + "/www"


def place(path, data):
    os.makedirs(os.path.dirname(f"{www}/{path}"), exist_ok=True)
    with open(f"{www}/{path}", "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def wheel():
    data, about = io.BytesIO(), "tiny-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("tiny.py", "answer = 42\n")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n")
    return data.getvalue()


def tarball():
    data, text = io.BytesIO(), b'{"name":"tiny","version":"1.0.0"}'
    with tarfile.open(fileobj=data, mode="w:gz") as file:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(text)
        file.addfile(entry, io.BytesIO(text))
    return data.getvalue()


def debian():
    control = "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: test <t@t.test>\nDescription: tiny\n"
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(work + "/tree/DEBIAN")
        os.chmod(work + "/tree", 0o755)
        with open(work + "/tree/DEBIAN/control", "w") as file:
            file.write(control)
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", work + "/tree", work + "/deb"], check=True, stdout=subprocess.DEVNULL)
        with open(work + "/deb", "rb") as file:
            data = file.read()
    digest = hashlib.sha256(data).hexdigest()
    return data, f"{control}Filename: ./tiny_1.0_all.deb\nSize: {len(data)}\nSHA256: {digest}\n"


def git(*words):
    subprocess.run(("git", "-c", "user.name=t", "-c", "user.email=t@t.test", "-c", "safe.directory=*") + words, check=True)


place("pypi.test/index.html", "<!DOCTYPE html><p>the world</p>")
place("pypi.test/simple/tiny/tiny-1.0-py3-none-any.whl", wheel())
place("pypi.test/simple/tiny/index.html", '<!DOCTYPE html><a href="tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>')
place("a.hub.test/packages/tiny.tgz", tarball())
place("a.hub.test/tiny", json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {
    "1.0.0": {"name": "tiny", "version": "1.0.0", "dist": {"tarball": "https://a.hub.test/packages/tiny.tgz"}}}}))
package, packages = debian()
place("a.hub.test/deb/tiny_1.0_all.deb", package)
place("a.hub.test/deb/Packages", packages)
with tempfile.TemporaryDirectory() as work:
    git("init", "-q", "-b", "main", work)
    git("-C", work, "commit", "-q", "--allow-empty", "-m", "world")
    git("clone", "-q", "--bare", work, www + "/git.test/repo.git")
    git("-C", www + "/git.test/repo.git", "update-server-info")
