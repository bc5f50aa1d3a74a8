"""`bosket completion`: the script that makes a shell complete `bosket`, and `kubectl bosket`."""

from __future__ import annotations

from typing import Final, Literal

from bosket.cli.output import flush_line

#: The first word of a command line that asks for candidates.
COMPLETE: Final = "__complete"

_BASH: Final = r"""# bash completion of bosket: source this file
_bosket() {
    local word="${COMP_WORDS[COMP_CWORD]}" answer files value meaning quoted
    [[ $word == "=" ]] && word=""
    COMPREPLY=()
    compopt +o default 2>/dev/null
    answer=$("${COMP_WORDS[0]/#\~/$HOME}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
    files=${answer##*:}
    while IFS=$'\t' read -r value meaning; do
        [[ $value == :[0-9] || -z $value || $value != "$word"* ]] && continue
        printf -v quoted %q "$value"
        COMPREPLY+=("$quoted")
    done <<< "$answer"
    if [[ $files == 0 ]]; then compopt -o default 2>/dev/null; fi
}
complete -F _bosket bosket
"""

_ZSH: Final = r"""#compdef bosket
# zsh completion of bosket: source this file, or put it as _bosket into a folder of $fpath
_bosket() {
    local -a lines described
    local line value meaning
    lines=("${(@f)$(${~words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${(@)lines[1,-2]}"; do
        value=${line%%$'\t'*} meaning=${line#*$'\t'}
        [[ $line == *$'\t'* ]] || meaning=""
        described+=("${value//:/\\:}${meaning:+:$meaning}")
    done
    (( ${#described} )) && _describe -V bosket described
    [[ ${lines[-1]} == :0 ]] && _files
    return 0
}
if [[ ${funcstack[1]} == _bosket ]]; then _bosket "$@"; else compdef _bosket bosket; fi
"""

_FISH: Final = r"""# fish completion of bosket: put this into ~/.config/fish/completions/bosket.fish
function __bosket_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] "$typed" 2>/dev/null)
    for line in $lines
        string match -qr '^:[0-9]$' -- $line; or echo $line
    end
    if test "$lines[-1]" = ":0"
        __fish_complete_path "$typed"
    end
end
complete -c bosket -f -a '(__bosket_complete)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script that makes a shell complete commands, options, and names of queues, jobs and namespaces.

    For `kubectl bosket` nothing more is needed than kubectl's own completion: it asks kubectl_complete-bosket, which
    is installed with bosket.

    Parameters
    ----------
    shell
        Which shell.
    """
    flush_line(_SCRIPTS[shell].rstrip())
