package pqbridge_test

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// serving are the folders of what serves clients, and of what is a client, for a long time.
var serving = []string{"bridge", "client", "cmd/pqd", "internal/gateway", "internal/lanes"}

// bound says why a map that outlives a call does not grow for ever.
type bound struct {
	keys  string // what they are
	most  string // how many there are at most, or who alone brings them
	where string // the function of the package that sees to that, if it is not plain
}

// The reasons of many maps.
const (
	thisRequest = "those of one request, or one transaction"
	fixed       = "as many as the program has words for them"
	operator    = "those of a file, which the operator writes"
)

// mapsOf has the maps of each package that are fields of its types. What a client chooses is marked so: a name of a queue
// that need not exist, a reply subject, a tenant's name where clients of the operator write it.
var mapsOf = map[string]map[string]bound{
	"bridge/internal/batch": {
		"Pool.active": {"queues, a client's choice, with requests", "the gate's requests in flight", "Pool.rest"},
	},
	"bridge/internal/edits": {
		"bulkQueues.all": {"queues, a client's choice, with a page of a bulk operation under way", "maxBulkQueues", "bulkQueues.enter"},
	},
	"bridge/internal/events": {
		"Announcer.counts":      {"types of events", fixed, ""},
		"Announcer.toldOfDead":  {"queues with a dead letter", "maxToldOfDead", "Announcer.died"},
		"Announcer.toldOfLinks": {"links that exist and give nothing", "those of the last minute; a store has 1,000 at a time", "Announcer.LinkStopped"},
		"lostPushes.of":         {"queues, a client's choice, whose pushes were lost", "maxRecentLosses", "lostPushes.report"},
	},
	"bridge/internal/explain": {
		"Asks.queues": {"queues, a client's choice, that clients popped lately", "maxAsked, and maxAskedBands of each", "Asks.makeRoom"},
	},
	"bridge/internal/listening": {
		"Asker.refused": {"questions under way", "those of a sweep, which are bounded, and of transactions", "Asker.close"},
		"Sent.leases":   {"bundles sent lately", "maxLeases", "Sent.Add"},
		"kinds.counts":  {"queues, a client's choice, that have brought kinds", "mostHeard", "kinds.remove"},
		"kinds.of":      {"kinds of reply subjects, a client's choice", "mostHeard", "kinds.add"},
	},
	"bridge/internal/peers": {
		"Owners.awaited":  {"bridges on the store that were heard", "maxHeard", "members.add"},
		"Owners.contests": {"queues, a client's choice, that several bridges pop", "maxContests", "Owners.contest"},
		"Rivals.warned":   {"ids in answers to a search, a client's choice", "maxWarned", "Rivals.warn"},
		"Standby.warned":  {"ids of bridges with proof on other stores", "maxWarned", "Standby.look"},
		"Survey.open":     {"this bridge's questions under way", "the requests that ask", "Survey.Ask"},
		"Survey.quiet":    {"processes on the store, for some seconds", "the processes in the store's rows", "Survey.about"},
		"asked.of":        {"processes on the store", "the processes in the store's rows", "Survey.about"},
		"members.heard":   {"bridges on the store", "maxHeard", "members.add"},
		"memory.last":     {"bridges on the store", "maxHeard", "memory.hears"},
		"passing.open":    {"messages to other bridges without an answer", "maxOpen bytes for each bridge, until takenPatience", "passing.tend"},
		"passing.to":      {"bridges on the store with messages under way to them", "maxHeard", "passing.end"},
	},
	"bridge/internal/pops": {
		"results.empty": {"bands, a client's choice", thisRequest, ""},
	},
	"bridge/internal/reads": {
		"View.names": {"beginnings of queues' names, a client's choice", thisRequest, ""},
	},
	"bridge/internal/receiver": {
		"arrivals.marks":  {"waits for earlier messages", "those of the bridge's own changes of subscriptions", "arrivals.passed"},
		"arrivals.warned": {"tenants, a client's choice, that flood: each name costs a full line", "those of the last minute", "arrivals.warn"},
		"draining.since":  {"the bridge's own subscriptions", "those that end", "draining.end"},
		"lines.by":        {"tenants, a client's choice, with messages", "the messages in the lines, and linesKept", "lines.forget"},
	},
	"bridge/internal/request": {
		"PerQueue.places":       {"queues with metrics of their own", "PQ_METRICS_QUEUES", "PerQueue.of"},
		"QueueCounts.NotServed": {"reasons", fixed, ""},
		"Statistics.queues":     {"queues through which items moved", "maxQueues", "Statistics.Moved"},
	},
	"bridge/internal/settles": {
		"order.last":    {"leases with settlements under way", "the gate's settlements in flight", "Place.Leave"},
		"reader.behind": {"queues, a client's choice, whose bundles of settlements are being read", "the gate's settlements in flight", "reader.next"},
	},
	"bridge/internal/sources": {
		"Remote.Read":      {"streams", operator, ""},
		"Remote.Take":      {"queues of other sites", operator, ""},
		"Runners.free":     {"sources in the store", "1,000 a store", "Runners.look"},
		"Runners.workers":  {"sources in the store that this bridge runs", "1,000 a store", "Runners.look"},
		"connections.open": {"remotes that sources need", operator, "connections.keep"},
		"worker.told":      {"types of events", fixed, ""},
	},
	"bridge/internal/survey": {
		"Surveyor.latest": {"queues with metrics of their own", "PQ_METRICS_QUEUES", "Surveyor.read"},
	},
	"bridge/internal/tenants": {
		"Counts.Refused": {"reasons", fixed, ""},
		"Tenant.refused": {"reasons", fixed, ""},
		"Tenants.known":  {"tenants, a client's choice, with requests lately", "fewTenants, and twice those that owe requests", "Tenants.sweep"},
	},
	"bridge/internal/results": {
		"Waits.queues":  {"queues, a client's choice, with requests that wait for results", "Options.Places", "Waits.forget"},
		"awaited.items": {"items, a client's choice, for whose results requests wait", "Options.Places", "Waits.forget"},
	},
	"bridge/internal/turns": {
		"filling.owners": {"owners of lines, a client's choice", thisRequest, ""},
		"line.held":      {"reply subjects' beginnings, a client's choice, in turns under way", "the requests of the turns", "line.leave"},
		"lines.separate": {"lines, of which queues are a client's choice, that run alone for a while", "mostMarks", "marks.add"},
		"lines.serial":   {"lines, of which queues are a client's choice, whose turns follow one another for a while", "mostMarks", "marks.add"},
		"lines.all":      {"queues, a client's choice, with requests", "the gate's requests in flight, and the queues of waiting pops", "lines.forget"},
		"runner.done":    {"sorts of what transactions do", fixed, ""},
	},
	"bridge/internal/waiting": {
		"Pops.queues":   {"queues, a client's choice, with waiting pops", "Options.Places", "Pops.admit"},
		"Pops.tenants":  {"tenants with waiting pops", "Options.Places", "Pops.drop"},
		"queue.clients": {"reply subjects' beginnings, a client's choice, of waiting pops", "Options.Places", "queue.drop"},
		"queue.lines":   {"bands, a client's choice", "Options.Bands, and Options.Places", "Pops.admit"},
	},
	"client": {
		"bells.holds":      {"leases of a Consume", "its workers", "bells.enter"},
		"denials.expected": {"subjects of the bells of Consumes", "those that run, and mostExpected", "denials.expect"},
		"answers.leases":   {"leases in the answers to one pop", thisRequest, ""},
		"mailbox.ending":   {"pops under way that the caller has cancelled", "the program's own calls", "mailbox.enter"},
		"mailbox.open":     {"calls under way", "the program's own calls", "mailbox.enter"},
	},
	"cmd/pqd": {
		"remotesFile.latest": {"remotes", operator, ""},
	},
	"cmd/pqd/internal/broker": {
		"Routes.Peers":     {"other nodes", "those of PQ_CLUSTER", ""},
		"Routes.seen":      {"other nodes", "those of PQ_CLUSTER", "Routes.connected"},
		"slowClients.seen": {"connections of the embedded server", "max_connections, as they are at a look", "slowClients.look"},
		"sockets.fds":      {"connections of the embedded server", "max_connections, as they are at a look", "findSockets"},
	},
	"cmd/pqd/internal/process": {
		"message.places":   {"tenants and queues, a client's choice, for a minute", "mostOfAll", "message.place"},
		"message.senders":  {"senders, a client's choice, with a line, for a minute", "the lines with one message: mostOfAll, and one for each place", "message.pass"},
		"repeats.messages": {"texts of log lines, a client's choice where the server writes them", "maxMessages", "repeats.pass"},
	},
	"cmd/pqd/internal/settings": {
		"Remote.Queues":  {"queues of other sites", operator, ""},
		"Remote.Streams": {"streams", operator, ""},
		"Settings.set":   {"variables", fixed, ""},
		"Tenants.Tokens": {"tenants", operator, ""},
		"Tenants.hashes": {"tokens of tenants", operator, ""},
		"Tenants.own":    {"tenants", operator, ""},
	},
	"cmd/pqd/internal/web": {
		"tenantMetrics.owned": {"tenants with metrics", "those with requests lately, and PQ_METRICS_QUEUES", "byTenant"},
	},
	"internal/gateway": {
		"auth.tenants":    {"tenants with a token", operator, ""},
		"input.values":    {"parts of a path, a client's choice", thisRequest, ""},
		"outbox.of":       {"addresses and tenants with answers on their way", "the requests under way", "outbox.drop"},
		"pending.calls":   {"calls under way", "maxRequests, maxWaiting and the paths that are read", "pending.remove"},
		"places.of":       {"addresses and tenants with requests under way", "the requests under way", "places.leave"},
		"sample.watchers": {"streams", "maxStreams", "sampler.remove"},
		"sampler.samples": {"paths, a client's choice, that streams show", "maxWatched, and they end with their streams", "sampler.remove"},
		"watcher.events":  {"paths, a client's choice, of one stream", "maxPaths, and maxStreamBytes", "watch"},
		"watcher.sizes":   {"paths, a client's choice, of one stream", "maxPaths", "watch"},
	},
	"internal/lanes": {
		"Lanes.of":      {"queues, a client's choice, with calls", "the calls under way", "Lanes.forget"},
		"Rights.queues": {"queues, a client's choice", "mostRights", "Rights.Set"},
	},
}

// A client that chooses the keys of a map, and has it grow without end, takes the memory of all. So each map that a type keeps
// has a row that says what bounds it, and a new one has to have one.
func TestMapsHaveBounds(t *testing.T) {
	kept, functions := make(map[string]map[string]bool), make(map[string]map[string]bool)
	named := make(map[string]map[string]bool) // types that are maps, by folder
	of := func(in map[string]map[string]bool, dir string) map[string]bool {
		if in[dir] == nil {
			in[dir] = make(map[string]bool)
		}
		return in[dir]
	}
	all := servingSources(t)
	for _, s := range all {
		for _, f := range s.functions() {
			name := f.Name.Name
			if f.Recv != nil {
				name = receiver(f) + "." + name
			}
			of(functions, s.dir)[name] = true
		}
		for _, spec := range s.types() {
			if _, is := spec.Type.(*ast.MapType); is {
				of(named, s.dir)[spec.Name.Name] = true
			}
		}
	}
	for _, s := range all {
		for _, spec := range s.types() {
			for _, field := range fields(spec.Type) {
				if keepsMap(field.Type, named[s.dir]) {
					for _, name := range field.Names {
						of(kept, s.dir)[spec.Name.Name+"."+name.Name] = true
					}
				}
			}
		}
	}
	for dir, names := range kept {
		for name := range names {
			row, known := mapsOf[dir][name]
			if !known {
				t.Errorf("%s is a map: expected a row in mapsOf that says what bounds it", dir+"."+name)
			} else if row.where != "" && !functions[dir][row.where] {
				t.Errorf("%s is bounded by %s, which %s does not have", dir+"."+name, row.where, dir)
			}
		}
	}
	for dir, rows := range mapsOf {
		for name := range rows {
			if !kept[dir][name] {
				t.Errorf("%s has a row in mapsOf, and is no map", dir+"."+name)
			}
		}
	}
}

// Maps of packages are tables: what they have is written where they are declared.
func TestMapsOfPackagesAreTables(t *testing.T) {
	all, tables := servingSources(t), make(map[string]bool) // by folder and name
	for _, s := range all {
		for _, declared := range s.file.Decls {
			if d, is := declared.(*ast.GenDecl); is && d.Tok == token.VAR {
				for _, spec := range d.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						tables[s.dir+"."+name.Name] = true
					}
				}
			}
		}
	}
	for _, s := range all {
		for _, f := range s.functions() {
			ast.Inspect(f, func(node ast.Node) bool {
				assigned, is := node.(*ast.AssignStmt)
				if !is {
					return true
				}
				for _, to := range assigned.Lhs {
					at, is := to.(*ast.IndexExpr)
					if !is {
						continue
					}
					if of, is := at.X.(*ast.Ident); is && tables[s.dir+"."+of.Name] {
						t.Errorf("%s: %s writes to %s of its package: expected a field of a type", s.path, f.Name, of.Name)
					}
				}
				return true
			})
		}
	}
}

func servingSources(t *testing.T) []source {
	t.Helper()
	return slices.DeleteFunc(sources(t), func(s source) bool {
		return s.test || !slices.ContainsFunc(serving, func(dir string) bool { return within(s.dir, dir) })
	})
}

// types are the types that a file declares.
func (s source) types() (all []*ast.TypeSpec) {
	for _, declared := range s.file.Decls {
		if d, is := declared.(*ast.GenDecl); is && d.Tok == token.TYPE {
			for _, spec := range d.Specs {
				all = append(all, spec.(*ast.TypeSpec))
			}
		}
	}
	return all
}

// fields are the fields of a type, those of structs in it included.
func fields(of ast.Expr) (all []*ast.Field) {
	ast.Inspect(of, func(node ast.Node) bool {
		if s, is := node.(*ast.StructType); is {
			all = append(all, s.Fields.List...)
		}
		return true
	})
	return all
}

// keepsMap says whether a field has a map, or leads to one. A struct in it has fields of its own, and functions keep nothing.
func keepsMap(of ast.Expr, named map[string]bool) (found bool) {
	ast.Inspect(of, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.StructType, *ast.FuncType, *ast.InterfaceType:
			return false
		case *ast.MapType:
			found = true
		case *ast.Ident:
			found = found || named[n.Name]
		case *ast.SelectorExpr:
			found = found || calls(n, "sync", "Map")
			return false
		}
		return !found
	})
	return found
}
