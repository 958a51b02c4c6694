package protocol

import "time"

// Explain says why no item of a queue, or why an item, is handed out: a word, a sentence and a
// next step for people, and what is known of the cause. Fields that say nothing about it are missing.
type Explain struct {
	Cause Cause  `json:"cause"`
	Text  string `json:"text"`           // one sentence
	Next  string `json:"next,omitempty"` // what to do, "" where there is nothing to do

	// Refuses is why the queue takes no push now: ReasonFull, ReasonStoreFull, ReasonQuotaItems,
	// ReasonQuotaBytes. It may hold beside any cause, and is the cause where items are not kept by another one.
	Refuses Reason `json:"refuses,omitempty"`

	Key      string    `json:"key,omitempty"`       // that the first ready item waits for
	WaitsFor string    `json:"waits_for,omitempty"` // what of it: pause, key_order, key_limit, key_rate
	Item     string    `json:"item,omitempty"`      // id of the item whose lease or delay is meant
	Holder   string    `json:"holder,omitempty"`    // what the holder of that lease calls itself
	Since    time.Time `json:"since,omitzero"`      // when that lease began
	Until    time.Time `json:"until,omitzero"`      // when it ends, the delay ends, or a rate allows a delivery
	AtLeast  bool      `json:"at_least,omitempty"`  // not all leases or delays were looked at: one may be older, or end sooner
	Link     string    `json:"link,omitempty"`      // that holds the items

	// Of CauseFailing, of CauseDelayed where items have failed, and of an item that has failed.
	Failing       int64  `json:"failing,omitempty"`        // items that have failed, among the first ones
	Reason        string `json:"reason,omitempty"`         // that the last failure gave
	Attempt       int64  `json:"attempt,omitempty"`        // number of the next attempt, which is at Until
	MaxDeliveries int64  `json:"max_deliveries,omitempty"` // attempts of which an item dies; missing: of none

	Waiting int      `json:"waiting,omitempty"` // pops that wait, at all bridges that have answered
	Bands   []string `json:"bands,omitempty"`   // of priorities, that they wait for
}

// Cause is what keeps items from being handed out. It is a Reason where a pop answers that.
type Cause string

// Causes.
const (
	CauseFlows     Cause = "flows" // nothing does
	CauseEmpty     Cause = Cause(ReasonEmpty)
	CausePaused    Cause = Cause(ReasonPaused)
	CauseRate      Cause = Cause(ReasonRate)
	CauseBlocked   Cause = Cause(ReasonBlocked)
	CauseBand      Cause = Cause(ReasonBand)   // those who ask for items ask for other priorities
	CauseLeased    Cause = Cause(ReasonLeased) // no item is ready, or those who have leases do not ask for more
	CauseHeld      Cause = Cause(ReasonHeld)
	CauseDelayed   Cause = Cause(ReasonDelayed)
	CauseFailing   Cause = "failing"    // the items that are tried fail, and none was acknowledged for a while
	CauseNoWorkers Cause = "no_workers" // items are ready, and nobody asks for them
	CauseUnknown   Cause = "unknown"    // items are ready, and not all bridges have said whether somebody asks there

	CauseDeadLetters Cause = "dead_letters" // items are ready where dead letters lie, and nobody asks for them

	CauseFull       Cause = Cause(ReasonFull)
	CauseStoreFull  Cause = Cause(ReasonStoreFull)
	CauseQuotaItems Cause = Cause(ReasonQuotaItems)
	CauseQuotaBytes Cause = Cause(ReasonQuotaBytes)
)

// Causes are all of them.
var Causes = []Cause{
	CauseFlows, CauseEmpty, CausePaused, CauseRate, CauseBlocked, CauseBand, CauseLeased, CauseHeld, CauseDelayed, CauseFailing, CauseNoWorkers, CauseUnknown,
	CauseDeadLetters,
	CauseFull, CauseStoreFull, CauseQuotaItems, CauseQuotaBytes,
}

// Fails reports whether the attempts of a queue fail: five at least, and more than were acknowledged, in the last ten minutes of
// its history.
func (h *History) Fails() bool {
	var nacked, settled int64
	for _, n := range lastSteps(h.Nacked) {
		nacked += n
	}
	for _, n := range lastSteps(h.Settle) {
		settled += n
	}
	return nacked >= failsAt && nacked > settled-nacked
}

const (
	failsAt    = 5  // failures
	failsSteps = 10 // minutes
)

func lastSteps(all []int64) []int64 { return all[max(0, len(all)-failsSteps):] }

// HeldAfter is how long items are ready and no lease begins before [Info.HeldFor] says so.
const HeldAfter = 2 * time.Minute

// HeldFor returns how long the oldest lease has lasted, where workers hold all they have taken, take none of the items
// that are ready, and nothing else keeps those; 0 elsewhere. Workers that hang look like workers with jobs of an hour, so
// it is a fact and no fault.
func (i *Info) HeldFor() time.Duration {
	if i.Explain.Cause != CauseLeased || i.Ready == 0 || i.LatestLease < HeldAfter.Seconds() {
		return 0
	}
	return time.Duration(i.OldestLease * float64(time.Second))
}

// Wrong reports whether an operator may have to end a cause. Items that are delayed, or
// leased by workers that have all items, move by themselves; dead letters wait until a person looks at
// them; an unknown cause may be any other.
func (c Cause) Wrong() bool {
	switch c {
	case "", CauseFlows, CauseEmpty, CauseDelayed, CauseLeased, CauseUnknown, CauseDeadLetters:
		return false
	}
	return true
}
