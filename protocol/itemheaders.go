package protocol

import "time"

// ItemHeader is a header by which an answer says something about its item.
type ItemHeader struct {
	Name   string
	Field  string // of an [Item] in Go, or of a part of it; "": it is about the message alone
	Back   string // the field of an import that takes the value back; "": an import ignores it
	Type   any    // a value of its type: int64, string, bool, [Duration] or [time.Time]
	Needed bool   // it says which item it is, or what its lease is: without it nobody can settle the item
}

// KeptHeader is the Back of headers that stay among the headers of an item.
const KeptHeader = "Headers"

// ItemHeaders are the headers that come with items, those of pushes that items show included.
var ItemHeaders = func() []ItemHeader {
	all := []ItemHeader{
		{Name: HeaderID, Field: "ID", Back: "ID", Type: "", Needed: true},
		{Name: HeaderTimeStamp, Field: "Pushed", Back: "Pushed", Type: time.Time{}},
		{Name: HeaderDeliveries, Field: "Deliveries", Back: "Deliveries", Type: int64(0), Needed: true},
		{Name: HeaderFailures, Field: "Failures", Back: "Failures", Type: int64(0)},
		{Name: HeaderInterruptions, Field: "Interruptions", Back: "Interruptions", Type: int64(0)},
		{Name: HeaderReturns, Field: "Returns", Back: "Returns", Type: int64(0)},
		{Name: HeaderNumPending, Type: int64(0)},

		{Name: HeaderAck, Field: "Ack", Type: ""},
		{Name: HeaderLeaseExpires, Field: "LeaseExpires", Type: time.Time{}, Needed: true},
		{Name: HeaderConfirm, Type: time.Time{}},
		{Name: HeaderFence, Field: "Fence", Back: "Fence", Type: int64(0), Needed: true},
		{Name: HeaderKeyFence, Field: "KeyFence", Back: "KeyFence", Type: int64(0), Needed: true},
		{Name: HeaderBackoff, Field: "Backoff", Type: Duration(0)},

		{Name: HeaderState, Field: "State", Type: ""},
		{Name: HeaderNotBefore, Field: "Due", Back: "NotBefore", Type: time.Time{}},
		{Name: HeaderExpires, Field: "Expires", Back: "Expires", Type: time.Time{}},
		{Name: HeaderHeld, Type: false},
		{Name: HeaderWaitsFor, Field: "WaitsFor", Type: ""},
		{Name: HeaderKeyAhead, Field: "KeyAhead", Type: int64(0)},
		{Name: HeaderExplain, Field: "Explain", Type: Explain{}},
		{Name: HeaderHolder, Field: "Holder", Type: ""},
		{Name: HeaderAttempts, Field: "LastAttempts", Back: "Attempts", Type: []Attempt(nil)},

		{Name: HeaderSchedule, Field: "Schedule", Back: KeptHeader, Type: ""},
		{Name: HeaderScheduledAt, Field: "ScheduledAt", Back: KeptHeader, Type: time.Time{}},
		{Name: HeaderSource, Field: "Source.Name", Back: KeptHeader, Type: ""},
		{Name: HeaderSourceSubject, Field: "Source.Subject", Back: KeptHeader, Type: ""},
		{Name: HeaderSourceSeq, Field: "Source.Seq", Back: KeptHeader, Type: int64(0)},
		{Name: HeaderSourceTime, Field: "Source.Time", Back: KeptHeader, Type: time.Time{}},
		{Name: HeaderSourceMsgID, Field: "Source.MsgID", Back: KeptHeader, Type: ""},
		{Name: HeaderSourceID, Field: "Source.ID", Back: KeptHeader, Type: ""},

		{Name: HeaderDeadReason, Field: "Dead.Reason", Back: "Dead.Reason", Type: ""},
		{Name: HeaderDeadAt, Field: "Dead.At", Back: "Dead.At", Type: time.Time{}},
		{Name: HeaderDeadNumber, Field: "Dead.Deliveries", Back: "Dead.Deliveries", Type: int64(0)},
		{Name: HeaderDeadInterruptions, Field: "Dead.Interruptions", Back: "Dead.Interruptions", Type: int64(0)},
		{Name: HeaderOrigin, Field: "Dead.Origin", Back: "Dead.Origin", Type: ""},
		{Name: HeaderOriginID, Field: "Dead.OriginID", Back: "Dead.OriginID", Type: ""},
	}
	for i := range PushHeaders {
		if h := &PushHeaders[i]; h.Shown == h.Name && h.Name != HeaderNotBefore {
			all = append(all, ItemHeader{Name: h.Name, Field: h.Field(), Back: h.Field(), Type: h.Type, Needed: h.Name == HeaderPriority})
		}
	}
	return all
}()
