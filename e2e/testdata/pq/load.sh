#!/bin/sh
# One of several programs that use a queue while pqd is killed: load.sh <role> <queue> [<count>]. It prints
# that it is ready, and a line for each item. On SIGTERM it finishes what it has begun, and ends.
role=$1 queue=$2 count=$3
echo ready
case $role in
push)
	n=0
	while [ "$n" -lt "$count" ]; do
		until pq push "$queue" "$n" --id "load-$n" >/dev/null; do :; done
		echo "pushed $n"
		n=$((n + 1))
	done
	;;
consume) # an item that a lost answer carried comes back when its lease runs out
	exec pq consume "$queue" --lease 10s -- sh -c 'echo "done $(cat)"'
	;;
pop)
	n=0 stop=
	trap 'stop=yes' TERM
	while [ -z "$stop" ]; do
		n=$((n + 1)) code=1
		while [ $code -ne 0 ] && [ $code -ne 3 ]; do # 3: there is nothing
			item=$(pq pop "$queue" --id "$$-$n" --wait 200ms)
			code=$?
		done
		[ $code -ne 0 ] || echo "done $item"
	done
	;;
esac
