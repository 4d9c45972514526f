# shellcheck shell=sh
# The one private environment of this checkout. Sourced by ./stalltop and ./run-tests; `root` is set by them.
#
# It need not see BCC: the distribution's own Python runs that (probes/programs/bcc_interpreter.py).
# It counts as ready when its stamp holds the expected words; the stamp is written last, so that a set-up that
# was stopped anywhere is made anew by the next start.

# The distribution's interpreter; another may come first in PATH.
system_python=${STALLTOP_SYSTEM_PYTHON:-/usr/bin/python3}
python=${STALLTOP_PYTHON:-$system_python}

say() { printf 'stalltop: %s\n' "$*" >&2; }

give_up() { # reason, remedy
    say "$1"
    [ -z "${2-}" ] || say "  $2"
    exit "${3:-1}"
}

is_new_enough() { # interpreter: 3.11 or newer, by its file's name where that tells, else by what it says itself
    case $(readlink -f "$1") in
    */python3.1[1-9] | */python3.[2-9][0-9]) [ -x "$1" ] ;;
    */python3.[0-9] | */python3.10) return 1 ;;
    *) "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ;;
    esac
}

choose_python() { # sets $python: the one that is asked for, the distribution's own, the newest beside it or in PATH
    [ -z "${STALLTOP_PYTHON-}" ] && ! is_new_enough "$system_python" || return 0
    minors='19 18 17 16 15 14 13 12 11'
    set --
    for minor in $minors; do set -- "$@" "$system_python.$minor"; done
    for minor in $minors; do set -- "$@" "$(command -v "python3.$minor")"; done
    for python in "$@" "$(command -v python3)"; do
        [ -x "$python" ] && is_new_enough "$python" && return 0
    done
    python=$system_python
}

is_system_python() { [ "$(readlink -f "$python")" = "$(readlink -f "$system_python")" ]; }

has_bcc() { # among the packages of Debian, Fedora and their relatives
    for folder in /usr/lib/python3/dist-packages /usr/lib*/python3.*/site-packages; do
        [ -e "$folder/bcc/libbcc.py" ] && return 0
    done
    return 1
}

choose_place() { # sets $venv: in the checkout where it can be written, else in the user's own data folder
    venv=$root/.venv
    [ -w "$root" ] || [ -x "$venv/bin/python" ] ||
        venv=${XDG_DATA_HOME:-$HOME/.local/share}/stalltop/$(printf %s "$root" | cksum | tr -c '0-9\n' -)venv
}

wanted_stamp() { # what the stamp says when nothing is to be done: interpreter, place, dependencies, extras
    printf '%s %s %s %s\n' "$(readlink -f "$python")" "$root/src" "$1" \
        "$(sed -n '/^dependencies/,/^\[project.scripts\]/p' "$root/pyproject.toml" | cksum)"
}

is_ready() { # extra
    [ -r "$venv/$1.ready" ] && [ "$(cat "$venv/$1.ready")" = "$(wanted_stamp "$1")" ]
}

install_packages() { # Debian packages, by apt; says what is missing where it may not install them
    [ $# -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        say "missing here: $(named_elsewhere "$@")"
        ! command -v dnf >/dev/null 2>&1 || say "  install them with: sudo dnf install $(named_elsewhere "$@")"
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then
        say "missing here: $*"
        say "  install them with: sudo apt-get install $*"
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

named_elsewhere() { # the names that Fedora and its relatives have for Debian's packages
    printf '%s\n' "$@" | sed -e 's/^python3-bpfcc$/python3-bcc/' -e 's/^libc6-dev$/glibc-devel/' -e 's/^iproute2$/iproute/' \
        -e 's/^python3\.11$/python3.12/' -e '/-venv$/d' | paste -sd' '
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

have_python() { # checks that $python can make an environment; installs what is missing, or ends
    # Where there is none, the distribution's usual one may well be new enough.
    [ -n "${STALLTOP_PYTHON-}" ] || [ -x "$python" ] || { install_packages python3 python3-venv && choose_python; } || :
    if ! is_new_enough "$python"; then
        say "$("$python" --version 2>/dev/null || echo "no Python") here: stalltop needs Python 3.11 or newer"
        [ -z "${STALLTOP_PYTHON-}" ] && install_packages python3.11 python3.11-venv && choose_python
        is_new_enough "$python" || give_up \
            "install one beside the system's own, or name one: STALLTOP_PYTHON=/path/to/python3 $0" "" 3
    fi
    package=python3-venv
    is_system_python || package=$(basename "$(readlink -f "$python")")-venv
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages "$package" ||
        give_up "cannot make a Python environment without $package" "" 3
}

make_environment() { # extra: "run" or the name of an optional dependency group
    choose_python
    choose_place
    is_ready "$1" && return 0
    have_python
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
    # Packages of the distribution are built for its own Python: another would take them, and fail on them.
    seen=
    ! is_system_python || seen=--system-site-packages
    is_ready run || "$python" -m venv --clear $seen "$venv" >&2 || return 1
    list=$(requirements "$1") || return 1
    printf '%s\n' "$list" >"$venv/requirements.txt"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --prefer-binary \
        -r "$venv/requirements.txt" >&2 || return 1
    # The checkout itself is imported in place: a changed file takes effect at the next start.
    "$venv/bin/python" - "$root" <<'PY'
import pathlib
import sys
import sysconfig

pathlib.Path(sysconfig.get_path("purelib"), "stalltop-checkout.pth").write_text(f"{sys.argv[1]}/src\n")
PY
}
