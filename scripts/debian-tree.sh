# shellcheck shell=sh
# Debian root file systems made by debootstrap. Sourced by clean-tree-test and whole-system-test; `root` (the checkout)
# and `tool` (the name of the script, for messages) are set by them.
#
# Settings: TREES (folder for the trees), MIRROR (of Debian's packages; default: debootstrap's), and BINDS (files and
# folders of this host to show in the tree, such as a proxy's certificates).

trees=${TREES:-/var/tmp/stalltop-trees}

give_up() { # exit code, reason
    echo "$tool: $2" >&2
    exit "$1"
}

need() { # program, package …: says what to install
    [ "$(id -u)" = 0 ] || give_up 3 "needs root"
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || give_up 3 "no $1 here: apt-get install $2"
        shift 2
    done
}

make_base() { # suite: sets $base, a minimal tree, made once
    base=$trees/$1.base
    mkdir -p "$trees"
    [ ! -e "$base.ready" ] || return 0
    rm -rf "$base"
    debootstrap --variant=minbase --include=ca-certificates "$1" "$base" ${MIRROR:+"$MIRROR"} >"$trees/$1.log" ||
        give_up 1 "debootstrap of $1 failed: see $trees/$1.log"
    : >"$base.ready"
}

lend_host_files() { # tree: what its programs need of this host to reach a network
    for file in /etc/resolv.conf /etc/hosts ${BINDS-}; do
        [ -e "$file" ] || continue
        mkdir -p "$1$(dirname "$file")"
        rm -rf "${1:?}$file"
        cp -aL "$file" "$1$file"
    done
}

in_tree() { # tree, command …: in a mount name space of its own, with the tree as its root as on a host
    unshare --mount --fork --kill-child sh -eu -c '
        tree=$1; shift
        mount --bind "$tree" "$tree"
        mount -t proc proc "$tree/proc"
        mount --rbind /sys "$tree/sys"
        mount --rbind /dev "$tree/dev"
        [ -z "${CHECKOUT-}" ] || mount --bind "$CHECKOUT" "$tree/stalltop"
        mkdir -p "$tree/old"
        cd "$tree"
        pivot_root . old
        exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            TERM=xterm-256color SUITES="${SUITES-}" ${PIP_CERT:+PIP_CERT="$PIP_CERT"} \
            sh -c "umount -l /old; exec \"\$@\"" sh "$@"
    ' sh "$@" </dev/null
}
