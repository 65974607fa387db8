"""Builds the package with the standard library alone, so that `pip install ./clients/python` downloads nothing. The hooks
are those of PEP 517; pyproject.toml names this file."""
import base64, glob, hashlib, io, os, re, tarfile, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def _project():
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:  # Python 3.10 has no reader for TOML
        return dict(re.findall(r'^([a-z-]+) = "(.*)"$', file.read(), re.M))


def _metadata(project):
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
        return (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
                f"Summary: {project['description']}\nRequires-Python: {project['requires-python']}\n"
                f"Description-Content-Type: text/markdown\n\n{file.read()}")


def _sources():
    return sorted(glob.glob("cubby/*.py", root_dir=HERE)) + ["cubby/py.typed"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = _project()
    stem = f"{project['name']}-{project['version']}"
    info, name = f"{stem}.dist-info", f"{stem}-py3-none-any.whl"
    files = {}
    for path in _sources():
        with open(os.path.join(HERE, path), "rb") as file:
            files[path] = file.read()
    files[f"{info}/METADATA"] = _metadata(project).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: cubby\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    files[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory, config_settings=None):
    project = _project()
    stem = f"{project['name']}-{project['version']}"
    with tarfile.open(os.path.join(sdist_directory, f"{stem}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in [*_sources(), "pyproject.toml", "README.md", "build_backend.py"]:
            archive.add(os.path.join(HERE, path), f"{stem}/{path}")
        data = _metadata(project).encode()
        info = tarfile.TarInfo(f"{stem}/PKG-INFO")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return f"{stem}.tar.gz"
