package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Causes that no row tells.
const (
	NoWorkers   = fdbpq.Reason(protocol.CauseNoWorkers)
	Unknown     = fdbpq.Reason(protocol.CauseUnknown)
	DeadLetters = fdbpq.Reason(protocol.CauseDeadLetters)
	Failing     = fdbpq.Reason(protocol.CauseFailing)
)

// Facts are what is known of a cause.
type Facts struct {
	fdbpq.Explanation
	Item                   bool             // it is about an item, not a queue
	Ready, Leased, Delayed int64            // items of the queue
	Rate                   fdbpq.Rate       // of the queue
	CostRate               fdbpq.CostRate   // of the queue
	Origin, Died           string           // of an item that is a dead letter: its queue, and what it died of
	Full                   *failure.Failure // why the queue takes no item, or nil
	Waiting                int              // pops that wait
	Bands                  []fdbpq.Band     // for which they wait, or were asked for lately
	Silent                 int              // other processes on the store that have not said whether somebody asks there
	Lately                 bool             // pops have asked for them a while ago, and none has taken one since
	recent                 recent           // what became of the last items, where nobody takes any

	ExpiresAfter time.Duration // for how long the queue is empty and unused before it deletes itself; 0: it does not

	Failing fdbpq.Failing    // items that have failed, of the first ones of a queue
	Past    fdbpq.FailedItem // what an item tells of its failures
}

// Word is the cause: where pushes are refused that is it, unless items are kept by another one.
func (f *Facts) Word() protocol.Cause {
	cause := protocol.Cause(f.Cause)
	if f.Full != nil && !cause.Wrong() && (f.Ready == 0 || cause == protocol.CauseFlows) {
		return protocol.Cause(f.Full.Reason)
	}
	return cause
}

// Answer is the explanation as a client gets it.
func (f *Facts) Answer(now time.Time) protocol.Explain {
	e := protocol.Explain{
		Cause: f.Word(), Key: f.Key, WaitsFor: string(f.WaitsFor), Holder: f.Holder, Link: f.Link,
		Since: utc(f.Since), Until: utc(f.Until), AtLeast: f.AtLeast, Waiting: f.Waiting,
	}
	if f.Explanation.Item != nil {
		e.Item = f.Explanation.Item.String()
	}
	e.Bands = f.bands()
	f.failures(&e)
	e.Text, e.Next = f.say(now)
	e.Text += f.failed()
	if f.Full == nil {
		return e
	}
	e.Refuses = f.Full.Reason
	if e.Cause == protocol.Cause(f.Full.Reason) && f.Cause != fdbpq.ReasonDying {
		e.Text, e.Next = "No push is taken: "+f.Full.Text+".", refused[f.Full.Reason]
		return e
	}
	e.Text = strings.TrimSuffix(e.Text, ".") + "; and no push is taken: " + f.Full.Text + "."
	e.Next = strings.TrimSpace(e.Next + " " + refused[f.Full.Reason])
	return e
}

// refused are the next steps where pushes are refused.
var refused = map[protocol.Reason]string{
	protocol.ReasonFull:       "Have its items worked off, or raise the limit.",
	protocol.ReasonStoreFull:  "Make room on the disk.",
	protocol.ReasonQuotaItems: "Have items worked off, or ask for a larger quota.",
	protocol.ReasonQuotaBytes: "Have items worked off, or ask for a larger quota.",
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// say returns the sentence and the next step.
func (f *Facts) say(now time.Time) (text, next string) {
	switch f.Cause {
	case fdbpq.ReasonFlows:
		return f.item("It is handed out when those in front of it are gone.", "Items are handed out."), ""
	case fdbpq.ReasonEmpty:
		if f.ExpiresAfter > 0 {
			return fmt.Sprintf("There are no items. The queue deletes itself when it was empty and unused for %s.", f.ExpiresAfter), ""
		}
		return "There are no items.", ""
	case fdbpq.ReasonPaused:
		return "The queue is paused, so no item is handed out.", "Resume the queue."
	case fdbpq.ReasonRate:
		return f.rate(now)
	case fdbpq.ReasonBlocked:
		return f.blocked(now)
	case fdbpq.ReasonBand:
		return fmt.Sprintf("%s, and nobody asks for %s: pops ask for %s.", f.ready(), f.theirPriorities(), strings.Join(f.bands(), ", ")),
			"Start a worker that asks for other bands."
	case fdbpq.ReasonLeased:
		return f.leased(now)
	case fdbpq.ReasonDying:
		return f.dying(), "Make room on the disk."
	case fdbpq.ReasonHeld:
		return f.held(now), "Look at the store that takes from the link, and at its connection."
	case fdbpq.ReasonDelayed:
		return f.delayed(now)
	case DeadLetters:
		return f.deadLetters()
	case Failing:
		return f.failing(now)
	case NoWorkers:
		return f.noWorkers(now)
	}
	if f.Lately {
		return fmt.Sprintf("%s, and nobody waits for %s: the last pop asked%s.", f.ready(), f.them(), ago(f.recent.Asked, now)), "Ask again, and look at the workers."
	}
	return fmt.Sprintf("%s, and nobody asks this bridge for %s; %s on the store did not say in time who asks there.",
		f.ready(), f.them(), f.silent()), "Ask again."
}

func (f *Facts) item(item, queue string) string {
	if f.Item {
		return item
	}
	return queue
}

func (f *Facts) one() bool { return f.Item || f.Ready == 1 }

func (f *Facts) them() string {
	if f.one() {
		return "it"
	}
	return "them"
}

func (f *Facts) theirPriorities() string {
	if f.one() {
		return "its priority"
	}
	return "their priorities"
}

func (f *Facts) ready() string {
	if f.Item {
		return "The item is ready"
	}
	return are(f.Ready, "item") + " ready"
}

func (f *Facts) silent() string {
	switch f.Silent {
	case 0:
		return "others"
	case 1:
		return "another process"
	}
	return fmt.Sprintf("%d other processes", f.Silent)
}

// rate says which rate of the queue is reached, as far as one alone is set.
func (f *Facts) rate(now time.Time) (text, next string) {
	switch {
	case f.CostRate == (fdbpq.CostRate{}):
		return fmt.Sprintf("The rate of the queue, %s, is reached: it allows the next item %s.", f.Rate, in(f.Until, now)), "Wait, or raise the rate."
	case f.Rate == (fdbpq.Rate{}):
		return fmt.Sprintf("The cost rate of the queue, %s, is reached: it allows the next item %s.", f.CostRate, in(f.Until, now)),
			"Wait, raise the cost rate, or have workers say what items have really cost."
	}
	return fmt.Sprintf("The rate of the queue, %s, or its cost rate, %s, is reached: they allow the next item %s.", f.Rate, f.CostRate, in(f.Until, now)),
		"Wait, or raise the rate."
}

// blocked says what the first ready item, or this one, waits for.
func (f *Facts) blocked(now time.Time) (text, next string) {
	whose := fmt.Sprintf("%s its key %q", f.item("The item waits for", "All ready items wait for their keys, the first one for"), f.Key)
	id := ""
	if f.Explanation.Item != nil {
		id = f.Explanation.Item.String()
	}
	switch {
	case f.Key == "":
		return "All ready items wait for their keys.", "Look at the keys of the queue."
	case f.WaitsFor == fdbpq.WaitsForPause:
		return whose + ", which is paused.", "End the pause of the key."
	case (f.WaitsFor == fdbpq.WaitsForKeyRate || f.WaitsFor == fdbpq.WaitsForKeyCost) && f.Until.IsZero():
		return whose + ": as many keys as may be are remembered with a rate.", "Wait."
	case f.WaitsFor == fdbpq.WaitsForKeyRate:
		return fmt.Sprintf("%s, whose rate allows the next item %s.", whose, in(f.Until, now)), "Wait, or raise the rate of the key."
	case f.WaitsFor == fdbpq.WaitsForKeyCost:
		return fmt.Sprintf("%s, whose cost rate allows the next item %s.", whose, in(f.Until, now)), "Wait, or raise the cost rate of the key."
	case id == "":
		return whose + ", of which as many items are leased as may be.", "Look at the leases of the queue."
	case f.Until.IsZero() && f.Holder != "":
		return fmt.Sprintf("%s: a link holds item %s.", whose, id), "Look at the links of the queue."
	case f.Until.IsZero():
		return fmt.Sprintf("%s: item %s comes first.", whose, id), "Look why that item waits."
	case f.Since.IsZero() && f.Holder == "":
		return fmt.Sprintf("%s: item %s comes again %s, and goes before it.", whose, id, in(f.Until, now)), "Wait, or remove that item."
	}
	return fmt.Sprintf("%s: %s has item %s%s, and the lease ends %s if nobody extends it.", whose, f.holder(), id, since(f.Since, now), in(f.Until, now)),
		"If the holder hangs, revoke the lease."
}

// leased says who has the items.
func (f *Facts) leased(now time.Time) (text, next string) {
	const hangs = "If a holder hangs, revoke its lease."
	lease := fmt.Sprintf("%s%s, and the lease ends %s if nobody extends it", f.holder(), since(f.Since, now), in(f.Until, now))
	if f.Item && f.Ready == 0 {
		return "The lease of the item is that of " + lease + ".", hangs
	}
	first := "No item is ready: "
	if f.Ready > 0 {
		first, next = f.ready()+", and those who have others do not ask for more: ", "Start more workers. "
	}
	text = first + are(f.Leased, "item") + " leased"
	if f.Explanation.Item != nil {
		oldest := "the oldest lease"
		if f.AtLeast {
			oldest = "the oldest lease that was found"
		}
		text += fmt.Sprintf(", %s is that of %s", oldest, lease)
	}
	return text + ".", next + hangs
}

// noWorkers says that nobody asks, and who asked last.
func (f *Facts) noWorkers(now time.Time) (text, next string) {
	text, next = f.ready()+", and nobody asks for "+f.them()+".", "Start a worker."
	lost := &f.recent.Lost
	if lost.Leases == 0 {
		return text, next
	}
	let := "a lease"
	if lost.Leases > 1 {
		let = fmt.Sprintf("%d leases", lost.Leases)
	}
	who := "The last holder, " + lost.Holder + ","
	if lost.Holder == "" {
		who = "The last holder, without a name,"
	}
	return fmt.Sprintf("%s %s let %s run out, the last%s: it hangs, or is gone.", text, who, let, ago(lost.At, now)), "Restart that worker, or start another one."
}

// failing says which items fail, and of what.
func (f *Facts) failing(now time.Time) (text, next string) {
	n, last := f.Failing.Items, &f.Failing.Last
	switch {
	case f.Failing.AtLeast && n == 1:
		text = "Of the first items 1 has failed"
	case f.Failing.AtLeast:
		text = fmt.Sprintf("Of the first items %d have failed", n)
	case n == 1:
		text = "1 item has failed"
	default:
		text = fmt.Sprintf("%d items have failed", n)
	}
	text += lastFailure(last)
	first := "the first"
	if n == 1 {
		first = "it"
	}
	return fmt.Sprintf("%s; %s is tried again %s, attempt %s.", text, first, in(f.Failing.Next.Due, now), attempt(&f.Failing.Next)),
		"Look at the attempts of its items, and at the log of the worker."
}

// lastFailure says of what an item failed last, and at whom.
func lastFailure(item *fdbpq.FailedItem) (text string) {
	if reason := item.Attempt.Reason; reason != "" {
		text = ", the last: " + reason
	}
	if holder := item.Attempt.Holder; holder != "" {
		text += ", held by " + holder
	}
	return text
}

// attempt is the number of the next attempt of an item, and of how many.
func attempt(item *fdbpq.FailedItem) string {
	if item.Most == 0 {
		return fmt.Sprint(item.Failures + 1)
	}
	return fmt.Sprintf("%d of %d", item.Failures+1, item.Most)
}

// failed is the sentence about the failures of an item.
func (f *Facts) failed() string {
	if !f.Item || f.Past.Failures == 0 || f.dead() {
		return ""
	}
	times := "once"
	if f.Past.Failures > 1 {
		times = fmt.Sprintf("%d times", f.Past.Failures)
	}
	return fmt.Sprintf(" It has failed %s%s; the next attempt is %s.", times, lastFailure(&f.Past), attempt(&f.Past))
}

func (f *Facts) dead() bool {
	return f.Cause == DeadLetters || f.Cause == fdbpq.ReasonDying || f.Died != ""
}

// failures fills the fields about failures.
func (f *Facts) failures(e *protocol.Explain) {
	last, next := &f.Past, &f.Past
	switch {
	case f.Cause == fdbpq.ReasonDelayed && f.Failing.Items > 0: // the fields about one item are those of the first one that is delayed
		e.Failing, e.Reason = f.Failing.Items, f.Failing.Last.Attempt.Reason
		return
	case f.Cause == Failing:
		e.Failing, last, next = f.Failing.Items, &f.Failing.Last, &f.Failing.Next
	case !f.Item || f.Past.Failures == 0 || f.dead():
		return
	}
	e.Reason, e.Attempt, e.MaxDeliveries = last.Attempt.Reason, next.Failures+1, next.Most
}

// deadLetters says what is to be done about them: a worker would be wrong.
func (f *Facts) deadLetters() (text, next string) {
	if f.Item {
		text = "The item is a dead letter"
		if f.Origin != "" {
			text += " of " + f.Origin
		}
		if f.Died != "" {
			text += ", which died of: " + f.Died
		}
		return text + ".", "Requeue or remove it."
	}
	return f.ready() + ", in a queue for dead letters: they stay until somebody requeues or removes them.", "Look why they died."
}

// dying says what dead items wait for.
func (f *Facts) dying() string {
	const waits = "until the store has room for dead letters"
	switch {
	case f.Item && f.Died != "":
		return fmt.Sprintf("The item is dead, of: %s. It waits %s.", f.Died, waits)
	case f.Item:
		return fmt.Sprintf("The item is dead. It waits %s.", waits)
	}
	return "No item is handed out: those that are left are dead, and wait " + waits + "."
}

func (f *Facts) holder() string {
	if f.Holder == "" {
		return "a worker without a name"
	}
	return f.Holder
}

func (f *Facts) held(now time.Time) string {
	if f.Item {
		return fmt.Sprintf("The link %s holds the item%s: the store that takes it has not said that it has it.", f.Link, since(f.Since, now))
	}
	first := "The"
	if f.Ready > 0 {
		first = f.ready() + ", and nobody asks for " + f.them() + ": the"
	}
	return fmt.Sprintf("%s link %s holds items%s, and the store that takes them has not said that it has them.", first, f.Link, since(f.Since, now))
}

func (f *Facts) delayed(now time.Time) (text, next string) {
	if f.Item {
		return "The item is delayed: it becomes ready " + in(f.Until, now) + ".", ""
	}
	text = fmt.Sprintf("%s delayed: the first becomes ready %s", are(f.Delayed, "item"), in(f.Until, now))
	if f.AtLeast {
		text += " at the latest"
	}
	text += "."
	if f.Failing.Items == 0 {
		return text, ""
	}
	failing, next := f.failing(now)
	return text + " " + failing, next
}

// are is how many there are, as a sentence begins.
func are(n int64, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

// in is when something is.
func in(then, now time.Time) string {
	if d := then.Sub(now).Round(time.Second); d > 0 {
		return "in " + d.String()
	}
	return "now"
}

// ago is when something was.
func ago(then, now time.Time) string {
	if then.IsZero() {
		return " a while ago"
	}
	return " " + max(0, now.Sub(then)).Round(time.Second).String() + " ago"
}

// since is for how long something has been.
func since(then, now time.Time) string {
	if then.IsZero() {
		return ""
	}
	return " for " + max(0, now.Sub(then)).Round(time.Second).String()
}

// maxBands bounds the bands that an answer names.
const maxBands = 16

// bands are the first ones that pops ask for, in their order.
func (f *Facts) bands() (texts []string) {
	if f.Cause != fdbpq.ReasonBand {
		return nil
	}
	all := slices.SortedFunc(slices.Values(f.Bands), func(a, b fdbpq.Band) int {
		return cmp.Or(cmp.Compare(a.Low, b.Low), cmp.Compare(a.High, b.High))
	})
	for _, band := range all[:min(len(all), maxBands)] {
		texts = append(texts, band.String())
	}
	return texts
}
