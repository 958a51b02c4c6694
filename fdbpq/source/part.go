package source

import "time"

// BatchPart is what an answer has of the batch of a link: the items behind the first ones, of so many.
type BatchPart struct {
	ID           string
	First, Total int
}

// OfBatch is [Position.OfPart] for a whole batch.
func (p *Position) OfBatch(id string, at time.Time, items []Message) []Message {
	return p.OfPart(BatchPart{ID: id, Total: len(items)}, at, items)
}

// OfPart marks items of the batch that follows the position, and ends the batch with a
// message that is no item. It leaves out those that the source is done with.
func (p *Position) OfPart(part BatchPart, at time.Time, items []Message) []Message {
	done := 0
	if p.Next == part.ID {
		done = max(0, min(int(p.Part)-part.First, len(items)))
	}
	for i := done; i < len(items); i++ {
		items[i].Mark = Mark{Seq: p.Seq, Time: at.UnixNano(), Batch: p.Batch, Part: int64(part.First + i + 1), Next: part.ID}
	}
	if part.First+len(items) < part.Total {
		return items[done:]
	}
	return append(items[done:], Message{Mark: Mark{Seq: p.Seq + 1, Time: at.UnixNano(), Batch: part.ID}, None: true})
}
