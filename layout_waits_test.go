package pqbridge_test

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// sleepers are the files of tests that sleep, and why there is nothing to wait for.
var sleepers = map[string]string{
	"bridge/bench_neighbours_test.go":            "a slow read takes a time",
	"client/lossy_test.go":                       "a context ends some time after an answer was lost",
	"e2e/cluster/cluster_fulldisk_linux_test.go": "a disk is mended at any moment",
	"e2e/cluster/cluster_gap_test.go":            "a gap in the answers may begin some time after its cause",
	"e2e/cluster/cluster_network_test.go":        "the network changes at any moment",
	"e2e/console/console_load_test.go":           "a load lasts for a time",
	"e2e/console/dashboard_picture_test.go":      "a picture needs a past",
	"e2e/faults/bitflips_test.go":                "pqd looks a second after the last commit",
	"e2e/faults/bulk_test.go":                    "pqd ends at any moment",
	"e2e/faults/cluster_damage_all_test.go":      "nodes that serve nothing tell nothing",
	"e2e/internal/chromium/tab.go":               "pages tell no test what they have drawn",
	"e2e/internal/pqd/bulk.go":                   "faults come at any moment",
	"e2e/internal/pqd/campaign.go":               "faults come at any moment",
	"e2e/internal/pqd/gray.go":                   "a rate is that of a time",
	"e2e/internal/pqd/nodefaults.go":             "a node stays stopped for a time",
	"e2e/internal/pqd/schedules.go":              "faults come at any moment",
	"e2e/performance/crowd_linux_test.go":        "a load lasts for a time, and the processors are pqd's",
	"e2e/performance/load_fdb_test.go":           "a load lasts for a time",
	"e2e/performance/open_loop_test.go":          "a load has a rate",
	"e2e/performance/schedules_test.go":          "schedules have real times",
	"e2e/performance/tenant_beside_test.go":      "a load lasts for a time",
	"e2e/topologies/leaf_test.go":                "a link is cut some time after a request has left",
	"e2e/versions/bridges_fdb_test.go":           "programs change at any moment",
	"e2e/versions/nodes_test.go":                 "programs change at any moment",
	"e2e/versions/store_test.go":                 "programs change at any moment",
	"fdbpq/contention_test.go":                   "a load has a rate",
	"fdbpq/punctual_test.go":                     "schedules have real times",
	"internal/testkit/fdbtest/cluster.go":        "nothing tells when the status changes",
	"testenv/worker.go":                          "a request that is refused comes again later",
	"testenv/worker_bundles.go":                  "a request that is refused comes again later",
}

// A test that sleeps is slow when the machine is fast and wrong when it is
// slow. Wait for a signal, inject a clock, or use testing/synctest.
func TestTestsDoNotSleep(t *testing.T) {
	sleep := make(map[string]bool)
	for _, s := range sources(t) {
		// The worlds of fdbpq/kv/cluster have a clock of their own.
		if !s.ofTests() || s.dir == "fdbpq/kv/cluster" || slices.Contains(s.imports(t), "testing/synctest") {
			continue
		}
		sleep[s.path] = sleeps(s.file)
	}
	for file := range sleep {
		if sleep[file] && sleepers[file] == "" {
			t.Errorf("%s sleeps: wait for what happens, or say in sleepers why there is nothing to wait for", file)
		}
	}
	for file := range sleepers {
		if !sleep[file] {
			t.Errorf("%s is listed as one that sleeps, and does not", file)
		}
	}
}

// sleeps says whether a part of a file waits for nothing but time, in any of its spellings.
func sleeps(in ast.Node) (found bool) {
	waits := make(map[ast.Node]bool) // for time or for something else
	ast.Inspect(in, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectStmt:
			if happens(n) {
				for _, clause := range n.Body.List {
					waits[clause.(*ast.CommClause).Comm] = true
				}
			}
		case *ast.SelectorExpr:
			found = found || calls(n, "time", "Sleep", "Tick")
		case *ast.ExprStmt:
			if waits[n] {
				return false
			}
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW && isTimer(n.X)
		}
		return !found
	})
	return found
}

// happens says whether a select waits for more than time and the end of a context, which is that of a test that fails.
func happens(s *ast.SelectStmt) bool {
	return slices.ContainsFunc(s.Body.List, func(clause ast.Stmt) bool {
		waits, is := clause.(*ast.CommClause).Comm.(*ast.ExprStmt)
		if !is {
			return clause.(*ast.CommClause).Comm != nil // of a default nothing is waited for
		}
		received, is := waits.X.(*ast.UnaryExpr)
		if !is || isTimer(received.X) {
			return !is
		}
		call, is := received.X.(*ast.CallExpr)
		if !is {
			return true
		}
		done, is := call.Fun.(*ast.SelectorExpr)
		return !is || done.Sel.Name != "Done"
	})
}

// isTimer says whether an expression is a channel of time.After, or of a timer that nothing else knows.
func isTimer(e ast.Expr) bool {
	if channel, is := e.(*ast.SelectorExpr); is && channel.Sel.Name == "C" {
		e = channel.X
	}
	call, is := e.(*ast.CallExpr)
	return is && calls(call.Fun, "time", "After", "NewTimer", "NewTicker")
}

// patient says whether a part of a file asks how long to wait.
func patient(in ast.Node) (asks bool) {
	ast.Inspect(in, func(node ast.Node) bool {
		if call, is := node.(*ast.CallExpr); is {
			asks = asks || calls(call.Fun, "testenv", "Patience", "Late", "BeginWait") || calls(call.Fun, "patience", "Long", "Late", "Begin")
		}
		return !asks
	})
	return asks
}

// A wait in vain ends within minutes, and says where: its bound is never a multiple, an attempt that
// is repeated has a bound of its own, and so have the programs that a test starts.
func TestWaitsHaveBounds(t *testing.T) {
	for _, s := range sources(t) {
		if !s.ofTests() {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.BinaryExpr:
				_, left := n.X.(*ast.BasicLit)
				_, right := n.Y.(*ast.BasicLit)
				if n.Op == token.MUL && (left && patient(n.Y) || right && patient(n.X)) {
					t.Errorf("%s multiplies how long tests wait: expected Most, or a wait for each part", s.path)
				}
			case *ast.CallExpr:
				if calls(n.Fun, "testenv", "Await", "AwaitAnswer") && patient(n.Args[len(n.Args)-1]) {
					t.Errorf("%s waits within an Await: expected Attempt for what is repeated", s.path)
				}
				if calls(n.Fun, "exec", "Command") && within(s.dir, "e2e") && s.dir != "e2e/internal/chromium" { // which ends its browser itself
					t.Errorf("%s starts a program without a bound: expected pqd.Command", s.path)
				}
			}
			return true
		})
	}
}

// calls says whether an expression names one of these functions of a package.
func calls(e ast.Expr, pkg string, functions ...string) bool {
	selector, is := e.(*ast.SelectorExpr)
	if !is {
		return false
	}
	name, is := selector.X.(*ast.Ident)
	return is && name.Name == pkg && slices.Contains(functions, selector.Sel.Name)
}
