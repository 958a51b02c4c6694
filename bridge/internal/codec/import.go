package codec

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// ReadImport reads an item that is put back to its place. If it has no time of its push, it was pushed when the
// request arrived.
func (w *Wire) ReadImport(queue string, m *nats.Msg, arrived time.Time) (item fdbpq.Import, f *failure.Failure) {
	i := &item
	i.Payload = m.Data
	hasID, hasPriority, leased := false, false, false
	for key, values := range m.Header {
		switch {
		case key == protocol.HeaderMsgID:
			return item, failure.Newf(400, "%s on an import: its %s says which item it is, and it is put there once", key, protocol.HeaderID)
		case key != protocol.HeaderTimeStamp && !strings.HasPrefix(key, protocol.HeaderPrefix):
			travels, f := travelsWithItem(key, values, queue)
			if travels {
				i.Headers, f = appendHeader(i.Headers, key, values)
			}
			if f != nil {
				return item, f
			}
			continue
		}
		value, f := single(key, values)
		if f == nil {
			f = readImportHeader(i, key, value)
		}
		if f != nil {
			return item, f
		}
		hasID, hasPriority = hasID || key == protocol.HeaderID, hasPriority || key == protocol.HeaderPriority
		leased = leased || key == protocol.HeaderState && value == string(fdbpq.StateLeased)
	}
	if leased && i.Deliveries > i.Failures+i.Interruptions+i.Returns {
		i.Interruptions++ // its holder has not said how it ended
	}
	if !hasID && i.Unique == "" {
		return item, failure.Newf(400, "an import without %s: expected the id that the item had, or %s", protocol.HeaderID, protocol.HeaderUnique)
	}
	if i.Unique == "" && i.UniqueUntilLeased {
		return item, failure.Newf(400, "%s without %s: expected the value that it is about", protocol.HeaderUniqueUntil, protocol.HeaderUnique)
	}
	if hasID && !hasPriority {
		i.Priority = i.ID.Priority()
	}
	if i.Pushed.IsZero() {
		i.Pushed = arrived
	}
	return item, w.Limit.Admit(i.Payload, i.Headers, i.Key, shownOfImported(i), len(m.Header.Get(protocol.HeaderID)), i.Dead)
}

// readImportHeader reads a header that describes the item.
func readImportHeader(i *fdbpq.Import, key, value string) (f *failure.Failure) {
	if known, f := readBack(i, key, value); known {
		return f
	}
	switch key {
	case protocol.HeaderID:
		var err error
		if i.ID, err = fdbpq.ParseID(value); err != nil {
			f = failure.Newf(400, "%s is %s: %s", key, failure.Quote(value), err)
		}
	case protocol.HeaderPriority:
		var err error
		if i.Priority, err = subjects.ParsePriority(value); err != nil {
			f = failure.BadRequest(err)
		}
	case protocol.HeaderDeadReason:
		deadOf(i).Reason, f = parseDeadText(key, value)
	case protocol.HeaderOrigin:
		if err := subjects.CheckQueue(value); err != nil {
			return failure.Newf(400, "%s: %s", key, err)
		}
		deadOf(i).Origin = value
	case protocol.HeaderOriginID:
		deadOf(i).OriginID, f = parseDeadText(key, value)
	case protocol.HeaderSchedule:
		if err := schedule.CheckName(value); err != nil {
			return failure.Newf(400, "%s: %s", key, err)
		}
		i.Headers, f = appendHeader(i.Headers, key, []string{value})
	case protocol.HeaderScheduledAt:
		if _, f = ParseTime(key, value); f != nil {
			return f
		}
		i.Headers, f = appendHeader(i.Headers, key, []string{value})
	case protocol.HeaderSource, protocol.HeaderSourceSubject, protocol.HeaderSourceSeq,
		protocol.HeaderSourceTime, protocol.HeaderSourceMsgID, protocol.HeaderSourceID:
		i.Headers, f = appendHeader(i.Headers, key, []string{value})
	case protocol.HeaderAttempts:
		i.Attempts, f = readAttempts(value)
	case protocol.HeaderProgress:
		i.Progress, f = parseProgress(key, value)
	default:
		if !isIgnored(key) {
			f = failure.Newf(400, "header %s is none of an import: expected %s, or what else comes with an item", failure.Quote(key), protocol.HeaderID)
		}
	}
	return f
}

// maxDeadText bounds the bytes of a reason and of an id.
const maxDeadText = 512

func parseDeadText(key, value string) (string, *failure.Failure) {
	if !utf8.ValidString(value) {
		return "", failure.Newf(400, "%s is %s: expected UTF-8", key, failure.Quote(value))
	}
	if len(value) > maxDeadText {
		return "", failure.Newf(400, "%s has %d bytes: allowed are %d", key, len(value), maxDeadText)
	}
	return value, nil
}
