package fdbpq

// Found says of how many keys of each queue the rows were written with which pops find them. A change of the
// configuration may write those of some keys with ready items, and sweeps then write those of all, a part in each.
type Found map[string]int

func (f *Found) add(queue string) {
	if *f == nil {
		*f = make(Found)
	}
	(*f)[queue]++
}
