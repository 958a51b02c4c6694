package cluster

import (
	"errors"
	"fmt"
)

// errStop: the copy and the log do not belong together, or this version cannot read the
// log. The member serves nothing until an operator has looked.
var errStop = errors.New("this member must not go on")

// errEntry: like errStop, because of an entry that does not continue the copy. The entry may be read correctly
// later: the server that has it may be damaged, or this program too old.
var errEntry = fmt.Errorf("%w", errStop)

// errEnded: no entry follows in this generation of the log.
var errEnded = errors.New("this generation of the log has ended")

// errLost: this member did not become active. It tries again after a while.
var errLost = errors.New("not active")
