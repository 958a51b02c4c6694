#!/bin/sh
# After an installation or an upgrade, for both formats. Debian starts a new service,
# others leave that to the administrator. An upgrade restarts it, unless an administrator
# has disabled it.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$1" in
configure) # .deb; with a version it is an upgrade, or the package was removed and not purged
	if [ -z "$2" ]; then systemctl enable pqd; fi
	if systemctl is-enabled --quiet pqd; then systemctl restart pqd; fi
	;;
1) ;; # .rpm, the first installation
*) systemctl try-restart pqd ;;
esac
