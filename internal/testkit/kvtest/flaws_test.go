package kvtest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// flaw is a way to break the contract.
type flaw string

const (
	none flaw = ""

	// Reads.
	blindToOwnGets   flaw = "Get does not see own writes"
	blindToOwnRanges flaw = "Range does not see own writes"
	blindSnapshots   flaw = "Range of a snapshot does not see own writes"
	readsLatest      flaw = "reads see the latest state"
	staleViews       flaw = "View reads an old state"
	emptyIsNil       flaw = "an empty value is nil"
	getAllSorts      flaw = "GetAll returns values in another order"
	ignoresReverse   flaw = "Range ignores Reverse"
	ignoresMaxBytes  flaw = "Range ignores MaxBytes"
	zeroIsNoLimit    flaw = "Range takes a limit of zero for none"
	sharesSlices     flaw = "Range returns slices that run into each other"

	// Conflicts.
	phantoms              flaw = "Range depends on the rows it returns only"
	limitConflictsWithAll flaw = "Range with a limit depends on all of the range"
	reverseConflictsAhead flaw = "Range with a limit depends on the wrong end"
	getDoesNotConflict    flaw = "the commit does not depend on Get"
	getAllDoesNotConflict flaw = "the commit does not depend on GetAll"
	conflictIgnored       flaw = "the commit does not depend on Conflict"
	snapshotConflicts     flaw = "the commit depends on snapshot reads"
	writesConflict        flaw = "writes conflict with each other"
	integersConflict      flaw = "Add conflicts with Add"
	snapshotIsolation     flaw = "only writes of one key conflict"
	addsWhatItSees        flaw = "Add is a Set of what the transaction sees"
	clearsWhatItSees      flaw = "ClearRange clears the rows that the transaction sees"
	signedMax             flaw = "Max compares signed integers"

	// Limits and errors.
	longKeys              flaw = "long keys are taken"
	longValues            flaw = "long values are taken"
	longTransactions      flaw = "long transactions are taken"
	conflictsWeighNothing flaw = "conflict keys do not count"
	wrapsOwnError         flaw = "errors of closures are wrapped"
	commitsFailed         flaw = "closures that fail commit"
	rerunsFailed          flaw = "closures that fail with ErrUnavailable run again"
	ignoresContext        flaw = "the end of the context is ignored"
	bareContextError      flaw = "the context's error is returned bare"
	servesClosed          flaw = "a closed store goes on"
	closesAtOnce          flaw = "Close does not wait for transactions"

	neverTooOld  flaw = "transactions never grow too old"
	oldReadsFail flaw = "a read that comes too late ends the transaction"

	// Watches.
	watchFromCommit     flaw = "watches compare with the state at the commit"
	watchDeafToIntegers flaw = "watches do not notice Add and Max"
	watchDeafToRanges   flaw = "watches do not notice ClearRange"
	watchFiresAtOnce    flaw = "watches fire without cause"
	oneWatch            flaw = "a transaction can set one watch"
	failedWatchStays    flaw = "watches of closures that fail never end"
	rerunWatchStays     flaw = "watches of closures that are rerun never end"
	closedWatchStays    flaw = "watches of a closed store never end"
	cancelPanics        flaw = "a watch cannot be cancelled twice"
	cancelEndsAll       flaw = "to cancel a watch ends others"
	cancelIsSilent      flaw = "a cancelled watch never ends"

	// Power losses.
	acksBeforeSync   flaw = "commits are acknowledged before they are durable"
	viewsBeforeSync  flaw = "views rest on what is not durable"
	errorsBeforeSync flaw = "errors rest on what is not durable"
	halfCommits      flaw = "a power loss leaves half a transaction"
	losesOldCommit   flaw = "a power loss takes a commit and leaves a later one"
)

// catches names the tests that find each flaw, each of them on its own.
var catches = map[flaw]string{
	blindToOwnGets:   "GetAll OwnWrites RandomOperations",
	blindToOwnRanges: "Bounds LongRange OwnWrites ReusedBuffers Serializable RandomOperations",
	blindSnapshots:   "Bounds OwnWrites RandomOperations",
	readsLatest:      "OneState OneStateInView Replay Bank",
	staleViews:       "EmptyValue Newest Replay Serializable",
	emptyIsNil:       "EmptyValue OwnWrites",
	getAllSorts:      "GetAll",
	ignoresReverse:   "Bounds AnyBytes RandomOperations",
	ignoresMaxBytes:  "Bounds RandomOperations",
	zeroIsNoLimit:    "RangeNeedsLimit",
	sharesSlices:     "ReturnedSlices",

	phantoms:              "ReadsConflict PhantomSkew Serializable",
	limitConflictsWithAll: "UnreadDoesNotConflict",
	reverseConflictsAhead: "ReadsConflict UnreadDoesNotConflict Serializable",
	getDoesNotConflict:    "ReadsConflict ReusedReadBuffers ConflictAnswers WatchRerun Bank",
	getAllDoesNotConflict: "ReadsConflict WriteSkew Serializable",
	conflictIgnored:       "ReadsConflict ReusedReadBuffers ConflictBeforeRead",
	snapshotConflicts:     "UnreadDoesNotConflict",
	writesConflict:        "BlindWrites",
	integersConflict:      "BlindWrites",
	snapshotIsolation:     "ReadsConflict WriteSkew PhantomSkew Serializable",
	addsWhatItSees:        "BlindWrites BlindWritesInOrder Serializable",
	clearsWhatItSees:      "BlindWrites BlindWritesInOrder",
	signedMax:             "OwnWrites",

	longKeys:              "TooLarge",
	longValues:            "TooLarge",
	longTransactions:      "TooLarge",
	conflictsWeighNothing: "TooLarge",
	wrapsOwnError:         "OwnError OwnErrorAfterConflict TooLarge",
	commitsFailed:         "OwnError TooLarge RandomOperations",
	rerunsFailed:          "OwnError",
	ignoresContext:        "ContextEnded",
	bareContextError:      "ContextEnded ContextEndsBeforeRerun",
	servesClosed:          "Close",
	closesAtOnce:          "CloseWaits",
	neverTooOld:           "OldTransaction OldTransactionReads",
	oldReadsFail:          "OldTransactionReads",

	watchFromCommit:     "WatchDuringTransaction",
	watchDeafToIntegers: "WatchFires WatchPingPong",
	watchDeafToRanges:   "WatchFires",
	watchFiresAtOnce:    "WatchPending WatchOwnWrite WatchRerun WatchCancel",
	oneWatch:            "WatchManyOnOneKey",
	failedWatchStays:    "WatchWithoutCommit",
	rerunWatchStays:     "WatchRerun",
	closedWatchStays:    "WatchClose",
	cancelPanics:        "WatchCancel",
	cancelEndsAll:       "WatchCancel",
	cancelIsSilent:      "WatchCancel",

	acksBeforeSync:   "CommitsSurvive AnswersSurvive",
	viewsBeforeSync:  "AnswersSurvive",
	errorsBeforeSync: "AnswersSurvive",
	halfCommits:      "AnswersSurvive",
	losesOldCommit:   "AnswersSurvive",
}

func referenceHarness(flaw flaw, seed uint64) Harness {
	var db *reference
	return Harness{
		Open: func(testing.TB) kv.DB {
			db = newReference(flaw, seed)
			return db
		},
		Advance: func(d time.Duration) { db.now.Add(int64(d)) },
		Seed:    seed,
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	Run(t, referenceHarness(none, 0))
	RunCrash(t, CrashHarness{Open: func(testing.TB) Machine {
		db := newReference(none, 0)
		return Machine{DB: db, PowerLoss: db.powerLoss}
	}})
}

// TestFlaws has the suite judge engines that break the contract.
func TestFlaws(t *testing.T) {
	t.Parallel()
	// A test of concurrent transactions may need luck.
	const attempts = 20
	for flaw, tests := range catches {
		t.Run(string(flaw), func(t *testing.T) {
			for _, name := range strings.Fields(tests) {
				var failures []string
				for seed := uint64(0); len(failures) == 0 && seed < attempts; seed++ {
					failures = judge(t, name, flaw, seed)
				}
				if len(failures) == 0 {
					t.Errorf("%s passes", name)
					continue
				}
				t.Logf("%s: %s", name, failures[0])
			}
		})
	}
}

// judge runs a test of the suite on an engine with a flaw, and returns how the
// test failed. Time passes at once when everybody waits for it in vain.
func judge(t *testing.T, name string, flaw flaw, seed uint64) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		r.run(func() {
			for _, c := range cases() {
				if c.name == name {
					c.run(newFixture(r, referenceHarness(flaw, seed)))
					return
				}
			}
			for _, c := range crashCases {
				if c.name == name {
					c.run(newCrashFixture(r, CrashHarness{Open: func(testing.TB) Machine {
						db := newReference(flaw, seed)
						return Machine{DB: db, PowerLoss: db.powerLoss}
					}, Seed: seed}))
					return
				}
			}
			t.Errorf("there is no test %s", name)
		})
		failures = r.failures
	})
	return failures
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	cleanups []func()

	mu       sync.Mutex
	failures []string
}

func (r *recorder) run(test func()) {
	defer func() {
		for _, cleanup := range slices.Backward(r.cleanups) {
			cleanup()
		}
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		test()
	}()
	<-ended
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Error(args ...any)      { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)      { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Cleanup(cleanup func()) { r.cleanups = append(r.cleanups, cleanup) }
