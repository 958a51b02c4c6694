package chain

import (
	"strings"
	"testing"
)

// What an earlier or a later version has written is refused, and the refusal says so.
func TestFormatsOfOtherVersions(t *testing.T) {
	t.Parallel()
	h, process := chainOf(t)
	later := h.Next(process, Changes, []byte{0}).Encode()
	later[len(recordTag)] = RecordFormat + 1
	const says = "a newer version has written it"
	if _, _, err := h.After(later); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a record of a later version: %v", err)
	}
	if _, _, err := h.Begin(later, 2); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the first record of a generation by a later version: %v", err)
	}
	earlier := h.Next(process, Changes, []byte{0}).Encode()
	earlier[len(recordTag)] = 1
	if _, _, err := h.After(earlier); err == nil || !strings.Contains(err.Error(), Export) {
		t.Errorf("a record of an earlier version: %v", err)
	}
	position := h.Encode()
	position[0] = 1
	if _, err := DecodeHead(position); err == nil || !strings.Contains(err.Error(), Export) {
		t.Errorf("the position of a copy of an earlier version: %v", err)
	}
	position[0] = headFormat + 1
	if _, err := DecodeHead(position); err == nil || !strings.Contains(err.Error(), "this version cannot read") {
		t.Errorf("the position of a copy of a later version: %v", err)
	}
	h.Identity = ""
	position = h.Encode()
	position[len(position)-1] = 2 // where it says whether its epoch is released
	if read, err := DecodeHead(position); err == nil || !strings.Contains(err.Error(), "this version cannot read") {
		t.Errorf("a position that no version writes is read as %+v, %v", read, err)
	}
}
