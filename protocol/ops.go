package protocol

import "strings"

// Ops are all operations. Tests compare this table with the subjects and their permissions, the clients, and the
// routes over HTTP.
var Ops = []Op{
	{Name: "push", Subject: "<queue>.push[.<priority>]", Body: Payload{}, Answer: PushResponse{}, Again: Once, Right: Producer, HTTP: "POST /v1/queues/{queue}/push", Errors: refusesPush, Doc: "Adds an item."},
	{Name: "push many", Subject: "<queue>.push[.<priority>]", Body: Payload{}, Answer: PushResponse{}, Again: Once, Right: Producer, HTTP: "POST /v1/queues/{queue}/push-many", Errors: refusesPush, Doc: "Adds many items in one transaction: all of them, or none."},
	{Name: "import", Subject: "<queue>.import", Body: Payload{}, Answer: PushResponse{}, Again: Repeats, Right: Importer,
		Errors: []Reason{ReasonOccupied, ReasonQuotaQueues, ReasonQuotaItems, ReasonQuotaBytes, ReasonStoreFull},
		Doc:    "Puts an item back where it stood, with its id and its history."},
	{Name: "pop", Subject: "<queue>.pop.<end>", Body: PopRequest{}, Answer: Payload{}, Again: Once, Right: Consumer, HTTP: "POST /v1/queues/{queue}/pop",
		Errors: append(nothingThere, ReasonRemembered, ReasonQuotaWaiting, ReasonLeaseRequired, ReasonOnlyMin,
			ReasonGone, ReasonTaken, ReasonReturned, ReasonExpired),
		Doc: "Takes or leases the first item, or several."},
	{Name: "peek", Subject: "<queue>.peek.<end>", Body: PopRequest{}, Answer: Payload{}, Again: Reads, Right: Consumer | readers, HTTP: "GET /v1/queues/{queue}/peek",
		Errors: append(nothingThere, ReasonQuotaWaiting, ReasonLeaseRequired, ReasonOnlyMin),
		Doc:    "Shows the first item, or several, and leaves them there."},

	{Name: "ack", Subject: "<queue>.ack.<connection>.<token>", Body: Word(SettleAck), Again: Repeats, Right: Consumer, HTTP: settles, Errors: losesLease, Doc: "Removes a leased item: its work is done."},
	{Name: "ack many", Subject: "<queue>.ack.<connection>.<token>", Body: Payload{}, Answer: Payload{}, Again: Repeats, Right: Consumer, Errors: losesLease, Doc: "Settles many leases, each with a result of its own."},
	{Name: "ack next", Subject: "<queue>.ack.<connection>.<token>", Body: Word(SettleNext), Answer: Payload{}, Again: Once, Right: Consumer, Errors: append(nothingThere, losesLease...), Doc: "Removes a leased item, and leases the next one."},
	{Name: "nack", Subject: "<queue>.ack.<connection>.<token>", Body: Word(SettleNack), Again: Repeats, Right: Consumer, HTTP: settles, Errors: losesLease, Doc: "Gives a leased item back: its work has failed."},
	{Name: "give back", Subject: "<queue>.ack.<connection>.<token>", Body: Word(SettleBack), Again: Repeats, Right: Consumer, HTTP: settles, Errors: losesLease, Doc: "Gives a leased item back with which nothing is wrong."},
	{Name: "extend", Subject: "<queue>.ack.<connection>.<token>", Body: Word(SettleProgress), Again: Repeats, Right: Consumer, HTTP: settles, Errors: losesLease, Doc: "Extends a lease: it begins anew."},
	{Name: "terminate", Subject: "<queue>.ack.<connection>.<token>", Body: Word(SettleTerminate), Again: Repeats, Right: Consumer, HTTP: settles, Errors: losesLease, Doc: "Gives a leased item up: it is a dead letter."},

	{Name: "info", Subject: "<queue>.info", Body: InfoRequest{}, Answer: Info{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/queues/{queue}", Doc: "Shows the state of a queue, its rates and its configuration."},
	{Name: "history", Subject: "<queue>.info", Body: HistoryRequest{}, Answer: Info{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/queues/{queue}/history", Doc: "Shows what went through one bridge in the last hour, and how long the queue was."},

	{Name: "list", Subject: "<queue>.list", Body: ListRequest{}, Answer: Page{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/queues/{queue}/items", Doc: "Shows a page of the items in one state."},
	{Name: "get", Subject: "<queue>.get.<id>", Body: GetRequest{}, Answer: Payload{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/queues/{queue}/items/{id}", Doc: "Shows an item, whatever its state."},
	{Name: "result", Subject: "<queue>.result.<id>", Answer: Payload{}, Again: Reads, Right: readers | Caller, HTTP: "GET /v1/queues/{queue}/items/{id}/result", Errors: []Reason{ReasonPending, ReasonUnkept}, Doc: "Shows what became of an item whose push asked for that."},
	{Name: "cancel", Subject: "<queue>.cancel.<id>", Body: CancelRequest{}, Answer: Cancelled{}, Again: Repeats, Right: Admin | Caller, HTTP: "POST /v1/queues/{queue}/items/{id}/cancel", Errors: append(holds, ReasonLeased), Doc: "Ends an item, whatever its state: its result says that it was cancelled, and why."},
	{Name: "remove", Subject: "<queue>.remove.<id>", Answer: Changed{}, Again: Once, Right: Admin, HTTP: "DELETE /v1/queues/{queue}/items/{id}", Errors: holds, Doc: "Removes an item, whatever its state."},
	{Name: "move", Subject: "<queue>.move.<id>.<priority>", Answer: Changed{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/items/{id}/move", Errors: holds, Doc: "Gives an item another priority."},
	{Name: "requeue", Subject: "<queue>.requeue.<id>", Body: RequeueRequest{}, Answer: PushResponse{}, Again: Once, Right: Admin | Requeuer, HTTP: "POST /v1/queues/{queue}/items/{id}/requeue", Errors: append(holds, ReasonFull), Doc: "Pushes a dead letter to the queue that it comes from."},
	{Name: "revoke", Subject: "<queue>.revoke.<id>", Body: RevokeRequest{}, Answer: Revoked{}, Again: Once, Right: Admin, HTTP: "POST /v1/queues/{queue}/items/{id}/revoke",
		Errors: append(append(holds, ReasonNotLeased), losesLease...),
		Doc:    "Takes the lease of an item away."},

	{Name: "config", Subject: "<queue>.admin.config", Answer: Config{}, Again: Reads, Right: Admin, HTTP: "GET /v1/queues/{queue}/config", Doc: "Shows the configuration of a queue."},
	{Name: "configure", Subject: "<queue>.admin.config", Body: Change{Config{}}, Answer: Config{}, Again: Repeats, Right: Admin, HTTP: "PATCH /v1/queues/{queue}/config", Errors: []Reason{ReasonQuotaQueues}, Doc: "Changes fields of the configuration, and makes the queue if necessary."},
	{Name: "purge", Subject: "<queue>.admin.purge", Answer: Purged{}, Again: Once, Right: Admin, HTTP: "POST /v1/queues/{queue}/purge", Doc: "Removes all items."},
	{Name: "pause", Subject: "<queue>.admin.pause", Answer: Named{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/pause", Doc: "Stops deliveries."},
	{Name: "resume", Subject: "<queue>.admin.resume", Answer: Named{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/resume", Doc: "Starts deliveries again."},
	{Name: "delete", Subject: "<queue>.admin.delete", Answer: Named{}, Again: Once, Right: Admin, HTTP: "DELETE /v1/queues/{queue}", Doc: "Deletes a queue with its items and its configuration."},

	{Name: "bulk remove", Subject: "<queue>.admin.remove", Body: BulkRequest{}, Answer: BulkAnswer{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/bulk/remove", Doc: "Removes a page of the items that match a filter."},
	{Name: "bulk move", Subject: "<queue>.admin.move", Body: BulkRequest{}, Answer: BulkAnswer{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/bulk/move", Doc: "Gives a page of the items that match a filter another priority."},
	{Name: "bulk revoke", Subject: "<queue>.admin.revoke", Body: BulkRequest{}, Answer: BulkAnswer{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/bulk/revoke", Doc: "Takes the leases of a page of the items that match a filter away."},
	{Name: "bulk requeue", Subject: "<queue>.admin.requeue", Body: BulkRequest{}, Answer: BulkAnswer{}, Again: Repeats, Right: Admin | Requeuer, HTTP: "POST /v1/queues/{queue}/bulk/requeue", Doc: "Pushes a page of the dead letters that match a filter to the queue that they come from."},

	{Name: "keys", Subject: "<queue>.keys", Body: KeysRequest{}, Answer: KeysPage{}, Again: Reads, Right: readers, HTTP: "GET /v1/queues/{queue}/keys", Doc: "Shows a page of the keys that have items or settings."},
	{Name: "key", Subject: "<queue>.key.<key>", Answer: KeyInfo{}, Again: Reads, Right: readers, HTTP: "GET /v1/queues/{queue}/keys/{key}", Doc: "Shows one key."},
	{Name: "set key", Subject: "<queue>.admin.key.<key>", Body: KeyChange{}, Answer: KeySettings{}, Again: Repeats, Right: Admin, HTTP: "PATCH /v1/queues/{queue}/keys/{key}", Errors: []Reason{ReasonQuotaQueues}, Doc: "Changes settings of a key, of which null drops one, and makes the queue if necessary."},

	{Name: "schedules", Subject: "<queue>.schedules", Body: SchedulesRequest{}, Answer: SchedulesPage{}, Again: Reads, Right: readers, HTTP: "GET /v1/queues/{queue}/schedules", Doc: "Shows a page of schedules, without what they push."},
	{Name: "schedule", Subject: "<queue>.schedule.<name>", Answer: Schedule{}, Again: Reads, Right: readers, HTTP: "GET /v1/queues/{queue}/schedules/{schedule}", Doc: "Shows a schedule with its next times."},
	{Name: "schedule times", Subject: "<queue>.schedule.<name>", Body: ScheduleChange{}, Answer: ScheduleTimes{}, Again: Reads, Right: readers, HTTP: "POST /v1/queues/{queue}/schedules/{schedule}/preview", Doc: "Shows the next times that a schedule would have after a change; it need not exist, and nothing changes."},
	{Name: "set schedule", Subject: "<queue>.admin.schedule.<name>", Body: ScheduleChange{}, Answer: Schedule{}, Again: Repeats, Right: Admin, HTTP: "PATCH /v1/queues/{queue}/schedules/{schedule}",
		Errors: []Reason{ReasonSchedules, ReasonQuotaQueues, ReasonStoreFull},
		Doc:    "Changes a schedule, and makes it and the queue if necessary."},
	{Name: "pause schedule", Subject: "<queue>.admin.schedule.<name>.pause", Answer: Schedule{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/schedules/{schedule}/pause", Doc: "Stops a schedule; times that pass meanwhile are no misses."},
	{Name: "resume schedule", Subject: "<queue>.admin.schedule.<name>.resume", Body: ScheduleResume{}, Answer: Schedule{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/schedules/{schedule}/resume", Doc: "Ends the pause of a schedule."},
	{Name: "delete schedule", Subject: "<queue>.admin.schedule.<name>.delete", Answer: ScheduleNamed{}, Again: Once, Right: Admin, HTTP: "DELETE /v1/queues/{queue}/schedules/{schedule}", Doc: "Deletes a schedule, and not its items."},
	{Name: "run schedule", Subject: "<queue>.admin.schedule.<name>.run", Answer: PushResponse{}, Again: Once, Right: Admin, HTTP: "POST /v1/queues/{queue}/schedules/{schedule}/run", Errors: refusesPush, Doc: "Pushes the item of a schedule now."},

	{Name: "sources", Subject: "<queue>.sources", Body: SourcesRequest{}, Answer: SourcesPage{}, Again: Reads, Right: readers, HTTP: "GET /v1/queues/{queue}/sources", Doc: "Shows a page of sources."},
	{Name: "source", Subject: "<queue>.admin.source.<name>", Answer: Source{}, Again: Reads, Right: Admin, HTTP: "GET /v1/queues/{queue}/sources/{source}", Doc: "Shows a source; it takes the right to change it, unlike a page of sources."},
	{Name: "set source", Subject: "<queue>.admin.source.<name>", Body: SourceChange{}, Answer: Source{}, Again: Repeats, Right: Admin, HTTP: "PATCH /v1/queues/{queue}/sources/{source}", Errors: []Reason{ReasonSources, ReasonQuotaQueues}, Doc: "Changes a source, and makes it and the queue if necessary."},
	{Name: "pause source", Subject: "<queue>.admin.source.<name>.pause", Answer: Source{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/sources/{source}/pause", Doc: "Stops a source, which keeps its position."},
	{Name: "resume source", Subject: "<queue>.admin.source.<name>.resume", Body: SourceResume{}, Answer: Source{}, Again: Once, Right: Admin, HTTP: "POST /v1/queues/{queue}/sources/{source}/resume", Doc: "Ends the pause of a source, and with a choice also its stop."},
	{Name: "delete source", Subject: "<queue>.admin.source.<name>.delete", Answer: SourceNamed{}, Again: Once, Right: Admin, HTTP: "DELETE /v1/queues/{queue}/sources/{source}", Doc: "Deletes a source, and not its items."},

	{Name: "links", Subject: "<queue>.links", Body: LinksRequest{}, Answer: LinksPage{}, Again: Reads, Right: readers, HTTP: "GET /v1/queues/{queue}/links", Doc: "Shows a page of links."},
	{Name: "link", Subject: "<queue>.admin.link.<name>", Answer: Link{}, Again: Reads, Right: Admin, HTTP: "GET /v1/queues/{queue}/links/{link}", Doc: "Shows a link; it takes the right to change it, unlike a page of links."},
	{Name: "set link", Subject: "<queue>.admin.link.<name>", Body: LinkChange{}, Answer: Link{}, Again: Repeats, Right: Admin, HTTP: "PATCH /v1/queues/{queue}/links/{link}", Errors: []Reason{ReasonLinks, ReasonQuotaQueues}, Doc: "Changes a link, and makes it and the queue if necessary."},
	{Name: "pause link", Subject: "<queue>.admin.link.<name>.pause", Answer: Link{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/links/{link}/pause", Doc: "Has a link give no further batch."},
	{Name: "resume link", Subject: "<queue>.admin.link.<name>.resume", Answer: Link{}, Again: Repeats, Right: Admin, HTTP: "POST /v1/queues/{queue}/links/{link}/resume", Doc: "Ends the pause of a link."},
	{Name: "delete link", Subject: "<queue>.admin.link.<name>.delete", Body: LinkDelete{}, Answer: LinkDeleted{}, Again: Once, Right: Admin, HTTP: "DELETE /v1/queues/{queue}/links/{link}", Errors: holds, Doc: "Deletes a link; one that holds items is deleted by force alone."},
	{Name: "take", Subject: "<queue>.link.<name>", Body: LinkTake{}, Answer: Payload{}, Again: Repeats, Right: Taker, Errors: []Reason{ReasonGiverBehind, ReasonTakerBehind}, Doc: "Gives the next batch of a link to the store that takes its items."},

	{Name: "queues", Subject: "_sys.list", Body: QueuesRequest{}, Answer: QueuesPage{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/queues", Doc: "Shows a page of the names of queues."},
	{Name: "system", Subject: "_sys.info", Answer: System{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/system", Doc: "Shows the bridge that answers, its store and its limits."},
	{Name: "system history", Subject: "_sys.info", Body: HistoryRequest{}, Answer: System{}, Again: Reads, Right: readers | Requeuer, HTTP: "GET /v1/history", Doc: "Shows what went through one bridge in the last hour, all queues together."},
	{Name: "cluster", Subject: "_sys.cluster.status", Answer: Cluster{}, Again: Reads, Right: readers, HTTP: "GET /v1/cluster", Doc: "Shows the nodes that keep the store together, as one of them sees them."},
	{Name: "step down", Subject: "_sys.cluster.step-down", Body: StepDown{}, Answer: SteppedDown{}, Again: Once, Right: Admin, HTTP: "POST /v1/cluster/step-down", Doc: "Has the active node hand over."},
	{Name: "replace node", Subject: "_sys.cluster.replace", Body: Replace{}, Answer: Replaced{}, Again: Once, Right: Admin, HTTP: "POST /v1/cluster/replace", Doc: "Has a node take the place of one that is lost for good."},
}

// settles is the route of all settlements.
const settles = "POST /v1/queues/{queue}/settle"

// Reasons that several operations share. Their capacity is their length, so that append copies them.
var (
	refusesPush = []Reason{
		ReasonFull, ReasonRemembered, ReasonResults, ReasonLeased, ReasonAnotherKey, ReasonHeld, ReasonQuotaQueues, ReasonQuotaItems, ReasonQuotaBytes,
		ReasonStoreFull, ReasonGone, ReasonTaken, ReasonReturned, ReasonExpired, ReasonCancelled,
	}
	nothingThere = []Reason{ReasonEmpty, ReasonLeased, ReasonDelayed, ReasonPaused, ReasonRate, ReasonBlocked, ReasonBand}
	losesLease   = []Reason{ReasonGone, ReasonTaken, ReasonReturned, ReasonExpired, ReasonCancelled}
	holds        = []Reason{ReasonHeld}
)

// Op is an operation that a client may ask for. [Ops] has all operations.
type Op struct {
	Name    string   // in words, as errors and the methods of clients name it
	Subject string   // without the prefix in front: <…> is a token that the request chooses, a part in […] may be missing
	Body    any      // the body of the request, as a value of its type; nil: it is empty
	Answer  any      // the body of the answer, as a value of its type; nil: it is empty
	Again   Again    // what it does when a client repeats it
	Right   Roles    // who may ask for it
	HTTP    string   // method and path over HTTP; "": there is none
	Errors  []Reason // the reasons of its errors, besides those that any request may have: see [Op.Reasons]
	Doc     string   // a sentence
}

// Again says what an operation does when it is done twice, as when a client repeats it because the first answer was
// lost.
type Again uint8

const (
	Once    Again = iota // the second time does something else, unless the request has an id
	Repeats              // the second time leads to the same state
	Reads                // it changes nothing
)

// Roles is a set of the roles to which a server's configuration gives permissions.
type Roles uint8

// The roles, as package subjects has them. Operations that are about no queue are for those who have a role at all
// queues.
const (
	Producer Roles = 1 << iota
	Importer
	Consumer
	Taker
	Requeuer
	Viewer
	Admin
	Caller

	// readers may do the operations that show a queue.
	readers = Viewer | Admin
)

// The bodies that are not JSON.
type (
	// Payload is the payload of an item, or several items in a bundle. Headers have the rest.
	Payload []byte

	// Word is a settlement, such as [SettleAck].
	Word string
)

// Change stands for some fields of a type: those that a request changes.
type Change struct{ Of any }

// BodyOverHTTP reports whether a request over HTTP has the operation's body as its own. Otherwise its fields are parameters.
func (o *Op) BodyOverHTTP() bool {
	switch o.Body.(type) {
	case ScheduleChange, SourceResume, BulkRequest:
		return true
	}
	return strings.HasPrefix(o.HTTP, "PATCH ")
}

// OfQueue reports whether an operation is about one queue.
func (o *Op) OfQueue() bool { return strings.HasPrefix(o.Subject, "<queue>.") }

// Subjects returns all forms of the operation's subject: with and without the parts that may be missing, for both
// ends of the queue.
func (o *Op) Subjects() []string {
	before, optional, is := strings.Cut(o.Subject, "[")
	switch {
	case is:
		return []string{before, before + strings.TrimSuffix(optional, "]")}
	case strings.HasSuffix(before, ".<end>"):
		before = strings.TrimSuffix(before, "<end>")
		return []string{before + "min", before + "max"}
	}
	return []string{o.Subject}
}

// Reasons returns the reasons that an error of the operation may have.
func (o *Op) Reasons() []Reason {
	all := []Reason{ReasonBusy, ReasonQuotaRequests}
	if o.OfQueue() {
		all = append(all, ReasonUnknown)
	}
	return append(all, o.Errors...)
}

// OpNamed returns the operation with a name. is reports whether there is one.
func OpNamed(name string) (o Op, is bool) {
	at, is := opsByName[name]
	if !is {
		return Op{}, false
	}
	return Ops[at], true
}

var opsByName = func() map[string]int {
	all := make(map[string]int, len(Ops))
	for i := range Ops {
		all[Ops[i].Name] = i
	}
	return all
}()
