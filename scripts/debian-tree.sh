# shellcheck shell=sh
# Creates Debian root file systems ("trees") with debootstrap. The scripts that use them source this file and
# set `root` (the checkout) and `tool` (the name of the script, for messages).
#
# Environment: TREES (folder for the trees), MIRROR (of Debian's packages; default: debootstrap's), and BINDS (files and
# folders of this host to copy into the tree, such as a proxy's certificates).

trees=${TREES:-/var/tmp/stalltop-trees}

give_up() { # exit code, reason
    echo "$tool: $2" >&2
    exit "$1"
}

need() { # program, package …: ends with a message if a program is missing
    [ "$(id -u)" = 0 ] || give_up 3 "must run as root: use sudo"
    while [ $# -gt 0 ]; do
        command -v "$1" >/dev/null || give_up 3 "$1 is not installed: apt-get install $2"
        shift 2
    done
}

make_base() { # suite: creates a minimal tree, unless it exists, and sets $base
    base=$trees/$1.base
    mkdir -p "$trees"
    [ ! -e "$base.ready" ] || return 0
    rm -rf "$base"
    debootstrap --variant=minbase --include=ca-certificates "$1" "$base" ${MIRROR:+"$MIRROR"} >"$trees/$1.log" ||
        give_up 1 "debootstrap of $1 failed: see $trees/$1.log"
    : >"$base.ready"
}

lend_host_files() { # tree: copies the host's files that programs in the tree need to reach a network
    for file in /etc/resolv.conf /etc/hosts ${BINDS-}; do
        [ -e "$file" ] || continue
        mkdir -p "$1$(dirname "$file")"
        rm -rf "${1:?}$file"
        cp -aL "$file" "$1$file"
    done
}

install_in() { # tree, package …: installs Debian packages in the tree, and leaves nothing that only apt needs
    tree=$1
    shift
    in_tree "$tree" sh -eu -c '
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
        rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
    ' sh "$@" >"$trees/install.log" 2>&1 || give_up 1 "apt-get failed in $tree: see $trees/install.log"
}

in_tree() { # tree, command …: runs the command in its own mount namespace, with the tree as its root
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
