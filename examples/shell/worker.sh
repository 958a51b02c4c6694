#!/bin/sh
# A worker in shell, with the nats command: it runs a program for each item of a
# queue, with the payload as its input, until it is interrupted.
#
#   ./worker.sh jobs ./do-the-job.sh
#
# Payloads must be text; line ends at their end are lost. `pq consume` does the
# same for any payload, and any number of items at a time.
set -u
if [ $# -lt 2 ]; then
	echo "usage: worker.sh <queue> <program> [<argument>...]" >&2
	exit 2
fi
queue=$1
shift

answer=$(mktemp) # what nats prints beside the payload: headers, errors
keeper=
trap 'test -z "$keeper" || kill "$keeper"; rm -f "$answer"' EXIT
trap 'exit 0' INT TERM

# It waits for 5 s at most at a time, because an interrupt that comes just before
# nats begins reaches the shell alone, which heeds it when nats has ended.
while :; do
	payload=$(nats req "pq.$queue.pop.min" '' -H PQ-Lease:30s -H PQ-Wait:5s --timeout 10s 2>"$answer")
	ack=$(sed -n 's/^.* PQ-Ack: //p' "$answer")
	if [ -z "$ack" ]; then # 408 says that nothing arrived; anything else is worth a word and a pause
		grep -q 'Status: 408' "$answer" || { cat "$answer" >&2; sleep 1; }
		continue
	fi

	# Work in progress: the lease starts afresh as long as the program runs.
	while sleep 10; do nats pub "$ack" +WPI; done >/dev/null 2>&1 &
	keeper=$!
	verdict='+ACK'
	printf '%s\n' "$payload" | "$@" || verdict='-NAK {"delay":5000000000}'
	kill "$keeper"
	keeper=

	# When the lease was lost, another worker does the job again.
	nats req --raw "$ack" -- "$verdict" >/dev/null 2>"$answer"
	cat "$answer" >&2
done
