package protocol

// Refusal is the code of an error with a reason that it may have.
type Refusal struct {
	Code   int
	Reason Reason

	// AboutAnother says that another item is the cause. Such an answer holds for an earlier attempt without an answer, too: other
	// refusals do not tell whether that attempt was done.
	AboutAnother bool

	BetweenStores bool // no client gets it: it is about the links between stores
}

// Refusals are all reasons, with each code. [Op.Errors] has the operations that answer them. TestRefusals holds the clients, the
// bridge and the documentation against this table.
var Refusals = []Refusal{
	{Code: CodeNotFound, Reason: ReasonEmpty},
	{Code: CodeNotFound, Reason: ReasonLeased},
	{Code: CodeNotFound, Reason: ReasonDelayed},
	{Code: CodeNotFound, Reason: ReasonPaused},
	{Code: CodeNotFound, Reason: ReasonRate},
	{Code: CodeNotFound, Reason: ReasonBlocked},
	{Code: CodeNotFound, Reason: ReasonBand},
	{Code: CodeNotFound, Reason: ReasonUnknown},
	{Code: CodeNotFound, Reason: ReasonPending},

	{Code: CodeConflict, Reason: ReasonOccupied, AboutAnother: true},
	{Code: CodeConflict, Reason: ReasonLeased, AboutAnother: true},
	{Code: CodeConflict, Reason: ReasonAnotherKey, AboutAnother: true},
	{Code: CodeConflict, Reason: ReasonLeaseRequired},
	{Code: CodeConflict, Reason: ReasonOnlyMin},
	{Code: CodeConflict, Reason: ReasonNotLeased},
	{Code: CodeConflict, Reason: ReasonHeld},
	{Code: CodeConflict, Reason: ReasonUnkept},
	{Code: CodeConflict, Reason: ReasonGiverBehind, BetweenStores: true},
	{Code: CodeConflict, Reason: ReasonTakerBehind, BetweenStores: true},

	{Code: CodeLeaseLost, Reason: ReasonGone},
	{Code: CodeLeaseLost, Reason: ReasonTaken},
	{Code: CodeLeaseLost, Reason: ReasonReturned},
	{Code: CodeLeaseLost, Reason: ReasonExpired},
	{Code: CodeLeaseLost, Reason: ReasonCancelled},

	{Code: CodeBusy, Reason: ReasonBusy},
	{Code: CodeBusy, Reason: ReasonFull},
	{Code: CodeBusy, Reason: ReasonRemembered},
	{Code: CodeBusy, Reason: ReasonResults},
	{Code: CodeBusy, Reason: ReasonSchedules},
	{Code: CodeBusy, Reason: ReasonSources},
	{Code: CodeBusy, Reason: ReasonLinks},
	{Code: CodeBusy, Reason: ReasonQuotaRequests},
	{Code: CodeBusy, Reason: ReasonQuotaQueues},
	{Code: CodeBusy, Reason: ReasonQuotaItems},
	{Code: CodeBusy, Reason: ReasonQuotaBytes},
	{Code: CodeBusy, Reason: ReasonQuotaWaiting},
	{Code: CodeBusy, Reason: ReasonStoreFull},
}

// IsAboutAnother reports whether an error with a code and a reason is about another item than that of the request.
func IsAboutAnother(code int, reason Reason) bool {
	for i := range Refusals {
		if r := &Refusals[i]; r.Code == code && r.Reason == reason {
			return r.AboutAnother
		}
	}
	return false
}
