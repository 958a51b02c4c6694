package main

import (
	"cmp"
	"iter"

	"github.com/pqbridge/pqbridge/client"
)

// merged makes one list of several, all in the order of priorities and pushes.
func merged(lists []iter.Seq2[client.Listed, error]) iter.Seq2[client.Listed, error] {
	return func(yield func(client.Listed, error) bool) {
		type head struct {
			item client.Listed
			next func() (client.Listed, error, bool)
		}
		var heads []*head
		for _, list := range lists {
			next, stop := iter.Pull2(list)
			defer stop()
			heads = append(heads, &head{next: next})
		}
		advance := func(h *head) (ok bool) {
			var err error
			if h.item, err, ok = h.next(); ok && err != nil {
				yield(client.Listed{}, err)
				heads = nil
			}
			return ok && err == nil
		}
		for i := 0; i < len(heads); {
			if advance(heads[i]) {
				i++
			} else if len(heads) > 0 {
				heads = append(heads[:i], heads[i+1:]...)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if earlier(&heads[i].item, &heads[first].item) {
					first = i
				}
			}
			if !yield(heads[first].item, nil) {
				return
			}
			if !advance(heads[first]) && len(heads) > 0 {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

func earlier(a, b *client.Listed) bool {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Pushed.Compare(b.Pushed)) < 0
}
