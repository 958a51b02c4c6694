package bridge_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// malformed are requests that are refused with 400, each with a part of the expected
// error text.
var malformed = []struct {
	subject, body string
	header        []string
	says          string
}{
	// Subjects.
	{"pq.jobs", "", nil, "expected one of push"},
	{"pq.jobs.pish", "", nil, `"pish"`},
	{"pq.jobs.PUSH", "", nil, `"PUSH"`},
	{"pq.jobs.push.1.2", "", nil, "push or push.<priority>"},
	{"pq.jobs.pop", "", nil, "pop.min or pop.max"},
	{"pq.jobs.pop.first", "", nil, "pop.min or pop.max"},
	{"pq.jobs.pop.min.5", "", nil, "pop.min or pop.max"},
	{"pq.jobs.peek", "", nil, "peek.min or peek.max"},
	{"pq.jobs.peek.MIN", "", nil, "peek.min or peek.max"},
	{"pq.jobs.ack", "", nil, "ack.<connection>.<token>"},
	{"pq.jobs.ack.a", "", nil, "ack.<connection>.<token>"},
	{"pq.jobs.info.x", "", nil, "info alone"},
	{"pq.jobs.list.x", "", nil, "list alone"},
	{"pq.jobs.get", "", nil, "get.<id>"},
	{"pq.jobs.get.a.b", "", nil, "get.<id>"},
	{"pq.jobs.remove", "", nil, "remove.<id>"},
	{"pq.jobs.requeue", "", nil, "requeue.<id>"},
	{"pq.jobs.revoke", "", nil, "revoke.<id>"},
	{"pq.jobs.move.a", "", nil, "move.<id>.<priority>"},
	{"pq.jobs.move.a.x", "", nil, `"x"`},
	{"pq.jobs.admin", "", nil, "admin.config"},
	{"pq.jobs.keys.x", "", nil, "keys alone"},
	{"pq.jobs.key", "", nil, "key.<key>"},
	{"pq.jobs.key.a.b", "", nil, "key.<key>"},
	{"pq.jobs.key.a+b", "", nil, "%XX in upper case"},
	{"pq.jobs.key.%61", "", nil, "%XX in upper case"},
	{"pq.jobs.key.%2a", "", nil, "%XX in upper case"},
	{"pq.jobs.key.a%2", "", nil, "%XX in upper case"},
	{"pq.jobs.key." + strings.Repeat("k", 129), "", nil, "1 to 128 bytes"},
	{"pq.jobs.admin.key", "", nil, "admin.key.<key>"},
	{"pq.jobs.admin.key.a.b", "", nil, "admin.key.<key>"},
	{"pq.jobs.admin.key.%7e", "{}", nil, "%XX in upper case"},
	{"pq.jobs.admin.drop", "", nil, "admin.purge"},
	{"pq.jobs.admin.purge.now", "", nil, "admin.purge"},
	{"pq.jobs.event", "", nil, "event.<type>"},
	{"pq.jobs.event.dead", "", nil, "published by the bridge"},
	{"pq._sys", "", nil, "list, info, cluster.status"},
	{"pq._sys.push", "", nil, "list, info, cluster.status"},
	{"pq._sys.list.x", "", nil, "list, info, cluster.status"},
	{"pq._sys.cluster", "", nil, "list, info, cluster.status"},
	{"pq._sys.cluster.status", "", nil, "is for stores that several pqd keep"},
	{"pq._sys.cluster.step-down", "", nil, "is for stores that several pqd keep"},
	{"pq._sys.cluster.replace", `{"old":"a","new":"b"}`, nil, "is for stores that several pqd keep"},
	{"pq._sys.stats", "", nil, "list, info, cluster.status"},

	// Names of queues.
	{"pq._jobs.push", "", nil, "not starting with _"},
	{"pq.jo=bs.push", "", nil, "A-Z a-z 0-9 - _"},
	{"pq.jöbs.push", "", nil, "A-Z a-z 0-9 - _"},
	{"pq." + strings.Repeat("q", 65) + ".push", "", nil, "1 to 64"},
	{"pq.j$bs.pop.min", "", nil, "A-Z a-z 0-9 - _"},

	// Priorities.
	{"pq.jobs.push.x", "", nil, `"x"`},
	{"pq.jobs.push.1e3", "", nil, "decimal"},
	{"pq.jobs.push.+1", "", nil, "without +"},
	{"pq.jobs.push.01", "", nil, "leading zeros"},
	{"pq.jobs.push.-0", "", nil, "decimal"},
	{"pq.jobs.push.-", "", nil, "decimal"},
	{"pq.jobs.push.9223372036854775808", "", nil, "9223372036854775807"},
	{"pq.jobs.push.-9223372036854775809", "", nil, "-9223372036854775808"},
	{"pq.jobs.push", "", []string{"PQ-Priority", "x"}, `"x"`},
	{"pq.jobs.push", "", []string{"PQ-Priority", "1.5"}, "decimal"},
	{"pq.jobs.push", "", []string{"PQ-Priority", ""}, "empty"},
	{"pq.jobs.push", "", []string{"PQ-Priority", "9223372036854775808"}, "9223372036854775807"},
	{"pq.jobs.push", "", []string{"PQ-Priority", "1", "PQ-Priority", "1"}, "2 times"},
	{"pq.jobs.push.1", "", []string{"PQ-Priority", "2"}, "the subject says 1"},
	{"pq.jobs.move.AAAA.9223372036854775808", "", nil, "9223372036854775807"},

	// Headers of a push.
	{"pq.jobs.push", "", []string{"PQ-Prio", "1"}, "PQ-Priority"},
	{"pq.jobs.push", "", []string{"PQ-priority", "1"}, "PQ-Priority"},
	{"pq.jobs.push", "", []string{"PQ-", "1"}, "PQ-Priority"},
	{"pq.jobs.push", "", []string{"PQ-Batch", "1"}, "none of a push"},
	{"pq.jobs.push", "", []string{"PQ-Wait", "1s"}, "none of a push"},
	{"pq.jobs.push", "", []string{"PQ-Lease", "1s"}, "none of a push"},
	{"pq.jobs.push", "", []string{"PQ-Band", "1..2"}, "none of a push"},
	{"pq.jobs.push", "", []string{"PQ-Key", ""}, "empty"},
	{"pq.jobs.push", "", []string{"PQ-Key", strings.Repeat("k", 129)}, "allowed are 128"},
	{"pq.jobs.push", "", []string{"PQ-Unique", ""}, "empty"},
	{"pq.jobs.push", "", []string{"PQ-Unique", strings.Repeat("x", 1025)}, "allowed are 1024"},
	{"pq.jobs.push", "", []string{"PQ-Unique", "\xff"}, "UTF-8"},
	{"pq.jobs.push", "x", []string{"PQ-Settle", "pq.jobs.ack.a.b"}, "expected the ack subject of a leased item"},
	{"pq.jobs.push", "", []string{"PQ-Unique", "x", "PQ-On-Conflict", "drop"}, "keep, replace or raise"},
	{"pq.jobs.push", "", []string{"PQ-Unique", "x", "PQ-Unique-Until", "popped"}, "leased"},
	{"pq.jobs.push", "", []string{"PQ-On-Conflict", "keep"}, "without PQ-Unique"},
	{"pq.jobs.push", "", []string{"PQ-Unique-Until", "leased"}, "without PQ-Unique"},
	{"pq.jobs.push", "", []string{"PQ-Delay", ""}, "empty"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "5"}, "30s"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "soon"}, `"soon"`},
	{"pq.jobs.push", "", []string{"PQ-Delay", "-1s"}, "0s to"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "100000h"}, "0s to"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "9999999999h"}, "30s"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "1s", "PQ-Delay", "1s"}, "2 times"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "1s", "PQ-Not-Before", "2030-01-02T03:04:05Z"}, "one of them"},
	{"pq.jobs.push", "", []string{"PQ-Delay", "0s", "PQ-Not-Before", "2030-01-02T03:04:05Z"}, "one of them"},
	{"pq.jobs.push", "", []string{"PQ-Not-Before", "tomorrow"}, "2030-01-02T15:04:05Z"},
	{"pq.jobs.push", "", []string{"PQ-Not-Before", "2030-01-02"}, "2030-01-02T15:04:05Z"},
	{"pq.jobs.push", "", []string{"PQ-Not-Before", "1893553445"}, "2030-01-02T15:04:05Z"},
	{"pq.jobs.push", "", []string{"PQ-Not-Before", "9999-01-02T03:04:05Z"}, "within"},
	{"pq.jobs.push", "", []string{"PQ-Not-Before", ""}, "empty"},
	{"pq.jobs.push", "", []string{"PQ-TTL", ""}, "empty"},
	{"pq.jobs.push", "", []string{"PQ-TTL", "0s"}, "more than 0s"},
	{"pq.jobs.push", "", []string{"PQ-TTL", "-1s"}, "more than 0s"},
	{"pq.jobs.push", "", []string{"PQ-TTL", "never"}, "1h30m"},
	{"pq.jobs.push", "", []string{"PQ-TTL", "100000h"}, "up to"},
	{"pq.jobs.push", "", []string{"Nats-Msg-Id", ""}, "empty"},
	{"pq.jobs.push", "", []string{"Nats-Msg-Id", "a", "Nats-Msg-Id", "b"}, "2 times"},
	{"pq.jobs.push", "", []string{"Nats-Msg-Id", strings.Repeat("x", 1025)}, "Nats-Msg-Id has 1025 bytes: allowed are 1024"},
	{"pq.jobs.push", "", []string{"Nats-TTL", "1h"}, "PQ-TTL"},
	{"pq.jobs.push", "", []string{"Nats-Schedule", "@every 1m"}, "PQ-Delay"},
	{"pq.jobs.push", "", []string{"Nats-Schedule-Target", "x"}, "PQ-Not-Before"},
	{"pq.jobs.push", "", []string{"Nats-Expected-Stream", "other"}, "the queue is jobs"},
	{"pq.jobs.push", "", []string{"Nats-Expected-Stream", "jobs", "Nats-Expected-Stream", "jobs"}, "the queue is jobs"},
	{"pq.jobs.push", "", []string{"Nats-Expected-Last-Sequence", "1"}, "Nats-Msg-Id"},
	{"pq.jobs.push", "", []string{"Nats-Expected-Last-Msg-Id", "1"}, "Nats-Msg-Id"},
	{"pq.jobs.push", "", []string{"Nats-Expected-Last-Subject-Sequence", "1"}, "Nats-Msg-Id"},

	// Bodies of pops and peeks.
	{"pq.jobs.pop.min", "x", nil, "a JSON object"},
	{"pq.jobs.pop.min", `{"confirm":0}`, nil, "more than 0s"},
	{"pq.jobs.pop.min", `{"confirm":1,"lease":1}`, nil, "one of them"},
	{"pq.jobs.pop.min", `{"confirm":1000000000}`, []string{"PQ-Confirm", "2s"}, "the same or one of them"},
	{"pq.jobs.peek.min", "", []string{"PQ-Confirm", "1s"}, "nothing to confirm"},
	{"pq.jobs.pop.min", "one", nil, "an integer"},
	{"pq.jobs.pop.min", "0", nil, "is 0: expected 1 or more"},
	{"pq.jobs.pop.min", "-1", nil, "is -1: expected 1 or more"},
	{"pq.jobs.pop.min", "+1", nil, "expected an integer"},
	{"pq.jobs.pop.min", "1.5", nil, "expected an integer"},
	{"pq.jobs.pop.min", "05", nil, "leading zeros"},
	{"pq.jobs.pop.min", "1e2", nil, "expected an integer"},
	{"pq.jobs.pop.min", "10 10", nil, "expected an integer"},
	{"pq.jobs.pop.min", "99999999999999999999", nil, "expected an integer"},
	{"pq.jobs.pop.min", "[1]", nil, "a JSON object"},
	{"pq.jobs.pop.min", `"1"`, nil, "a JSON object"},
	{"pq.jobs.pop.min", "null", nil, "a JSON object"},
	{"pq.jobs.pop.min", "{", nil, "does not end"},
	{"pq.jobs.pop.min", `{"batch":1`, nil, "does not end"},
	{"pq.jobs.pop.min", `{"batch":1}}`, nil, "more behind"},
	{"pq.jobs.pop.min", `{"batch":1} 5`, nil, "more behind"},
	{"pq.jobs.pop.min", `{batch:1}`, nil, "no JSON"},
	{"pq.jobs.pop.min", `{"batch":}`, nil, "no JSON"},
	{"pq.jobs.pop.min", `{"batch":0}`, nil, "batch is 0"},
	{"pq.jobs.pop.min", `{"batch":-5}`, nil, "batch is -5"},
	{"pq.jobs.pop.min", `{"batch":"5"}`, nil, "batch is no number"},
	{"pq.jobs.pop.min", `{"batch":1.5}`, nil, "expected an integer"},
	{"pq.jobs.pop.min", `{"batch":null}`, nil, "batch"},
	{"pq.jobs.pop.min", `{"batch":[1]}`, nil, "batch"},
	{"pq.jobs.pop.min", `{"batch":{}}`, nil, "batch"},
	{"pq.jobs.pop.min", `{"batch":true}`, nil, "batch"},
	{"pq.jobs.pop.min", `{"batch":1,"batch":1}`, nil, "twice"},
	{"pq.jobs.pop.min", `{"Batch":1}`, nil, "expected some of batch"},
	{"pq.jobs.pop.min", `{"no_wait":true}`, nil, "expected some of batch"},
	{"pq.jobs.pop.min", `{"size":1}`, nil, "expected some of batch"},
	{"pq.jobs.pop.min", `{"expires":-1}`, nil, "expires is"},
	{"pq.jobs.pop.min", `{"expires":"1s"}`, nil, "expires is no number"},
	{"pq.jobs.pop.min", `{"lease":0}`, nil, "more than 0s"},
	{"pq.jobs.pop.min", `{"lease":-1}`, nil, "more than 0s"},
	{"pq.jobs.pop.min", `{"lease":"1m"}`, nil, "lease is no number"},
	{"pq.jobs.pop.min", `{"lease":86400000000000}`, nil, "up to 12h"},
	{"pq.jobs.pop.min", `{"max_bytes":0}`, nil, "max_bytes is 0"},
	{"pq.jobs.pop.min", `{"max_bytes":"1"}`, nil, "max_bytes is no number"},
	{"pq.jobs.pop.min", `{"min":"a"}`, nil, "min is no number"},
	{"pq.jobs.pop.min", `{"min":9223372036854775808}`, nil, "9223372036854775807"},
	{"pq.jobs.pop.min", `{"max":1.5}`, nil, "max is"},
	{"pq.jobs.pop.min", `{"min":2,"max":1}`, nil, "min not above max"},
	{"pq.jobs.pop.min", `{"msg_id":5}`, nil, "a string"},
	{"pq.jobs.pop.min", `{"msg_id":""}`, nil, "empty"},
	{"pq.jobs.pop.max", "x", nil, "an integer"},
	{"pq.jobs.peek.min", "x", nil, "an integer"},
	{"pq.jobs.peek.min", `{"lease":1000}`, nil, "no lease"},
	{"pq.jobs.peek.max", `{"msg_id":"a"}`, nil, "repeated as it is"},
	{"pq.jobs.peek.min", `{"holder":"a"}`, nil, "no holder"},
	{"pq.jobs.pop.min", `{"holder":""}`, nil, "holder is"},
	{"pq.jobs.pop.min", `{"holder":"a\n"}`, nil, "without control characters"},
	{"pq.jobs.pop.min", "", []string{"PQ-Holder", strings.Repeat("w", 129)}, "1 to 128 bytes"},
	{"pq.jobs.pop.min", "", []string{"PQ-Holder", "\xff"}, "UTF-8"},
	{"pq.jobs.pop.min", `{"holder":"a"}`, []string{"PQ-Holder", "b"}, "the body's holder says a"},
	{"pq.jobs.list", `{"holder":"w"}`, nil, `expected state to be "leased"`},
	{"pq.jobs.list", `{"attempts":1}`, nil, "true or false"},

	// Headers of pops and peeks.
	{"pq.jobs.pop.min", "", []string{"PQ-Batch", "0"}, "PQ-Batch is 0: expected 1 or more"},
	{"pq.jobs.pop.min", "", []string{"PQ-Bundle", "0"}, "PQ-Bundle is 0: expected 1 or more"},
	{"pq.jobs.push", "", []string{"PQ-Bundle", "0"}, "PQ-Bundle is 0: expected 1 to 1000"},
	{"pq.jobs.pop.min", "", []string{"PQ-Batch", "x"}, "an integer"},
	{"pq.jobs.pop.min", "", []string{"PQ-Batch", "05"}, "leading zeros"},
	{"pq.jobs.pop.min", "", []string{"PQ-Batch", ""}, "empty"},
	{"pq.jobs.pop.min", "", []string{"PQ-Batch", "1", "PQ-Batch", "1"}, "2 times"},
	{"pq.jobs.pop.min", "2", []string{"PQ-Batch", "1"}, "the body's batch says 2"},
	{"pq.jobs.pop.min", `{"batch":2}`, []string{"PQ-Batch", "1"}, "the body's batch says 2"},
	{"pq.jobs.pop.min", "", []string{"PQ-Wait", "1"}, "30s"},
	{"pq.jobs.pop.min", "", []string{"PQ-Wait", "-1s"}, "PQ-Wait is -1s: expected 0s or more"},
	{"pq.jobs.pop.min", "", []string{"PQ-Wait", ""}, "empty"},
	{"pq.jobs.pop.min", `{"expires":1000000000}`, []string{"PQ-Wait", "2s"}, "the body's expires says 1s"},
	{"pq.jobs.pop.min", "", []string{"PQ-Lease", "0s"}, "more than 0s"},
	{"pq.jobs.pop.min", "", []string{"PQ-Lease", "24h"}, "up to 12h"},
	{"pq.jobs.pop.min", "", []string{"PQ-Lease", "x"}, "30s"},
	{"pq.jobs.pop.min", "", []string{"PQ-Lease", ""}, "empty"},
	{"pq.jobs.pop.min", `{"lease":1000000000}`, []string{"PQ-Lease", "2s"}, "the body's lease says 1s"},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", "1"}, "<low>..<high>"},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", "1-5"}, "<low>..<high>"},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", ".."}, "<low>..<high>"},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", "5..1"}, "lower end first"},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", "a.."}, `"a"`},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", "..b"}, `"b"`},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", "1...5"}, "decimal"},
	{"pq.jobs.pop.min", "", []string{"PQ-Band", ""}, "empty"},
	{"pq.jobs.pop.min", `{"min":1}`, []string{"PQ-Band", "2.."}, "min and max in the body"},
	{"pq.jobs.pop.min", `{"msg_id":"a"}`, []string{"Nats-Msg-Id", "b"}, "the body's msg_id says a"},
	{"pq.jobs.pop.min", "", []string{"Nats-Msg-Id", ""}, "empty"},
	{"pq.jobs.pop.min", "", []string{"PQ-Timeout", "1s"}, "PQ-Wait"},
	{"pq.jobs.pop.min", "", []string{"PQ-Priority", "1"}, "none of a pop"},
	{"pq.jobs.pop.min", "", []string{"PQ-Id", "1"}, "none of a pop"},
	{"pq.jobs.peek.min", "", []string{"PQ-Lease", "1s"}, "no lease"},
	{"pq.jobs.peek.min", "", []string{"PQ-Limit", "1"}, "PQ-Batch"},

	// Everything else.
	{"pq.jobs.info", "x", nil, "expected a JSON object"},
	{"pq.jobs.info", `{"history":1}`, nil, "history: expected true or false"},
	{"pq.jobs.info", `{"past":true}`, nil, "has no field \"past\": expected some of history, local"},
	{"pq.jobs.info", `{"local":1}`, nil, "local: expected true or false"},
	{"pq.jobs.info", "", []string{"PQ-X", "1"}, "none of info"},
	{"pq.jobs.get.zzz", "", nil, "not an item id"},
	{"pq.jobs.get.FQEVARUB", "x", nil, "a JSON object"},
	{"pq.jobs.get.FQEVARUB", `{"attempt":true}`, nil, "expected some of attempts"},
	{"pq.jobs.get.FQEVARUB", `{"attempts":1}`, nil, "true or false"},
	{"pq.jobs.remove.zzz", "", nil, "not an item id"},
	{"pq.jobs.requeue.zzz", "", nil, "not an item id"},
	{"pq.jobs.requeue.FQEVARUB", "jobs", nil, "a JSON object"},
	{"pq.jobs.requeue.FQEVARUB", `{"from":"jobs"}`, nil, "expected some of to"},
	{"pq.jobs.requeue.FQEVARUB", `{"to":"a.b"}`, nil, "queue name"},
	{"pq.jobs.requeue.FQEVARUB", "", []string{"PQ-To", "jobs"}, "none of requeue"},
	{"pq.jobs.revoke.zzz", "", nil, "not an item id"},
	{"pq.jobs.revoke.FQEVARUB", "1", nil, "a JSON object"},
	{"pq.jobs.revoke.FQEVARUB", `{"fence":0}`, nil, "fence is 0: expected 1 or more"},
	{"pq.jobs.revoke.FQEVARUB", `{"delay":5}`, nil, "a string"},
	{"pq.jobs.revoke.FQEVARUB", `{"delay":"5"}`, nil, "a duration such as"},
	{"pq.jobs.revoke.FQEVARUB", `{"delay":"-5s"}`, nil, "expected 0s to"},
	{"pq.jobs.revoke.FQEVARUB", `{"reason":"` + strings.Repeat("r", 1025) + `"}`, nil, "allowed are 1024"},
	{"pq.jobs.revoke.FQEVARUB", `{"token":"x"}`, nil, "expected some of fence, delay, reason"},
	{"pq.jobs.revoke.FQEVARUB", "", []string{"PQ-Fence", "1"}, "none of revoke"},
	{"pq.jobs.move.zzz.5", "", nil, "not an item id"},
	{"pq.jobs.list", "5", nil, "a JSON object"},
	{"pq.jobs.list", `{"limit":0}`, nil, "limit is 0"},
	{"pq.jobs.list", `{"limit":"5"}`, nil, "limit is no number"},
	{"pq.jobs.list", `{"after":5}`, nil, "a string"},
	{"pq.jobs.list", `{"after":"x"}`, nil, "not an item id"},
	{"pq.jobs.list", `{"state":"done"}`, nil, `"ready", "leased" or "delayed"`},
	{"pq.jobs.list", `{"state":1}`, nil, "a string"},
	{"pq.jobs.list", `{"bodies":1}`, nil, "true or false"},
	{"pq.jobs.list", `{"offset":1}`, nil, "limit, after, state, min, max, key, holder, bodies"},
	{"pq.jobs.list", `{"key":1}`, nil, "a string"},
	{"pq.jobs.list", `{"key":""}`, nil, "key is empty"},
	{"pq.jobs.list", `{"key":" a"}`, nil, "spaces at its ends"},
	{"pq.jobs.list", `{"key":"a","state":"leased"}`, nil, "a list by key has ready items alone"},
	{"pq.jobs.list", `{"min":"1"}`, nil, "min is no number"},
	{"pq.jobs.list", `{"min":2,"max":1}`, nil, "min to be no more than max"},
	{"pq.jobs.admin.config", "5", nil, "configuration"},
	{"pq.jobs.admin.config", "{", nil, "configuration: the JSON object does not end"},
	{"pq.jobs.admin.config", `{lease:5}`, nil, "configuration: it is no JSON: invalid character 'l'"},
	{"pq.jobs.admin.config", `{} {}`, nil, "configuration: there is more behind the JSON object"},
	{"pq.jobs.admin.config", `{"ttl":5}`, nil, "configuration"},
	{"pq.jobs.admin.config", `{"ttl":"-5s"}`, nil, "0s to"},
	{"pq.jobs.admin.config", `{"ttl":"soon"}`, nil, "30s"},
	{"pq.jobs.admin.config", `{"lease":"13h"}`, nil, "0s to 12h"},
	{"pq.jobs.admin.config", `{"colour":"red"}`, nil, "colour"},
	{"pq.jobs.admin.config", `{"ties":"random"}`, nil, "newest"},
	{"pq.jobs.admin.config", `{"overflow":"drop"}`, nil, "evict"},
	{"pq.jobs.admin.config", `{"hand_over":"a, b"}`, nil, "commas"},
	{"pq.jobs.admin.config", `{"hand_over":"a,"}`, nil, "commas"},
	{"pq.jobs.admin.config", `{"hand_over":["a"]}`, nil, "hand_over"},
	{"pq.jobs.pop.min", "", []string{"PQ-Settle", "pq.jobs.ack.a.b"}, "none of a pop"},
	{"pq.jobs.admin.config", `{"max_length":-1}`, nil, "negative"},
	{"pq.jobs.admin.config", `{"dedup_limit":10000001}`, nil, "allowed are 0 to 10000000"},
	{"pq.jobs.admin.config", `{"priority":"high"}`, nil, "configuration"},
	{"pq.jobs.admin.config", `{"dead_letter":"jobs"}`, nil, "its own"},
	{"pq.jobs.admin.config", `{"fair":"0,0"}`, nil, "in rising order"},
	{"pq.jobs.admin.config", `{"fair":[0,100]}`, nil, "fair"},
	{"pq.jobs.admin.config", `{"rate":"100"}`, nil, "100/1m"},
	{"pq.jobs.admin.config", `{"rate":"0/1m"}`, nil, "1 to 1000000"},
	{"pq.jobs.admin.config", `{"key_rate":"5/1ms"}`, nil, "1s to 24h"},
	{"pq.jobs.admin.config", `{"rate":null}`, nil, "null"},
	{"pq.jobs.admin.remove", "", nil, "expected a JSON object"},
	{"pq.jobs.admin.remove", "{}", nil, "where is empty"},
	{"pq.jobs.admin.remove", `{"all":false}`, nil, "where is empty"},
	{"pq.jobs.admin.remove", `{"where":{}}`, nil, `"all":true`},
	{"pq.jobs.admin.remove", `{"where":{},"all":1}`, nil, "true or false"},
	{"pq.jobs.admin.remove", `{"where":{"key":"a"},"all":true}`, nil, "expected one of them"},
	{"pq.jobs.admin.remove", `{"where":5}`, nil, "where: expected a JSON object"},
	{"pq.jobs.admin.remove", `{"where":[{}]}`, nil, "where: expected a JSON object"},
	{"pq.jobs.admin.remove", `{"all":true,"where":{}}`, nil, "where is empty"},
	{"pq.jobs.admin.remove", `{"where":{"pushed_after":"0001-01-01T00:00:00Z"}}`, nil, "expected a later time"},
	{"pq.jobs.admin.remove", `{"where":null}`, nil, "where: expected a JSON object"},
	{"pq.jobs.admin.remove", `{"where":[]}`, nil, "where: expected a JSON object"},
	{"pq.jobs.admin.remove", `{"where":{"header":null}}`, nil, "where: header: expected a JSON object"},
	{"pq.jobs.admin.remove", `{"where":{"header":{"A":{}}}}`, nil, "expected a string"},
	{"pq.jobs.admin.remove", `{"where":{"key":"` + "\xff" + `"}}`, nil, `field "where.key" is not UTF-8`},
	{"pq.jobs.admin.remove", `{"where":{"min":1,"min":1}}`, nil, `field "where.min" occurs twice`},
	{"pq.jobs.admin.remove", `{"where":{"key":"a"}}{}`, nil, "more behind"},
	{"pq.jobs.admin.remove", `{"where":{"key":"a"}`, nil, "does not end"},
	{"pq.jobs.admin.remove", `{"where":{"key":"a"`, nil, "does not end"},
	{"pq.jobs.admin.remove", `{"where":{"key":"a"},"where":{"min":1}}`, nil, "twice"},
	{"pq.jobs.admin.remove", `{"where":{"key":"a","key":"b"}}`, nil, "twice"},
	{"pq.jobs.admin.remove", `{"where":{"Key":"a"}}`, nil, "expected some of state, min"},
	{"pq.jobs.admin.remove", `{"where":{"key":""}}`, nil, "key is empty"},
	{"pq.jobs.admin.remove", `{"where":{"key":" a"}}`, nil, "spaces"},
	{"pq.jobs.admin.remove", `{"where":{"key":{"a":"b"}}}`, nil, "expected a string"},
	{"pq.jobs.admin.remove", `{"where":{"state":"dead"}}`, nil, "ready"},
	{"pq.jobs.admin.remove", `{"where":{"min":2,"max":1}}`, nil, "min to be no more than max"},
	{"pq.jobs.admin.remove", `{"where":{"min":"2"}}`, nil, "integer"},
	{"pq.jobs.admin.remove", `{"where":{"header":"a"}}`, nil, "expected a JSON object"},
	{"pq.jobs.admin.remove", `{"where":{"header":{}}}`, nil, "header is empty"},
	{"pq.jobs.admin.remove", `{"where":{"header":{"a":5}}}`, nil, "expected a string"},
	{"pq.jobs.admin.remove", `{"where":{"header":{"a":""}}}`, nil, "is empty"},
	{"pq.jobs.admin.remove", `{"where":{"header":{"a":"b","a":"c"}}}`, nil, "twice"},
	{"pq.jobs.admin.remove", `{"where":{"reason":""}}`, nil, "reason is empty"},
	{"pq.jobs.admin.remove", `{"where":{"holder":"w"}}`, nil, "leased items have holders"},
	{"pq.jobs.admin.remove", `{"where":{"holder":"","state":"leased"}}`, nil, "1 to 128 bytes"},
	{"pq.jobs.admin.remove", `{"where":{"pushed_before":"yesterday"}}`, nil, "2030-01-02"},
	{"pq.jobs.admin.remove", `{"where":{"deliveries":0}}`, nil, "where: deliveries is 0: expected 1 or more"},
	{"pq.jobs.admin.remove", `{"where":{"deliveries":4611686018427387905}}`, nil, "expected 1 to 4611686018427387904"},
	{"pq.jobs.admin.remove", `{"all":true,"limit":-1}`, nil, "limit"},
	{"pq.jobs.admin.remove", `{"all":true,"dry_run":"yes"}`, nil, "true or false"},
	{"pq.jobs.admin.remove", `{"all":true,"after":"x"}`, nil, "the page before"},
	{"pq.jobs.admin.remove", `{"all":true,"after":""}`, nil, "the page before"},
	{"pq.jobs.admin.remove", `{"all":true,"to":"a"}`, nil, "expected some of where, all, dry_run, limit, after"},
	{"pq.jobs.admin.remove", `{"all":true,"priority":1}`, nil, "no field"},
	{"pq.jobs.admin.remove", `{"all":true,"":1}`, nil, "no field"},
	{"pq.jobs.admin.remove", `{"all":true}`, []string{"PQ-X", "1"}, "none of admin.remove"},
	{"pq.jobs.admin.move", `{"all":true}`, nil, "expected priority"},
	{"pq.jobs.admin.move", `{"all":true,"priority":"1"}`, nil, "priority"},
	{"pq.jobs.admin.revoke", `{"where":{"state":"ready"}}`, nil, "leased items have leases"},
	{"pq.jobs.admin.revoke", `{"all":true,"delay":5}`, nil, "delay"},
	{"pq.jobs.admin.revoke", `{"all":true,"delay":"-1s"}`, nil, "0s to"},
	{"pq.jobs.admin.revoke", `{"all":true,"fence":5}`, nil, "delay, reason"},
	{"pq.jobs.admin.requeue", `{"all":true}`, nil, "expected to"},
	{"pq._dead.admin.requeue", `{"all":true}`, nil, "queue name"},
	{"pq.-dead.admin.requeue", `{"all":true}`, nil, "expected to"},
	{"pq.jobs.admin.requeue", `{"all":true,"to":"a.b"}`, nil, "queue name"},
	{"pq.jobs.admin.requeue", `{"all":true,"to":"a","spread":"876001h"}`, nil, "87600h"},
	{"pq.jobs.admin.requeue", `{"all":true,"to":"a","any":"yes"}`, nil, "true or false"},
	{"pq.jobs.admin.key.a", "5", nil, "a JSON object"},
	{"pq.jobs.admin.key.a", `{"limit":1`, nil, "the JSON object does not end"},
	{"pq.jobs.admin.key.a", `{"limit":1001}`, nil, "0, for no limit, to 1000"},
	{"pq.jobs.admin.key.a", `{"limit":"5"}`, nil, "limit"},
	{"pq.jobs.admin.key.a", `{"weight":0}`, nil, "1 to 1000"},
	{"pq.jobs.admin.key.a", `{"weight":1001}`, nil, "1 to 1000"},
	{"pq.jobs.admin.key.a", `{"rate":"1"}`, nil, "100/1m"},
	{"pq.jobs.admin.key.a", `{"paused":1}`, nil, "paused"},
	{"pq.jobs.admin.key.a", `{"order":true}`, nil, "limit, rate, weight, paused"},
	{"pq.jobs.admin.key.a", `{"limit":1,"limit":2}`, nil, "twice"},
	{"pq.jobs.admin.key.a", `{}`, []string{"PQ-X", "1"}, "none of admin.key"},
	{"pq.jobs.admin.key.%FF", `{}`, nil, "UTF-8"},
	{"pq.jobs.admin.key.%20a", `{}`, nil, "spaces"},
	{"pq.jobs.links", `{"limit":0}`, nil, "limit is 0"},
	{"pq.jobs.links", `{"after":"a b"}`, nil, "A-Z a-z"},
	{"pq.jobs.link.l", "", nil, "the body"},
	{"pq.jobs.link.l", `{"done":-1}`, nil, "done is -1"},
	{"pq.jobs.link.l", `{"taker":7}`, nil, "taker: expected a string"},
	{"pq.jobs.link.l", `{"max":0}`, nil, "max is 0"},
	{"pq.jobs.link.l", `{"give":1}`, nil, "give"},
	{"pq.jobs.link.l", `{}`, []string{"PQ-Lease", "1s"}, "none of link"},
	{"pq.jobs.link.l", `{}`, []string{"PQ-Wait", "soon"}, "expected a duration"},
	{"pq.jobs.admin.link.l", "5", nil, "a JSON object"},
	{"pq.jobs.admin.link.l", `{"url":"nats://hub"}`, nil, "unknown field"},
	{"pq.jobs.admin.link.l", `{}`, nil, "to is missing"},
	{"pq.jobs.admin.link.l", "", []string{"PQ-X", "1"}, "none of admin.link"},
	{"pq.jobs.admin.link.l.run", "", nil, "pause, resume or delete"},
	{"pq.jobs.admin.link.l.pause", "{}", nil, "expected none"},
	{"pq.jobs.admin.link.l.delete", `{"force":1}`, nil, "true or false"},
	{"pq.jobs.admin.source.s", `{"remote":"hub","queue":"edge7.jobs"}`, nil, "link: name"},
	{"pq.jobs.sources", `{"limit":0}`, nil, "limit is 0"},
	{"pq.jobs.sources", `{"after":"a b"}`, nil, "A-Z a-z"},
	{"pq.jobs.admin.source.s", "5", nil, "a JSON object"},
	{"pq.jobs.admin.source.s", `{"url":"nats://hub"}`, nil, "unknown field"},
	{"pq.jobs.admin.source.s", `{"remote":"hub"}`, nil, "stream is missing"},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","start":"last"}`, nil, "start is"},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","start":{"seq":0}}`, nil, `source: start is {"seq":0}: expected "first", "new", {"seq":<n>} with n from 1`},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","map":{"priority":[]}}`, nil, "source: map has []"},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","map":5}`, nil, "source: map is 5: expected an object"},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","filter":"x"}`, nil, `filter is "x": expected a list of strings`},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","filter":["x",1]}`, nil, `filter is ["x",1]: expected a list of strings`},
	{"pq.jobs.admin.source.s", `{"remote":"hub","stream":"A","batch":"x"}`, nil, `batch is "x": expected an integer`},
	{"pq.jobs.admin.source.s", "", []string{"PQ-X", "1"}, "none of admin.source"},
	{"pq.jobs.admin.source.s.run", "", nil, "pause, resume or delete"},
	{"pq.jobs.admin.source.s.pause", "{}", nil, "expected none"},
	{"pq.jobs.admin.source.s.resume", `{"from_seq":0}`, nil, "from_seq is 0"},
	{"pq.jobs.admin.source.s.resume", `{"from_time":"now"}`, nil, "2030-01-02T15:04:05Z"},
	{"pq.jobs.admin.source.s.resume", `{"accept":false}`, nil, "expected true"},
	{"pq.jobs.admin.source.s.resume", `{"accept":true,"skip":true}`, nil, "expected one of"},
	{"pq.jobs.schedules", `{"limit":0}`, nil, "limit is 0"},
	{"pq.jobs.schedules", `{"after":"a b"}`, nil, "A-Z a-z"},
	{"pq.jobs.schedules", `{"state":"paused"}`, nil, "limit, after"},
	{"pq.jobs.schedules.s", "", nil, "schedules alone"},
	{"pq.jobs.schedule.s", `{"spec":"@daily","item":5}`, nil, "a JSON object"},
	{"pq.jobs.schedule.s", `{"spec":"@fortnightly"}`, nil, "@weekly"},
	{"pq.jobs.schedule.s", `{"spec":"@daily","end":"2020-01-01T00:00:00Z"}`, nil, "end is 2020-01-01T00:00:00Z: the spec has no time up to then"},
	{"pq.jobs.schedule.s", `{"spec":"@at 2020-01-01T00:00:00Z"}`, nil, "no time within eight years"},
	{"pq.jobs.schedule.s", `{"spec":"@daily","item":{"ttl":"100000h"}}`, nil, "ttl"},
	{"pq.jobs.schedule.s", `{"spec":"@daily","item":{"weight":5}}`, nil, "without key"},
	{"pq.jobs.schedule.s", `{"spec":"@daily","item":{"payload":"` + strings.Repeat("a", 65537) + `"}}`, nil, "65536"},
	{"pq.jobs.schedule.s", "", []string{"PQ-X", "1"}, "none of schedule"},
	{"pq.jobs.admin.schedule.s", "5", nil, "a JSON object"},
	{"pq.jobs.admin.schedule.s", `{"spec":`, nil, "schedule: the JSON object does not end"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":null}`, nil, "item is null: expected a JSON object"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":"a"}`, nil, `item is "a": expected a JSON object`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"priority":"5"}}`, nil, `item: priority is "5": expected an integer`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload_base64":"%%"}}`, nil, `item: payload_base64 is "%%": expected base64`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"priority":"` + strings.Repeat("a", 78) + `éa"}}`, nil, `item: priority is "` + strings.Repeat("a", 78) + `...: expected an integer`},
	{"pq.jobs.admin.schedule.s", `{"cron":"@daily"}`, nil, "unknown field"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","spec":"@daily"}`, nil, "twice"},
	{"pq.jobs.admin.schedule.s", `{"spec":"61 * * * *"}`, nil, "0 to 59"},
	{"pq.jobs.admin.schedule.s", `{"spec":"0 0 30 2 *"}`, nil, "eight years"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","zone":"+01:00"}`, nil, "Europe/Berlin"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","start":"tomorrow"}`, nil, `start is "tomorrow": expected a time such as`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","start":0}`, nil, "start is 0: expected a time such as"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","end":""}`, nil, `end is "": expected a time such as`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","end":"2020-01-01T00:00:00Z"}`, nil, "end is 2020-01-01T00:00:00Z: the spec has no time up to then"},
	{"pq.jobs.admin.config", `{"backoff":["1s",1]}`, nil, `backoff: expected a list of durations such as ["1s","10s"]`},
	{"pq.jobs.admin.config", `{"backoff":{}}`, nil, "backoff: delay is missing"},
	{"pq.jobs.admin.config", `{"backoff":{"delay":"1us"}}`, nil, "delay is 1us"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Attempts", `[5]`}, "PQ-Attempts is \"[5]\": expected a JSON array of attempts"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Dead-Reason", "\xff"}, "PQ-Dead-Reason is \"\\xff\": expected UTF-8"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":5}}`, nil, "a string"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":"a","payload_base64":"YQ=="}}`, nil, "one of them"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"body":"a"}}`, nil, "payload_base64, headers"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"PQ-Unique":"a"}}}`, nil, "PQ-"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"Nats-Msg-Id":"a"}}}`, nil, "a new one"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"A":"a\r\nPQ-Key: b"}}}`, nil, "one line"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"A:":"b"}}}`, nil, `item: header name "A:"`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"A b":"c"}}}`, nil, `item: header name "A b"`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"":"b"}}}`, nil, `item: header name ""`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"":[]}}}`, nil, `item: header name ""`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":"a` + "\xff" + `"}}`, nil, `field "item.payload" is not UTF-8`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":"a\ud800"}}`, nil, `field "item.payload" has half of a surrogate pair`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"A":["\udc00"]}}}`, nil, `field "item.headers.A" has half of a surrogate pair`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":"a","payload":"b"}}`, nil, `field "item.payload" occurs twice`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"A":"1","A":"2"}}}`, nil, `field "item.headers.A" occurs twice`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{},"item":{}}`, nil, `field "item" occurs twice`},
	{"pq.jobs.schedule.s", `{"spec":"@daily","item":{"headers":{"":"b"}}}`, nil, `item: header name ""`},
	{"pq.jobs.pop.min", `{"msg_id":"` + "\xff" + `","lease":1000000000}`, nil, `field "msg_id" is not UTF-8`},
	{"pq.jobs.pop.min", `{"msg_id":"\ud800","lease":1000000000}`, nil, `field "msg_id" has half`},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Scheduled-At", "nonsense"}, "PQ-Scheduled-At is"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Scheduled-At", "0001-01-01T00:00:00Z"}, "expected a later time"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Expires", "0001-01-01T00:00:00Z"}, "expected a later time"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Schedule", "a.b"}, "1 to 64 of"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Schedule", "\xff"}, "1 to 64 of"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Attempts", `[{"n":1,"end":"0001-01-01T00:00:00Z","outcome":"nak"}]`}, "has no end"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Attempts", `[{"n":1,"outcome":"nak"}]`}, "has no end"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Attempts", `[{"n":1,"end":"1677-01-01T00:00:00Z","outcome":"nak"}]`}, "1678 to 2262"},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Attempts", `[{"n":1,"n":2,"end":"2026-01-01T00:00:00Z","outcome":"nak"}]`}, `field "n" occurs twice`},
	{"pq.jobs.import", "x", []string{"PQ-Id", "FBUBARzNKsxOMYgIAA", "PQ-Attempts", `[{"n":1,"end":"2026-01-01T00:00:00Z","outcome":"nak","reason":"\ud800"}]`}, `field "reason" has half`},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"weight":5}}`, nil, "without key"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"ttl":"-1s"}}`, nil, "ttl"},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":"` + strings.Repeat("a", 65537) + `"}}`, nil, "65536"},
	{"pq.jobs.admin.schedule.s.stop", "", nil, "pause, resume, delete or run"},
	{"pq.jobs.admin.schedule.s.pause", "{}", nil, "expected none"},
	{"pq.jobs.admin.schedule.s.resume", `{"from":"then"}`, nil, "expected now"},
	{"pq.jobs.admin.schedule.s.run", "x", nil, "expected none"},
	{"pq.jobs.push", "", []string{"PQ-Unique", "\x00schedule\x00s"}, "without zero bytes"},
	{"pq.jobs.pop.min", "", []string{"Season", "a\x00b"}, "without zero bytes"},
	{"pq.jobs.push", "12 0\nSeason: a\x00b\n\n", []string{"PQ-Bundle", "1"}, "item 0: header \"Season\" is \"a\\x00b\""},
	{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"headers":{"A":"a\u0000b"}}}`, nil, "without zero bytes"},
	{"pq.jobs.key.%00", "", nil, "control characters"},
	{"pq.jobs.key.a", "x", nil, "expected none"},
	{"pq.jobs.keys", "5", nil, "a JSON object"},
	{"pq.jobs.keys", `{"limit":0}`, nil, "limit is 0"},
	{"pq.jobs.keys", `{"after":5}`, nil, "a string"},
	{"pq.jobs.keys", `{"after":"` + strings.Repeat("k", 129) + `"}`, nil, "128"},
	{"pq.jobs.keys", `{"state":"ready"}`, nil, "limit, after"},
	{"pq.jobs.push", "", []string{"PQ-Weight", "5"}, "without PQ-Key"},
	{"pq.jobs.push", "", []string{"PQ-Weight", "0", "PQ-Key", "a"}, "1 to 1000"},
	{"pq.jobs.push", "", []string{"PQ-Weight", "1001", "PQ-Key", "a"}, "1 to 1000"},
	{"pq.jobs.push", "", []string{"PQ-Weight", "2.5", "PQ-Key", "a"}, "expected an integer"},
	{"pq.jobs.import", "", []string{"PQ-Weight", "5"}, "PQ-Weight"},
	{"pq.jobs.pop.min", "", []string{"PQ-Weight", "5"}, "none of a pop"},
	{"pq.jobs.admin.purge", "all", nil, "expected none"},
	{"pq.jobs.admin.pause", "", []string{"PQ-For", "1h"}, "none of admin.pause"},
	{"pq._sys.list", `{"before":"x"}`, nil, "offset, limit, after, prefix"},
	{"pq._sys.list", `{"after":1}`, nil, "a string"},
	{"pq._sys.list", `{"prefix":1}`, nil, "a string"},
	{"pq._sys.list", `{"after":"x","offset":0}`, nil, "expected one of them"},
	{"pq._sys.list", `{"offset":-1}`, nil, "offset is -1"},
	{"pq._sys.info", "x", nil, "expected a JSON object"},
	{"pq._sys.info", `{"limit":1}`, nil, "expected some of history"},
}

// checkErrorBody checks that the body of a 400 is a JSON error as js.Publish reads it. An
// error to a settlement has no body, because AckSync would read it as an acknowledgement.
func checkErrorBody(t *testing.T, m *nats.Msg, verb string) {
	t.Helper()
	if verb == "ack" {
		if len(m.Data) > 0 || m.Header.Get("Status") != "503" {
			t.Errorf("%s: body %q, %v", verb, m.Data, m.Header)
		}
		return
	}
	want, status := "io.pq.v1.error_response", "400"
	if verb == "push" {
		want, status = "io.pq.v1.push_response", ""
	}
	var ack pubAck
	decode(t, m.Data, &ack)
	if ack.Type != want || m.Header.Get("Status") != status || ack.Error == nil || ack.Error.Code != 400 || ack.Error.ErrCode != 30400 ||
		ack.Error.Description != m.Header.Get("Nats-Service-Error") {
		t.Errorf("%s: %q, %v", verb, m.Data, m.Header)
	}
}

// Every malformed request does nothing and is answered with a text that says what is
// wrong and what is allowed.
func TestMalformed(t *testing.T) {
	t.Parallel()
	c := serve(t)
	if len(malformed) < 150 {
		t.Errorf("only %d malformed requests", len(malformed))
	}
	for _, tc := range malformed {
		m := c.raw(tc.subject, tc.body, tc.header...)
		text := m.Header.Get("Nats-Service-Error")
		if m.Header.Get("Nats-Service-Error-Code") != "400" || !strings.Contains(text, tc.says) {
			t.Errorf("%s %q %q:\nanswer %q, %v\nwant 400 with %s", tc.subject, tc.body, tc.header, m.Data, m.Header, tc.says)
		}
		for _, r := range text {
			if r < ' ' || r > '~' {
				t.Errorf("%s %q: text %q", tc.subject, tc.body, text)
			}
		}
		checkErrorBody(t, m, strings.Split(tc.subject+"..", ".")[2])
	}
	if list := object[struct{ Total int }](c, "pq._sys.list", ""); list.Total != 0 {
		t.Errorf("%d queues came to be", list.Total)
	}
	// Without a reply subject nothing happens.
	for _, tc := range malformed {
		if strings.HasPrefix(tc.subject, "pq.jobs.push") {
			continue
		}
		if err := c.PublishMsg(&nats.Msg{Subject: tc.subject, Data: []byte(tc.body), Header: h(tc.header...)}); err != nil {
			t.Fatal(tc.subject, err)
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	// A bridge that drains handles what has arrived.
	c.drain(c.env.Bridge)
	if err := c.env.Store.View(t.Context(), func(r kv.Reader) error {
		queues, err := c.env.Store.Queues(r, "", 10)
		if len(queues) > 0 {
			t.Errorf("queues %q came to be", queues)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Each header of a push has a wrong value among these requests.
func TestMalformedHeaders(t *testing.T) {
	t.Parallel()
	tried := make(map[string]bool)
	for _, tc := range malformed {
		if strings.HasPrefix(tc.subject, "pq.jobs.push") && len(tc.header) > 0 {
			tried[tc.header[len(tc.header)-2]] = true
		}
	}
	for _, of := range protocol.PushHeaders {
		if !tried[of.Name] {
			t.Errorf("no request has a wrong value of %s: add one to the list malformed", of.Name)
		}
	}
}
