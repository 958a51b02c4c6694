package history

import (
	"slices"
	"time"
)

// judgeItems looks at each item by itself.
func (j *judge) judgeItems() {
	var missing []*Operation
	for _, it := range j.items {
		if it.push == nil {
			if seen := slices.Concat(it.takes, it.peeks); len(seen) > 0 {
				j.find(Invented, seen...)
			}
			continue
		}
		for _, take := range slices.Concat(it.peeks, it.takes) {
			if take.Return < it.push.Call {
				j.find(Early, it.push, take)
			}
		}
		if !it.over() && it.push.Outcome == Done {
			missing = append(missing, it.push)
		}
		j.judgeEnd(it)
		j.judgeLeases(it)
	}
	// A pop without an answer takes one item at most.
	if len(missing) > len(j.pops) {
		j.find(Lost, missing...)
	}
}

// over reports whether the item may be gone: it was popped, or its consumer has tried to
// acknowledge it.
func (it *item) over() bool {
	for _, take := range it.takes {
		if take.Kind == Pop {
			return true
		}
	}
	for _, s := range it.settlements {
		if s.Kind == Ack && (s.Outcome != Nothing || s.Repeated) {
			return true
		}
	}
	return false
}

// judgeEnd: an item that was popped or acknowledged is not delivered or shown again.
func (j *judge) judgeEnd(it *item) {
	end := Never
	var by *Operation
	for _, take := range it.takes {
		if take.Kind == Pop && take.Return < end {
			end, by = take.Return, take
		}
	}
	pops := 0
	for _, take := range it.takes {
		if take.Kind == Pop {
			if pops++; pops > 1 {
				j.find(Twice, by, take)
			}
		}
	}
	for _, s := range it.settlements {
		if s.Kind == Ack && s.Outcome == Done && s.Return < end {
			end, by = s.Return, s
		}
	}
	if by == nil {
		return
	}
	for _, take := range it.takes {
		if take != by && take.Call > end && (take.Kind == Lease || by.Kind == Ack) {
			j.find(Twice, it.push, by, take)
		}
	}
	for _, peek := range it.peeks {
		if peek.Call > end {
			j.find(Shown, it.push, by, peek)
		}
	}
}

// held is when a lease certainly lasts: from its answer until its holder begins
// to settle it, or until the end that was promised.
func (j *judge) held(it *item, lease *Operation) span {
	hold := span{lease.Return, lease.Call + lease.Lease - j.slack(lease.Lease)}
	for _, s := range it.settlements {
		if s.Fence == lease.Fence && s.Kind == Extend && s.Outcome == Done && s.Call >= lease.Return {
			hold.to = max(hold.to, s.Call+s.Lease-j.slack(s.Lease))
		}
	}
	for _, s := range it.settlements {
		if s.Fence == lease.Fence && s.Kind != Extend {
			hold.to = min(hold.to, s.Call)
		}
	}
	return hold
}

func (j *judge) judgeLeases(it *item) {
	for i, lease := range it.takes {
		if lease.Kind != Lease {
			continue
		}
		hold := j.held(it, lease)
		for k, other := range it.takes {
			switch {
			case k == i:
			case other.Kind == Lease && other.Fence == lease.Fence:
				if k > i {
					j.find(SameFence, it.push, lease, other)
				}
			case other.Call > hold.from && other.Return < hold.to:
				j.find(Overlap, it.push, lease, other)
			}
		}
		j.judgeSettlements(it, lease)
	}
}

// judgeSettlements: a settlement under a lease that lasts is not refused, and one under
// a lease that another has followed settles nothing.
func (j *judge) judgeSettlements(it *item, lease *Operation) {
	var settled time.Duration = Never // from when on the holder may have given it up
	for _, s := range it.settlements {
		if s.Fence == lease.Fence && s.Kind != Extend {
			settled = min(settled, s.Call)
		}
	}
	end := lease.Call + lease.Lease - j.slack(lease.Lease)
	for _, s := range it.settlements {
		if s.Fence != lease.Fence {
			continue
		}
		if s.Outcome == Nothing && !s.Repeated && s.Return < end && s.Call <= settled {
			j.find(Revoked, it.push, lease, s)
		}
		if s.Outcome != Done {
			continue
		}
		for _, other := range it.takes {
			if (other.Kind == Pop || other.Fence > lease.Fence) && other.Return < s.Call {
				j.find(Stale, it.push, lease, other, s)
			}
		}
	}
}
