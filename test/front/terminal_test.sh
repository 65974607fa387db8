#!/bin/bash
# Terminals: `cubby run` and `cubby shell` under a pty of their own, driven by test/lib/ptyrun.c.
set -u
cd "$(dirname "$0")/../.." || exit 125
. test/lib/lib.sh
. test/lib/daemon.sh
write_config
CUBBY=$BUILD/cubby PTYRUN=$BUILD/test/ptyrun
export CUBBY_URL=unix:$SOCKET

t() { # t STEP... -- COMMAND...: OUT (what appeared), CODE
    OUT=$(timeout 60 "$PTYRUN" 100x30 "$@" < /dev/null 2>&1)
    CODE=$?
}

# Prompts of a shell would depend on the machine; this one says when it is ready.
waiting='trap "stty size; exit 9" WINCH; trap "echo interrupted; exit 8" INT; echo ready; while :; do read -t 0.05; '\
'done'

checks() { # checks NAME COMMAND...: the same for both doors
    local name=$1
    shift
    t -- "$@" sh -c 'stty size; test -t 0 && test -t 1 && test -t 2 && echo terminal; exit 5'
    is "$name: exit status" "$CODE" 5
    like "$name: has our size" "$OUT" '30 100'
    like "$name: is a terminal" "$OUT" terminal
    like "$name: ours is as before" "$OUT" 'terminal same'
    t expect:ready resize:132x50 'expect:50 132' -- "$@" bash -c "$waiting"
    is "$name: a new window size arrives" "$CODE" 9
    t expect:ready 'send:\x03' expect:interrupted -- "$@" bash -c "$waiting"
    is "$name: Ctrl-C goes to the box" "$CODE" 8
    like "$name: and the terminal is as before" "$OUT" 'terminal same'
    t 'expect:ready' 'send:one\r' expect:one 'send:\x04' -- "$@" sh -c 'echo ready; cat; exit 3'
    is "$name: keys, echo and Ctrl-D" "$CODE" 3
    t -- "$@" sh -c 'kill -KILL $$'
    is "$name: killed by a signal" "$CODE" 137
    t expect:ready signal:15 -- "$@" bash -c "$waiting"
    is "$name: ended from outside" "$CODE" 143
    like "$name: the terminal is as before then too" "$OUT" 'terminal same'
    t -- "$@" sh -c 'printf "\033[31mred\033[0m\n"; head -c 300000 /dev/zero | tr "\0" x; echo; echo the end'
    is "$name: much output" "$CODE" 0
    like "$name: all of it" "$OUT" 'the end'
}

checks run "$CUBBY" run --
OUT=$(printf 'typed\n' | timeout 30 "$CUBBY" run -t -- sh -c 'test -t 0 && head -1' 2>&1)
like 'run -t without a terminal of our own' "$OUT" typed

start_or_end "$BUILD/cubbyd"
box=$("$CUBBY" create)
checks shell "$CUBBY" shell "$box" --
t 'send:echo $((6*7)); exit 4\r' expect:42 -- "$CUBBY" shell
is 'shell without an id: a box of its own' "$CODE" 4
is 'and it is gone' "$("$CUBBY" ps -a --json | jq -r '[.boxes[].id]|join(" ")')" "$box"
before=$("$CUBBY" ps --json | jq '.boxes | length')
t -- "$CUBBY" shell nobox
is 'shell with a typing error for an id' "$CODE" 2
like 'says how a command is run in a new box' "$OUT" \
    "no box 'nobox'; to run a command in a new box: cubby shell -- nobox"
is 'and makes no box' "$("$CUBBY" ps --json | jq '.boxes | length')" "$before"
for way in "shell $box --" 'run --'; do
    OUT=$(TERM=xterm-direct timeout 60 "$PTYRUN" 100x30 -- "$CUBBY" $way sh -c 'echo name=$TERM.' < /dev/null 2>&1)
    like "${way%% *}: the terminal has our name" "$OUT" 'name=xterm-direct\.'
    OUT=$(TERM='x y;z' timeout 60 "$PTYRUN" 100x30 -- "$CUBBY" $way sh -c 'echo name=$TERM.' < /dev/null 2>&1)
    like "${way%% *}: a name that is not one is replaced" "$OUT" 'name=xterm-256color\.'
done
OUT=$(COLUMNS=91 LINES=33 timeout 60 "$CUBBY" shell "$box" -- stty size < /dev/null 2>&1)
like 'shell without a terminal: the size is that of the environment' "$OUT" '^33 91'
t -- "$CUBBY" shell 0123456789abcdef
is 'shell in no box' "$CODE" 125
like 'says so' "$OUT" 0123456789abcdef
t -- "$CUBBY" shell --user root --workdir /tmp "$box" -- sh -c 'id -u; pwd'
like 'shell --user --workdir' "$OUT" $'^0\r?\n/tmp'
stop_daemon
finish
