# shellcheck shell=sh
# Creates the Python virtual environment of this checkout. ./stalltop and ./run-tests source this file and set `root`.
#
# The environment does not need BCC: the distribution's Python runs BCC (probes/programs/bcc_interpreter.py).
# The environment is ready if its stamp file has the expected text. The stamp is written last: the next start repeats a
# set-up that was interrupted.

# The distribution's interpreter, which need not be the first in PATH.
system_python=${STALLTOP_SYSTEM_PYTHON:-/usr/bin/python3}
python=${STALLTOP_PYTHON:-$system_python}

say() { printf 'stalltop: %s\n' "$*" >&2; }

give_up() { # reason, remedy, exit code (default: 1)
    say "$1"
    [ -z "${2-}" ] || say "  $2"
    exit "${3:-1}"
}

is_new_enough() { # interpreter: succeeds for 3.11 or newer; runs it only if its file name has no version
    case $(readlink -f "$1") in
    */python3.1[1-9] | */python3.[2-9][0-9]) [ -x "$1" ] ;;
    */python3.[0-9] | */python3.10) return 1 ;;
    *) "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ;;
    esac
}

choose_python() { # sets $python: $STALLTOP_PYTHON, the distribution's, or the newest beside it or in PATH
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

has_bcc() { # succeeds if a Debian or Fedora package (or a derivative's) of BCC is installed
    for folder in /usr/lib/python3/dist-packages /usr/lib*/python3.*/site-packages; do
        [ -e "$folder/bcc/libbcc.py" ] && return 0
    done
    return 1
}

choose_place() { # sets $venv: in the checkout if that is writable or has one, else in the user's data folder
    venv=$root/.venv
    [ -w "$root" ] || [ -x "$venv/bin/python" ] ||
        venv=${XDG_DATA_HOME:-$HOME/.local/share}/stalltop/$(printf %s "$root" | cksum | tr -c '0-9\n' -)venv
}

wanted_stamp() { # extra: prints the stamp of an up-to-date environment: interpreter, source, extra, dependencies
    printf '%s %s %s %s\n' "$(readlink -f "$python")" "$root/src" "$1" \
        "$(sed -n '/^dependencies/,/^\[project.scripts\]/p' "$root/pyproject.toml" | cksum)"
}

is_ready() { # extra: succeeds if the environment is up to date for this extra
    [ -r "$venv/$1.ready" ] && [ "$(cat "$venv/$1.ready")" = "$(wanted_stamp "$1")" ]
}

begin_log() { # title: sets $log to the file for the output of package managers, and writes the title into it
    [ -n "${venv-}" ] || choose_place
    log=$venv.log
    { mkdir -p "${log%/*}" && printf '== %s\n' "$1" >>"$log"; } 2>/dev/null || log=/dev/null
}

say_reason() { # message: prints it with the last lines of the log
    say "$1; $log ends with:"
    tail -n 4 "$log" >&2
}

install_packages() { # Debian packages: installs them by apt, or says how to install them
    [ $# -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        say "not installed: $(named_elsewhere "$@")"
        ! command -v dnf >/dev/null 2>&1 || say "  install them with: sudo dnf install $(named_elsewhere "$@")"
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then
        say "not installed: $*"
        say "  install them with: sudo apt-get install $*"
        return 1
    fi
    begin_log "installing $*"
    say "installing $* (log: $log)"
    # Package lists are fetched only if the first attempt fails: a fresh machine has none.
    if ! apt_install "$@" >>"$log" 2>&1; then
        # An interrupted installation must be completed before another one may begin.
        { DEBIAN_FRONTEND=noninteractive dpkg --configure -a; apt-get update -q && apt_install "$@"; } >>"$log" 2>&1 </dev/null || {
            say_reason "cannot install $*: apt-get failed"
            return 1
        }
    fi
}

named_elsewhere() { # Debian packages: prints the names of the same packages in Fedora and its derivatives
    printf '%s\n' "$@" | sed -e 's/^python3-bpfcc$/python3-bcc/' -e 's/^libc6-dev$/glibc-devel/' -e 's/^iproute2$/iproute/' \
        -e 's/^python3\.11$/python3.12/' -e '/-venv$/d' | paste -sd' '
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

requirements() { # extra: prints the dependencies in pyproject.toml, one per line
    "$python" - "$root/pyproject.toml" "$1" <<'PY'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
groups = project["optional-dependencies"]


def named(group):  # a group may include another one: "stalltop[serve]"
    for line in groups.get(group, []):
        own = line.startswith(f"{project['name']}[")
        yield from named(line.partition("[")[2].rstrip("]")) if own else [line]


print(*project["dependencies"], *named(sys.argv[2]), sep="\n")
PY
}

have_python() { # makes sure that $python can create an environment: installs missing packages, or ends
    # If there is no Python at all, install the distribution's default version, which may be new enough.
    [ -n "${STALLTOP_PYTHON-}" ] || [ -x "$python" ] || { install_packages python3 python3-venv && choose_python; } || :
    if ! is_new_enough "$python"; then
        say "found $("$python" --version 2>/dev/null || echo "no Python"): stalltop needs Python 3.11 or newer"
        [ -z "${STALLTOP_PYTHON-}" ] && install_packages python3.11 python3.11-venv && choose_python
        is_new_enough "$python" || give_up \
            "install a newer Python beside the system's, or name one: STALLTOP_PYTHON=/path/to/python3 $0" "" 3
    fi
    package=python3-venv
    is_system_python || package=$(basename "$(readlink -f "$python")")-venv
    "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages "$package" ||
        give_up "cannot create a Python environment: $package is not installed" "" 3
}

make_environment() { # extra: creates or updates the environment for "run" or for an optional dependency group
    choose_python
    choose_place
    is_ready "$1" && return 0
    have_python
    mkdir -p "$(dirname "$venv")" || give_up "cannot write $(dirname "$venv")" "run from a checkout that you own"
    exec 9>"$venv.lock" || give_up "cannot write $venv.lock" "run from a checkout that you own"
    flock 9 # a second start at the same time waits here and then finds the environment ready
    if ! is_ready "$1"; then
        begin_log "preparing $venv"
        if is_ready run; then
            say "preparing $venv for this command (some seconds; log: $log)"
        else
            say "first start: preparing $venv (about half a minute; log: $log)"
            # A link leads to the environment of another checkout, which must not be cleared.
            if [ -L "$venv" ]; then rm "$venv"; else rm -f "$venv"/*.ready; fi
        fi
        fill_environment "$1" >>"$log" 2>&1 || {
            flock -u 9
            say_reason "cannot install the Python packages into $venv"
            give_up "nothing was started" \
                "check the network and start again: an incomplete environment is never used"
        }
        [ "$1" = run ] || wanted_stamp run >"$venv/run.ready"
        wanted_stamp "$1" >"$venv/$1.ready"
    fi
    flock -u 9
    exec 9>&-
}

fill_environment() { # extra: creates the environment, or adds packages to an existing one
    # The distribution's packages are built for its own Python: another Python would fail to import them.
    seen=
    ! is_system_python || seen=--system-site-packages
    is_ready run || "$python" -m venv --clear $seen "$venv" || return 1
    list=$(requirements "$1") || return 1
    printf '%s\n' "$list" >"$venv/requirements.txt"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --prefer-binary \
        -r "$venv/requirements.txt" || return 1
    # The checkout is imported in place, so that a changed file takes effect at the next start.
    "$venv/bin/python" - "$root" <<'PY'
import pathlib
import sys
import sysconfig

pathlib.Path(sysconfig.get_path("purelib"), "stalltop-checkout.pth").write_text(f"{sys.argv[1]}/src\n")
PY
}
