package history

import "time"

// leaseSpan is the time in which a lease certainly lasts: from its answer until its holder begins to settle it, or
// until the promised end.
func (j *judge) leaseSpan(it *item, lease *Operation) span {
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
	for i, lease := range it.deliveries {
		if lease.Kind != Lease {
			continue
		}
		hold := j.leaseSpan(it, lease)
		for k, other := range it.deliveries {
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

// judgeSettlements: a settlement under a lease in force is not refused, and a settlement under a lease that another
// lease has followed settles nothing.
func (j *judge) judgeSettlements(it *item, lease *Operation) {
	var settled time.Duration = Never // the moment from which the holder may have given it up
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
		for _, other := range it.deliveries {
			if (other.Kind == Pop || other.Fence > lease.Fence) && other.Return < s.Call {
				j.find(Stale, it.push, lease, other, s)
			}
		}
	}
}
