package damage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/internal/damage"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// An outage is no damage: no row is left out because of it.
func TestAnOutageIsNoDamage(t *testing.T) {
	t.Parallel()
	for _, outage := range []error{kv.ErrUnavailable, kv.ErrUnknown, kv.ErrClosed} {
		var rows damage.Rows
		err := damage.Of([]byte("row"), "jobs", fmt.Errorf("read: %w", outage))
		rows.Note(err)
		if !errors.Is(err, outage) || rows.Noted(err) || rows.Len() != 0 {
			t.Errorf("%v: %v, %d rows", outage, err, rows.Len())
		}
	}
	if err := damage.Of([]byte("row"), "jobs", nil); err != nil {
		t.Errorf("no error is %v", err)
	}
}

func TestADamagedRowIsLeftOut(t *testing.T) {
	t.Parallel()
	var rows damage.Rows
	cause := errors.New("damaged item")
	err := fmt.Errorf("sweep: %w", damage.Of([]byte("row"), "jobs", cause))
	if rows.Noted(err) || rows.Has([]byte("row")) {
		t.Error("the row is left out before it was noted")
	}
	rows.Note(err)
	if !rows.Noted(err) || !rows.Has([]byte("row")) || rows.Has([]byte("another")) || rows.Len() != 1 {
		t.Errorf("noted: %t, %d rows", rows.Noted(err), rows.Len())
	}
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), `queue "jobs"`) {
		t.Errorf("%v: expected the queue and the cause", err)
	}
}

func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	var rows damage.Rows
	for i := range 2 * damage.MaxRows {
		rows.Note(damage.Of(fmt.Append(nil, i), "jobs", errors.New("damaged")))
	}
	if n := rows.Len(); n != damage.MaxRows {
		t.Errorf("%d rows are left out, expected %d", n, damage.MaxRows)
	}
}
