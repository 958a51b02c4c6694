package codec

import (
	"encoding/json"
	"strings"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// CheckConfig checks the size of a configuration, and the names of queues in it. The core checks everything else.
func CheckConfig(object []byte) *failure.Failure {
	if f := CheckDefinition(object); f != nil {
		return f
	}
	var config struct {
		DeadLetter      string `json:"dead_letter"`
		DeadLettersFrom string `json:"dead_letters_from"`
		HandOver        string `json:"hand_over"`
	}
	if json.Unmarshal(object, &config) != nil {
		return nil // the core refuses it
	}
	if config.DeadLetter != "" {
		if err := subjects.CheckQueue(config.DeadLetter); err != nil {
			return failure.Newf(400, "configuration: dead_letter: %s", err)
		}
	}
	if f := checkQueues("dead_letters_from", config.DeadLettersFrom); f != nil {
		return f
	}
	return checkQueues("hand_over", config.HandOver)
}

// checkQueues checks a list of queues.
func checkQueues(field, names string) *failure.Failure {
	if names == "" || names == "*" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if err := subjects.CheckQueue(name); err != nil {
			return failure.Newf(400, "configuration: %s: expected names of queues separated by commas, or *: %s", field, err)
		}
	}
	return nil
}

// KeySettings are the settings of a key, as they are answered.
func KeySettings(k *fdbpq.KeySettings) protocol.KeySettings {
	s := protocol.KeySettings{Limit: k.Limit, Weight: k.Weight, Paused: k.Paused}
	if k.Rate != nil {
		s.Rate = new(k.Rate.String())
	}
	return s
}
