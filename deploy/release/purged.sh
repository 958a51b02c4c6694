#!/bin/sh
# After a removal, for both formats, but not after an upgrade. systemd forgets the unit, and a .deb
# that is purged leaves nothing but the store.
set -e
case "$1" in
purge) rm -f /etc/systemd/system/multi-user.target.wants/pqd.service ;; # .deb
remove | 0) ;; # .deb, .rpm
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
