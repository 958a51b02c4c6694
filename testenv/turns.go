package testenv

// Unfairness is the worst difference, in any stretch of served, between two keys' deliveries divided by their
// weights. served has the key of each delivered item in order. The result leaves out the effect of a batch, and is
// a multiple of the allowed difference, 2/w1 + 2/w2. All keys have items that may be delivered throughout.
func Unfairness(served []string, weights map[string]int64, batch int) (worst float64) {
	adds := 0.0
	if batch > 1 {
		adds = float64(batch)
	}
	for a, wa := range weights {
		for b, wb := range weights {
			if a >= b {
				continue
			}
			now, least, most := 0.0, 0.0, 0.0
			for _, key := range served {
				switch key {
				case a:
					now += 1 / float64(wa)
				case b:
					now -= 1 / float64(wb)
				}
				least, most = min(least, now), max(most, now)
			}
			worst = max(worst, (most-least-adds)/(2/float64(wa)+2/float64(wb)))
		}
	}
	return worst
}

// WorstShare is the largest relative error of a key's share, among keys that should get 100 items or more.
func WorstShare(served []string, weights map[string]int64) (off float64) {
	total := int64(0)
	got := make(map[string]float64)
	for _, weight := range weights {
		total += weight
	}
	for _, key := range served {
		got[key]++
	}
	for key, weight := range weights {
		want := float64(len(served)) * float64(weight) / float64(total)
		if want >= 100 {
			off = max(off, max(got[key]-want, want-got[key])/want)
		}
	}
	return off
}
