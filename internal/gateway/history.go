package gateway

import (
	"encoding/json"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// A history is a part of info, so a caller without the right to info has none to the history.

func queueHistory(in *input) (*answer, *refusal) { return historyOf(in, subjects.Info) }
func history(in *input) (*answer, *refusal)      { return historyOf(in, subjects.SysInfo) }

func historyOf(in *input, of subjects.Verb) (*answer, *refusal) {
	a, why := in.passJSON(subjects.Subject{Verb: of}, protocol.HistoryRequest{History: true})
	if why != nil {
		return nil, why
	}
	var info struct{ History json.RawMessage }
	if err := json.Unmarshal(a.body, &info); err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	return &answer{body: info.History}, nil
}
