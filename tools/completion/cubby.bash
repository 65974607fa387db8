# bash completion for cubby. Words come from `cubby help`, so a new command or option needs no change here.

_cubby_boxes() {
    timeout 2 cubby ps --all 2>/dev/null | awk 'NR > 1 { print $1 }'
}

# Names in a box for ID:PATH; the colon breaks words, so only what follows it is offered.
_cubby_box_paths() {
    local id=$1 path=$2 dir=${2%/*}
    [[ $path == */* ]] || dir=
    timeout 2 cubby ls -l "$id:${dir:-.}" 2>/dev/null | awk -v dir="$dir" '
        NR > 1 { name = $6; if (substr($1, 1, 1) == "d") name = name "/"; print (dir == "" ? "" : dir "/") name }'
}

_cubby() {
    local cur prev words cword
    if declare -F _init_completion >/dev/null; then
        _init_completion -n : || return
    else
        words=("${COMP_WORDS[@]}")
        cword=$COMP_CWORD
        cur=${words[cword]}
        prev=${words[cword - 1]}
    fi
    COMPREPLY=()
    if ((cword == 1)); then
        COMPREPLY=($(compgen -W "$(cubby help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')" -- "$cur"))
        return
    fi
    local command=${words[1]} i
    case $command in
    run | exec)
        # After the command's own words begin, they complete as a command line would.
        for ((i = 2; i < cword; i++)); do
            [[ ${words[i]} == -- ]] && { COMPREPLY=($(compgen -c -f -- "$cur")); return; }
        done
        ;;
    esac
    case $prev in
    --backend) COMPREPLY=($(compgen -W "jail local" -- "$cur")); return ;;
    --net) COMPREPLY=($(compgen -W "none open" -- "$cur")); return ;;
    --type) COMPREPLY=($(compgen -W "skill agent" -- "$cur")); return ;;
    --scope) COMPREPLY=($(compgen -W "admin user read" -- "$cur")); return ;;
    --state) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --workspace) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --allow-weaker) COMPREPLY=($(compgen -W "landlock" -- "$cur")); return ;;
    --mount | --workdir | -w) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --box | -b) COMPREPLY=($(compgen -W "$(_cubby_boxes)" -- "$cur")); return ;;
    --outcome) COMPREPLY=($(compgen -W "ok failed INVALID UNAUTHORIZED DENIED NOT_FOUND EXISTS GONE TOO_LARGE LIMIT INTERNAL IO UNSUPPORTED PROTOCOL BUSY TIMEOUT" -- "$cur")); return ;;
    --template) COMPREPLY=($(compgen -W "host $(cubby template list 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(cubby help "$command" 2>/dev/null |
            grep -oE '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+') --help" -- "$cur"))
        return
    fi
    case $command in
    help) COMPREPLY=($(compgen -W "$(cubby help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')" -- "$cur")) ;;
    exec | rm | shell) COMPREPLY=($(compgen -W "$(_cubby_boxes)" -- "$cur")) ;;
    token) ((cword == 2)) && COMPREPLY=($(compgen -W "create list revoke" -- "$cur")) ;;
    skill) ((cword == 2)) && COMPREPLY=($(compgen -W "upload list edit rm sync publish unpublish install uninstall search" -- "$cur")) || COMPREPLY=($(compgen -f -- "$cur")) ;;
    tool) ((cword == 2)) && COMPREPLY=($(compgen -W "$(timeout 2 cubby tool 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")) ;;
    template) ((cword == 2)) && COMPREPLY=($(compgen -W "import list remove" -- "$cur")) || COMPREPLY=($(compgen -f -- "$cur")) ;;
    cat | ls | cp)
        if [[ $cur =~ ^([0-9a-f]{16}):(.*)$ ]]; then
            COMPREPLY=($(compgen -W "$(_cubby_box_paths "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")" -- "${BASH_REMATCH[2]}"))
            compopt -o nospace 2>/dev/null
        else
            COMPREPLY=($(compgen -S : -W "$(_cubby_boxes)" -- "$cur"))
            compopt -o nospace 2>/dev/null
            [[ $command == cp ]] && COMPREPLY+=($(compgen -f -- "$cur"))
        fi
        ;;
    esac
}

complete -F _cubby cubby
