#!/bin/sh
# After a removal. A .deb that is purged leaves nothing but the store.
set -e
[ "$1" = purge ] || exit 0
rm -f /etc/systemd/system/multi-user.target.wants/pqd.service
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
