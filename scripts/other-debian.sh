# shellcheck shell=sh
# Downloads packages of a release of Debian that this system is not. The scripts that use this file set `work`, a folder
# for what apt keeps.

apt_of() { # release, arguments …: runs apt-get with this release as the only source, and a state of its own
    state=$work/$1
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/$')
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" && : >"$state/status"
    for kind in deb deb-src; do
        echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian/} $1 main"
    done >"$state/sources.list"
    shift
    timeout 180 apt-get -q -o APT::Sandbox::User=root -o Dir::State="$state" -o Dir::State::status="$state/status" \
        -o Dir::Cache="$state/cache" -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Debug::NoLocking=1 -o Acquire::Languages=none "$@" >/dev/null 2>&1
}
