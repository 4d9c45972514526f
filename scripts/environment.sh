# shellcheck shell=sh
# The one private environment of this checkout. Sourced by ./stalltop and ./run-tests; `root` is set by them.
#
# The environment sees the distribution's packages, because the real BCC (python3-bpfcc) comes only from there.
# It counts as ready when its stamp holds the expected words; the stamp is written last, so that a set-up that
# was stopped anywhere is made anew by the next start.

# The distribution's interpreter is the one that sees its BCC; another may come first in PATH.
python=${STALLTOP_PYTHON:-/usr/bin/python3}

say() { printf 'stalltop: %s\n' "$*" >&2; }

give_up() { # reason, remedy
    say "$1"
    [ -z "${2-}" ] || say "  $2"
    exit "${3:-1}"
}

choose_place() { # sets $venv: in the checkout where it can be written, else in the user's own data folder
    venv=$root/.venv
    [ -w "$root" ] || [ -x "$venv/bin/python" ] ||
        venv=${XDG_DATA_HOME:-$HOME/.local/share}/stalltop/$(printf %s "$root" | cksum | tr -c '0-9\n' -)venv
}

wanted_stamp() { # what the stamp says when nothing is to be done: interpreter, place, dependencies, extras
    printf '%s %s %s %s\n' "$(readlink -f "$python")" "$root" "$1" \
        "$(sed -n '/^dependencies/,/^\[project.scripts\]/p' "$root/pyproject.toml" | cksum)"
}

is_ready() { # extra
    [ -r "$venv/$1.ready" ] && [ "$(cat "$venv/$1.ready")" = "$(wanted_stamp "$1")" ]
}

install_packages() { # Debian packages, by apt; says what is missing where it may not install them
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        say "missing here: $*"
        say "  install them with: sudo apt-get install $*"
        return 1
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        say "missing here: $* (no apt-get: install them by this system's own means)"
        return 1
    fi
    say "installing $*"
    apt_log=$(mktemp) || return 1
    # A fresh machine has no package lists: fetch them only when the first try does not find what it needs.
    if ! apt_install "$@" >"$apt_log" 2>&1; then
        # An installation that was stopped in the middle has to be ended before another may begin.
        { DEBIAN_FRONTEND=noninteractive dpkg --configure -a; apt-get update -q && apt_install "$@"; } >"$apt_log" 2>&1 </dev/null || {
            tail -n 4 "$apt_log" >&2
            rm -f "$apt_log"
            say "could not install $*"
            return 1
        }
    fi
    rm -f "$apt_log"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

requirements() { # extra: what pyproject.toml asks for, a line each
    "$python" - "$root/pyproject.toml" "$1" <<'PY'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
groups = project["optional-dependencies"]


def named(group):  # a group may take in another: "stalltop[serve]"
    for line in groups.get(group, []):
        own = line.startswith(f"{project['name']}[")
        yield from named(line.partition("[")[2].rstrip("]")) if own else [line]


print(*project["dependencies"], *named(sys.argv[2]), sep="\n")
PY
}

make_environment() { # extra: "run" or the name of an optional dependency group
    choose_place
    is_ready "$1" && return 0
    [ -x "$python" ] || install_packages python3 || give_up "no $python here" "install python3 (3.11 or newer)"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        give_up "$("$python" --version) is too old" "stalltop needs Python 3.11 or newer: Debian 12, Ubuntu 24.04 or later" 3
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv ||
        give_up "cannot make a Python environment without python3-venv" "" 3
    mkdir -p "$(dirname "$venv")" || give_up "cannot write $(dirname "$venv")" "run from a checkout that you own"
    exec 9>"$venv.lock" || give_up "cannot write $venv.lock" "run from a checkout that you own"
    flock 9 # two first starts at once: the second waits and finds everything done
    if ! is_ready "$1"; then
        if is_ready run; then
            say "preparing $venv for this command (some seconds)"
        else
            say "first start: preparing $venv (about half a minute)"
            rm -f "$venv"/*.ready
        fi
        fill_environment "$1" || {
            flock -u 9
            give_up "the Python packages could not be installed (see above)" \
                "check the network and start again: nothing half-made is used"
        }
        [ "$1" = run ] || wanted_stamp run >"$venv/run.ready"
        wanted_stamp "$1" >"$venv/$1.ready"
    fi
    flock -u 9
    exec 9>&-
}

fill_environment() { # extra: made anew, or added to what is there and whole
    is_ready run || "$python" -m venv --clear --system-site-packages "$venv" >&2 || return 1
    list=$(requirements "$1") || return 1
    printf '%s\n' "$list" >"$venv/requirements.txt"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --prefer-binary \
        -r "$venv/requirements.txt" >&2 || return 1
    # The checkout itself is imported in place: a changed file takes effect at the next start.
    "$venv/bin/python" - "$root" <<'PY'
import pathlib
import sys
import sysconfig

pathlib.Path(sysconfig.get_path("purelib"), "stalltop-checkout.pth").write_text(sys.argv[1] + "\n")
PY
}
