/* The languages, a row each, with the texts of their drivers as they lie in this directory. Used by interpreter.c.
 * Invariant: the names of the files are those that the Makefile says this object is made of. */
#include "box/interpreter/interpreter.h"

#define FILE_TEXT(name) ".incbin \"src/box/interpreter/" name "\"\n"
#define TEXT(name, files)                                                                                              \
    extern const char name[];                                                                                          \
    __asm__(".section .rodata\n"                                                                                       \
            ".global " #name "\n"                                                                                      \
            ".type " #name ", @object\n" #name ":\n" files ".byte 0\n"                                                 \
            ".size " #name ", . - " #name "\n"                                                                         \
            ".previous\n")

TEXT(driver_python, FILE_TEXT("charts.py") FILE_TEXT("notebook.py") FILE_TEXT("python.py"));
TEXT(driver_node, FILE_TEXT("node.js"));

#define PYTHON_ABOUT                                                                                                   \
    "import os, platform, sys, sysconfig\n"                                                                            \
    "print(platform.python_version(), os.path.dirname(sys.executable), sysconfig.get_path('purelib'), sep='\\n')\n"    \
    "if len(sys.argv) > 1:\n"                                                                                          \
    "    from importlib.metadata import distributions\n"                                                               \
    "    found = {d.metadata['Name']: d.version for d in distributions() if d.metadata['Name']}\n"                     \
    "    for name in sorted(found, key=str.lower):\n"                                                                  \
    "        print(name, found[name], sep='\\t')\n"

#define NODE_ABOUT                                                                                                     \
    "const fs = require('fs'), path = require('path');\n"                                                              \
    "const roots = [path.resolve(process.execPath, '../../lib/node_modules'), '/usr/share/nodejs',\n"                  \
    "               '/usr/local/lib/node_modules', '/usr/lib/node_modules'];\n"                                        \
    "const found = new Map();\n"                                                                                       \
    "const read = (dir) => { try { return fs.readdirSync(dir); } catch { return []; } };\n"                            \
    "const add = (dir) => { try {\n"                                                                                   \
    "    const p = JSON.parse(fs.readFileSync(path.join(dir, 'package.json')));\n"                                     \
    "    if (p.name && p.version && !found.has(p.name)) found.set(p.name, p.version); } catch {} };\n"                 \
    "if (process.argv.length > 1) for (const root of new Set(roots)) for (const name of read(root))\n"                 \
    "    if (name[0] === '@') read(path.join(root, name)).forEach((n) => add(path.join(root, name, n)));\n"            \
    "    else if (name[0] !== '.') add(path.join(root, name));\n"                                                      \
    "console.log([process.version, path.dirname(process.execPath), roots.find((r) => read(r).length) || roots[0],\n"   \
    "             ...[...found].sort().map((p) => p.join('\\t'))].join('\\n'));\n"

const struct language language_python = {
    .name = "python",
    .title = "Python",
    .program = "python3",
    .package = "python3",
    .mark = "cubby=python:",
    .flags = (const char *const[]){"-u", "-X", NULL},
    .mark_flag = "",
    .eval = "-c",
    .driver = driver_python,
    .about = PYTHON_ABOUT,
};
const struct language language_javascript = {
    .name = "javascript",
    .title = "JavaScript",
    .program = "node",
    .package = "nodejs",
    .mark = "cubby=node:",
    .flags = (const char *const[]){NULL},
    .mark_flag = "--title=",
    .eval = "-e",
    .driver = driver_node,
    .about = NODE_ABOUT,
    .as_program = true,
};
const struct language language_bash = {
    .name = "bash",
    .title = "Bash",
    .program = "bash",
    .package = "bash",
    .mark = "code.",
    .shell = true,
};
