package main

import (
	"context"
	"os/exec"
	"slices"
)

// system is something that can carry a queue, in one configuration.
type system struct {
	name     string
	durable  bool   // an answered push is on disk
	program  string // that has to be installed; "": comes with this program
	pack     string // Debian's package of it
	how      string // configuration and operations
	promises string // what an answer means, where it is not all that durable says
	verbs    []string
	nodes    bool // it has several processes that replicate everything
	start    func(context.Context, *site, *server) error
	prepare  func(addr string) error // makes the queue, if it is not made by the first push
	connect  func(addr string) (client, error)
	library  func(addr string, workers int) (library, error) // in the table of one program
}

func (s *system) can(verb string) bool { return slices.Contains(s.verbs, verb) }

// missing says that the system's program is not installed.
func (s *system) missing() bool {
	if s.program == "" {
		return false
	}
	_, err := exec.LookPath(s.program)
	return err != nil
}

const (
	nameEcho             = "echo"
	namePQD              = "pqd"
	namePQDFast          = "pqd, PQ_SYNC=false"
	nameJSAlways         = "JetStream, sync always"
	nameJS               = "JetStream"
	nameJSFetch          = "JetStream, Fetch(1)"
	nameRedisAlways      = "Redis, always"
	nameRedis            = "Redis, everysec"
	nameBeanstalkdAlways = "beanstalkd, -f0"
	nameBeanstalkd       = "beanstalkd"
	namePostgres         = "PostgreSQL"
	nameRabbit           = "RabbitMQ"
	nameThreePQD         = "three pqd"
	nameThreeJS          = "JetStream R3, sync always"
)

var (
	allVerbs   = []string{verbPush, verbPop, verbLease, verbLeave}
	pushAndPop = []string{verbPush, verbPop, verbLease}

	withMany   = slices.Concat(allVerbs, manyVerbs)
	pushesMany = slices.Concat(pushAndPop, manyVerbs)
)

// systems are all that are compared, in the order of the tables.
var systems = []*system{
	{
		name:     nameEcho,
		how:      "a NATS service, in a process of its own on pqd's NATS server, that answers with the message it got: the limit for any service",
		promises: "nothing is kept",
		verbs:    []string{verbPush},
		start:    startEcho,
		connect:  connectEcho,
	},
	{
		name: namePQD, durable: true,
		how:     "as it comes",
		verbs:   withMany,
		start:   startPQD(),
		connect: connectPQD,
	},
	{
		name:    namePQDFast,
		how:     "PQ_SYNC=false",
		verbs:   allVerbs,
		start:   startPQD("PQ_SYNC=false"),
		connect: connectPQD,
	},
	{
		name: nameJSAlways, durable: true,
		how: "work-queue stream, file storage, sync_interval: always; bare requests for publish, and for the next message of one pull consumer that all share. " +
			"No priorities: first in, first out. A pop is a fetch whose acknowledgement is not waited for",
		promises: "a publish is answered after the fsync",
		verbs:    withMany,
		start:    startJS("always"),
		prepare:  prepareJS(1),
		connect:  connectJS,
	},
	{
		name:    "JetStream",
		how:     "the same with the default sync_interval of 2 minutes",
		verbs:   allVerbs,
		start:   startJS("default"),
		prepare: prepareJS(1),
		connect: connectJS,
	},
	{
		name:    nameJSFetch,
		how:     "that again, by way of the client library: Publish, Fetch(1), Ack or DoubleAck instead of bare requests on its subjects",
		verbs:   allVerbs,
		start:   startJS("default"),
		prepare: prepareJS(1),
		connect: connectJSFetch,
	},
	{
		name: nameRedisAlways, durable: true, program: "redis-server", pack: "redis-server",
		how: "append-only file with appendfsync always, no snapshots; ZADD and ZPOPMIN; a lease is a script that moves the first item to a second sorted set, " +
			"an acknowledgement ZREM. Within a priority the order is that of the bytes",
		verbs:   pushesMany,
		start:   startRedis("always"),
		connect: connectRedis,
	},
	{
		name: nameRedis, program: "redis-server", pack: "redis-server",
		how:      "the same with appendfsync everysec",
		promises: "answers come up to a second before the fsync",
		verbs:    pushAndPop,
		start:    startRedis("everysec"),
		connect:  connectRedis,
	},
	{
		name: nameBeanstalkdAlways, durable: true, program: "beanstalkd", pack: "beanstalkd",
		how:      "binlog (-b) with -f0; put; a pop and a lease with its acknowledgement are the same: reserve-with-timeout 0 and delete",
		promises: "every answer to put and delete is given after the fsync",
		verbs:    pushAndPop,
		start:    startBeanstalkd("-f0"),
		connect:  connectBeanstalkd,
	},
	{
		name: nameBeanstalkd, program: "beanstalkd", pack: "beanstalkd",
		how:      "binlog (-b) with the default -f 50",
		promises: "answers come up to 50 ms before the fsync",
		verbs:    pushAndPop,
		start:    startBeanstalkd(),
		connect:  connectBeanstalkd,
	},
	{
		name: namePostgres, durable: true, program: postgresProgram("postgres"), pack: "postgresql",
		how: "synchronous_commit on, 1 GB of shared buffers, eager autovacuum; primary key (priority, id) and no other index; INSERT; " +
			"DELETE of what SELECT … FOR UPDATE SKIP LOCKED LIMIT 1 finds; a lease is that SELECT in an open transaction, an acknowledgement DELETE and COMMIT: two round trips",
		verbs:   pushesMany,
		start:   startPostgres,
		prepare: preparePostgres,
		connect: connectPostgres,
	},
	{
		name: nameRabbit, durable: true, program: rabbitScript, pack: "rabbitmq-server",
		how: "durable classic queue with x-max-priority 10, persistent messages, publisher confirms; pop is basic.get without acknowledgement; " +
			"lease is a consumer with prefetch 1",
		promises: "a confirm is given when the message is on disk; acknowledgements are not answered, and pops are not synced",
		verbs:    []string{verbPush, verbPop, verbLeave, verbPushMany, verbPopMany},
		start:    startRabbit,
		prepare:  prepareRabbit,
		connect:  connectRabbit,
	},
	{
		name: nameThreePQD, durable: true, nodes: true,
		how:      "PQ_CLUSTER with three nodes on this machine",
		promises: "every answer is given after the fsync of two nodes",
		verbs:    allVerbs,
		start:    startThreePQD,
		connect:  connectPQD,
	},
	{
		name: nameThreeJS, durable: true, nodes: true,
		how:      "as JetStream, sync always, with three replicas on three servers on this machine",
		promises: "a publish is answered after the fsync of two servers",
		verbs:    allVerbs,
		start:    startThreeJS,
		prepare:  prepareJS(nodes),
		connect:  connectJS,
	},
}

func systemNamed(name string) *system {
	for _, s := range slices.Concat(systems, libraries) {
		if s.name == name {
			return s
		}
	}
	return nil
}
