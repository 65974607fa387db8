#!/usr/bin/env python3
"""Runs the examples of a client's README and page as they stand. usage: readme.py python|typescript"""
import os, re, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
LANGUAGES = {"python": ("python", ".py", ["python3"]), "typescript": ("js", ".mjs", ["node"])}
word, suffix, program = LANGUAGES[sys.argv[1]]
failed = 0
for name in (f"clients/{sys.argv[1]}/README.md", f"docs/{sys.argv[1]}.md"):
    path = os.path.join(ROOT, name)
    blocks = re.findall(rf"^```{word}\n(.*?)^```", open(path).read(), re.M | re.S) if os.path.exists(path) else []
    for number, block in enumerate(blocks, 1):
        block = block.replace("from 'cubby'", f"from '{os.path.abspath(ROOT)}/clients/typescript/dist/index.js'")
        with tempfile.TemporaryDirectory() as work:
            file = os.path.join(work, "example" + suffix)
            open(file, "w").write(block)
            env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "clients/python"), "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(program + [file], cwd=work, env=env, capture_output=True, text=True, timeout=60)
        failed += done.returncode != 0
        why = "" if done.returncode == 0 else " # " + " ".join(done.stderr.split())[-500:]
        print(f"{'ok' if done.returncode == 0 else 'not ok'} - {name}, example {number}{why}")
sys.exit(failed > 0)
