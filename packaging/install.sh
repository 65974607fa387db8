#!/bin/sh
# Installs what lies beside it below PREFIX (/usr/local): ./install.sh [PREFIX]. Removes nothing.
set -eu
prefix=${1:-/usr/local}
here=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
have=$(ldd --version 2>&1 | sed -n '1s/.* //p')
need=$(cat "$here/usr/libexec/cubby/glibc")
if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -1)" != "$need" ]; then
    echo "install.sh: these programs need glibc $need or newer; this system has '$have'" >&2
    exit 1
fi
missing=$(ldd "$here/usr/bin/cubbyd" | sed -n 's/ => not found//p' | tr -d '\t' | tr '\n' ' ')
if [ -n "$missing" ]; then
    echo "install.sh: this system lacks ${missing% }: install the packages that have them first" >&2
    exit 1
fi
mkdir -p "$prefix"
(cd "$here/usr" && tar -cf - .) | (cd "$prefix" && tar -xof -)
for unit in "$prefix"/lib/systemd/*/cubby*; do
    sed -i "s|/usr/bin/cubby|$prefix/bin/cubby|" "$unit"
done
echo "installed below $prefix; try: $prefix/bin/cubby doctor"
