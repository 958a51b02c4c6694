#!/bin/sh
# Before a removal, for both formats, but not before an upgrade. The store in
# /var/lib/pqd stays.
set -e
[ -d /run/systemd/system ] || exit 0
case "$1" in
remove) systemctl stop pqd ;; # .deb
0) systemctl disable --now pqd ;; # .rpm
esac
